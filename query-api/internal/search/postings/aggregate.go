package postings

import (
	"math/bits"
	"slices"

	"muster/query-api/internal/search/aggregation"
	"muster/schemas/readmodel"
)

// aggregator adds the documents of one part to an aggregation: people, or the elements of a nested path.
type aggregator struct {
	*aggregation.Aggregation
	budget *aggregation.Budget
	part   uint64 // number of the part
	column
	filters  []windowFilter
	elements *elements // of Nested and ReverseNested
	sub      []aggregator
	// counts are the documents with each text of the column's dictionary; nil: they are added to buckets one by one.
	counts []int64
	// Values of the last document.
	codes   []uint32
	texts   []string
	numbers []int64
}

// windowFilter has the documents of a window of people that match a filter.
type windowFilter struct {
	op
	elements *elements // of the path of the documents; nil: people
	found    []uint64
	base     int // of bit 0
}

// aggregators compiles aggregations of people or the elements of a path.
func (c *compiler) aggregators(list []aggregation.Aggregation, path string) ([]aggregator, error) {
	out := make([]aggregator, len(list))
	for i := range list {
		a := &out[i]
		a.Aggregation = &list[i]
		inside := path
		var err error
		switch a.Kind {
		case aggregation.Filter, aggregation.Filters:
			a.filters = make([]windowFilter, len(a.Filters))
			for k, f := range a.Filters {
				if a.filters[k].op, err = c.node(f.Node, path, false); err != nil {
					return nil, err
				}
				if path != "" {
					a.filters[k].elements = c.elementsOf(path)
				}
			}
		case aggregation.Nested:
			inside, a.elements = a.Path, c.elementsOf(a.Path)
		case aggregation.ReverseNested:
			inside, a.elements = "", c.elementsOf(a.Path)
		default:
			if a.column, err = c.column(a.Field, path); err != nil {
				return nil, err
			}
		}
		if a.sub, err = c.aggregators(a.Sub, inside); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// elementsOf returns the elements of a nested path, nil without a view.
func (c *compiler) elementsOf(path string) *elements {
	if c.view == nil {
		c.needs.paths[path] = true
		return nil
	}
	return c.view.elements[path]
}

// aggregate adds the people of a window to the aggregations. If the query matches everyone, texts of all people of the
// part are counted once, and each window subtracts those of its people who are not alive or hidden.
func (c *collector) aggregate(list []aggregator, lo, hi int, people []uint64, everyone bool) {
	prepareAggregators(list, c.budget, uint64(c.candidate.view), lo, hi) //nolint:gosec // not negative
	for i := range list {
		a := &list[i]
		switch {
		case a.counts == nil:
			eachRow(lo, people, func(row int) { a.add(row, &c.partials[i]) })
		case everyone:
			if lo == 0 {
				a.addTotals()
			}
			c.others = c.others[:0]
			for _, word := range people {
				c.others = append(c.others, ^word)
			}
			clip(lo, hi, c.others)
			eachRow(lo, c.others, func(row int) { a.count(row, -1) })
		default:
			eachRow(lo, people, func(row int) { a.count(row, 1) })
		}
	}
}

// eachRow calls do for the rows of a window that starts at lo.
func eachRow(lo int, window []uint64, do func(row int)) {
	for w, word := range window {
		for ; word != 0; word &= word - 1 {
			do(lo&^63 + w<<6 + bits.TrailingZeros64(word))
		}
	}
}

// countTexts lets terms of people count numbers of texts instead of adding people to buckets, if nothing needs the
// buckets before. The counts of all aggregations and parts are kept until the end, for all texts of the dictionaries:
// at most MaxCollected. Collectors that see the same parts decide alike.
func (c *collector) countTexts(list []aggregator) {
	for i := range list {
		a := &list[i]
		if a.Kind == aggregation.Terms && a.column.codes != nil && len(a.sub) == 0 &&
			a.Include == nil && a.Exclude == nil && a.Missing == nil &&
			c.countedTexts+len(a.column.dictionary) <= aggregation.MaxCollected {
			c.countedTexts += len(a.column.dictionary)
			a.counts = make([]int64, len(a.column.dictionary))
		}
	}
}

// maxCompared is the number of values of a person above which they are sorted to find equal ones.
const maxCompared = 32

// addTotals counts the texts of all people of the part. The first call keeps the result with the column.
func (a *aggregator) addTotals() {
	v := a.column.values
	v.counting.Do(func() {
		all := aggregator{column: a.column, counts: make([]int64, len(v.dictionary))}
		people := len(v.codes)
		if a.column.elements != nil {
			people = len(a.column.elements.starts) - 1
		}
		for row := range people {
			all.count(row, 1)
		}
		v.totals = all.counts
	})
	for code, n := range v.totals {
		a.counts[code] += n
	}
}

// count adds to the counts of the distinct texts of a person.
func (a *aggregator) count(row int, by int64) {
	first, last := a.bounds(row)
	codes := a.column.codes[first:last]
	if len(codes) > maxCompared {
		a.codes = append(a.codes[:0], codes...)
		slices.Sort(a.codes)
		codes = slices.Compact(a.codes)
	}
	for i, code := range codes {
		if code != 0 && (len(codes) > maxCompared || !slices.Contains(codes[:i], code)) {
			a.counts[code] += by
		}
	}
}

// mergeCounts adds the counts of texts of another collector, which has seen other people of the same parts.
func (c *collector) mergeCounts(other *collector) {
	for part, list := range other.counted {
		for i, a := range list {
			for code, n := range a.counts {
				c.counted[part][i].counts[code] += n
			}
		}
	}
}

// flush adds the counts of texts to the buckets.
func (c *collector) flush() error {
	for _, list := range c.counted {
		for i, a := range list {
			if a.counts != nil {
				c.partials[i].AddTexts(a.dictionary, a.counts, c.budget)
			}
		}
	}
	if c.budget.Exceeded() {
		return &TooLarge{aggregation.ErrTooManyValues.Error()}
	}
	return nil
}

// prepareAggregators finds the documents of a window that match the filters.
func prepareAggregators(list []aggregator, budget *aggregation.Budget, part uint64, lo, hi int) {
	for i := range list {
		a := &list[i]
		a.budget, a.part = budget, part
		for k := range a.filters {
			a.filters[k].find(lo, hi)
		}
		prepareAggregators(a.sub, budget, part, lo, hi)
	}
}

func (f *windowFilter) find(lo, hi int) {
	if f.elements != nil {
		lo, hi = int(f.elements.starts[lo]), int(f.elements.starts[hi])
	}
	f.base, f.found = lo&^63, f.found[:0]
	if lo == hi {
		return
	}
	f.found = slices.Grow(f.found, span(lo, hi))[:span(lo, hi)]
	f.match(lo, hi, f.found)
}

func (f *windowFilter) matches(unit int) bool {
	i := unit - f.base
	return f.found[i>>6]>>(i&63)&1 != 0
}

// add adds a document.
func (a *aggregator) add(unit int, p *aggregation.Partial) {
	switch a.Kind {
	case aggregation.Filter, aggregation.Filters:
		matched := false
		for i := range a.filters {
			if a.filters[i].matches(unit) {
				matched = true
				a.addTo(&p.Fixed[i], unit)
			}
		}
		if !matched && a.Other != "" {
			a.addTo(&p.Fixed[len(a.filters)], unit)
		}
	case aggregation.Nested:
		for e := a.elements.starts[unit]; e < a.elements.starts[unit+1]; e++ {
			a.addTo(&p.Fixed[0], int(e))
		}
	case aggregation.ReverseNested:
		owner := a.elements.owners[unit]
		if p.IsNew(a.part<<32 | uint64(owner)) {
			a.addTo(&p.Fixed[0], int(owner))
		}
	case aggregation.Terms, aggregation.Cardinality, aggregation.ValueCount:
		if a.Field.IsString() {
			a.addTexts(unit, p)
		} else {
			a.addNumbers(unit, p)
		}
	default:
		a.addNumbers(unit, p)
	}
}

// addTo adds a document to a bucket; nil: the budget is exceeded, or its value does not count.
func (a *aggregator) addTo(b *aggregation.Bucket, unit int) {
	if b == nil {
		return
	}
	b.Count++
	for i := range a.sub {
		a.sub[i].add(unit, &b.Sub[i])
	}
}

// addTexts adds the distinct texts of a document.
func (a *aggregator) addTexts(unit int, p *aggregation.Partial) {
	a.texts = a.texts[:0]
	first, last := a.bounds(unit)
	for _, text := range a.column.texts[first:last] {
		if text != "" {
			a.texts = append(a.texts, text)
		}
	}
	if len(a.texts) > 1 {
		slices.Sort(a.texts)
		a.texts = slices.Compact(a.texts)
	}
	if len(a.texts) == 0 && a.Missing != nil {
		a.texts = append(a.texts, a.Missing.Text)
	}
	if a.Kind == aggregation.ValueCount {
		p.AddCount(len(a.texts))
		return
	}
	for _, text := range a.texts {
		a.addKey(aggregation.Key{Text: text}, unit, p)
	}
}

func (a *aggregator) addKey(k aggregation.Key, unit int, p *aggregation.Partial) {
	if a.Kind == aggregation.Cardinality {
		p.AddDistinct(k, a.budget)
		return
	}
	a.addTo(p.Bucket(a.Aggregation, k, a.budget), unit)
}

// addNumbers adds the numbers of a document: all of them to metrics, each bucket once.
func (a *aggregator) addNumbers(unit int, p *aggregation.Partial) {
	if a.column.elements == nil {
		a.numbers = a.numbers[:0]
		if v := a.column.numbers[unit]; v != readmodel.SearchMissing {
			a.numbers = append(a.numbers, v)
		}
	} else {
		a.numbers = a.appendNumbers(a.numbers[:0], unit)
	}
	if len(a.numbers) == 0 && a.Missing != nil {
		a.numbers = append(a.numbers, a.Missing.Number)
	}
	switch a.Kind {
	case aggregation.ValueCount:
		p.AddCount(len(a.numbers))
	case aggregation.Range:
		for i := range a.Ranges {
			if slices.ContainsFunc(a.numbers, a.Ranges[i].Contains) {
				a.addTo(&p.Fixed[i], unit)
			}
		}
	case aggregation.Terms, aggregation.Cardinality, aggregation.DateHistogram:
		if a.Kind == aggregation.DateHistogram {
			for i, v := range a.numbers {
				a.numbers[i] = a.Interval.Round(v)
			}
		}
		if len(a.numbers) > 1 {
			slices.Sort(a.numbers)
			a.numbers = slices.Compact(a.numbers)
		}
		for _, v := range a.numbers {
			a.addKey(aggregation.Key{Number: v}, unit, p)
		}
	default:
		for _, v := range a.numbers {
			p.AddNumber(v)
		}
	}
}
