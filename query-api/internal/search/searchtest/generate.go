package searchtest

import (
	"errors"
	"math/rand/v2"
	"strings"
)

// Options configure a Generator.
type Options struct {
	Seed uint64
	// Allowed reports whether a parameter of a clause may be used, or the clause if the parameter is "". The clauses
	// "sort", "aggs" and "function" (of function_score) have parameters too. Nil allows everything.
	Allowed func(clause, parameter string) bool
	Schema  Schema
}

// Query is a random search request.
type Query struct {
	Number int
	// Body has the field query, and sometimes sort and aggs.
	Body map[string]any
	// Uses are the names of its clauses and parameters: "match", "match.operator".
	Uses []string
	// TotalsOnly reports whether the order is unknown to the reference (random_score).
	TotalsOnly bool
}

// Generator generates random queries.
type Generator struct {
	r         *rand.Rand
	schema    Schema
	docs      []Document
	words     []string // of all documents, for queries without a match
	allowed   func(clause, parameter string) bool
	clauses   []clause
	drawn     int
	selective map[string]int // selective queries by clause and parameter

	// State of the current query.
	anchor scope
	uses   map[string]bool
	depth  int
	fuzzed bool            // a clause makes the order unknown to the reference
	inner  map[string]bool // names of inner hits
}

// clause is a kind of clause. draw returns a random one for a scope, or nil if the scope has no suitable value.
type clause struct {
	name   string
	weight int
	leaf   bool
	draw   func(g *Generator, s scope, depth int) any
}

// NewGenerator returns a Generator of queries about the documents.
func NewGenerator(docs []Document, o Options) (*Generator, error) {
	if len(docs) == 0 {
		return nil, errors.New("searchtest: no documents")
	}
	r := rand.New(rand.NewPCG(o.Seed, 0x6d7573746572)) //nolint:gosec // not for secrets
	g := &Generator{r: r, schema: o.Schema, docs: docs, allowed: o.Allowed, selective: map[string]int{}}
	if g.schema.fields == nil {
		g.schema = People()
	}
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
		for _, f := range g.schema.fields {
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

// Next returns the next query.
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
		if g.r.IntN(3) == 0 {
			q = g.withSubfields(q)
		}
		body := object("query", q)
		if g.allowed("sort", "") && g.r.IntN(8) == 0 {
			g.use("sort")
			body["sort"] = g.sort()
		}
		if g.allowed(aggs, "") && g.r.IntN(3) == 0 {
			if a := g.aggregations(g.anchor, 2); len(a) > 0 {
				g.use(aggs)
				body[aggs] = a
			}
		}
		g.drawn++
		return Query{Number: g.drawn, Body: body, Uses: sorted(g.uses), TotalsOnly: g.fuzzed}
	}
}

// use records a clause.
func (g *Generator) use(clause string) { g.uses[clause] = true }

// maxQueriesWithout is the number of queries without a parameter after which it becomes likely.
const maxQueriesWithout = 80

// may decides whether a parameter is set, with a probability of 1/n, or 1/2 while it is rare, and records it.
func (g *Generator) may(clause, parameter string, n int) bool {
	name := clause + "." + parameter
	if g.selective[name]*maxQueriesWithout < g.drawn {
		n = min(n, 2)
	}
	if !g.allowed(clause, parameter) || g.r.IntN(n) != 0 {
		return false
	}
	g.uses[name] = true
	return true
}

// AddSelective records that a query was selective. Clauses and parameters of selective queries become less likely than
// others.
func (g *Generator) AddSelective(q Query) {
	for _, u := range q.Uses {
		g.selective[u]++
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
			depth = 1 // No leaf is allowed.
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
					if s.path == "" && g.allowed("_name", "") && g.r.IntN(8) == 0 {
						g.name(c.name, q)
					}
					return object(c.name, q)
				}
				break
			}
		}
	}
	return nil
}

// name gives a clause a _name, among the parameters of its field if it has one.
func (g *Generator) name(clause string, q any) {
	args, ok := q.(map[string]any)
	switch clause {
	case "match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "fuzzy", "regexp", "terms_set", "term",
		"range", "prefix", "wildcard":
		for _, field := range sorted(args) {
			args, ok = args[field].(map[string]any)
		}
	}
	if ok {
		args["_name"] = pick(g.r, "one", "two", "three")
		g.use("_name")
	}
}

// weight returns the weight of a clause; compound clauses are likely where they are allowed.
func (g *Generator) weight(c clause, depth int) int {
	switch {
	case depth > 0 && !c.leaf:
		return c.weight * 8
	case depth < g.depth && c.leaf && g.selective[c.name]*200 < g.drawn-200:
		return c.weight + 6 // also clauses that are rarely selective alone
	}
	return c.weight
}

// clauses returns the kinds of clauses.
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
		{"exists", 2, true, (*Generator).exists},
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

// boost may set the parameter boost, which every clause has.
func (g *Generator) boost(clause string, args map[string]any) {
	if g.may(clause, "boost", 6) {
		args["boost"] = pick[any](g.r, 0.5, 2, 3.25, 10)
	}
}

// textField returns a random field of the scope with a string value, and one of its values.
func (g *Generator) textField(s scope) (field, string) {
	f, v := g.fieldOf(s, text)
	str, _ := v.(string)
	return f, str
}

// fieldOf returns a random field of the kinds that has a value in the scope. All fields are equally likely.
func (g *Generator) fieldOf(s scope, kinds ...kind) (field, any) {
	type found struct {
		f field
		v any
	}
	var all []found
	for _, f := range g.schema.fields {
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
		c = pick(g.r, all...) // URLs share prefixes: most queries for them match all people
	}
	return c.f, c.v
}
