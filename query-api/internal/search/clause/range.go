package clause

import (
	"math"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// bounds are the bounds of a range as given; nil: none.
type bounds struct {
	lower, upper                 *value
	lowerIncluded, upperIncluded bool
}

func lowerRange(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "", func(f algebra.Field, a *args) (algebra.Node, error) {
		b, err := a.bounds()
		if err != nil {
			return nil, err
		}
		format, zone := a.filled("format"), a.filled("time_zone")
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		if f.Type != readmodel.SearchDate { // Neither has an effect, but the zone must be valid.
			if err := new(dateReader).inZone(a.at, zone); err != nil {
				return nil, err
			}
		}
		if at, ok := a.get("relation"); ok {
			// All three are the same for single values.
			if a.choice("relation", "", "intersects", "within", "contains", "disjoint") == "disjoint" {
				return nil, at.errorf("[range] query does not support relation [disjoint]: put the range into must_not of a bool")
			}
			if a.err != nil {
				return nil, a.err
			}
		}
		n, err := l.rangeOf(f, a.at, b, format, zone)
		if err != nil {
			return nil, err
		}
		return boosted(n, boost), nil
	})
}

// bounds reads the bounds in the order in which they are written: of several on one side the last one counts, and
// null removes those before it.
func (a *args) bounds() (bounds, error) {
	b := bounds{lowerIncluded: true, upperIncluded: true}
	for i := range a.at.members {
		m := &a.at.members[i]
		end, included := &b.lower, &b.lowerIncluded
		switch m.name {
		case "lt", "lte", "to", "include_upper":
			end, included = &b.upper, &b.upperIncluded
		case "gt", "gte", "from", "include_lower":
		default:
			continue
		}
		a.read[m.name] = true
		if strings.HasPrefix(m.name, "include_") {
			*included = a.flag(m.name, true)
			continue
		}
		if *end = &m.value; m.kind == 'n' {
			*end = nil
		} else if _, err := m.scalar(); err != nil {
			return b, err
		}
		if m.name != "from" && m.name != "to" {
			*included = m.name == "gte" || m.name == "lte"
		}
	}
	return b, a.err
}

func (l *lowering) rangeOf(f algebra.Field, at value, b bounds, format, zone string) (algebra.Node, error) {
	if b.lower == nil && b.upper == nil {
		return l.leaf(f, algebra.Constant{Node: algebra.Exists{Field: f}, Score: 1}), nil
	}
	var lower, upper *string
	for _, end := range []struct {
		v    *value
		into **string
	}{{b.lower, &lower}, {b.upper, &upper}} {
		if end.v == nil {
			continue
		}
		text, err := end.v.scalar()
		if err != nil {
			return nil, err
		}
		if f.Type == readmodel.SearchDate {
			text = dateText(*end.v, text)
		}
		*end.into = &text
	}
	switch f.Type {
	case readmodel.SearchText:
		r := algebra.Range{Field: f}
		if lower != nil {
			r.Lower = &algebra.Bound{Text: *lower, Inclusive: b.lowerIncluded}
		}
		if upper != nil {
			r.Upper = &algebra.Bound{Text: *upper, Inclusive: b.upperIncluded}
		}
		return l.leaf(f, r), nil
	case readmodel.SearchBoolean:
		return l.booleanRange(f, at, b, lower, upper)
	case readmodel.SearchLong:
		return l.longRange(f, at, b, lower, upper)
	default:
		d := dateReader{now: l.options.Now, zones: l.zones}
		if err := d.format(at, format); err != nil {
			return nil, err
		}
		if err := d.inZone(at, zone); err != nil {
			return nil, err
		}
		return l.dateRange(f, at, d, dateBounds{lower: lower, upper: upper, lowerIncluded: b.lowerIncluded,
			upperIncluded: b.upperIncluded})
	}
}

// booleanRange returns the terms F < T in the range.
func (l *lowering) booleanRange(f algebra.Field, at value, b bounds, lower, upper *string) (algebra.Node, error) {
	low, high := "", "U"
	var err error
	if lower != nil {
		if low, err = booleanTerm(f, at, *lower); err != nil {
			return nil, err
		}
	}
	if upper != nil {
		if high, err = booleanTerm(f, at, *upper); err != nil {
			return nil, err
		}
	}
	set := algebra.Set{Field: f}
	for _, term := range []string{"F", "T"} {
		if (term > low || term == low && b.lowerIncluded) && (term < high || term == high && b.upperIncluded) {
			set.Values = append(set.Values, term)
		}
	}
	if len(set.Values) == 0 {
		return algebra.None{}, nil
	}
	return l.leaf(f, set), nil
}

// longRange rounds fractional bounds to the integers inside.
func (l *lowering) longRange(f algebra.Field, at value, b bounds, lower, upper *string) (algebra.Node, error) {
	r := algebra.Range{Field: f, Min: readmodel.SearchMissing + 1, Max: math.MaxInt64}
	read := func(text string) (float64, int64, bool, error) {
		n, whole, err := longOf(f, at, text)
		if err != nil || whole {
			return 0, n, whole, err
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, false, at.errorf("%s is not a number", quote(text))
		}
		return x, 0, false, nil
	}
	if lower != nil {
		x, n, whole, err := read(*lower)
		switch {
		case err != nil:
			return nil, err
		case whole && b.lowerIncluded:
			r.Min = n
		case whole && n == math.MaxInt64:
			return algebra.None{}, nil
		case whole:
			r.Min = n + 1
		case x > -(1 << 63):
			r.Min = int64(math.Ceil(x))
		}
	}
	if upper != nil {
		x, n, whole, err := read(*upper)
		switch {
		case err != nil:
			return nil, err
		case whole && b.upperIncluded:
			r.Max = n
		case !whole && x <= -(1<<63):
			return algebra.None{}, nil
		case whole:
			r.Max = n - 1
		default:
			r.Max = int64(math.Floor(x))
		}
	}
	if r.Min > r.Max {
		return algebra.None{}, nil
	}
	return l.leaf(f, r), nil
}

// dateBounds are the bounds of a range of dates as texts.
type dateBounds struct {
	lower, upper                 *string
	lowerIncluded, upperIncluded bool
}

// dateRange parses the bounds of dates. An exclusive bound starts after the last instant of its text (lower), or ends
// before the first (upper).
func (l *lowering) dateRange(f algebra.Field, at value, d dateReader, b dateBounds) (algebra.Node, error) {
	r := algebra.Range{Field: f, Min: readmodel.SearchMissing + 1, Max: math.MaxInt64}
	if b.lower != nil {
		ms, err := d.read(at, *b.lower, !b.lowerIncluded)
		if err != nil {
			return nil, err
		}
		if r.Min = ms; !b.lowerIncluded {
			r.Min++
		}
	}
	if b.upper != nil {
		ms, err := d.read(at, *b.upper, b.upperIncluded)
		if err != nil {
			return nil, err
		}
		if r.Max = ms; !b.upperIncluded {
			r.Max--
		}
	}
	if r.Min > r.Max {
		return algebra.None{}, nil
	}
	return l.leaf(f, r), nil
}
