package planner

import (
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// InnerStatement finds and scores elements of a nested path of some people. Its rows
// are profile_hash, profile_id, a list with the score of each element, -inf where
// it does not match and 0 where no scores are asked for, and a list that has, behind
// an empty one, for each field that the elements are ordered by a list of their
// values, empty texts for none.
func InnerStatement(n algebra.Nested, stats *Stats, hashes []uint64) Statement {
	c := scoring(stats, n)
	inner := &scope{path: n.Path}
	m, score := c.match(n.Node, inner), "0."
	if n.InnerHits.Scored() {
		score = c.score(n.Node, inner)
	}
	list := inner.lambda("arrayMap", "toFloat32(if("+m+", toFloat64("+score+"), -inf))")
	keys := make([]string, len(hashes))
	for i, h := range hashes {
		keys[i] = strconv.FormatUint(h, 10)
	}
	values := []string{"emptyArrayString()"} // says of which type the list is
	for _, s := range n.InnerHits.Sort {
		if s.By == algebra.InnerField {
			values = append(values, "arrayMap(v -> if("+absent(s.Field, "v")+", '', toString(v)), "+s.Field.Column+")")
		}
	}
	return Statement{
		SQL: "SELECT profile_hash, profile_id, " + list + ", [" + strings.Join(values, ", ") + "] FROM " + table + " FINAL WHERE NOT deleted AND profile_hash IN " +
			c.param("Array(UInt64)", "["+strings.Join(keys, ",")+"]"),
		Parameters: c.params, Tables: c.tables, TokensRead: ScoresDecide(n.Node),
	}
}

// absent is the condition that a value of an element stands for none. Booleans always are.
func absent(f algebra.Field, v string) string {
	switch {
	case f.IsString():
		return v + " = ''"
	case f.Type == readmodel.SearchBoolean:
		return v + " > 1"
	}
	return v + " = " + missingNumber
}
