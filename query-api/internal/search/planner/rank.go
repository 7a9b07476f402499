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
	Mode         algebra.ScoreMode // of several values: min, max, sum, avg or median
	// Nested, when set, says which elements count, and Children how many of those with a value do, the first ones.
	Nested   algebra.Node
	Children *int
	// Double: numbers are compared, averaged and summed as 64-bit floating point numbers.
	Double bool
}

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
	source, staged := c.source(r)
	c.direct = !staged && r.Sample == 0 && !r.From.Refreshed && !readsTokens(r.Node, r.Stats) && !slices.ContainsFunc(filters, ScoresDecide)
	if Scored(r.Sort) {
		c.score(r.Node, &scope{}) // notes, for conditions inside of scores too, what they can share: thrown away
	}
	condition := c.reaching(r.Node, floor)
	keys := c.rankKeys(r.Sort, r.Node)
	where := c.after(r.After, keys)
	columns, id := []string{"profile_hash"}, "''"
	if r.Identified {
		columns, id = append(columns, "profile_id"), "profile_id"
	}
	var values, missing, order []string
	for _, k := range keys {
		columns = append(columns, k.columns...)
		values = append(values, "toString("+k.value+")")
		missing = append(missing, "toUInt8("+k.missing+")")
		order = append(order, k.order())
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

// source is what stands behind FROM, and whether it holds those candidates alone that the indexes find.
func (c *compiler) source(r Rank) (source string, staged bool) {
	source = r.From.source()
	if !r.Staged || r.From.Refreshed {
		return source, false
	}
	candidates := c.necessary(r.Node, &scope{})
	if candidates == yes || candidates == no {
		return source, false
	}
	return "(SELECT * FROM " + source + " WHERE " + candidates + ")", true
}

// rankKey is a sort key of a statement.
type rankKey struct {
	Sort
	columns []string // that make it
	// value and missing are their names; missing is no where everybody has a value.
	value, missing string
	kind           string // of value
	fallible       bool   // value may be a score that is none
}

func (c *compiler) rankKeys(sorts []Sort, n algebra.Node) []rankKey {
	var keys []rankKey
	for i, s := range sorts {
		if s.Kind == SortDocument {
			continue
		}
		value, absent, kind := c.sortKey(s, n)
		k := rankKey{Sort: s, value: "k" + strconv.Itoa(i), missing: no, kind: kind, fallible: s.Kind == SortScore && fallible(n)}
		k.columns = []string{value + " AS " + k.value}
		if absent != no {
			k.missing = "m" + strconv.Itoa(i)
			k.columns = append(k.columns, absent+" AS "+k.missing)
		}
		keys = append(keys, k)
	}
	return keys
}

// order is the key in ORDER BY.
func (k rankKey) order() string {
	order := k.value + " ASC"
	if k.Descending {
		order = k.value + " DESC"
	}
	switch {
	case k.fallible:
		return order + " NULLS FIRST" // such a score is seen at once
	case k.missing == no:
		return order
	case k.MissingFirst:
		return k.missing + " DESC, " + order
	}
	return k.missing + " ASC, " + order
}

// after is the condition under which somebody comes after a place.
func (c *compiler) after(p *Place, keys []rankKey) string {
	if p == nil {
		return yes
	}
	var after []string
	equal := yes // in all keys before
	for i, last := range p.Keys[:min(len(p.Keys), len(keys))] {
		beyond, same := c.compared(keys[i], last)
		after, equal = append(after, and(equal, beyond)), and(equal, same)
	}
	hash := c.param("UInt64", strconv.FormatUint(p.Hash, 10))
	after = append(after, and(equal, "(profile_hash > "+hash+")"))
	if p.ProfileID != "" { // else the last one is the only one of her hash
		after = append(after, and(equal, "(profile_hash = "+hash+")", "(profile_id > "+c.str(p.ProfileID)+")"))
	}
	return or(after...)
}

// compared are the conditions under which a key's value comes after the last one, and is the same.
func (c *compiler) compared(k rankKey, last Key) (beyond, same string) {
	if last.Missing && k.missing != no {
		if k.MissingFirst {
			return "(NOT " + k.missing + ")", k.missing
		}
		return no, k.missing
	}
	given := c.value(k.kind, last.Value)
	beyond, same = k.value+" > "+given, k.value+" = "+given
	if k.Descending {
		beyond = k.value + " < " + given
	}
	switch {
	case k.missing == no:
		return "(" + beyond + ")", "(" + same + ")"
	case k.MissingFirst:
		beyond = "NOT " + k.missing + " AND " + beyond
	default:
		beyond = k.missing + " OR " + beyond
	}
	return "(" + beyond + ")", "(NOT " + k.missing + " AND " + same + ")"
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
	case s.Mode == algebra.ScoreMedian:
		value = median(list)
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
	return "if(" + absent + ", " + c.value(kind, *s.Missing) + ", " + value + ")", no, kind
}

// value is a parameter of a sort key's type.
func (c *compiler) value(kind, text string) string {
	if kind == "String" {
		return c.str(text)
	}
	return c.param(kind, text)
}
