package clause

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func lowerQueryString(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	at := a.must("query")
	q := queryString{l: l, at: at}
	q.and = a.choice("default_operator", "or", "or", "and") == "and"
	q.m.analyzer = a.analyzer("analyzer")
	_, hasLenient := a.get("lenient")
	q.m.lenient = a.flag("lenient", false)
	q.zone = a.filled("time_zone")
	q.quoteSuffix = a.text("quote_field_suffix", "")
	q.rewrite = a.rewrite("rewrite")
	if q.quoteAnalyzer = a.analyzer("quote_analyzer"); q.quoteAnalyzer == "" {
		q.quoteAnalyzer = q.m.analyzer
	}
	q.m.gapless = !a.flag("enable_position_increments", true)
	q.analyzeWildcards = a.flag("analyze_wildcard", false)
	escape := a.flag("escape", false)
	a.integer("max_determinized_states", 10_000, 0, 1<<30) // no effect: nothing is determinized here
	a.noSynonyms()
	q.m.slop = a.integer("phrase_slop", 0, 0, maxSlop)
	q.leading = a.flag("allow_leading_wildcard", true)
	q.m.prefixLength = a.integer("fuzzy_prefix_length", 0, 0, MaxAnalyzed)
	q.m.expansions = a.expansions("fuzzy_max_expansions")
	q.m.transpositions = a.flag("fuzzy_transpositions", true)
	q.m.fuzzy = fuzziness{auto: true, low: 3, high: 6}
	if f, ok := a.get("fuzziness"); ok && f.kind != 'n' {
		var err error
		if q.m.fuzzy, err = parseFuzziness(f); err != nil {
			return nil, err
		}
		q.m.fuzzy.given = false // Only terms with ~ are fuzzy.
	}
	q.typed = a.choice("type", "best_fields", "best_fields", "most_fields", "cross_fields", "phrase",
		"phrase_prefix", "bool_prefix")
	if _, ok := a.get("tie_breaker"); ok {
		q.tie = a.number("tie_breaker", 0)
	} else if q.typed == "most_fields" || q.typed == "bool_prefix" {
		q.tie = 1
	}
	fields, hasFields := a.get("fields")
	field, hasField := a.get("default_field")
	spec, given := a.minimumText()
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	if err := new(dateReader).inZone(v, q.zone); err != nil { // also if lenient
		return nil, err
	}
	text, err := at.scalar()
	if err != nil {
		return nil, err
	}
	if len(text) > MaxAnalyzed {
		return nil, at.errorf("is longer than %d bytes", MaxAnalyzed)
	}
	if hasFields == hasField && hasFields {
		return nil, v.errorf("either default_field or fields, not both")
	}
	all := hasFields && allFields(fields) || hasField && field.text == "*" || !hasFields && !hasField
	if all && !hasLenient {
		q.m.lenient = true
	}
	q.all.named = !hasFields || len(fields.items) == 0 && fields.kind == '['
	q.all.everything = all && q.all.named
	q.all.unannounced = all
	if all {
		l = l.unannounced()
	}
	switch {
	case hasFields && fields.kind != '[':
		return nil, fields.errorf("must be a list of field names, not %s", fields.what())
	case hasField && (field.kind != '"' || strings.Contains(field.text, "^")):
		return nil, field.errorf("must be the name of one field, without a boost: use fields")
	case hasField:
		q.all.fields, err = l.fieldList(field, true)
		q.all.date = ofDate(field.text, q.all.fields)
	default:
		q.all.fields, err = l.fieldsOr(fields, hasFields, true, v)
	}
	if err != nil {
		return nil, err
	}
	if escape {
		text = escaped(text)
	}
	n, err := q.parse(text)
	if err != nil {
		return nil, err
	}
	if given {
		if n, err = withMinimum(at, n, spec); err != nil {
			return nil, err
		}
	}
	return boosted(n, boost), nil
}

// withMinimum applies a minimum_should_match to a bool, through boosts around it.
func withMinimum(at value, n algebra.Node, spec string) (algebra.Node, error) {
	switch n := n.(type) {
	case algebra.Boost:
		inner, err := withMinimum(at, n.Node, spec)
		return algebra.Boost{Node: inner, Factor: n.Factor}, err
	case algebra.Bool:
		var err error
		if n.Minimum, err = minimum(at, spec, len(n.Should)); err != nil {
			return nil, err
		}
		return boolean(n)
	}
	return n, nil
}

// queryString parses the syntax of Lucene's classic query parser with the extensions of Elasticsearch.
type queryString struct {
	l       *lowering
	at      value
	m       matching
	and     bool
	leading bool
	typed   string
	tie     float64
	all     searched // fields of a query without field names
	tokens  []queryToken
	depth   int
	zone    string // of dates in ranges
	// quoteSuffix is the suffix of the fields for phrases.
	quoteSuffix string
	rewrite     rewriting // of patterns
	// quoteAnalyzer is the analyzer of phrases.
	quoteAnalyzer string
	// analyzeWildcards reports whether prefixes are analyzed as other words are.
	analyzeWildcards bool
}

// searched are the fields that a part of a query searches.
type searched struct {
	fields     []weighted
	named      bool // by a name, not by the list of fields: > and < are operators
	everything bool // all fields
	exists     bool // _exists_: the words are names of fields
	date       bool // by the name of one date field: a word is a date in the zone
	// unannounced are all fields, for which Options.Named is called only if something is searched in them.
	unannounced bool
}

// announce calls Options.Named for fields that are searched.
func (q *queryString) announce(in searched) {
	if in.unannounced && q.l.options.Named != nil {
		for _, w := range in.fields {
			q.l.options.Named(w.field)
		}
	}
}

func (q *queryString) errorf(format string, args ...any) error {
	return q.at.errorf("Failed to parse query: "+format, args...)
}

func (q *queryString) parse(text string) (algebra.Node, error) {
	var problem string
	if q.tokens, problem = queryTokens(text); problem != "" {
		return nil, q.errorf("%s", problem)
	}
	if len(q.tokens) == 0 {
		return algebra.None{}, nil
	}
	n, err := q.query(q.all)
	if err != nil {
		return nil, err
	}
	if len(q.tokens) > 0 {
		return nil, q.unexpected()
	}
	if n == nil {
		return algebra.None{}, nil
	}
	return n, nil
}

// kind returns the kind of the token i positions ahead.
func (q *queryString) kind(i int) tokenKind {
	if i >= len(q.tokens) {
		return tokenEnd
	}
	return q.tokens[i].kind
}

// take consumes a token of one of the kinds.
func (q *queryString) take(kinds ...tokenKind) (queryToken, bool) {
	if len(q.tokens) == 0 || !slices.Contains(kinds, q.tokens[0].kind) {
		return queryToken{}, false
	}
	t := q.tokens[0]
	q.tokens = q.tokens[1:]
	return t, true
}

func (q *queryString) took(kinds ...tokenKind) bool {
	_, ok := q.take(kinds...)
	return ok
}

// unexpected returns the error of an unexpected token.
func (q *queryString) unexpected() error {
	if len(q.tokens) == 0 {
		return q.errorf("unexpected end of the query, a word is missing")
	}
	return q.errorf("unexpected %s", quote(q.tokens[0].text))
}

// query parses clauses up to ")" or the end. It returns nil if they are to be ignored.
func (q *queryString) query(in searched) (algebra.Node, error) {
	if q.depth++; q.depth > MaxDepth {
		return nil, q.errorf("groups are nested deeper than %d levels", MaxDepth)
	}
	defer func() { q.depth-- }()
	var parts []part
	single := false // the only clause, without an operator, is one node
	for first := true; first || q.kind(0) != tokenEnd && q.kind(0) != tokenClose; first = false {
		j := q.joint(first)
		if err := q.l.count(q.at, 1); err != nil {
			return nil, err
		}
		var n algebra.Node
		var several []algebra.Node // of a row of bare words
		var err error
		if j == (joint{}) && q.kind(0) == tokenTerm && q.rowGoesOn(1) {
			n, several, err = q.row(in)
		} else {
			n, err = q.clause(in)
		}
		if err != nil {
			return nil, err
		}
		if len(parts) > 0 {
			last := &parts[len(parts)-1]
			last.occur = q.before(j, last.occur)
		}
		if n != nil {
			several = []algebra.Node{n}
			single = first && j == joint{}
		}
		for _, m := range several {
			parts = append(parts, part{m, q.behind(j)})
		}
	}
	switch {
	case len(parts) == 0:
		return nil, nil
	case len(parts) == 1 && single:
		return parts[0].node, nil
	}
	return together(parts)
}

// rowGoesOn reports whether the token i positions ahead continues a row of bare words. A word before an operator is a
// clause of its own.
func (q *queryString) rowGoesOn(i int) bool {
	if q.kind(i) != tokenTerm {
		return false
	}
	switch q.kind(i + 1) {
	case tokenColon, tokenStar, tokenSlop, tokenBoost, tokenAnd, tokenOr:
		return false
	}
	return true
}

// row parses bare words, which are analyzed together.
func (q *queryString) row(in searched) (algebra.Node, []algebra.Node, error) {
	q.announce(in)
	var words []string
	for first := true; first || q.rowGoesOn(0); first = false {
		t, _ := q.take(tokenTerm)
		word, err := q.unescape(t.text)
		if err != nil {
			return nil, nil, err
		}
		words = append(words, word)
	}
	n, err := q.text(in, strings.Join(words, " "))
	if err != nil {
		return nil, nil, err
	}
	// The words of a single field are separate clauses.
	if b, ok := n.(algebra.Bool); ok && len(in.fields) == 1 && len(b.Filter)+len(b.MustNot) == 0 {
		return nil, slices.Concat(b.Must, b.Should), nil
	}
	return n, nil, nil
}

// clause parses a term, a phrase, a range or a group, with an optional field and boost.
func (q *queryString) clause(in searched) (algebra.Node, error) {
	if (q.kind(0) == tokenTerm || q.kind(0) == tokenStar) && q.kind(1) == tokenColon {
		name, err := q.unescape(q.tokens[0].text)
		if err != nil {
			return nil, err
		}
		q.tokens = q.tokens[2:]
		if in, err = q.named(name); err != nil {
			return nil, err
		}
	}
	if q.took(tokenOpen) {
		n, err := q.query(in)
		if err != nil {
			return nil, err
		}
		if !q.took(tokenClose) {
			if len(q.tokens) > 0 {
				return nil, q.unexpected()
			}
			return nil, q.errorf("a ( is not closed")
		}
		return q.boost(n)
	}
	if q.kind(0) != tokenStar || !in.everything { // A single * matches all documents.
		q.announce(in)
	}
	if t, ok := q.take(tokenRange); ok {
		n, err := q.span(in, t)
		if err != nil {
			return nil, err
		}
		return q.boost(n)
	}
	t, ok := q.take(tokenTerm, tokenBare, tokenStar, tokenWildcard, tokenRegexp, tokenQuoted)
	if !ok {
		return nil, q.unexpected()
	}
	power, _ := q.take(tokenBoost)
	slop, hasSlop := q.take(tokenSlop)
	if power.text == "" {
		power, _ = q.take(tokenBoost)
	}
	n, err := q.term(in, t, slop.text, hasSlop)
	if err != nil {
		return nil, err
	}
	return q.boostedBy(n, power.text)
}

// term lowers a word, a pattern or a phrase, with its ~.
func (q *queryString) term(in searched, t queryToken, slop string, hasSlop bool) (algebra.Node, error) {
	switch t.kind {
	case tokenStar:
		return q.star(in), nil
	case tokenWildcard:
		return q.wildcard(in, t.text)
	case tokenRegexp:
		return q.regexp(in, t.text)
	}
	text, err := q.unescape(t.text)
	if err != nil {
		return nil, err
	}
	switch {
	case t.kind == tokenQuoted:
		return q.phrase(in, text, slop)
	case hasSlop:
		return q.fuzzy(in, text, slop)
	}
	return q.text(in, text)
}

// named returns the fields of a name.
func (q *queryString) named(name string) (searched, error) {
	in := searched{named: true}
	l := q.l
	switch name {
	case "_exists_":
		in.exists = true
		return in, nil
	case "*":
		in.everything, in.unannounced = true, true
		l = l.unannounced()
	}
	var err error
	in.fields, err = l.fieldList(value{place: q.at.place, kind: '"', text: name}, true)
	if inText, ok := errors.AsType[*Error](err); ok {
		err = &Error{inText.Path, inText.Reason + `; if the text has a colon of its own, write \: or put the ` +
			`words into quotes`}
	}
	in.date = ofDate(name, in.fields)
	return in, err
}

// ofDate reports whether a name is that of one date field, not a pattern.
func ofDate(name string, fields []weighted) bool {
	return len(fields) == 1 && fields[0].field.Type == readmodel.SearchDate && !strings.Contains(name, "*")
}

func (q *queryString) unescape(s string) (string, error) {
	text, problem := unescaped(s)
	if problem != "" {
		return "", q.errorf("%s", problem)
	}
	return text, nil
}

// boost parses ^n.
func (q *queryString) boost(n algebra.Node) (algebra.Node, error) {
	t, _ := q.take(tokenBoost)
	return q.boostedBy(n, t.text)
}

func (q *queryString) boostedBy(n algebra.Node, power string) (algebra.Node, error) {
	if power == "" || n == nil {
		return n, nil
	}
	x, err := strconv.ParseFloat(power, 32)
	if err != nil {
		return nil, q.errorf("^ requires a number")
	}
	return boosted(n, float64(float32(x))), nil
}

// over combines the nodes of the fields. It returns nil if lower returns nil for all.
func (q *queryString) over(in searched, lower func(f algebra.Field) (algebra.Node, error)) (algebra.Node, error) {
	if in.exists {
		return algebra.None{}, nil // _exists_ is not a field.
	}
	var nodes []algebra.Node
	for _, w := range in.fields {
		n, err := lower(w.field)
		if err != nil {
			if !q.m.lenient {
				return nil, err
			}
			n = algebra.None{}
		}
		if n != nil {
			nodes = append(nodes, boosted(n, w.boost))
		}
	}
	if len(nodes) == 0 {
		return nil, nil // The words are ignored.
	}
	return disMax(nodes, q.tie), nil
}
