package dsl

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/aggregation"
	"muster/schemas/readmodel"
)

// maxShardTerms is the number of terms that a shard returns. A result that it truncates is rejected, unless the shard
// is the only one. It is below aggregation.MaxBuckets, the default of the cluster setting.
const maxShardTerms = 50_000

// precision is the precision_threshold of cardinality, its maximum: larger results are approximate, within 1%.
const precision = 40_000

// Aggregations renders aggregations. Their names are their numbers; dates are numbers and are written by
// [aggregation.Append].
func (r Renderer) Aggregations(list []aggregation.Aggregation) (Object, error) {
	out := Object{}
	for i := range list {
		a := &list[i]
		parameters, err := r.aggregation(a)
		if err != nil {
			return nil, err
		}
		one := Object{string(a.Kind): parameters}
		if len(a.Sub) > 0 {
			if one["aggs"], err = r.Aggregations(a.Sub); err != nil {
				return nil, err
			}
		}
		out[strconv.Itoa(i)] = one
	}
	return out, nil
}

func (r Renderer) aggregation(a *aggregation.Aggregation) (Object, error) {
	switch a.Kind {
	case aggregation.Filter:
		return r.render(a.Filters[0].Node, 1)
	case aggregation.Filters:
		filters := make([]Object, len(a.Filters))
		for i, f := range a.Filters {
			var err error
			if filters[i], err = r.render(f.Node, 1); err != nil {
				return nil, err
			}
		}
		return Object{"filters": filters, "other_bucket": a.Other != ""}, nil
	case aggregation.Nested:
		return Object{"path": a.Path}, nil
	case aggregation.ReverseNested:
		return Object{}, nil
	}
	out := Object{"field": valueField(a.Field)}
	if a.Missing != nil {
		out["missing"] = keyValue(a, *a.Missing)
	}
	switch a.Kind {
	case aggregation.Terms:
		out["size"], out["shard_size"], out["min_doc_count"] = a.Size, max(a.Size, maxShardTerms), a.MinCount
		out["order"] = orders(a)
		if a.Include != nil {
			out["include"] = keyValues(a, a.Include)
		}
		if len(a.Exclude) > 0 {
			out["exclude"] = keyValues(a, a.Exclude)
		}
	case aggregation.Range:
		ranges := make([]Object, len(a.Ranges))
		for i, r := range a.Ranges {
			ranges[i] = Object{"key": strconv.Itoa(i)}
			if r.From != nil {
				ranges[i]["from"] = *r.From
			}
			if r.To != nil {
				ranges[i]["to"] = *r.To
			}
		}
		out["ranges"], out["keyed"] = ranges, true
	case aggregation.DateHistogram:
		name, value := a.Interval.Parameter()
		out[name], out["min_doc_count"], out["order"] = value, a.MinCount, orders(a)
	case aggregation.Cardinality:
		out["precision_threshold"] = precision
	}
	return out, nil
}

func orders(a *aggregation.Aggregation) []Object {
	out := make([]Object, len(a.Orders))
	for i, o := range a.Orders {
		name := strconv.Itoa(o.Sub)
		switch o.By {
		case aggregation.ByCount:
			name = "_count"
		case aggregation.ByKey:
			name = "_key"
		}
		out[i] = Object{name: order(o.Descending)}
	}
	return out
}

// keyValue returns a value of a field as JSON has it.
func keyValue(a *aggregation.Aggregation, k aggregation.Key) any {
	switch {
	case a.Field.IsString():
		return k.Text
	case a.Field.Type == readmodel.SearchBoolean:
		return k.Number != 0
	}
	return k.Number
}

func keyValues(a *aggregation.Aggregation, keys map[aggregation.Key]bool) []any {
	out := make([]any, 0, len(keys))
	for k := range keys {
		out = append(out, keyValue(a, k))
	}
	return out
}

// bucket is a bucket of a response, or an aggregation: its members include those inside it, by their numbers.
type bucket = map[string]jsontext.Value

// Values reads the results of aggregations from a response.
func Values(list []aggregation.Aggregation, response bucket) ([]aggregation.Value, error) {
	r := &valueReader{}
	return r.values(list, response)
}

// valueReader counts the buckets that it reads.
type valueReader struct{ buckets int }

func (r *valueReader) values(list []aggregation.Aggregation, from bucket) ([]aggregation.Value, error) {
	out := make([]aggregation.Value, len(list))
	for i := range list {
		var members bucket
		err := json.Unmarshal(from[strconv.Itoa(i)], &members)
		if err == nil {
			out[i], err = r.value(&list[i], members)
		}
		if err != nil {
			return nil, fmt.Errorf("dsl: result of an aggregation: %w", err)
		}
	}
	return out, nil
}

func (r *valueReader) value(a *aggregation.Aggregation, from bucket) (v aggregation.Value, err error) {
	if a.Kind.IsMetric() {
		var number *float64
		if err := json.Unmarshal(from["value"], &number); err != nil {
			return v, err
		}
		if v.Absent = number == nil; !v.Absent {
			v.Number = *number
		}
		return v, nil
	}
	if a.Kind.Selects() {
		v.Buckets = make([]aggregation.ValueBucket, 1)
		return v, r.bucket(a, &v.Buckets[0], from)
	}
	var list []bucket
	if a.Kind == aggregation.Range {
		var named map[string]bucket
		if err := json.Unmarshal(from["buckets"], &named); err != nil {
			return v, err
		}
		for i := range a.Ranges {
			list = append(list, named[strconv.Itoa(i)])
		}
	} else if err := json.Unmarshal(from["buckets"], &list); err != nil {
		return v, err
	}
	if a.Kind == aggregation.Terms {
		var mayLack int64
		if err := json.Unmarshal(from["doc_count_error_upper_bound"], &mayLack); err != nil {
			return v, err
		}
		if mayLack != 0 {
			return v, &UnsupportedError{fmt.Sprintf("the aggregation %q has more than %d values in a shard, so that it "+
				"would not be exact: narrow the query, or order by _key", a.Name, maxShardTerms)}
		}
		if err := json.Unmarshal(from["sum_other_doc_count"], &v.Other); err != nil {
			return v, err
		}
	}
	v.Buckets = make([]aggregation.ValueBucket, len(list))
	for i := range list {
		if err := r.bucket(a, &v.Buckets[i], list[i]); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (r *valueReader) bucket(a *aggregation.Aggregation, to *aggregation.ValueBucket, from bucket) (err error) {
	if r.buckets++; r.buckets > aggregation.MaxBuckets {
		return &UnsupportedError{aggregation.ErrTooManyBuckets.Error()}
	}
	if err := json.Unmarshal(from["doc_count"], &to.Count); err != nil {
		return err
	}
	switch {
	case a.Kind != aggregation.Terms && a.Kind != aggregation.DateHistogram:
	case a.Field.IsString():
		err = json.Unmarshal(from["key"], &to.Key.Text)
	default:
		err = json.Unmarshal(from["key"], &to.Key.Number)
	}
	if err == nil {
		to.Sub, err = r.values(a.Sub, from)
	}
	return err
}
