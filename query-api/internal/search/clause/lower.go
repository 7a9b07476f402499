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
	// MaxMinScoreDepth is the maximum depth of nested function_scores with min_score: what each matches depends on
	// scores of the inner ones, which a statement repeats.
	MaxMinScoreDepth = 2
	MaxClauses       = 1024
	MaxTerms         = 65_536
	MaxRegexp        = 1000
	// MaxPhraseWords is the maximum number of words of all phrases without slop, over all of their fields. Such a
	// phrase counts as one clause.
	MaxPhraseWords = 2048
	// MaxExpansions is the maximum number of terms that a fuzzy word or a prefix expands to.
	MaxExpansions = 1024
	// defaultExpansions is the default of max_expansions.
	defaultExpansions = 50
	// MaxAnalyzed is the maximum length of an analyzed text, in bytes.
	MaxAnalyzed = 32_768
	// MaxNumber is the maximum length of a number, in bytes.
	MaxNumber = 400
)

// Options are the inputs of lowering besides the query.
type Options struct {
	// Collection is what is searched; nil: people.
	Collection *readmodel.SearchCollection
	// Now is the instant of "now" in dates, the same for all pages of a walk.
	Now time.Time
	// Seed is the seed of random_score without one, the same for all pages.
	Seed int64
	// Unscored reports whether the order does not depend on scores. A min_score then sees fewer boosts.
	Unscored bool
	// Named, if set, is called with each field that the query names, also by a pattern or as one of all fields. A
	// query_string searches all fields only with the parts that name none.
	Named func(algebra.Field)
	// NamedClause, if set, is called with each clause that has a _name, in the order of Elasticsearch, in which a later
	// one replaces one of the same name. It is not called within clauses that Elasticsearch rewrites to match_none.
	NamedClause func(name string, n algebra.Node)
}

// Lower parses a query and lowers it to a node. path is its path in the request, for errors, which are of type
// *Error.
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
		n = dropUnusedBoosts(n)
	}
	return pushBoosts(n, 1), nil
}

func newLowering(options Options) *lowering {
	l := &lowering{options: options, table: clauses(), zones: make(zones), innerHits: make(map[string]bool),
		fields: make(map[string]readmodel.SearchField)}
	if options.Collection != nil {
		l.collection = *options.Collection
	} else {
		l.collection = readmodel.PeopleCollection()
	}
	for _, f := range l.collection.Fields {
		l.fields[f.Path] = f
	}
	return l
}

// lowering is the state of lowering one query.
type lowering struct {
	options       Options
	collection    readmodel.SearchCollection
	table         []Clause
	fields        map[string]readmodel.SearchField
	nested        string // path of the nested clause around it
	depth         int
	clauses       int
	terms         int
	blends        int
	phraseWords   int   // words of all phrases without slop
	minScoreDepth int   // number of function_scores with min_score around it
	exceeded      error // the first exceeded limit, which lenient does not ignore
	innerHits     map[string]bool
	zones         zones
	elements      bool // sort keys of inner hits
	sorting       bool // filter of a sort key, in which a path may be nested in itself
	unshown       bool // no inner hits: inside must_not, match_none or the filter of a function
	unnamed       bool // no names: inside what Elasticsearch rewrites to match_none
	functions     bool // the query has a function_score
}

// clause lowers {"<name>": ...}.
func (l *lowering) clause(v value) (algebra.Node, error) {
	if v.kind != '{' {
		return nil, v.errorf("must be a query clause, an object such as {\"match_all\": {}}, not %s", v.what())
	}
	switch {
	case len(v.members) == 0:
		return nil, v.errorf("query malformed, empty clause found: name one, such as {\"match_all\": {}} for all %s",
			l.collection.Name)
	case len(v.members) > 1:
		return nil, v.errorf(
			"[%s] malformed query: an object has one clause, but %s follows; combine clauses with bool",
			v.members[0].name,
			quote(v.members[1].name),
		)
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
		name, body, err := cutClauseName(c, m.value)
		if err != nil {
			return nil, err
		}
		m.value = body
		if err := nulls(c, m.value); err != nil {
			return nil, err
		}
		outer, outerNames, before := l.unshown, l.unnamed, l.clauses
		emptied := isMatchNone(v)
		l.unshown = outer || emptied
		l.unnamed = outerNames || emptied
		n, err := c.lower(l, c, m.value)
		l.unshown, l.unnamed = outer, outerNames
		if err == nil && l.clauses == before { // It counts as its content, as in Lucene.
			err = l.count(v, 1)
		}
		if err == nil && name != "" && !outerNames && l.options.NamedClause != nil {
			if l.functions {
				n = pushBoosts(n, 1)
			}
			l.options.NamedClause(name, n)
		}
		return n, err
	}
	if hint, ok := otherClauses()[m.name]; ok {
		return nil, m.errorf("unknown query [%s]: %s", m.name, hint)
	}
	return nil, v.errorf("unknown query [%s]: %s", strings.ReplaceAll(quote(m.name), `"`, ""),
		suggest.Hint(m.name, clauseNames(), "/docs/guides/search names the clauses"))
}

// nulls rejects parameters that are null. Some clauses and parameters of Elasticsearch accept null.
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
			return m.errorf("must not be null: omit it")
		}
	}
	return nil
}

// count counts clauses, including those of a text or an expansion.
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

// list lowers a clause or an array of clauses.
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

// keywordSuffix is the suffix of the subfield with the whole values of a text.
const keywordSuffix = ".keyword"

// field resolves the name of a field. at is the position of the name.
func (l *lowering) field(at value, name string) (algebra.Field, error) {
	f, err := l.resolve(at, name)
	if err == nil && l.options.Named != nil {
		l.options.Named(f)
	}
	return f, err
}

// unannounced returns a lowering that resolves fields without calling Options.Named.
func (l *lowering) unannounced() *lowering {
	quiet := *l
	quiet.options.Named = nil
	return &quiet
}

// Field resolves the name of a field that a parameter has. Errors are of type *Error.
func Field(name, parameter string) (algebra.Field, error) {
	return newLowering(Options{}).resolve(value{place: place{key: parameter}}, name)
}

func (l *lowering) resolve(at value, name string) (algebra.Field, error) {
	if strings.ContainsRune("tfn0[", rune(at.kind)) && at.text == name {
		return algebra.Field{}, at.errorf("must be a string, the name of a field, not %s", at.what())
	}
	if name == "_id" {
		return algebra.Field{SearchField: l.fields[l.collection.ID], Keyword: true, Identity: true,
			Namespace: l.collection.Namespace}, nil
	}
	if f, ok := l.fields[name]; ok {
		return algebra.Field{SearchField: f}, nil
	}
	if base, ok := strings.CutSuffix(name, keywordSuffix); ok {
		if f, ok := l.fields[base]; ok && f.Type == readmodel.SearchText {
			return algebra.Field{SearchField: f, Keyword: true}, nil
		}
	}
	for _, subfield := range []algebra.Subfield{algebra.Folded, algebra.Code} {
		base, ok := strings.CutSuffix(name, "."+string(subfield))
		if f, known := l.fields[base]; ok && known && f.Subfields {
			return algebra.NewSubfield(f, subfield), nil
		}
	}
	if len(l.below(name)) > 0 {
		return algebra.Field{}, at.errorf("the field %s is an object: name one of its fields, such as %s",
			quote(name), l.below(name)[0])
	}
	const list = "/docs/guides/search lists the fields"
	shown := l.collection.Unsearchable
	meant, other := l.otherName(name)
	if slices.Contains(shown, strings.TrimSuffix(name, keywordSuffix)) {
		instead := list
		if other {
			instead = fmt.Sprintf("did you mean %q? %s", meant, list)
		}
		return algebra.Field{}, at.errorf("the field %s is returned, but not searchable: %s", quote(name), instead)
	}
	if other {
		return algebra.Field{}, at.errorf("unknown field %s: did you mean %q? %s", quote(name), meant, list)
	}
	names := slices.Concat(l.fieldNames(), l.subfieldNames(algebra.Folded, algebra.Code))
	if meant, ok := closestName(name, slices.Concat(names, shown)); ok && slices.Contains(shown, meant) {
		return algebra.Field{}, at.errorf("unknown field %s: did you mean %q? It is returned, but not searchable: %s",
			quote(name), meant, list)
	}
	if meant, ok := closestName(name, names); ok {
		return algebra.Field{}, at.errorf("unknown field %s: did you mean %q? %s", quote(name), meant, list)
	}
	return algebra.Field{}, at.errorf("unknown field %s: %s", quote(name), list)
}

// below returns the fields of an object.
func (l *lowering) below(object string) []string {
	var out []string
	for _, f := range l.collection.Fields {
		if strings.HasPrefix(f.Path, object+".") {
			out = append(out, f.Path)
		}
	}
	return out
}

// fieldNames returns the names of all fields, including those of .keyword, without the other subfields.
func (l *lowering) fieldNames() []string {
	var out []string
	for _, f := range l.collection.Fields {
		out = append(out, f.Path)
		if f.Type == readmodel.SearchText {
			out = append(out, f.Path+keywordSuffix)
		}
	}
	return out
}

// subfieldNames returns the names of the subfields with their own analyzers.
func (l *lowering) subfieldNames(subfields ...algebra.Subfield) []string {
	var out []string
	for _, f := range l.collection.Fields {
		for _, subfield := range subfields {
			if f.Subfields {
				out = append(out, algebra.NewSubfield(f, subfield).Name())
			}
		}
	}
	return out
}

// hidden reports whether a field does not exist where the clause is: a nested document has its own fields and the _id
// of its person only.
func (l *lowering) hidden(f algebra.Field) bool {
	return l.nested != "" && f.Nested != l.nested && !f.Identity
}

// leaf returns a node over a field, or None if the field does not exist there.
func (l *lowering) leaf(f algebra.Field, n algebra.Node) algebra.Node {
	switch {
	case l.hidden(f):
		return algebra.None{}
	case f.Identity:
		return identical(n)
	}
	return n
}

// identical returns the equivalent of a node over _id, which supports equality only, and whose matches all score the
// same.
func identical(n algebra.Node) algebra.Node {
	switch n := n.(type) {
	case algebra.Term: // of an analyzed text
		return algebra.Set{Field: n.Field, Values: []string{n.Text}}
	case algebra.Set:
		return n
	case algebra.Exists:
		return algebra.All{}
	}
	return algebra.None{}
}

// boosted wraps a node in a boost unless that is 1.
func boosted(n algebra.Node, boost float64) algebra.Node {
	if boost == 1 {
		return n
	}
	return algebra.Boost{Node: n, Factor: boost}
}

// oneField lowers {"<field>": ...}, the form of most leaf clauses, by calling lower with the parameters. The short
// form is the value of the parameter short.
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
		return n, l.identity(c, body)
	}
	return n, nil
}

// identity rejects clauses that _id does not support.
func (l *lowering) identity(c *Clause, at value) error {
	if slices.Contains([]string{"prefix", "wildcard", "regexp", "fuzzy", "range"}, c.Name) {
		return at.errorf("_id has no %s of this kind, only term, terms, match and exists: use %s.keyword", c.Name,
			l.collection.ID)
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
	if nested := l.collection.Nested; !slices.Contains(nested, path) {
		if len(nested) == 0 {
			return v.errorf("failed to find nested object under path [%s]: %s have none", path, l.collection.Name)
		}
		return v.errorf("failed to find nested object under path [%s]: nested are %s", path,
			strings.Join(nested, ", "))
	}
	if l.nested != "" && l.nested != path {
		return v.errorf("the nested object %s is not inside %s, whose elements are searched here", path, l.nested)
	}
	return nil
}
