package planner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// field returns a searchable field.
func field(path string, keyword bool) algebra.Field {
	for _, f := range readmodel.SearchFields() {
		if f.Path == path {
			return algebra.Field{SearchField: f, Keyword: keyword}
		}
	}
	panic("no field " + path)
}

// selects counts the selects of leaves that read a table.
func selects(leaves []planner.Leaf, rows int) int {
	n := 0
	for _, s := range planner.LeafStatements(leaves, []string{"all_1_1_0"}, rows, 1) {
		n += strings.Count(s.SQL, " FROM {table}")
	}
	return n
}

// Planning a select takes longer than most leaves, so their number must not grow with that of leaves.
func TestLeafStatements_ReadManyLeavesInFewSelects(t *testing.T) {
	var terms, others []planner.Leaf
	for i := range 500 {
		path := []string{"profile.headline", "profile.full_name", "profile.last_name", "profile.location.city"}[i%4]
		terms = append(terms, planner.Leaf{Node: algebra.Term{Field: field(path, false), Text: fmt.Sprint(i)}})
	}
	require.Equal(t, 2, selects(terms, 20_000), "the fields, and their repeats")
	require.Equal(t, 2, selects(terms, 10_000_000), "the indexes, and the repeats")
	require.Equal(t, 1, selects(terms[:1], 20_000), "a word with its repeats")
	for _, f := range readmodel.SearchFields() {
		if f.Type != readmodel.SearchText || f.Linked {
			continue
		}
		for i := range 3 {
			words := []string{fmt.Sprint(i), "x"}
			others = append(others,
				planner.Leaf{Node: algebra.Set{Field: field(f.Path, false), Values: words}},
				planner.Leaf{Node: algebra.Exists{Field: field(f.Path, false)}},
				planner.Leaf{Node: algebra.Pattern{
					Field: field(f.Path, true), Kind: algebra.Wildcard, Text: fmt.Sprint("*", i),
				}},
			)
		}
	}
	require.Greater(t, len(others), 300)
	require.Less(t, selects(others, 20_000), 12, "by what excludes rows")
}

// The size of an expression grows with the number of terms that an index finds, and servers take 0.6 ms for each.
func TestLeafStatements_ScanForManyTermsOfSmallTables(t *testing.T) {
	var leaves []planner.Leaf
	headline := field("profile.headline", false)
	for i := range 200 {
		leaves = append(leaves, planner.Leaf{Node: algebra.Term{Field: headline, Text: fmt.Sprint(i)}})
	}
	conditions := func(rows int) int {
		s := planner.LeafStatements(leaves, []string{"all_1_1_0"}, rows, 1)[0]
		return strings.Count(s.SQL, "has(profile_headline")
	}
	require.Zero(t, conditions(100_000))
	require.GreaterOrEqual(t, conditions(10_000_000), 200)
}

// Terms of all fields without an index are one select, those of a field with one another.
func TestLookupStatement_ReadsManyFieldsInFewSelects(t *testing.T) {
	var lookups []planner.Lookup
	for _, path := range []string{"languages.language", "languages.proficiency", "profile.location.continent"} {
		for i := range 20 {
			n := algebra.Fuzzy{Field: field(path, false), Text: fmt.Sprint("word", i), Edits: 1}
			lookups = append(lookups, planner.NearTerms(n, 100))
		}
	}
	headline := field("profile.headline", false)
	for i := range 20 {
		lookups = append(lookups, planner.PrefixTerms(headline, fmt.Sprint(i), 100))
	}
	s := planner.LookupStatement(lookups, true)
	require.Equal(t, 1, strings.Count(s.SQL, " FROM {table}"))
	require.Equal(t, 1, strings.Count(s.SQL, "mergeTreeTextIndex("))
	require.Equal(t, 1, strings.Count(planner.LookupStatement(lookups, false).SQL, " FROM {table}"))
	keys := make(map[string]bool)
	for _, l := range lookups {
		keys[l.Key] = true
	}
	require.Len(t, keys, len(lookups))
}

func TestLeafKey_DistinguishesValues(t *testing.T) {
	headline := field("profile.headline", false)
	many := make([]string, 1001) // in an external table
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	set := func(values ...string) string {
		return planner.Leaf{Node: algebra.Set{Field: headline, Values: values}}.Key()
	}
	for _, list := range [][]string{nil, many} {
		joined := set(append(list[:len(list):len(list)], "x\x00y")...)
		require.NotEqual(t, joined, set(append(list[:len(list):len(list)], "x", "y")...))
		require.Equal(t, joined, set(append(list[:len(list):len(list)], "x\x00y")...))
	}
}
