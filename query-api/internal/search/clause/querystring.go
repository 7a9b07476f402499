package clause

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
)

func lowerQueryString(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	at := a.must("query")
	q := queryString{l: l, at: at}
	q.and = a.choice("default_operator", "or", "or", "and") == "and"
	q.m.analyzer = a.text("analyzer", "")
	_, hasLenient := a.get("lenient")
	q.m.lenient = a.flag("lenient", false)
	q.zone = a.text("time_zone", "")
	q.quoteSuffix = a.text("quote_field_suffix", "")
	a.constantRewrite()
	a.noSynonyms()
	q.m.slop = a.integer("phrase_slop", 0, 0, maxSlop)
	q.leading = a.flag("allow_leading_wildcard", true)
	q.m.prefixLength = a.integer("fuzzy_prefix_length", 0, 0, MaxAnalysed)
	q.m.expansions = a.integer("fuzzy_max_expansions", defaultExpansions, 1, MaxExpansions)
	q.m.transpositions = a.flag("fuzzy_transpositions", true)
	q.m.fuzzy = fuzziness{auto: true, low: 3, high: 6}
	if f, ok := a.get("fuzziness"); ok && f.kind != 'n' {
		var err error
		if q.m.fuzzy, err = parseFuzziness(f); err != nil {
			return nil, err
		}
		q.m.fuzzy.given = false // terms are fuzzy only where ~ says so
	}
	q.kind = a.choice("type", "best_fields", "best_fields", "most_fields", "cross_fields", "phrase", "phrase_prefix", "bool_prefix")
	if _, ok := a.get("tie_breaker"); ok {
		q.tie = a.number("tie_breaker", 0)
	} else if q.kind == "most_fields" || q.kind == "bool_prefix" {
		q.tie = 1
	}
	fields, hasFields := a.get("fields")
	field, hasField := a.get("default_field")
	spec, given := a.minimumText()
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	text, err := at.scalar()
	if err != nil {
		return nil, err
	}
	if len(text) > MaxAnalysed {
		return nil, at.errorf("is longer than %d bytes", MaxAnalysed)
	}
	if hasFields == hasField && hasFields {
		return nil, v.errorf("either default_field or fields, not both")
	}
	if !hasFields {
		fields = field
	}
	if hasFields || hasField {
		if q.fields, err = l.fieldList(fields); err != nil {
			return nil, err
		}
	}
	if q.everything = !hasFields && (!hasField || field.text == "*"); q.everything && !hasLenient {
		q.m.lenient = true
	}
	if !hasFields && !hasField {
		if q.fields, err = l.defaultFields(v); err != nil {
			return nil, err
		}
	}
	q.rest = text
	n, err := q.parse()
	if err != nil {
		return nil, err
	}
	if n == nil {
		n = algebra.None{}
	}
	if given {
		if b, ok := n.(algebra.Bool); ok {
			if b.Minimum, err = minimum(at, spec, len(b.Should)); err != nil {
				return nil, err
			}
			if n, err = boolean(b); err != nil {
				return nil, err
			}
		}
	}
	return boosted(n, boost), nil
}

// queryString reads the language of Lucene's classic query parser as
// Elasticsearch extends it.
type queryString struct {
	l       *lowering
	at      value
	m       matching
	and     bool
	leading bool
	kind    string
	tie     float64
	fields  []weighted
	rest    string
	depth   int
	zone    string // of dates in ranges
	// quoteSuffix names the subfields that phrases are searched in.
	quoteSuffix string
	everything  bool // the fields are all there are
}

// occurrence says how a part of a query counts.
type occurrence int

const (
	should occurrence = iota
	must
	mustNot
)

type part struct {
	node  algebra.Node
	occur occurrence
}

func (q *queryString) errorf(format string, args ...any) error {
	return q.at.errorf("Failed to parse query: "+format, args...)
}

func (q *queryString) parse() (algebra.Node, error) {
	n, err := q.query(q.fields)
	if err != nil {
		return nil, err
	}
	if q.skip(); q.rest != "" {
		return nil, q.errorf("%s is not expected", quote(q.rest[:1]))
	}
	return n, nil
}

func (q *queryString) skip() { q.rest = strings.TrimLeft(q.rest, " \t\n\r\u3000") }

// word takes an operator written as a word.
func (q *queryString) word(words ...string) bool {
	q.skip()
	for _, w := range words {
		rest, ok := strings.CutPrefix(q.rest, w)
		if !ok {
			continue
		}
		next, _ := utf8.DecodeRuneInString(rest)
		if unicode.IsLetter(rune(w[0])) && rest != "" && !strings.ContainsRune(" \t\n\r\u3000()+-!\"", next) {
			continue
		}
		q.rest = rest
		return true
	}
	return false
}

// query reads clauses up to ")" or the end; nil means that nothing is asked for.
func (q *queryString) query(fields []weighted) (algebra.Node, error) {
	if q.depth++; q.depth > MaxDepth {
		return nil, q.errorf("groups are nested deeper than %d levels", MaxDepth)
	}
	defer func() { q.depth-- }()
	var parts []part
	single := false
	for first := true; ; first = false {
		q.skip()
		if q.rest == "" || q.rest[0] == ')' {
			break
		}
		and, or := false, false
		if !first {
			and = q.word("AND", "&&")
			if !and {
				or = q.word("OR", "||")
			}
		}
		modifier := should
		switch {
		case q.word("+"):
			modifier = must
		case q.word("-", "!"), q.word("NOT"):
			modifier = mustNot
		}
		n, several, err := q.clause(fields, modifier == should && !and && !or)
		if err != nil {
			return nil, err
		}
		if len(parts) > 0 {
			last := &parts[len(parts)-1]
			if and && last.occur != mustNot {
				last.occur = must
			}
			if q.and && or && last.occur != mustNot {
				last.occur = should
			}
		}
		if several != nil { // bare words in a row
			for _, m := range several {
				occur := should
				if q.and {
					occur = must
				}
				parts = append(parts, part{m, occur})
			}
			if and && !q.and {
				parts[len(parts)-len(several)].occur = must
			}
			single = false
			continue
		}
		if n == nil {
			continue
		}
		occur := modifier
		switch {
		case q.and && modifier != mustNot:
			occur = must
			if or {
				occur = should
			}
		case and && modifier == should:
			occur = must
		}
		single = first && modifier == should
		parts = append(parts, part{n, occur})
	}
	switch {
	case len(parts) == 0:
		return nil, nil
	case len(parts) == 1 && single:
		return parts[0].node, nil
	}
	var b algebra.Bool
	for _, p := range parts {
		switch p.occur {
		case must:
			b.Must = append(b.Must, p.node)
		case mustNot:
			b.MustNot = append(b.MustNot, p.node)
		default:
			b.Should = append(b.Should, p.node)
		}
	}
	return boolean(b)
}

// clause reads a term, a phrase, a range, a group, with a field before it and a
// boost after it. A row of bare words comes back as several nodes.
func (q *queryString) clause(fields []weighted, bare bool) (algebra.Node, []algebra.Node, error) {
	if err := q.l.count(q.at, 1); err != nil {
		return nil, nil, err
	}
	q.skip()
	before := q.rest
	if name, ok := q.fieldName(); ok {
		if name == "_exists_" {
			text, _ := q.term()
			list, err := q.l.existing(q.at, text)
			if err != nil {
				return nil, nil, err
			}
			var nodes []algebra.Node
			for _, f := range list {
				nodes = append(nodes, q.l.leaf(f, algebra.Exists{Field: f}))
			}
			return algebra.Constant{Node: algebra.Bool{Should: nodes, Minimum: 1}, Score: 1}, nil, nil
		}
		if name == "*" {
			if q.rest == "*" || strings.HasPrefix(q.rest, "* ") || strings.HasPrefix(q.rest, "*)") {
				q.rest = q.rest[1:]
				return q.boost(algebra.All{})
			}
		}
		var err error
		if fields, err = q.l.fieldList(value{path: q.at.path, kind: '"', text: name}); err != nil {
			return nil, nil, err
		}
		bare = false
	}
	if q.rest == "" {
		return nil, nil, q.errorf("it ends after %s", quote(before))
	}
	switch q.rest[0] {
	case '(':
		q.rest = q.rest[1:]
		n, err := q.query(fields)
		if err != nil {
			return nil, nil, err
		}
		if q.skip(); !strings.HasPrefix(q.rest, ")") {
			return nil, nil, q.errorf("a ( is not closed")
		}
		q.rest = q.rest[1:]
		if n == nil {
			n = algebra.None{}
		}
		return q.boost(n)
	case '"':
		return q.phrase(fields)
	case '[', '{':
		return q.span(fields)
	case '<', '>':
		return q.comparison(fields)
	case '/':
		return q.regexp(fields)
	}
	text, form := q.term()
	if text == "" {
		return nil, nil, q.errorf("%s is not expected", quote(q.rest[:1]))
	}
	switch form {
	case wildcardTerm:
		return q.wildcard(fields, text)
	case plainTerm:
	}
	if strings.HasPrefix(q.rest, "~") {
		return q.fuzzy(fields, text)
	}
	more := ""
	if bare && !strings.HasPrefix(q.rest, "^") {
		more = q.more()
	}
	return q.text(fields, text+more, more != "")
}

// more takes the bare words that follow, which are analysed together.
func (q *queryString) more() string {
	var b strings.Builder
	for {
		before := q.rest
		q.skip()
		if q.rest == "" || strings.ContainsRune("+-!(){}[]\"/<>)&|^~:", rune(q.rest[0])) || q.word("AND", "OR", "NOT") {
			q.rest = before
			return b.String()
		}
		if _, ok := q.fieldName(); ok {
			q.rest = before
			return b.String()
		}
		text, form := q.term()
		if form != plainTerm || text == "" || strings.HasPrefix(q.rest, "~") || strings.HasPrefix(q.rest, "^") {
			q.rest = before
			return b.String()
		}
		after := q.rest
		if q.word("AND", "&&", "OR", "||") { // what stands before an operator is a clause of its own
			q.rest = before
			return b.String()
		}
		q.rest = after
		b.WriteByte(' ')
		b.WriteString(text)
	}
}

// fieldName takes a name before a colon.
func (q *queryString) fieldName() (string, bool) {
	for i := 0; i < len(q.rest); i++ {
		c := q.rest[i]
		if c == ':' && i > 0 {
			name := q.rest[:i]
			q.rest = q.rest[i+1:]
			q.skip()
			return name, true
		}
		if strings.IndexByte("+-!(){}[]^\"~?\\/ \t\n\r&|<>=", c) >= 0 {
			return "", false
		}
	}
	return "", false
}

type termForm int

const (
	plainTerm termForm = iota
	wildcardTerm
)

// term takes a word, its escapes resolved; the escapes of a wildcard stay.
func (q *queryString) term() (string, termForm) {
	var plain, raw strings.Builder
	form := plainTerm
	for q.rest != "" {
		r, size := utf8.DecodeRuneInString(q.rest)
		if r == '\\' && len(q.rest) > size {
			next, n := utf8.DecodeRuneInString(q.rest[size:])
			plain.WriteRune(next)
			raw.WriteByte('\\')
			raw.WriteRune(next)
			q.rest = q.rest[size+n:]
			continue
		}
		if r == '*' || r == '?' {
			form = wildcardTerm
		} else if strings.ContainsRune("!(){}[]^\"~:/ \t\n\r\u3000", r) || (r == '+' || r == '-') && plain.Len() == 0 ||
			(r == '&' || r == '|') && strings.HasPrefix(q.rest[size:], string(r)) && plain.Len() == 0 {
			break
		}
		plain.WriteRune(r)
		raw.WriteRune(r)
		q.rest = q.rest[size:]
	}
	if form == wildcardTerm {
		return raw.String(), form
	}
	return plain.String(), form
}

// boost reads ^n.
func (q *queryString) boost(n algebra.Node) (algebra.Node, []algebra.Node, error) {
	rest, ok := strings.CutPrefix(q.rest, "^")
	if !ok {
		return n, nil, nil
	}
	end := 0
	for end < len(rest) && (rest[end] >= '0' && rest[end] <= '9' || rest[end] == '.') {
		end++
	}
	x, err := strconv.ParseFloat(rest[:end], 32)
	if err != nil {
		return nil, nil, q.errorf("^ wants a number")
	}
	q.rest = rest[end:]
	if n == nil {
		return nil, nil, nil
	}
	return boosted(n, float64(float32(x))), nil, nil
}

// over makes a node of one for each field; nil when lower gives nil for all.
func (q *queryString) over(fields []weighted, lower func(f algebra.Field) (algebra.Node, error)) (algebra.Node, error) {
	var nodes []algebra.Node
	for _, w := range fields {
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
		return nil, nil // the words ask for nothing
	}
	return disMax(nodes, q.tie), nil
}
