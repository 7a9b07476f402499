package aggregation

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
)

// ErrTooManyValues is the error of aggregations of more than MaxCollected values.
var ErrTooManyValues = fmt.Errorf("aggregations: more than %d values have to be collected: narrow the query, "+
	"or aggregate a field with fewer values", MaxCollected)

// ErrTooManyBuckets is the error of aggregations with more than MaxBuckets buckets.
var ErrTooManyBuckets = fmt.Errorf("aggregations: the result has more than %d buckets: use a smaller size, a longer "+
	"interval, or a min_doc_count of 1", MaxBuckets)

// Budget bounds the distinct values that the aggregations of a request collect. It is safe for concurrent use.
type Budget struct{ used atomic.Int64 }

// take reports whether another value may be collected.
func (b *Budget) take() bool { return b.used.Add(1) <= MaxCollected }

// Exceeded reports whether values were left out, so that the result is not exact.
func (b *Budget) Exceeded() bool { return b.used.Load() > MaxCollected }

// Partial accumulates the documents of an aggregation in one bucket of the aggregation around it.
type Partial struct {
	// Fixed are the buckets of Range, Filter, Filters, Nested and ReverseNested, in the order of the request; the
	// documents that no filter matches come last.
	Fixed []Bucket
	// values are the buckets of Terms and DateHistogram; nil ones are the values of Cardinality.
	values map[Key]*Bucket
	count  int64
	// The sum is high * 2^32 + low, which is exact.
	high, low int64
	min, max  int64
	// last is the last document of ReverseNested, plus one.
	last uint64
}

// Bucket accumulates documents.
type Bucket struct {
	Count int64
	Sub   []Partial // one for each aggregation inside
}

// NewPartials returns empty accumulators of aggregations.
func NewPartials(list []Aggregation) []Partial {
	if len(list) == 0 {
		return nil
	}
	out := make([]Partial, len(list))
	for i := range list {
		a, p := &list[i], &out[i]
		n := 0
		switch a.Kind {
		case Range:
			n = len(a.Ranges)
		case Filter, Filters:
			if n = len(a.Filters); a.Other != "" {
				n++
			}
		case Nested, ReverseNested:
			n = 1
		}
		p.min, p.max = math.MaxInt64, math.MinInt64
		if n == 0 {
			continue
		}
		p.Fixed = make([]Bucket, n)
		for k := range p.Fixed {
			p.Fixed[k].Sub = NewPartials(a.Sub)
		}
	}
	return out
}

// Bucket returns the bucket of a value of Terms or DateHistogram, nil if the value does not count or the budget is
// exceeded.
func (p *Partial) Bucket(a *Aggregation, k Key, budget *Budget) *Bucket {
	if b := p.values[k]; b != nil {
		return b
	}
	if a.Include != nil && !a.Include[k] || a.Exclude[k] || !budget.take() {
		return nil
	}
	if p.values == nil {
		p.values = make(map[Key]*Bucket)
	}
	b := &Bucket{Sub: NewPartials(a.Sub)}
	p.values[k] = b
	return b
}

// AddTexts adds documents to the buckets of Terms that have nothing inside: counts[i] to that of texts[i].
func (p *Partial) AddTexts(texts []string, counts []int64, budget *Budget) {
	found := 0
	for _, n := range counts {
		if n != 0 {
			found++
		}
	}
	if p.values == nil {
		p.values = make(map[Key]*Bucket, found)
	}
	added := make([]Bucket, 0, found) // one allocation
	for i, n := range counts {
		if n == 0 {
			continue
		}
		b := p.values[Key{Text: texts[i]}]
		if b == nil {
			if !budget.take() {
				return
			}
			added = append(added, Bucket{})
			b = &added[len(added)-1]
			p.values[Key{Text: texts[i]}] = b
		}
		b.Count += n
	}
}

// AddDistinct adds a value to Cardinality.
func (p *Partial) AddDistinct(k Key, budget *Budget) {
	if _, known := p.values[k]; known || !budget.take() {
		return
	}
	if p.values == nil {
		p.values = make(map[Key]*Bucket)
	}
	p.values[k] = nil
}

// AddNumber adds a number to Min, Max, Avg and Sum.
func (p *Partial) AddNumber(v int64) {
	p.count++
	p.high += v >> 32
	p.low += v & math.MaxUint32
	p.min, p.max = min(p.min, v), max(p.max, v)
}

// AddCount adds a number of values to ValueCount.
func (p *Partial) AddCount(n int) { p.count += int64(n) }

// IsNew reports whether a document of ReverseNested was not the last one. Documents are numbered in the order in which
// they are added.
func (p *Partial) IsNew(document uint64) bool {
	isNew := p.last != document+1
	p.last = document + 1
	return isNew
}

// Merge adds the documents of other accumulators, which are not used afterwards.
func Merge(list []Aggregation, into, from []Partial) {
	for i := range list {
		a, p, o := &list[i], &into[i], &from[i]
		for k := range p.Fixed {
			p.Fixed[k].Count += o.Fixed[k].Count
			Merge(a.Sub, p.Fixed[k].Sub, o.Fixed[k].Sub)
		}
		if p.values == nil {
			p.values = o.values
		} else {
			for k, b := range o.values {
				known, ok := p.values[k]
				switch {
				case !ok:
					p.values[k] = b
				case known != nil:
					known.Count += b.Count
					Merge(a.Sub, known.Sub, b.Sub)
				}
			}
		}
		p.count += o.count
		p.high, p.low = p.high+o.high, p.low+o.low
		p.min, p.max = min(p.min, o.min), max(p.max, o.max)
	}
}

// Finish returns the results of accumulated documents. It returns ErrTooManyBuckets if there are too many.
func Finish(list []Aggregation, partials []Partial) ([]Value, error) {
	f := finisher{}
	return f.values(list, partials)
}

// finisher counts buckets.
type finisher struct{ buckets int }

func (f *finisher) values(list []Aggregation, partials []Partial) ([]Value, error) {
	out := make([]Value, len(list))
	for i := range list {
		var err error
		if out[i], err = f.value(&list[i], &partials[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *finisher) value(a *Aggregation, p *Partial) (Value, error) {
	sum := float64(p.high)*(1<<32) + float64(p.low)
	switch a.Kind {
	case Cardinality:
		return Value{Number: float64(len(p.values))}, nil
	case ValueCount:
		return Value{Number: float64(p.count)}, nil
	case Sum:
		return Value{Number: sum}, nil
	case Min:
		return Value{Number: float64(p.min), Absent: p.count == 0}, nil
	case Max:
		return Value{Number: float64(p.max), Absent: p.count == 0}, nil
	case Avg:
		return Value{Number: sum / float64(max(p.count, 1)), Absent: p.count == 0}, nil
	case Terms:
		return f.terms(a, p)
	case DateHistogram:
		return f.histogram(a, p)
	}
	v := Value{Buckets: make([]ValueBucket, len(p.Fixed))}
	for i := range p.Fixed {
		if err := f.finish(a, &v.Buckets[i], &p.Fixed[i]); err != nil {
			return v, err
		}
	}
	return v, nil
}

// finish completes a bucket.
func (f *finisher) finish(a *Aggregation, to *ValueBucket, b *Bucket) (err error) {
	if f.buckets++; f.buckets > MaxBuckets {
		return ErrTooManyBuckets
	}
	to.Count = b.Count
	to.Sub, err = f.values(a.Sub, b.Sub)
	return err
}

func (f *finisher) terms(a *Aggregation, p *Partial) (v Value, err error) {
	type candidate struct {
		ValueBucket
		from *Bucket
	}
	compare := func(x, y candidate) int { return a.compare(&x.ValueBucket, &y.ValueBucket) }
	// The best so far; the first Size of them are sorted once there are more.
	var list []candidate
	room, sorted := max(2*a.Size, 64), false
	for k, b := range p.values {
		if b.Count < a.MinCount {
			continue
		}
		c := candidate{ValueBucket{Key: k, Count: b.Count}, b}
		if a.ordersBySub() {
			// The buckets inside do not count yet: most are not in the result.
			if c.Sub, err = new(finisher).values(a.Sub, b.Sub); err != nil {
				return v, err
			}
		}
		v.Other += b.Count
		if sorted && compare(list[a.Size-1], c) < 0 {
			continue
		}
		if list = append(list, c); len(list) == room {
			slices.SortFunc(list, compare)
			list, sorted = list[:a.Size], true
		}
	}
	slices.SortFunc(list, compare)
	for _, c := range list[:min(len(list), a.Size)] {
		v.Other -= c.Count
		b := ValueBucket{Key: c.Key}
		if err := f.finish(a, &b, c.from); err != nil {
			return v, err
		}
		v.Buckets = append(v.Buckets, b)
	}
	return v, nil
}

func (f *finisher) histogram(a *Aggregation, p *Partial) (v Value, err error) {
	keys := make([]int64, 0, len(p.values))
	for k := range p.values {
		keys = append(keys, k.Number)
	}
	slices.Sort(keys)
	if a.MinCount == 0 && len(keys) > 0 { // Intervals without documents are buckets, too.
		last := keys[len(keys)-1]
		all := keys[:1:1]
		for at := a.Interval.Next(keys[0]); at <= last; at = a.Interval.Next(at) {
			if len(all) > MaxBuckets {
				return v, ErrTooManyBuckets
			}
			all = append(all, at)
		}
		keys = all
	}
	for _, k := range keys {
		from := p.values[Key{Number: k}]
		if from == nil {
			from = &Bucket{Sub: NewPartials(a.Sub)}
		}
		if from.Count < a.MinCount {
			continue
		}
		b := ValueBucket{Key: Key{Number: k}}
		if err := f.finish(a, &b, from); err != nil {
			return v, err
		}
		v.Buckets = append(v.Buckets, b)
	}
	slices.SortStableFunc(v.Buckets, func(x, y ValueBucket) int { return a.compare(&x, &y) })
	return v, nil
}
