package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func textField(t *testing.T, path string) algebra.Field {
	t.Helper()
	for _, f := range readmodel.SearchFields() {
		if f.Path == path {
			return algebra.Field{SearchField: f}
		}
	}
	t.Fatalf("no field %s", path)
	return algebra.Field{}
}

func TestPresenceStatements(t *testing.T) {
	headline, url := textField(t, "profile.headline"), textField(t, "profile.image_url")
	term := func(f algebra.Field, words ...string) algebra.Bool {
		b := algebra.Bool{Minimum: 1}
		for _, w := range words {
			b.Should = append(b.Should, algebra.Term{Field: f, Text: w})
		}
		return b
	}
	words := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("w%03d", i)
		}
		return out
	}
	fields := algebra.DisMax{}
	for _, path := range []string{"profile.headline", "profile.summary", "experience.title", "education.degree"} {
		fields.Nodes = append(fields.Nodes, term(textField(t, path), words(3)...))
	}
	long := words(100)
	for i := range long {
		long[i] = strings.Repeat(long[i], 100)
	}
	var expanded algebra.Bool
	for _, w := range words(200) {
		expanded.Should = append(expanded.Should, algebra.Term{Field: headline, Text: w, Blend: 7})
	}
	for name, c := range map[string]struct {
		node   algebra.Node
		groups []int // of each statement
		read   []int // dictionaries, of each statement
	}{
		"everybody":                        {algebra.All{}, nil, nil},
		"one term without an index":        {term(url, "a"), nil, nil},
		"a few words":                      {term(headline, words(11)...), nil, nil},
		"a number":                         {algebra.Set{Field: textField(t, "profile.connections"), Values: []string{"1", "2"}}, nil, nil},
		"a column without an index beside": {algebra.Bool{Should: []algebra.Node{term(url, "a", "b"), term(headline, "a")}}, []int{2}, []int{0}},
		"several fields":                   {fields, []int{12}, []int{4}},
		"many words of one field":          {term(headline, words(250)...), []int{100, 100, 50}, []int{1, 1, 1}},
		"long words of one field":          {term(headline, long...), []int{100}, []int{1}},
		"words that a fuzzy one may be":    {expanded, nil, nil},
		"a long list":                      {algebra.Set{Field: url, Values: words(17)}, nil, nil},
		"a short list":                     {algebra.Set{Field: url, Values: words(16)}, []int{16}, []int{0}},
		"many of columns without an index": {algebra.Bool{Should: []algebra.Node{term(url, words(99)...), term(textField(t, "profile_id"), words(30)...)}}, []int{2}, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			var groups, read []int
			first := 0
			for _, p := range PresenceStatements(c.node, nil, 5) {
				require.Equal(t, first, p.First)
				first += len(p.Groups)
				groups = append(groups, len(p.Groups))
				read = append(read, strings.Count(p.Index.SQL, "mergeTreeTextIndex"))
				require.NotContains(t, p.Index.SQL, "IN (SELECT groupArray", "a long list of which each word is sought")
				require.NotContains(t, p.Columns.SQL, "mergeTreeTextIndex")
			}
			require.Equal(t, c.groups, groups)
			require.Equal(t, c.read, read)
		})
	}
}

// What nobody has is not asked for, wherever it stands.
func TestAbsentTerms(t *testing.T) {
	headline, title := textField(t, "profile.headline"), textField(t, "experience.title")
	stats := NewStats()
	for _, f := range []algebra.Field{headline, title} {
		stats.Fields[f.Name()] = FieldStats{Documents: 9, Terms: 20}
		stats.Terms[termKey(f, "here")] = 3
		stats.Terms[termKey(f, "gone")], stats.Absent[termKey(f, "gone")] = 0, true
	}
	here, gone := algebra.Term{Field: headline, Text: "here"}, algebra.Term{Field: headline, Text: "gone"}
	for name, c := range map[string]struct {
		node  algebra.Node
		empty bool
	}{
		"a term":             {gone, true},
		"one of two":         {algebra.Bool{Minimum: 1, Should: []algebra.Node{here, gone}}, false},
		"the better of two":  {algebra.DisMax{Nodes: []algebra.Node{here, gone}}, false},
		"both":               {algebra.Bool{Must: []algebra.Node{here, gone}}, true},
		"a phrase":           {algebra.Phrase{Field: headline, Terms: [][]string{{"here"}, {"gone"}}}, true},
		"a list":             {algebra.Set{Field: headline, Values: []string{"gone", "here"}}, false},
		"a list of one":      {algebra.Set{Field: headline, Values: []string{"gone"}}, true},
		"of an element":      {algebra.Nested{Path: "experience", Node: algebra.Term{Field: title, Text: "gone"}, Mode: algebra.ScoreAvg}, true},
		"one field of two":   {algebra.Combined{Fields: []algebra.Field{headline, title}, Weights: []float64{1, 1}, Text: "here"}, false},
		"no field of two":    {algebra.Combined{Fields: []algebra.Field{headline, title}, Weights: []float64{1, 1}, Text: "gone"}, true},
		"what must not be":   {algebra.Bool{Must: []algebra.Node{here}, MustNot: []algebra.Node{gone}}, false},
		"more than there is": {algebra.Bool{Minimum: 2, Should: []algebra.Node{here, gone}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := RankStatement(Rank{Node: c.node, Stats: stats, Sort: []Sort{{Kind: SortScore, Descending: true}}, Limit: 11})
			require.Equal(t, c.empty, strings.Contains(s.SQL, "WHERE 0 AND"), s.SQL)
			for _, v := range s.Parameters {
				if !c.empty {
					require.NotContains(t, v, "gone")
				}
			}
		})
	}
}
