package searchtest

import (
	"errors"
	"math/rand/v2"
	"strings"
)

// Options say what a generator may use.
type Options struct {
	Seed uint64
	// Allowed tells whether a clause and its parameter may be used, by their names; a parameter "" asks for the
	// clause itself. Clause "sort" and clause "function" (of function_score) have parameters like the others. Nil allows
	// everything.
	Allowed func(clause, parameter string) bool
}

// Query is a drawn search request.
type Query struct {
	Number int
	// Body has the member query, and sometimes sort.
	Body map[string]any
	// Uses names the clauses and parameters in it: "match", "match.operator".
	Uses []string
	// TotalsOnly: the order is one that the judge cannot know (random_score).
	TotalsOnly bool
}

// Generator draws queries.
type Generator struct {
	r       *rand.Rand
	docs    []Document
	words   []string // of all documents, for what a query does not find
	allowed func(clause, parameter string) bool
	clauses []clause
	drawn   int
	told    map[string]int // queries that matched some people, by what they used

	// of the query being drawn
	anchor scope
	uses   map[string]bool
	depth  int
	fuzzed bool            // a clause whose place in the order is not the judge's
	inner  map[string]bool // names of inner hits
}

// clause draws one clause for a scope, or nil when the scope has nothing to ask for.
type clause struct {
	name   string
	weight int
	leaf   bool
	draw   func(g *Generator, s scope, depth int) any
}

// NewGenerator prepares to draw queries about the documents.
func NewGenerator(docs []Document, o Options) (*Generator, error) {
	if len(docs) == 0 {
		return nil, errors.New("searchtest: no documents")
	}
	r := rand.New(rand.NewPCG(o.Seed, 0x6d7573746572)) //nolint:gosec // not for secrets
	g := &Generator{r: r, docs: docs, allowed: o.Allowed, told: map[string]int{}}
	if g.allowed == nil {
		g.allowed = func(string, string) bool { return true }
	}
	for _, c := range clauses() {
		if g.allowed(c.name, "") {
			g.clauses = append(g.clauses, c)
		}
	}
	if len(g.clauses) == 0 {
		return nil, errors.New("searchtest: no clause is allowed")
	}
	for range 400 {
		d := pick(g.r, docs...)
		for _, f := range fields() {
			if f.kind != text {
				continue
			}
			for _, v := range lookup(d.root, f.path) {
				if s, ok := v.(string); ok {
					g.words = append(g.words, strings.Fields(s)...)
				}
			}
		}
	}
	return g, nil
}

// Next draws the next query.
func (g *Generator) Next() Query {
	for {
		g.uses = map[string]bool{}
		g.fuzzed, g.inner = false, map[string]bool{}
		g.anchor = scope{v: pick(g.r, g.docs...).root}
		depth := pick(g.r, 0, 0, 1, 1, 1, 2, 2, 3)
		g.depth = depth
		q := g.clause(g.anchor, depth)
		if q == nil {
			continue
		}
		body := object("query", q)
		if g.allowed("sort", "") && g.r.IntN(8) == 0 {
			g.use("sort")
			body["sort"] = g.sort()
		}
		g.drawn++
		return Query{Number: g.drawn, Body: body, Uses: sorted(g.uses), TotalsOnly: g.fuzzed}
	}
}

// use notes a clause.
func (g *Generator) use(clause string) { g.uses[clause] = true }

// rare is how many queries may pass without a parameter before it becomes likely.
const rare = 80

// may decides whether a parameter is set, with the chance of one in n, more while it is rare, and notes it.
func (g *Generator) may(clause, parameter string, n int) bool {
	name := clause + "." + parameter
	if g.told[name]*rare < g.drawn {
		n = min(n, 2)
	}
	if !g.allowed(clause, parameter) || g.r.IntN(n) != 0 {
		return false
	}
	g.uses[name] = true
	return true
}

// Told says that a query was answered with some of the people, not with none or most: what it used is tried less often
// than what no such query used yet.
func (g *Generator) Told(q Query) {
	for _, u := range q.Uses {
		g.told[u]++
	}
}

// clause draws any clause.
func (g *Generator) clause(s scope, depth int) any {
	for range 30 {
		total := 0
		for _, c := range g.clauses {
			if c.leaf == (depth == 0) || c.leaf {
				total += g.weight(c, depth)
			}
		}
		if total == 0 {
			depth = 1 // no leaf is allowed
			continue
		}
		n := g.r.IntN(total)
		for _, c := range g.clauses {
			if c.leaf != (depth == 0) && !c.leaf {
				continue
			}
			if n -= g.weight(c, depth); n < 0 {
				if q := c.draw(g, s, depth); q != nil {
					g.use(c.name)
					return object(c.name, q)
				}
				break
			}
		}
	}
	return nil
}

// weight makes compound clauses likely where they are allowed.
func (g *Generator) weight(c clause, depth int) int {
	switch {
	case depth > 0 && !c.leaf:
		return c.weight * 8
	case depth < g.depth && c.leaf && g.told[c.name]*200 < g.drawn-200:
		return c.weight + 6 // of those that tell little alone, too
	}
	return c.weight
}

// clauses are the table of what can be drawn.
func clauses() []clause {
	return []clause{
		{"match_all", 1, true, (*Generator).matchAll},
		{"match_none", 1, true, (*Generator).matchNone},
		{"match", 10, true, (*Generator).match},
		{"match_phrase", 6, true, (*Generator).matchPhrase},
		{"match_phrase_prefix", 5, true, (*Generator).matchPhrasePrefix},
		{"match_bool_prefix", 5, true, (*Generator).matchBoolPrefix},
		{"multi_match", 12, true, (*Generator).multiMatch},
		{"combined_fields", 5, true, (*Generator).combinedFields},
		{"term", 7, true, (*Generator).term},
		{"terms", 4, true, (*Generator).terms},
		{"terms_set", 4, true, (*Generator).termsSet},
		{"range", 10, true, (*Generator).rangeOf},
		{"exists", 4, true, (*Generator).exists},
		{"ids", 2, true, (*Generator).ids},
		{"prefix", 4, true, (*Generator).prefix},
		{"wildcard", 4, true, (*Generator).wildcard},
		{"regexp", 5, true, (*Generator).regexp},
		{"fuzzy", 6, true, (*Generator).fuzzy},
		{"query_string", 12, true, (*Generator).queryString},
		{"simple_query_string", 10, true, (*Generator).simpleQueryString},
		{"bool", 10, false, (*Generator).boolean},
		{"constant_score", 3, false, (*Generator).constantScore},
		{"boosting", 3, false, (*Generator).boosting},
		{"dis_max", 3, false, (*Generator).disMax},
		{"function_score", 6, false, (*Generator).functionScore},
		{"nested", 6, false, (*Generator).nested},
	}
}

// boost sets the parameter that every clause has.
func (g *Generator) boost(clause string, args map[string]any) {
	if g.may(clause, "boost", 6) {
		args["boost"] = pick[any](g.r, 0.5, 2, 3.25, 10)
	}
}

// textField draws a field of the scope with a string value, and one of its values.
func (g *Generator) textField(s scope) (field, string) {
	f, v := g.fieldOf(s, text)
	str, _ := v.(string)
	return f, str
}

// fieldOf draws a field of one of the kinds that has a value in the scope. Rare and short fields are as likely as others.
func (g *Generator) fieldOf(s scope, kinds ...kind) (field, any) {
	type found struct {
		f field
		v any
	}
	var all []found
	for _, f := range fields() {
		for _, k := range kinds {
			if f.kind != k {
				continue
			}
			if v := s.values(f); len(v) > 0 {
				all = append(all, found{f, pick(g.r, v...)})
			}
		}
	}
	if len(all) == 0 {
		return field{}, nil
	}
	c := pick(g.r, all...)
	if address, ok := c.v.(string); ok && strings.HasPrefix(address, "http") && g.r.IntN(3) > 0 {
		c = pick(g.r, all...) // addresses begin alike: most questions about them find everybody
	}
	return c.f, c.v
}
