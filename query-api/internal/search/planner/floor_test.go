package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// someone has each of some words so often in each of some fields, beside others.
type someone struct {
	times   map[string]int
	lengths map[string]int
}

// score is that of a node, by the definitions in algebra and of BM25, and whether it matches.
func (p someone) score(n algebra.Node, stats *Stats) (float64, bool) {
	switch n := n.(type) {
	case algebra.Term:
		tf := float64(p.times[termKey(n.Field, n.Text)])
		weight, average := stats.term(n, nil)
		length := p.lengths[n.Field.Name()]
		if length > 24 { // rounded down to four significant bits of what is beyond
			step := 1
			for (length-24)/step >= 16 {
				step *= 2
			}
			length = 24 + (length-24)/step*step
		}
		return weight * (k1 + 1) * tf / (tf + k1*(1-b+b*float64(length)/average)), tf > 0
	case algebra.Bool:
		total, matching := 0.0, 0
		for _, m := range n.Must {
			score, ok := p.score(m, stats)
			if !ok {
				return 0, false
			}
			total += score
		}
		for _, m := range n.Should {
			if score, ok := p.score(m, stats); ok {
				total += score
				matching++
			}
		}
		return total, matching >= n.Minimum
	case algebra.DisMax:
		most, total, matching := 0.0, 0.0, false
		for _, m := range n.Nodes {
			if score, ok := p.score(m, stats); ok {
				most, total, matching = max(most, score), total+score, true
			}
		}
		return most + n.Tie*(total-most), matching
	case algebra.Boost:
		score, ok := p.score(n.Node, stats)
		return n.Factor * score, ok
	case algebra.Constant:
		_, ok := p.score(n.Node, stats)
		return n.Score, ok
	}
	return 0, false
}

// Nobody exceeds the bound, whoever reaches the floor keeps her score, and nobody has more than hers.
func TestAbove(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	field := func(i int) algebra.Field {
		return algebra.Field{SearchField: readmodel.SearchField{Path: fmt.Sprintf("f%d", i), Column: fmt.Sprintf("f%d", i), Type: readmodel.SearchText}}
	}
	const fields, words = 6, 4
	var node func(depth int) algebra.Node
	some := func(depth int) []algebra.Node {
		list := make([]algebra.Node, 1+r.IntN(5))
		for i := range list {
			list[i] = node(depth - 1)
		}
		return list
	}
	node = func(depth int) algebra.Node {
		if depth == 0 || r.IntN(4) == 0 {
			return algebra.Term{Field: field(r.IntN(fields)), Text: fmt.Sprintf("w%d", r.IntN(words))}
		}
		switch r.IntN(6) {
		case 0:
			return algebra.Boost{Node: node(depth - 1), Factor: []float64{0, 0.5, 3, 1e6}[r.IntN(4)]}
		case 1:
			return algebra.Constant{Node: node(depth - 1), Score: r.Float64() * 9}
		case 2:
			return algebra.Bool{Must: some(depth), Should: some(depth)}
		case 3:
			return algebra.Bool{Should: some(depth), Minimum: 1}
		}
		return algebra.DisMax{Nodes: some(depth), Tie: []float64{0, 0, 0, 0.3, 1}[r.IntN(5)]}
	}
	dropped, reached := 0, 0
	for range 2000 {
		stats := NewStats()
		for f := range fields {
			documents := int64(10 + r.IntN(1000))
			stats.Fields[field(f).Name()] = FieldStats{Documents: documents, Terms: documents * int64(1+r.IntN(60))}
			for w := range words {
				stats.Terms[termKey(field(f), fmt.Sprintf("w%d", w))] = 1 + r.Int64N(documents)
			}
		}
		n := node(3)
		people, scores := make([]someone, 30), make([]float64, 0, 30)
		c := scoring(stats, n)
		for i := range people {
			p := someone{times: map[string]int{}, lengths: map[string]int{}}
			for f := range fields {
				for w := range words {
					times := max(0, r.IntN(6)-3) * (1 + r.IntN(30))
					p.times[termKey(field(f), fmt.Sprintf("w%d", w))] = times
					p.lengths[field(f).Name()] += times
				}
				if r.IntN(2) == 0 {
					p.lengths[field(f).Name()] += r.IntN(90)
				}
			}
			people[i] = p
			if score, ok := p.score(n, stats); ok {
				require.LessOrEqual(t, score, c.bound(n)*(1+1e-12), "%+v", n)
				scores = append(scores, score)
			}
		}
		if len(scores) < 5 {
			continue
		}
		slices.Sort(scores)
		floor := scores[len(scores)-3] - floatStep*c.bound(n)
		above := c.above(n, floor)
		for _, p := range people {
			before, matched := p.score(n, stats)
			after, matches := p.score(above, stats)
			switch {
			case matched && before >= floor:
				reached++
				require.True(t, matches, "%+v", n)
				require.Equal(t, math.Float64bits(before), math.Float64bits(after), "%+v", n)
			case matches:
				require.True(t, matched, "%+v", n)
				require.LessOrEqual(t, after, before, "%+v", n)
			case matched:
				dropped++
			}
		}
	}
	require.Greater(t, reached, 1000)
	require.Greater(t, dropped, 1000)
}
