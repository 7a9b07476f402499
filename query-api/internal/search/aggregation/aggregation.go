package aggregation

import (
	"muster/query-api/internal/search/algebra"
)

// Limits of aggregations.
const (
	// MaxAggregations is the maximum number of aggregations in a request.
	MaxAggregations = 64
	// MaxLevels is the maximum depth of aggregations. Those that only select documents do not count ([Kind.Selects]).
	MaxLevels = 2
	// MaxBuckets is the maximum number of buckets in a response, that of Elasticsearch (search.max_buckets).
	MaxBuckets = 65_535
	// MaxSize is the maximum size of terms.
	MaxSize = 10_000
	// MaxCollected is the maximum number of values that the aggregations of a request collect, each counted once for
	// each bucket around it and each worker.
	MaxCollected = 500_000
)

// Kind is the kind of an aggregation.
type Kind string

// The kinds of aggregations, by their names in requests.
const (
	Terms         Kind = "terms"
	Range         Kind = "range"
	DateHistogram Kind = "date_histogram"
	Filter        Kind = "filter"
	Filters       Kind = "filters"
	Nested        Kind = "nested"
	ReverseNested Kind = "reverse_nested"
	Cardinality   Kind = "cardinality"
	Min           Kind = "min"
	Max           Kind = "max"
	Avg           Kind = "avg"
	Sum           Kind = "sum"
	ValueCount    Kind = "value_count"
)

// IsMetric reports whether the result is a number.
func (k Kind) IsMetric() bool {
	switch k {
	case Cardinality, Min, Max, Avg, Sum, ValueCount:
		return true
	}
	return false
}

// Selects reports whether the result is one bucket: the aggregation selects documents for those inside it.
func (k Kind) Selects() bool { return k == Filter || k == Nested || k == ReverseNested }

// Key is a value of a field: a text, or a number, a date in milliseconds, or a boolean as 0 or 1.
type Key struct {
	Text   string
	Number int64
}

// Aggregation is an aggregation of a request.
type Aggregation struct {
	Name string
	Kind Kind
	// Field is the field of all kinds but Filter, Filters, Nested and ReverseNested.
	Field algebra.Field
	// Missing, if set, is the value of documents without one.
	Missing *Key
	// Format returns the text of a date; nil for other fields.
	Format func(milliseconds int64) string
	// Path is the nested path of Nested, and the one around ReverseNested.
	Path string
	// Filters are those of Filter, which has one, and of Filters.
	Filters []NamedFilter
	// Other is the name of the bucket of documents that no filter matches; empty: there is none.
	Other string
	// Keyed returns buckets as members of an object.
	Keyed bool
	// Ranges are those of Range, ordered by their bounds.
	Ranges   []Interval
	Interval Rounding
	// Size bounds the buckets of Terms, MinCount their documents, also in DateHistogram.
	Size     int
	MinCount int64
	// Include, unless nil, are the only values of Terms that count; those of Exclude do not.
	Include, Exclude map[Key]bool
	Orders           []Order
	Sub              []Aggregation
}

// NamedFilter is a filter and the name of its bucket, empty if the buckets of Filters are an array.
type NamedFilter struct {
	Name string
	Node algebra.Node
}

// Interval is a range from a bound to before another; nil: unbounded.
type Interval struct {
	Key      string
	From, To *float64
}

// Contains reports whether a value is in the range.
func (i Interval) Contains(v int64) bool {
	return (i.From == nil || float64(v) >= *i.From) && (i.To == nil || float64(v) < *i.To)
}

// OrderKind is what buckets are ordered by.
type OrderKind uint8

// The kinds of orders.
const (
	ByCount OrderKind = iota + 1
	ByKey
	BySub // the number, or the count, of an aggregation inside
)

// Order is a sort key of buckets.
type Order struct {
	By         OrderKind
	Sub        int // index in Aggregation.Sub
	Descending bool
}

// Refused returns why a field cannot be aggregated: its values identify people or organizations (rulings.md, Search).
func Refused(f algebra.Field) (reason string, refused bool) {
	what := f.Identifies()
	if f.Identity {
		what = "IDs"
	}
	return what + " are not aggregated", what != ""
}

// Nodes returns the filters of aggregations, with those inside them.
func Nodes(list []Aggregation) (nodes []algebra.Node) {
	for _, a := range list {
		for _, f := range a.Filters {
			nodes = append(nodes, f.Node)
		}
		nodes = append(nodes, Nodes(a.Sub)...)
	}
	return nodes
}

// Rewrite returns aggregations whose filters are replaced by change.
func Rewrite(list []Aggregation, change func(algebra.Node) (algebra.Node, error)) ([]Aggregation, error) {
	if list == nil {
		return nil, nil
	}
	out := make([]Aggregation, len(list))
	for i, a := range list {
		filters := make([]NamedFilter, len(a.Filters))
		for k, f := range a.Filters {
			var err error
			if f.Node, err = change(f.Node); err != nil {
				return nil, err
			}
			filters[k] = f
		}
		a.Filters = filters
		var err error
		if a.Sub, err = Rewrite(a.Sub, change); err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}
