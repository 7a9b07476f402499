package planner

import (
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// InnerStatement scores the elements of a nested path of some people. Its rows
// are profile_hash, profile_id and a list with the score of each element, -1
// where it does not match.
func InnerStatement(n algebra.Nested, stats *Stats, hashes []uint64) Statement {
	c := scoring(stats, n)
	inner := &scope{path: n.Path}
	m := c.match(n.Node, inner)
	list := inner.lambda("arrayMap", "toFloat32(if("+m+", toFloat64("+c.score(n.Node, inner)+"), -1.))")
	keys := make([]string, len(hashes))
	for i, h := range hashes {
		keys[i] = strconv.FormatUint(h, 10)
	}
	return Statement{
		SQL: "SELECT profile_hash, profile_id, " + list + " FROM " + table + " FINAL WHERE NOT deleted AND profile_hash IN " +
			c.param("Array(UInt64)", "["+strings.Join(keys, ",")+"]"),
		Parameters: c.params, Tables: c.tables, TokensRead: ScoresDecide(n.Node),
	}
}
