package clause

import (
	"math"

	"muster/query-api/internal/search/algebra"
)

func lowerMatchAll(_ *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	boost := a.boost()
	return boosted(algebra.All{}, boost), a.done()
}

func lowerMatchNone(_ *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	a.boost()
	return algebra.None{}, a.done()
}

func lowerBool(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	var b algebra.Bool
	for _, occur := range []struct { // in the order of Elasticsearch (Options.NamedClause)
		name string
		into *[]algebra.Node
	}{{"must", &b.Must}, {"must_not", &b.MustNot}, {"should", &b.Should}, {"filter", &b.Filter}} {
		part, ok := a.get(occur.name)
		if !ok || part.kind == 'n' || a.err != nil {
			continue
		}
		outer := l.unshown
		l.unshown = outer || occur.name == "must_not"
		list, err := l.list(part)
		l.unshown = outer
		if err != nil {
			return nil, err
		}
		*occur.into = list
	}
	boost := a.boost()
	pure := a.flag("adjust_pure_negative", true)
	spec, given := a.minimumText()
	if err := a.done(); err != nil {
		return nil, err
	}
	if len(b.Must)+len(b.Filter)+len(b.Should)+len(b.MustNot) == 0 {
		return boosted(algebra.All{}, boost), nil
	}
	if given {
		n, err := minimum(v, spec, len(b.Should))
		if err != nil {
			return nil, err
		}
		b.Minimum = n
	}
	if len(b.Must)+len(b.Filter)+len(b.Should) == 0 {
		if !pure {
			return algebra.None{}, nil
		}
		b.Minimum = 0 // Elasticsearch drops it when it adds match_all.
	}
	n, err := boolean(b)
	if err != nil {
		return nil, err
	}
	return boosted(n, boost), nil
}

// boolean completes a Bool whose Minimum is the requested one: without must and filter at least one of should must
// match, and a minimum above the number of clauses never matches.
func boolean(b algebra.Bool) (algebra.Node, error) {
	if b.Minimum == 0 && len(b.Must)+len(b.Filter) == 0 && len(b.Should) > 0 {
		b.Minimum = 1
	}
	if b.Minimum > len(b.Should) {
		return algebra.None{}, nil
	}
	return b, nil
}

func lowerConstantScore(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	filter := a.must("filter")
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	n, err := l.clause(filter)
	if err != nil {
		return nil, err
	}
	return algebra.Constant{Node: n, Score: boost}, nil
}

func lowerBoosting(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	positive, negative := a.must("positive"), a.must("negative")
	if at := a.must("negative_boost"); at.kind == 'n' {
		a.fail(at.errorf("must not be null"))
	}
	factor := a.number("negative_boost", 0)
	boost := a.boost()
	if factor < 0 {
		a.fail(v.errorf("negative_boost must not be negative"))
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	yes, err := l.clause(positive)
	if err != nil {
		return nil, err
	}
	no, err := l.clause(negative)
	if err != nil {
		return nil, err
	}
	return boosted(algebra.Function{
		Node: yes, Functions: []algebra.Factor{{Filter: no, Kind: algebra.FactorWeight, Weight: factor}},
		ScoreMode: algebra.ScoreFirst, BoostMode: algebra.ScoreMultiply, MaxBoost: math.MaxFloat32, Sealed: true,
	}, boost), nil
}

func lowerDisMax(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	queries := a.must("queries")
	tie := a.number("tie_breaker", 0)
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	if tie < 0 || tie > 1 {
		return nil, v.errorf("tie_breaker must be from 0 to 1")
	}
	nodes, err := l.list(queries)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, queries.errorf("names no query: give at least one")
	}
	return boosted(algebra.DisMax{Nodes: nodes, Tie: tie}, boost), nil
}

func lowerNested(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	path := a.must("path")
	if path.kind == 'n' {
		a.fail(path.errorf("must not be null"))
	}
	query := a.must("query")
	mode := a.choice("score_mode", "avg", "avg", "sum", "min", "max", "none")
	if at, ok := a.get("score_mode"); ok && at.kind == '"' && at.text != mode {
		a.fail(at.errorf("must be in lower case"))
	}
	unmapped := a.flag("ignore_unmapped", false)
	hits, err := l.innerHitsOf(a, path.text)
	if err != nil {
		return nil, err
	}
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	if err := l.nestedPath(path, path.text); err != nil {
		if unmapped {
			return algebra.None{}, nil
		}
		return nil, err
	}
	if l.nested == path.text && !l.sorting {
		return nil, path.errorf("is inside a nested clause of the same path, whose elements have no nested elements")
	}
	outer := l.nested
	l.nested = path.text
	n, err := l.clause(query)
	l.nested = outer
	if err != nil {
		return nil, err
	}
	if hits != nil && len(hits.Highlights) > 0 {
		if err := checkHighlighted(query, n); err != nil {
			return nil, err
		}
	}
	if outer == path.text {
		return boosted(n, boost), nil // A nested document of its own path is itself.
	}
	return boosted(algebra.Nested{Path: path.text, Node: n, Mode: algebra.ScoreMode(mode), InnerHits: hits}, boost), nil
}
