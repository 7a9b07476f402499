package aggregation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/readmodel"
)

// Value is the result of an aggregation.
type Value struct {
	// Number is the result of a metric. Absent reports whether there is none, because no document has a value.
	Number float64
	Absent bool
	// Buckets are those of all other kinds; the ones that select documents have one.
	Buckets []ValueBucket
	// Other is the number of documents of Terms in buckets that are not returned.
	Other int64
}

// ValueBucket is a bucket of a result. Those of Range and Filters are in the order of the request.
type ValueBucket struct {
	Key   Key // of Terms and DateHistogram
	Count int64
	Sub   []Value
}

// ordersBySub reports whether the order depends on aggregations inside.
func (a *Aggregation) ordersBySub() bool {
	return slices.ContainsFunc(a.Orders, func(o Order) bool { return o.By == BySub })
}

// compare compares two buckets by the orders, then by their keys.
func (a *Aggregation) compare(x, y *ValueBucket) int {
	for _, o := range a.Orders {
		by := 0
		switch o.By {
		case ByCount:
			by = cmp.Compare(x.Count, y.Count)
		case ByKey:
			by = compareKeys(x.Key, y.Key)
		case BySub:
			inside := &a.Sub[o.Sub]
			v, w := inside.sortValue(&x.Sub[o.Sub]), inside.sortValue(&y.Sub[o.Sub])
			if math.IsNaN(v) || math.IsNaN(w) { // last in both directions
				if by = cmp.Compare(w, v); by != 0 {
					return by
				}
				continue
			}
			by = cmp.Compare(v, w)
		}
		if o.Descending {
			by = -by
		}
		if by != 0 {
			return by
		}
	}
	return compareKeys(x.Key, y.Key)
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Text, b.Text))
}

// sortValue returns the number that buckets are ordered by. Without values it is that of Elasticsearch.
func (a *Aggregation) sortValue(v *Value) float64 {
	switch {
	case !a.Kind.IsMetric():
		return float64(v.Buckets[0].Count)
	case !v.Absent:
		return v.Number
	case a.Kind == Min:
		return math.Inf(1)
	case a.Kind == Max:
		return math.Inf(-1)
	}
	return math.NaN()
}

// RepeatedKeyError is the error of buckets that cannot be members of one object.
type RepeatedKeyError struct{ Aggregation, Key string }

func (e *RepeatedKeyError) Error() string {
	return fmt.Sprintf("aggregations: %q is keyed, and two of its buckets have the key %q: omit keyed, or use other keys "+
		"or another format", e.Aggregation, e.Key)
}

// Append appends the results of aggregations as a JSON object, in the shape of Elasticsearch. It returns a
// [*RepeatedKeyError] if buckets with one key are keyed.
func Append(b []byte, list []Aggregation, values []Value) ([]byte, error) {
	b = append(b, '{')
	b, err := appendMembers(b, list, values)
	return append(b, '}'), err
}

// appendMembers appends the members of an object, after a comma if it has some.
func appendMembers(b []byte, list []Aggregation, values []Value) (_ []byte, err error) {
	for i := range list {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		if b, err = jsontext.AppendQuote(b, list[i].Name); err != nil {
			return b, err
		}
		b = append(b, ':', '{')
		if b, err = list[i].append(b, &values[i]); err != nil {
			return b, err
		}
		b = append(b, '}')
	}
	return b, nil
}

func (a *Aggregation) append(b []byte, v *Value) ([]byte, error) {
	switch {
	case a.Kind == Cardinality, a.Kind == ValueCount:
		return strconv.AppendInt(append(b, `"value":`...), int64(v.Number), 10), nil
	case a.Kind.IsMetric() && v.Absent:
		return append(b, `"value":null`...), nil
	case a.Kind.IsMetric():
		b = appendNumber(append(b, `"value":`...), v.Number)
		return a.appendDate(b, "value_as_string", v.Number)
	case a.Kind.Selects():
		return a.appendContent(b, &v.Buckets[0])
	case a.Kind == Terms:
		b = append(b, `"doc_count_error_upper_bound":0,"sum_other_doc_count":`...)
		b = append(strconv.AppendInt(b, v.Other, 10), ',')
	}
	return a.appendBuckets(append(b, `"buckets":`...), v)
}

// appendBuckets appends buckets as an array or, if they are keyed, as an object.
func (a *Aggregation) appendBuckets(b []byte, v *Value) (_ []byte, err error) {
	begin, end := byte('['), byte(']')
	if a.Keyed {
		begin, end = '{', '}'
	}
	b = append(b, begin)
	names := make(map[string]bool)
	for i := range v.Buckets {
		if i > 0 {
			b = append(b, ',')
		}
		if a.Keyed {
			name := a.bucketName(i, &v.Buckets[i])
			if names[name] {
				return b, &RepeatedKeyError{a.Name, name}
			}
			names[name] = true
			if b, err = jsontext.AppendQuote(b, name); err != nil {
				return b, err
			}
			b = append(b, ':')
		}
		b = append(b, '{')
		if b, err = a.appendKey(b, i, &v.Buckets[i]); err != nil {
			return b, err
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		if b, err = a.appendContent(b, &v.Buckets[i]); err != nil {
			return b, err
		}
		b = append(b, '}')
	}
	return append(b, end), nil
}

// bucketName returns the name of a keyed bucket.
func (a *Aggregation) bucketName(i int, bucket *ValueBucket) string {
	switch {
	case a.Kind == DateHistogram:
		return a.Format(bucket.Key.Number)
	case a.Kind == Range:
		return a.Ranges[i].Key
	case i == len(a.Filters):
		return a.Other
	}
	return a.Filters[i].Name
}

// appendKey appends the members that identify a bucket.
func (a *Aggregation) appendKey(b []byte, i int, bucket *ValueBucket) (_ []byte, err error) {
	switch {
	case a.Kind == Range:
		return a.appendRange(b, i)
	case a.Kind == Filters:
		return b, nil
	case a.Field.IsString():
		// Aggregations are free, and e-mail addresses in texts are not.
		return jsontext.AppendQuote(append(b, `"key":`...), readmodel.WithoutMail(bucket.Key.Text))
	}
	b = strconv.AppendInt(append(b, `"key":`...), bucket.Key.Number, 10)
	if a.Field.Type == readmodel.SearchBoolean {
		return append(strconv.AppendBool(append(b, `,"key_as_string":"`...), bucket.Key.Number != 0), '"'), nil
	}
	return a.appendDate(b, "key_as_string", float64(bucket.Key.Number))
}

func (a *Aggregation) appendRange(b []byte, i int) (_ []byte, err error) {
	if !a.Keyed {
		if b, err = jsontext.AppendQuote(append(b, `"key":`...), a.Ranges[i].Key); err != nil {
			return b, err
		}
	}
	for _, end := range []struct {
		name  string
		bound *float64
	}{{"from", a.Ranges[i].From}, {"to", a.Ranges[i].To}} {
		if end.bound == nil {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), end.name...), `":`...)
		b = appendNumber(b, *end.bound)
		if b, err = a.appendDate(b, end.name+"_as_string", *end.bound); err != nil {
			return b, err
		}
	}
	return b, nil
}

// appendDate appends a member with the text of a date; nothing if the field has none.
func (a *Aggregation) appendDate(b []byte, name string, ms float64) ([]byte, error) {
	if a.Format == nil {
		return b, nil
	}
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return jsontext.AppendQuote(b, a.Format(int64(ms)))
}

// appendContent appends the number of documents and the aggregations inside.
func (a *Aggregation) appendContent(b []byte, bucket *ValueBucket) ([]byte, error) {
	b = strconv.AppendInt(append(b, `"doc_count":`...), bucket.Count, 10)
	return appendMembers(b, a.Sub, bucket.Sub)
}

func appendNumber(b []byte, x float64) []byte {
	const exact = 1 << 53
	if math.Abs(x) < exact {
		return strconv.AppendFloat(b, x, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, x, 'g', -1, 64)
}

// RangeKey returns the key of a range without one. number returns the text of a bound.
func RangeKey(i Interval, number func(float64) string) string {
	text := func(bound *float64) string {
		if bound == nil {
			return "*"
		}
		return number(*bound)
	}
	return text(i.From) + "-" + text(i.To)
}

// JavaDouble returns a number as Java's Double.toString does.
func JavaDouble(x float64) string {
	if x == 0 || math.Abs(x) >= 1e-3 && math.Abs(x) < 1e7 {
		text := strconv.FormatFloat(x, 'f', -1, 64)
		if x == math.Trunc(x) {
			text += ".0"
		}
		return text
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent) // written by FormatFloat
	return mantissa + "E" + strconv.Itoa(n)
}
