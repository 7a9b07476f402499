package planner

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// SortKind is what a sort key orders by.
type SortKind uint8

// The kinds of sort keys.
const (
	SortScore SortKind = iota + 1
	SortField
	SortDocument // by the person alone, as the last key always does
)

// Sort is one sort key.
type Sort struct {
	Kind       SortKind
	Field      algebra.Field
	Descending bool
	// MissingFirst puts people without a value first; Missing, when set, is the
	// value that they count with instead.
	MissingFirst bool
	Missing      *string
	Mode         algebra.ScoreMode // of several values: min, max, sum, avg, or "median"
	// Nested, when set, says which elements count, and Children how many of those with a value do, the first ones.
	Nested   algebra.Node
	Children *int
	// Double: numbers are compared, averaged and summed as 64-bit floating point numbers.
	Double bool
}

// SortMedian is the sort mode that algebra's score modes do not have.
const SortMedian algebra.ScoreMode = "median"

// Key is the value of a sort key of one person, as cursors keep it.
type Key struct {
	Missing bool   `json:"m,omitempty"`
	Value   string `json:"v,omitempty"`
}

// Place is where a person stands in the order of a walk.
type Place struct {
	Keys      []Key  `json:"k,omitempty"`
	Hash      uint64 `json:"h"`
	ProfileID string `json:"p"`
}

// Rank is a page to be ranked.
type Rank struct {
	Node  algebra.Node
	Sort  []Sort
	Stats *Stats
	After *Place // nil: from the beginning
	Limit int
	From  People
	// Total asks for the number of all people who match, beside each place.
	Total bool
	// Identified orders people of one hash by their profile ids, and gives these. It is
	// for pages on which two have one, and those after them: ids take long to read.
	Identified bool
	// Floor, when not zero, is a score that at least Limit people have: those with less
	// may be left out, and have less than theirs. See WorthFloor.
	Floor float64
	// Staged finds candidates by the indexes alone, and looks at their elements and at the places of their words in a second
	// step (WorthStages). It is for people in one part, not on a cluster, whose nodes would send all that the candidates have.
	Staged bool
	// Sample, when not zero, ranks one in so many of the people by a part of the query,
	// for a floor. Nobody has more than her score.
	Sample uint64
}

// SortFilters are the conditions on the elements that sort keys take.
func SortFilters(sorts []Sort) []algebra.Node {
	var list []algebra.Node
	for _, s := range sorts {
		if s.Nested != nil {
			list = append(list, s.Nested)
		}
	}
	return list
}

// Scored says whether the order depends on scores.
func Scored(sorts []Sort) bool {
	for _, s := range sorts {
		if s.Kind == SortScore {
			return true
		}
	}
	return false
}

// InvalidScore says that the i-th of the listed values of sort keys is a score that is none. Such people come first.
func InvalidScore(sorts []Sort, i int, value string) bool {
	if value != "nan" {
		return false
	}
	for _, s := range sorts {
		if s.Kind == SortDocument {
			continue
		}
		if i == 0 {
			return s.Kind == SortScore
		}
		i--
	}
	return false
}

// RankStatement orders the people who match. Its rows are profile_hash,
// profile_id (empty unless identified), two lists of strings and flags: the values of the sort keys, and
// whether they are missing; and the total, 0 unless it is asked for.
func RankStatement(r Rank) Statement {
	filters := SortFilters(r.Sort)
	c := scoring(r.Stats, append(filters, r.Node)...)
	living, floor := r.From.living(), 0.
	switch {
	case r.Sample > 0:
		r.Node = c.promising(r.Node, 2*int64(r.Limit)*int64(r.Sample)) //nolint:gosec // both are small
		living += " AND " + sampled(r.Sample)
	case r.Floor > 0:
		floor = r.Floor - floatStep*c.bound(r.Node) - 2*math.SmallestNonzeroFloat32
		r.Node = c.above(r.Node, floor)
	}
	source, staged := r.From.source(), false
	if r.Staged && !r.From.Refreshed {
		if candidates := c.necessary(r.Node, &scope{}); candidates != yes && candidates != no {
			source, staged = "(SELECT * FROM "+source+" WHERE "+candidates+")", true
		}
	}
	c.direct = !staged && r.Sample == 0 && !r.From.Refreshed && !readsTokens(r.Node, r.Stats) && !slices.ContainsFunc(filters, ScoresDecide)
	if Scored(r.Sort) {
		c.score(r.Node, &scope{}) // notes, for conditions inside of scores too, what they can share: thrown away
	}
	condition := c.reaching(r.Node, floor)
	columns, id := []string{"profile_hash"}, "''"
	if r.Identified {
		columns, id = append(columns, "profile_id"), "profile_id"
	}
	var values, missing, order, after []string
	equal := yes
	for i, s := range r.Sort {
		if s.Kind == SortDocument {
			continue
		}
		value, absent, kind := c.sortKey(s, r.Node)
		v, m := "k"+strconv.Itoa(i), "m"+strconv.Itoa(i)
		columns = append(columns, value+" AS "+v)
		values = append(values, "toString("+v+")")
		direction, beyond := " ASC", " > "
		if s.Descending {
			direction, beyond = " DESC", " < "
		}
		if absent == no {
			missing = append(missing, "toUInt8(0)")
			if s.Kind == SortScore && fallible(r.Node) {
				direction += " NULLS FIRST" // a score that is none is seen at once
			}
			order = append(order, v+direction)
		} else {
			columns = append(columns, absent+" AS "+m)
			missing = append(missing, "toUInt8("+m+")")
			if s.MissingFirst {
				order = append(order, m+" DESC")
			} else {
				order = append(order, m+" ASC")
			}
			order = append(order, v+direction)
		}
		if r.After == nil || i >= len(r.After.Keys) {
			continue
		}
		last := r.After.Keys[i]
		given := c.param(kind, last.Value)
		if kind == "String" {
			given = c.str(last.Value)
		}
		switch {
		case absent == no:
			after = append(after, and(equal, "("+v+beyond+given+")"))
			equal = and(equal, "("+v+" = "+given+")")
		case last.Missing && s.MissingFirst:
			after = append(after, and(equal, "(NOT "+m+")"))
			equal = and(equal, m)
		case last.Missing:
			equal = and(equal, m)
		case s.MissingFirst:
			after = append(after, and(equal, "(NOT "+m+" AND "+v+beyond+given+")"))
			equal = and(equal, "(NOT "+m+" AND "+v+" = "+given+")")
		default:
			after = append(after, and(equal, "("+m+" OR "+v+beyond+given+")"))
			equal = and(equal, "(NOT "+m+" AND "+v+" = "+given+")")
		}
	}
	where := yes
	if p := r.After; p != nil {
		hash := c.param("UInt64", strconv.FormatUint(p.Hash, 10))
		after = append(after, and(equal, "(profile_hash > "+hash+")"))
		if p.ProfileID != "" { // else the last one is the only one of her hash
			after = append(after, and(equal, "(profile_hash = "+hash+")", "(profile_id > "+c.str(p.ProfileID)+")"))
		}
		where = or(after...)
	}
	order = append(order, "profile_hash ASC")
	if r.Identified {
		order = append(order, "profile_id ASC")
	}
	list := func(parts []string, none string) string {
		if len(parts) == 0 {
			return none
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	total := "toInt64(0)"
	if r.Total {
		total = "toInt64(count() OVER ())"
	}
	sql := fmt.Sprintf("SELECT profile_hash, %s, %s, %s, %s FROM (SELECT %s FROM %s WHERE %s AND %s) WHERE %s ORDER BY %s LIMIT %d",
		id, list(values, "emptyArrayString()"), list(missing, "emptyArrayUInt8()"), total, strings.Join(columns, ", "), source, condition, c.flagged(living), where,
		strings.Join(order, ", "), r.Limit)
	return Statement{
		SQL: c.named(sql), Parameters: c.params, Tables: c.tables, Staged: staged, OneThread: !r.Total && InTableOrder(r.Node, r.Sort),
		TokensRead: !staged && (readsTokens(r.Node, r.Stats) || slices.ContainsFunc(filters, ScoresDecide)), Eager: eager(r.Node, r.Sort, r.Stats),
	}
}

// floatStep is more than what a score is rounded by, of the greatest.
const floatStep = 1e-6

const missingNumber = "-9223372036854775808"

// sortKey is the value of a sort key, the condition under which it is missing,
// and its type.
func (c *compiler) sortKey(s Sort, n algebra.Node) (value, absent, kind string) {
	if s.Kind == SortScore {
		score := "toFloat32(" + c.score(n, &scope{}) + ")"
		if fallible(n) {
			score = "if(" + score + " >= 0, " + score + ", nan)"
		}
		return score, no, "Float32"
	}
	f := s.Field
	kind = "Int64"
	none := missingNumber
	if f.IsString() {
		kind, none = "String", "''"
	}
	if f.Nested == "" {
		value = f.Column
		absent = "(" + value + " = " + none + ")"
		if f.Type == readmodel.SearchBoolean {
			value, absent = "toInt64("+value+")", no
		}
		if s.Double {
			value, kind = "toFloat64("+value+")", "Float64"
		}
		return c.substituted(s, value, absent, kind)
	}
	list := "arrayFilter(v -> v != " + none + ", " + f.Column + ")"
	if f.Type == readmodel.SearchBoolean {
		list = "arrayMap(v -> toInt64(v), " + f.Column + ")"
	}
	if s.Nested != nil {
		inner := &scope{path: f.Nested}
		own := inner.column(f.Column)
		m := c.match(s.Nested, inner)
		if f.Type == readmodel.SearchBoolean {
			list = "arrayFilter(v -> v >= 0, " + inner.lambda("arrayMap", "if("+m+", toInt64("+own+"), -1)") + ")"
		} else {
			list = "arrayFilter(v -> v != " + none + ", " + inner.lambda("arrayMap", "if("+m+", "+own+", "+none+")") + ")"
		}
	}
	if s.Children != nil {
		list = "arraySlice(" + list + ", 1, " + strconv.Itoa(*s.Children) + ")"
	}
	if s.Double {
		list, kind = "arrayMap(v -> toFloat64(v), "+list+")", "Float64"
	}
	absent = "empty(" + list + ")"
	value = map[algebra.ScoreMode]string{algebra.ScoreMin: "arrayMin", algebra.ScoreMax: "arrayMax", algebra.ScoreSum: "arraySum"}[s.Mode]
	switch {
	case s.Mode == algebra.ScoreAvg && s.Double:
		value = "arrayAvg(" + list + ")"
	case s.Mode == algebra.ScoreAvg:
		// Elasticsearch averages whole numbers to a whole number, halves up.
		value = "toInt64(floor(arrayAvg(" + list + ") + 0.5))"
	case s.Mode == SortMedian:
		sorted := "arraySort(" + list + ")"
		value = "(" + sorted + "[intDiv(length(" + list + ") + 1, 2)] + " + sorted + "[intDiv(length(" + list + "), 2) + 1]) / 2"
		if !s.Double {
			value = "toInt64(floor(" + value + " + 0.5))"
		}
	default:
		value += "(" + list + ")"
	}
	switch kind {
	case "Int64":
		value = "if(" + absent + ", toInt64(0), toInt64(" + value + "))"
	case "Float64":
		value = "if(" + absent + ", 0., toFloat64(" + value + "))"
	default:
		value = "if(" + absent + ", '', " + value + ")"
	}
	return c.substituted(s, value, absent, kind)
}

// substituted puts the value that people without one count with.
func (c *compiler) substituted(s Sort, value, absent, kind string) (string, string, string) {
	if s.Missing == nil || absent == no {
		return value, absent, kind
	}
	given := c.param(kind, *s.Missing)
	if kind == "String" {
		given = c.str(*s.Missing)
	}
	return "if(" + absent + ", " + given + ", " + value + ")", no, kind
}
