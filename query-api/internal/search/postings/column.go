package postings

import (
	"math"
	"slices"
	"strconv"
	"sync"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// values are the values of a field in one part, one for each unit of the field's own path. Strings are in texts, empty
// if missing. Numbers, dates, and booleans as 0 and 1 are in numbers, readmodel.SearchMissing if missing.
type values struct {
	numbers []int64
	texts   []string
	// codes number the texts, and dictionary has them by number; 0 is the empty one. codes is nil if the texts are not
	// numbered, as if more than maxShared are distinct.
	codes      []uint32
	dictionary []string
	// totals are the people of the part with each text of the dictionary, once they have been counted.
	totals   []int64
	counting sync.Once
	size     int // in bytes
}

func (v *values) bytes() int { return 64 + v.size }

// column is a field as seen from the units of a path. The zero value belongs to a compiler without a view.
type column struct {
	*values
	// elements is set if the units are people and the values belong to their elements.
	elements *elements
}

// bounds returns the index range of a unit's values, from first to before last.
func (c column) bounds(unit int) (first, last int) {
	if c.elements == nil {
		return unit, unit + 1
	}
	return int(c.elements.starts[unit]), int(c.elements.starts[unit+1])
}

func (c column) appendNumbers(list []int64, unit int) []int64 {
	first, last := c.bounds(unit)
	for _, v := range c.numbers[first:last] {
		if v != readmodel.SearchMissing {
			list = append(list, v)
		}
	}
	return list
}

// least returns the smallest number of a unit, readmodel.SearchMissing if it has none.
func (c column) least(unit int) int64 {
	if c.elements == nil {
		return c.numbers[unit]
	}
	if list := c.appendNumbers(nil, unit); len(list) > 0 {
		return slices.Min(list)
	}
	return readmodel.SearchMissing
}

// text returns the string of a unit of the field's own path, empty if it is missing.
func (c column) text(unit int) string {
	if c.texts != nil {
		return c.texts[unit]
	}
	if v := c.numbers[unit]; v != readmodel.SearchMissing {
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// aggregate reduces one or more numbers to one. It sorts them.
func aggregate(mode algebra.ScoreMode, list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	switch mode {
	case algebra.ScoreMax:
		return list[n-1]
	case algebra.ScoreSum, algebra.ScoreAvg:
		sum := 0.0
		for _, x := range list {
			sum += x
		}
		if mode == algebra.ScoreAvg {
			sum /= float64(n)
		}
		return sum
	case algebra.ScoreMedian:
		return (list[(n-1)/2] + list[n/2]) / 2
	}
	return list[0]
}

// aggregateWhole is aggregate for integers. Averages and medians are rounded half up, as in Elasticsearch.
func aggregateWhole(mode algebra.ScoreMode, list []int64) int64 {
	switch mode {
	case algebra.ScoreMax:
		return slices.Max(list)
	case algebra.ScoreSum:
		sum := int64(0)
		for _, n := range list {
			sum += n
		}
		return sum
	case algebra.ScoreAvg, algebra.ScoreMedian:
		return int64(math.Floor(aggregate(mode, floats(list)) + 0.5))
	}
	return slices.Min(list)
}

func floats(list []int64) []float64 {
	out := make([]float64, len(list))
	for i, n := range list {
		out[i] = float64(n)
	}
	return out
}
