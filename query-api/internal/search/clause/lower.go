package clause

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/platform/suggest"
	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// Limits of a query (rulings.md, Search).
const (
	MaxDepth = 20
	// MaxLeastScores bounds function_scores with min_score that stand in one another: whom each finds depends on a score of the ones
	// in it, which a statement has several times.
	MaxLeastScores = 2
	MaxClauses     = 1024
	MaxTerms       = 65_536
	MaxRegexp      = 1000
	// MaxPhraseWords bounds the words of all phrases without slop, over all of their fields. Such a phrase is one clause.
	MaxPhraseWords = 2048
	// MaxExpansions bounds the terms that a fuzzy or prefix term is expanded to.
	MaxExpansions = 1024
	// defaultExpansions is how many there are where a query does not say.
	defaultExpansions = 50
	// MaxAnalysed bounds the length of a text that is analysed, in bytes.
	MaxAnalysed = 32_768
	// MaxNumber bounds the length of a number, in bytes.
	MaxNumber = 400
)

// Options are what lowering depends on beside the query.
type Options struct {
	// Now is the instant of "now" in dates, the same on all pages of a walk.
	Now time.Time
	// Seed is what random_score without a seed uses, the same on all pages.
	Seed int64
	// Unscored: the order does not depend on scores. A least score sees fewer boosts
	// then.
	Unscored bool
	// Named is called with each field that is named, also by a pattern or as one of all fields. Nil: nothing is.
	Named func(algebra.Field)
}

// Lower reads a query. path is where it stands in the request, for errors,
// which are of type *Error.
func Lower(query []byte, path string, options Options) (algebra.Node, error) {
	v, err := parse(query, path)
	if err != nil {
		return nil, err
	}
	l := newLowering(options)
	n, err := l.clause(v)
	if err == nil {
		err = l.exceeded
	}
	if err != nil || !l.functions {
		return n, err
	}
	if options.Unscored {
		n = unscored(n)
	}
	return spread(n, 1), nil
}

func newLowering(options Options) *lowering {
	return &lowering{options: options, table: clauses(), fields: fieldsByPath(), zones: make(zones),
		innerHits: make(map[string]bool)}
}

// lowering is the work on one query.
type lowering struct {
	options     Options
	table       []Clause
	fields      map[string]readmodel.SearchField
	nested      string // path of the nested clause this is inside of
	depth       int
	clauses     int
	terms       int
	blends      int
	phraseWords int   // those of all phrases without slop
	leastScores int   // the function_scores with min_score that this is inside of
	exceeded    error // the first limit that is: no text is lenient about that
	innerHits   map[string]bool
	zones       zones
	elements    bool // these are the sort keys of elements
	sorting     bool // this is the filter of a sort key, in which a path may be nested in itself
	unshown     bool // inner hits of this are not shown: it is inside of must_not or of what is void, or says where a function counts
	functions   bool // there is a function_score
}

func fieldsByPath() map[string]readmodel.SearchField {
	out := make(map[string]readmodel.SearchField)
	for _, f := range readmodel.SearchFields() {
		out[f.Path] = f
	}
	return out
}

// clause lowers {"<name>": ...}.
func (l *lowering) clause(v value) (algebra.Node, error) {
	if v.kind != '{' {
		return nil, v.errorf("must be a query clause, an object such as {\"match_all\": {}}, not %s", v.what())
	}
	switch {
	case len(v.members) == 0:
		return nil, v.errorf("query malformed, empty clause found: name one, such as {\"match_all\": {}} for everybody")
	case len(v.members) > 1:
		return nil, v.errorf("[%s] malformed query: one clause stands in an object, but %s follows; join clauses with bool",
			v.members[0].name, quote(v.members[1].name))
	}
	if l.exceeded != nil {
		return nil, l.exceeded
	}
	l.depth++
	defer func() { l.depth-- }()
	if l.depth > MaxDepth {
		return nil, v.errorf("clauses are nested deeper than %d levels", MaxDepth)
	}
	m := v.members[0]
	if i := slices.IndexFunc(l.table, func(c Clause) bool { return c.Name == m.name }); i >= 0 {
		c := &l.table[i]
		if c.Refused != "" {
			return nil, v.errorf("the clause %s is not supported: %s", c.Name, c.Refused)
		}
		if err := nulls(c, m.value); err != nil {
			return nil, err
		}
		outer, before := l.unshown, l.clauses
		l.unshown = outer || void(v)
		n, err := c.lower(l, c, m.value)
		l.unshown = outer
		if err == nil && l.clauses == before { // it is no more than what is in it, as Lucene counts
			err = l.count(v, 1)
		}
		return n, err
	}
	if hint, ok := otherClauses()[m.name]; ok {
		return nil, m.errorf("unknown query [%s]: %s", m.name, hint)
	}
	return nil, v.errorf("unknown query [%s]: %s", strings.ReplaceAll(quote(m.name), `"`, ""),
		suggest.Hint(m.name, clauseNames(), "/docs/guides/search names the clauses"))
}

// nulls refuses parameters that are null. Some clauses and parameters of
// Elasticsearch take null for nothing.
func nulls(c *Clause, v value) error {
	if slices.Contains([]string{"function_score", "boosting", "nested", "combined_fields"}, c.Name) {
		return nil
	}
	for _, m := range v.members {
		name := c.Name + "." + m.name
		switch {
		case m.kind != 'n':
		case c.Name == "bool" && m.name != "boost" && m.name != "adjust_pure_negative":
		case c.Name == "range" && slices.Contains([]string{"gt", "gte", "lt", "lte", "from", "to"}, m.name):
		case slices.Contains([]string{"prefix.rewrite", "wildcard.rewrite", "regexp.rewrite", "regexp.flags"}, name):
		default:
			return m.errorf("must not be null: leave it out")
		}
	}
	return nil
}

// count counts clauses, those that a text or an expansion becomes included.
func (l *lowering) count(v value, n int) error {
	if l.clauses += n; l.clauses > MaxClauses {
		return l.exceeds(v.errorf("the query has more than %d clauses", MaxClauses))
	}
	return nil
}

func (l *lowering) exceeds(err error) error {
	if l.exceeded == nil {
		l.exceeded = err
	}
	return err
}

// list lowers a clause or a list of clauses.
func (l *lowering) list(v value) ([]algebra.Node, error) {
	if v.kind != '[' {
		n, err := l.clause(v)
		if err != nil {
			return nil, err
		}
		return []algebra.Node{n}, nil
	}
	out := make([]algebra.Node, 0, len(v.items))
	for _, item := range v.items {
		n, err := l.clause(item)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// keywordSuffix names the whole values of a text.
const keywordSuffix = ".keyword"

// field resolves a field's name. at is where the name is used.
func (l *lowering) field(at value, name string) (algebra.Field, error) {
	f, err := l.resolve(at, name)
	if err == nil && l.options.Named != nil {
		l.options.Named(f)
	}
	return f, err
}

func (l *lowering) resolve(at value, name string) (algebra.Field, error) {
	if strings.ContainsRune("tfn0[", rune(at.kind)) && at.text == name {
		return algebra.Field{}, at.errorf("must be a string, the name of a field, not %s", at.what())
	}
	if name == "_id" {
		return algebra.Field{SearchField: l.fields["profile_id"], Keyword: true, Identity: true}, nil
	}
	if f, ok := l.fields[name]; ok {
		return algebra.Field{SearchField: f}, nil
	}
	if base, ok := strings.CutSuffix(name, keywordSuffix); ok {
		if f, ok := l.fields[base]; ok && f.Type == readmodel.SearchText {
			return algebra.Field{SearchField: f, Keyword: true}, nil
		}
	}
	if len(l.below(name)) > 0 {
		return algebra.Field{}, at.errorf("the field %s is an object: name one of its fields, such as %s",
			quote(name), l.below(name)[0])
	}
	const list = "/docs/guides/search lists the fields"
	shown := readmodel.UnsearchableFields()
	meant, other := l.otherName(name)
	if slices.Contains(shown, strings.TrimSuffix(name, keywordSuffix)) {
		instead := list
		if other {
			instead = fmt.Sprintf("did you mean %q? %s", meant, list)
		}
		return algebra.Field{}, at.errorf("the field %s is shown, but not searched: %s", quote(name), instead)
	}
	if other {
		return algebra.Field{}, at.errorf("unknown field %s: did you mean %q? %s", quote(name), meant, list)
	}
	names := fieldNames()
	if meant, ok := nearName(name, slices.Concat(names, shown)); ok && slices.Contains(shown, meant) {
		return algebra.Field{}, at.errorf("unknown field %s: did you mean %q? It is shown, but not searched: %s",
			quote(name), meant, list)
	}
	if meant, ok := nearName(name, names); ok {
		return algebra.Field{}, at.errorf("unknown field %s: did you mean %q? %s", quote(name), meant, list)
	}
	return algebra.Field{}, at.errorf("unknown field %s: %s", quote(name), list)
}

// below are the fields of an object.
func (l *lowering) below(object string) []string {
	var out []string
	for _, f := range readmodel.SearchFields() {
		if strings.HasPrefix(f.Path, object+".") {
			out = append(out, f.Path)
		}
	}
	return out
}

// fieldNames are all names of fields, those of .keyword included.
func fieldNames() []string {
	var out []string
	for _, f := range readmodel.SearchFields() {
		out = append(out, f.Path)
		if f.Type == readmodel.SearchText {
			out = append(out, f.Path+keywordSuffix)
		}
	}
	return out
}

// hidden says that a field does not exist where the clause stands: an element
// of a nested path has its own fields and its person's _id only.
func (l *lowering) hidden(f algebra.Field) bool {
	return l.nested != "" && f.Nested != l.nested && !f.Identity
}

// leaf is a node over a field, or None where the field does not exist.
func (l *lowering) leaf(f algebra.Field, n algebra.Node) algebra.Node {
	switch {
	case l.hidden(f):
		return algebra.None{}
	case f.Identity:
		return identical(n)
	}
	return n
}

// identical is what is left of a node over _id: of it only equality is asked, and all
// who are found score the same.
func identical(n algebra.Node) algebra.Node {
	switch n := n.(type) {
	case algebra.Term: // of a text that was analysed
		return algebra.Set{Field: n.Field, Values: []string{n.Text}}
	case algebra.Set:
		return n
	case algebra.Exists:
		return algebra.All{}
	}
	return algebra.None{}
}

// boosted wraps a node whose boost is not 1.
func boosted(n algebra.Node, boost float64) algebra.Node {
	if boost == 1 {
		return n
	}
	return algebra.Boost{Node: n, Factor: boost}
}

// oneField reads {"<field>": ...}, the form of most leaf clauses, and calls
// lower with what stands there: an object of parameters, or for the short form
// an object that holds the value under the name of short.
func (l *lowering) oneField(c *Clause, v value, short string,
	lower func(f algebra.Field, a *args) (algebra.Node, error)) (algebra.Node, error) {
	if v.kind != '{' {
		return nil, v.errorf("must be an object that names a field, not %s", v.what())
	}
	if len(v.members) == 0 {
		return nil, v.errorf("names no field: write {%q: {\"<field>\": ...}}", c.Name)
	}
	if len(v.members) > 1 {
		return nil, v.errorf("[%s] query doesn't support multiple fields, found [%s] and [%s]", c.Name,
			v.members[0].name, v.members[1].name)
	}
	m := v.members[0]
	f, err := l.field(v, m.name)
	if err != nil {
		return nil, err
	}
	body := m.value
	if body.kind != '{' {
		if short == "" {
			return nil, body.errorf("must be an object, not %s", body.what())
		}
		body = value{place: body.place, kind: '{', members: []member{{short, body}}}
	}
	if err := nulls(c, body); err != nil {
		return nil, err
	}
	a := arguments(body, c.Parameters)
	n, err := lower(f, a)
	if err != nil {
		return nil, err
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	if f.Identity {
		return n, identity(c, body)
	}
	return n, nil
}

// identity refuses what cannot be asked of _id.
func identity(c *Clause, at value) error {
	if slices.Contains([]string{"prefix", "wildcard", "regexp", "fuzzy", "range"}, c.Name) {
		return at.errorf("_id has no %s of this kind, only term, terms, match and exists: use profile_id.keyword", c.Name)
	}
	for _, m := range at.members {
		if m.name == "value" || m.name == "query" {
			return filled(value{items: []value{m.value}})
		}
	}
	return nil
}

// addTerms counts terms.
func (l *lowering) addTerms(v value, n int) error {
	if l.terms += n; l.terms > MaxTerms {
		return l.exceeds(v.errorf("the query has more than %d terms", MaxTerms))
	}
	return nil
}

// nestedPath checks the path of a nested clause.
func (l *lowering) nestedPath(v value, path string) error {
	if !slices.Contains(readmodel.SearchNested(), path) {
		return v.errorf("failed to find nested object under path [%s]: nested are %s", path,
			strings.Join(readmodel.SearchNested(), ", "))
	}
	if l.nested != "" && l.nested != path {
		return v.errorf("the nested object %s is not inside of %s, whose elements are searched here", path, l.nested)
	}
	return nil
}
