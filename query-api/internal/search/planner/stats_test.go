package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// The expected frequencies are those of Lucene's BlendedTermQuery.
func TestBlendAcross_EqualsLucene(t *testing.T) {
	for name, c := range map[string]struct{ df, words, want []int64 }{
		"all get the highest frequency": {[]int64{10, 10}, []int64{100, 100}, []int64{10, 10}},
		"the order of the fields stays": {
			[]int64{5, 10, 3, 5}, []int64{100, 100, 100, 100}, []int64{11, 10, 12, 11},
		},
		"a field without the word stays 0":        {[]int64{10, 0, 5}, []int64{100, 1, 100}, []int64{10, 0, 11}},
		"at most the words of the smallest field": {[]int64{10, 5}, []int64{100, 8}, []int64{8, 8}},
		"up to its words":                         {[]int64{10, 5, 4}, []int64{100, 11, 100}, []int64{10, 11, 11}},
		"no document has the word":                {[]int64{0, 0}, []int64{100, 100}, []int64{0, 0}},
	} {
		require.Equal(t, c.want, blendAcross(c.df, c.words), name)
	}
}

func TestStats_BlendSharesHighestFrequency(t *testing.T) {
	field := func(name string) algebra.Field {
		return algebra.Field{SearchField: readmodel.SearchField{Path: name, Column: name, Type: readmodel.SearchText}}
	}
	a, b := field("a"), field("b")
	stats := NewStats()
	stats.Fields[a.Name()] = FieldStats{Documents: 100, Terms: 300}
	stats.Fields[b.Name()] = FieldStats{Documents: 20, Terms: 50}
	for f, terms := range map[string]map[string]int64{"a": {"x": 40, "y": 7}, "b": {"x": 30}} {
		for text, df := range terms {
			stats.Terms[termKey(field(f), text)] = df
		}
	}
	expanded := []algebra.Term{{Field: a, Text: "x", Blend: 1}, {Field: a, Text: "y", Blend: 1}}
	own := algebra.Term{Field: a, Text: "y", Blend: 1, As: algebra.OwnStatistics}
	across := []algebra.Term{
		{Field: a, Text: "x", Blend: 2, Across: true},
		{Field: b, Text: "x", Blend: 2, Across: true},
	}
	for name, c := range map[string]struct {
		term    algebra.Term
		blend   []algebra.Term
		weight  float64
		average float64
	}{
		"single term":                                      {algebra.Term{Field: a, Text: "y"}, nil, idf(7, 100), 3},
		"a blend of one":                                   {expanded[1], expanded[1:], idf(7, 100), 3},
		"most frequent term of an expansion":               {expanded[1], expanded, idf(40, 100), 3},
		"term with its own statistics in a blend":          {own, expanded, idf(7, 100), 3},
		"across fields":                                    {across[0], across, idf(40, 100), 3},
		"across fields, in the field with fewer documents": {across[1], across, idf(20, 20), 2.5},
		"uncounted term is ignored":                        {algebra.Term{Field: b, Text: "y"}, nil, 0, 1},
	} {
		weight, average := stats.term(c.term, c.blend)
		require.InDelta(t, c.weight, weight, 1e-12, name)
		require.InDelta(t, c.average, average, 1e-12, name)
	}
}

// CombinedFieldQuery adds the weighted lengths of its fields up in a long.
func TestWeights_CombinedLengthsAreWholeNumbers(t *testing.T) {
	field := func(name string) algebra.Field {
		return algebra.Field{SearchField: readmodel.SearchField{Path: name, Column: name, Type: readmodel.SearchText}}
	}
	a, b := field("a"), field("b")
	stats := NewStats()
	stats.Fields[a.Name()] = FieldStats{Documents: 4, Terms: 11}
	stats.Fields[b.Name()] = FieldStats{Documents: 2, Terms: 5}
	stats.Terms[termKey(a, "x")] = 3
	combined := algebra.Combined{Fields: []algebra.Field{a, b}, Weights: []float64{1.5, 2.5}, Text: "x"}
	weight, average := NewWeights(stats, combined).Combined(combined)
	require.InDelta(t, idf(3, 4), weight, 1e-12)
	require.InDelta(t, (16.0+12)/4, average, 1e-6)
}
