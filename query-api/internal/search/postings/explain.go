package postings

import (
	"context"
	"maps"
	"slices"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// Reading is a statement that reads what a query needs.
type Reading struct {
	Step string
	planner.Statement
}

// Explain returns the statements of a question that run with an empty cache.
func (x *Index) Explain(ctx context.Context, s *Snapshot, q *Question) ([]Reading, error) {
	c := compiler{stats: q.Stats, needs: newNeeds(), pace: &pace{ctx: ctx}}
	if _, err := c.plan(q, q.scored()); err != nil {
		return nil, err
	}
	n := c.needs
	if q.First && NeedsCounts(q) {
		for _, t := range planner.Wanted(q.Node, planner.SortFilters(q.Sort), q.Stats) {
			leaf := planner.Leaf{Node: algebra.Term{Field: t.Field, Text: t.Text}}
			n.leaves[leaf.Key()] = leaf
		}
	}
	views := make([]*view, len(s.parts))
	for i, p := range s.parts {
		views[i] = &view{part: p}
	}
	groups := byReplica(views)
	if len(groups) == 0 {
		groups = [][]*view{nil} // an empty table
	}
	var out []Reading
	for _, some := range groups {
		out = append(out, explainReads(x.cfg.Collection, n, some)...)
	}
	return out, nil
}

// explainReads returns the statements for the parts of a replica.
func explainReads(of *readmodel.SearchCollection, n *needs, views []*view) (out []Reading) {
	var names []string
	rows := 0
	for _, v := range views {
		names, rows = append(names, v.part.name), rows+v.part.size
	}
	add := func(step string, statement planner.Statement) {
		if len(views) > 0 {
			statement = views[0].part.replica.Read(statement)
		}
		out = append(out, Reading{step, statement})
	}
	for _, path := range slices.Sorted(maps.Keys(n.paths)) {
		if !isLinked(of, path) {
			add(stepElements, planner.ElementsStatement(of, path, names))
		}
	}
	var leaves, phrases []planner.Leaf
	for _, key := range slices.Sorted(maps.Keys(n.leaves)) {
		leaf := n.leaves[key]
		switch p, ok := leaf.Node.(algebra.Phrase); {
		case ok && p.Slop > 0:
			add(stepPhrase, planner.PhraseStatement(p, names))
		case ok:
			phrases = append(phrases, leaf)
		default:
			leaves = append(leaves, leaf)
		}
	}
	for _, list := range [][]planner.Leaf{leaves, phrases} {
		for some := range slices.Chunk(list, maxLeavesPerStatement) {
			for _, statement := range planner.LeafStatements(some, names, rows, 1) {
				add(stepLeaves, statement)
			}
		}
	}
	var texts []planner.Text
	for _, key := range slices.Sorted(maps.Keys(n.norms)) {
		texts = append(texts, n.norms[key])
	}
	for some := range slices.Chunk(texts, maxLeavesPerStatement) {
		add(stepLengths, planner.LengthsStatement(some, names))
	}
	for _, key := range slices.Sorted(maps.Keys(n.values)) {
		for _, name := range names {
			add(stepValues, planner.ValuesStatement(n.values[key], name))
		}
	}
	return out
}
