package planner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func TestPagesBeginAfterTheLastPlace(t *testing.T) {
	number := Sort{Kind: SortField, Field: algebra.Field{SearchField: readmodel.SearchField{Column: "n", Type: readmodel.SearchLong}}}
	first, down, substituted := number, number, number
	first.MissingFirst, down.Descending = true, true
	zero := "0"
	substituted.Missing = &zero
	for name, c := range map[string]struct {
		sort  Sort
		last  Key
		order string
		where string
	}{
		"a number":                       {number, Key{Value: "7"}, "m0 ASC, k0 ASC", "((m0 OR k0 > 7) OR ((NOT m0 AND k0 = 7) AND (profile_hash > 5)))"},
		"a number, descending":           {down, Key{Value: "7"}, "m0 ASC, k0 DESC", "((m0 OR k0 < 7) OR ((NOT m0 AND k0 = 7) AND (profile_hash > 5)))"},
		"none, which come last":          {number, Key{Missing: true}, "m0 ASC, k0 ASC", "(m0 AND (profile_hash > 5))"},
		"a number, behind those of none": {first, Key{Value: "7"}, "m0 DESC, k0 ASC", "((NOT m0 AND k0 > 7) OR ((NOT m0 AND k0 = 7) AND (profile_hash > 5)))"},
		"none, which come first":         {first, Key{Missing: true}, "m0 DESC, k0 ASC", "((NOT m0) OR (m0 AND (profile_hash > 5)))"},
		"everybody has a number":         {substituted, Key{Value: "7"}, "k0 ASC", "((k0 > 7) OR ((k0 = 7) AND (profile_hash > 5)))"},
	} {
		s := RankStatement(Rank{Node: algebra.All{}, Sort: []Sort{c.sort}, Stats: &Stats{}, Limit: 10, After: &Place{Keys: []Key{c.last}, Hash: 5}})
		sql := s.SQL
		for parameter, value := range s.Parameters {
			for _, kind := range []string{"Int64", "UInt64"} {
				sql = strings.ReplaceAll(sql, "{"+parameter+":"+kind+"}", value)
			}
		}
		require.Contains(t, sql, " WHERE "+c.where+" ORDER BY "+c.order+", profile_hash ASC LIMIT 10", name)
	}
}
