package algebra

import (
	"math"
)

// Expanded wraps, in explanations, a node that is expanded to others before planning.
type Expanded struct {
	Node
	// Terms is the number of stored terms that it expands to.
	Terms int
}

// Describe returns a readable form of a node that marshals to JSON.
func Describe(n Node) any {
	switch n := n.(type) {
	case Expanded:
		out := Describe(n.Node)
		if kinds, ok := out.(map[string]any); ok {
			for _, members := range kinds {
				if m, ok := members.(map[string]any); ok {
					m["terms_found"] = n.Terms
				}
			}
		}
		return out
	case All:
		return map[string]any{"all": true}
	case None:
		return map[string]any{"none": true}
	case Term:
		m := map[string]any{"field": n.Field.Name(), "text": n.Text}
		if n.Blend != 0 {
			m["blend"] = n.Blend
		}
		if n.Absent {
			m["absent"] = true
		}
		return named("term", m)
	case Set:
		return named("set", map[string]any{"field": n.Field.Name(), "values": n.Values})
	case Phrase:
		m := map[string]any{"field": n.Field.Name(), "terms": n.Terms, "slop": n.Slop}
		if n.PrefixLast {
			m["prefix_last"], m["expansions"] = true, n.Expansions
		}
		return named("phrase", m)
	case Combined:
		names := make([]string, len(n.Fields))
		for i, f := range n.Fields {
			names[i] = f.Name()
		}
		return named("combined", map[string]any{"fields": names, "weights": n.Weights, "text": n.Text})
	case Range:
		return named("range", describeRange(n))
	case Pattern:
		kinds := map[PatternKind]string{Prefix: "prefix", Wildcard: "wildcard", Regexp: "regexp", Whole: "term"}
		m := map[string]any{"field": n.Field.Name(), "kind": kinds[n.Kind], "text": n.Text, "insensitive": n.Insensitive}
		if n.Rewrite != RewriteDefault {
			m["rewrite"], m["expansions"] = n.Rewrite.String(), n.Expansions
		}
		return named("pattern", m)
	case Fuzzy:
		m := map[string]any{
			"field": n.Field.Name(), "text": n.Text, "edits": n.Edits, "prefix_length": n.PrefixLength,
			"expansions": n.Expansions, "transpositions": n.Transpositions,
		}
		if n.Rewrite != RewriteDefault {
			m["rewrite"] = n.Rewrite.String()
		}
		return named("fuzzy", m)
	case Exists:
		return named("exists", map[string]any{"field": n.Field.Name()})
	case Bool:
		m := map[string]any{}
		for name, list := range map[string][]Node{"must": n.Must, "filter": n.Filter, "should": n.Should,
			"must_not": n.MustNot} {
			if len(list) > 0 {
				m[name] = describeAll(list)
			}
		}
		switch {
		case n.MinimumField != nil:
			m["minimum"] = n.MinimumField.Name()
		case len(n.Should) > 0:
			m["minimum"] = n.Minimum
		}
		return named("bool", m)
	case DisMax:
		return named("dis_max", map[string]any{"nodes": describeAll(n.Nodes), "tie": n.Tie})
	case Boost:
		return named("boost", map[string]any{"node": Describe(n.Node), "factor": n.Factor})
	case Constant:
		return named("constant", map[string]any{"node": Describe(n.Node), "score": n.Score})
	case Nested:
		return named("nested", map[string]any{"path": n.Path, "node": Describe(n.Node), "score_mode": n.Mode})
	case Function:
		return named("function", describeFunction(n))
	}
	return nil
}

// String returns the name of the rewrite method.
func (r RewriteMethod) String() string {
	return [...]string{"default", "constant", "scored", "nearness", "blended"}[r]
}

func named(name string, members map[string]any) any { return map[string]any{name: members} }

func describeAll(list []Node) []any {
	out := make([]any, len(list))
	for i, n := range list {
		out[i] = Describe(n)
	}
	return out
}

func describeRange(n Range) map[string]any {
	m := map[string]any{"field": n.Field.Name()}
	if n.Field.IsString() {
		if b := n.Lower; b != nil {
			m["lower"], m["lower_inclusive"] = b.Text, b.Inclusive
		}
		if b := n.Upper; b != nil {
			m["upper"], m["upper_inclusive"] = b.Text, b.Inclusive
		}
		return m
	}
	if n.Min > math.MinInt64+1 {
		m["min"] = n.Min
	}
	if n.Max < math.MaxInt64 {
		m["max"] = n.Max
	}
	return m
}

func describeFunction(n Function) map[string]any {
	kinds := map[FactorKind]string{FactorWeight: "weight", FactorField: "field_value_factor", FactorDecay: "decay",
		FactorRandom: "random_score"}
	factors := make([]any, len(n.Functions))
	for i, f := range n.Functions {
		m := map[string]any{"kind": kinds[f.Kind], "weight": f.Weight}
		if f.Filter != nil {
			m["filter"] = Describe(f.Filter)
		}
		if f.Field.Path != "" {
			m["field"] = f.Field.Name()
		}
		factors[i] = m
	}
	m := map[string]any{"node": Describe(n.Node), "functions": factors, "score_mode": n.ScoreMode,
		"boost_mode": n.BoostMode}
	if n.MinScore != nil {
		m["min_score"] = *n.MinScore
	}
	return m
}
