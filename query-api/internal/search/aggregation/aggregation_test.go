package aggregation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func ms(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.UnixMilli()
}

func TestRounding_IntervalsOfUTC(t *testing.T) {
	for _, tc := range []struct{ interval, at, begin, next string }{
		{"year", "2024-12-31T23:59:59Z", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"1q", "2024-12-31T23:59:59Z", "2024-10-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"month", "1969-02-28T12:00:00Z", "1969-02-01T00:00:00Z", "1969-03-01T00:00:00Z"},
		{"week", "2026-11-29T12:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"1w", "1969-12-28T23:00:00Z", "1969-12-22T00:00:00Z", "1969-12-29T00:00:00Z"},
		{"day", "1969-12-31T23:00:00Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"1m", "2026-11-29T12:34:56Z", "2026-11-29T12:34:00Z", "2026-11-29T12:35:00Z"},
	} {
		r, ok := aggregation.CalendarRounding(tc.interval)
		require.True(t, ok, tc.interval)
		require.Equal(t, ms(t, tc.begin), r.Round(ms(t, tc.at)), tc)
		require.Equal(t, ms(t, tc.next), r.Next(ms(t, tc.begin)), tc)
	}
	r, ok := aggregation.FixedRounding("36h")
	require.True(t, ok)
	require.Equal(t, ms(t, "1970-01-02T12:00:00Z"), r.Round(ms(t, "1970-01-03T11:59:59Z")))
	require.Equal(t, ms(t, "1969-12-30T12:00:00Z"), r.Round(-1))
	for _, wrong := range []string{"", "d", "1", "1w", "1.5h", "-1d", "+1d", "0ms", "1 d", "99999999999999999999d"} {
		_, ok := aggregation.FixedRounding(wrong)
		require.False(t, ok, wrong)
	}
}

func TestJavaDouble_WritesNumbersAsJava(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.0", 1: "1.0", -2.5: "-2.5", 9999999: "9999999.0", 1e7: "1.0E7", 123456789: "1.23456789E8", 0.001: "0.001",
		0.0001: "1.0E-4", 1.5e300: "1.5E300",
	} {
		require.Equal(t, want, aggregation.JavaDouble(x))
	}
}

func field(path string, t readmodel.SearchType) algebra.Field {
	return algebra.Field{SearchField: readmodel.SearchField{Path: path, Type: t}, Keyword: true}
}

// Two accumulators, as of two workers, give the result of one.
func TestFinish_MergedPartialsGiveTheResultOfElasticsearch(t *testing.T) {
	year, _ := aggregation.CalendarRounding("year")
	list := []aggregation.Aggregation{
		{
			Name: "words", Kind: aggregation.Terms, Field: field("w", readmodel.SearchText), Size: 2, MinCount: 1,
			Orders: []aggregation.Order{{By: aggregation.BySub, Descending: true}},
			Sub: []aggregation.Aggregation{
				{Name: "sum", Kind: aggregation.Sum, Field: field("n", readmodel.SearchLong)},
			},
		},
		{
			Name: "years", Kind: aggregation.DateHistogram, Field: field("d", readmodel.SearchDate), Interval: year,
			Format: aggregation.ISODate, Orders: []aggregation.Order{{By: aggregation.ByKey}},
		},
		{Name: "none", Kind: aggregation.Avg, Field: field("n", readmodel.SearchLong)},
		{Name: "distinct", Kind: aggregation.Cardinality, Field: field("w", readmodel.SearchText)},
	}
	budget := &aggregation.Budget{}
	workers := [][]aggregation.Partial{aggregation.NewPartials(list), aggregation.NewPartials(list)}
	for i, d := range []struct {
		word   string
		number int64
		date   string
	}{
		{"a", 1, "2020-05-05T00:00:00Z"}, {"b", -5, "2022-01-01T00:00:00Z"}, {"a", 1 << 62, "2020-12-31T23:00:00Z"},
		{"c", 3, "2022-06-01T00:00:00Z"}, {"a", 1 << 62, "2020-01-01T00:00:00Z"}, {"c", -3, "2022-06-01T00:00:00Z"},
	} {
		p := workers[i%2]
		b := p[0].Bucket(&list[0], aggregation.Key{Text: d.word}, budget)
		b.Count++
		b.Sub[0].AddNumber(d.number)
		p[1].Bucket(&list[1], aggregation.Key{Number: year.Round(ms(t, d.date))}, budget).Count++
		p[3].AddDistinct(aggregation.Key{Text: d.word}, budget)
	}
	aggregation.Merge(list, workers[0], workers[1])
	values, err := aggregation.Finish(list, workers[0])
	require.NoError(t, err)
	body, err := aggregation.Append(nil, list, values)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"words": {"doc_count_error_upper_bound": 0, "sum_other_doc_count": 1, "buckets": [
			{"key": "a", "doc_count": 3, "sum": {"value": 9223372036854775809}},
			{"key": "c", "doc_count": 2, "sum": {"value": 0}}
		]},
		"years": {"buckets": [
			{"key_as_string": "2020-01-01T00:00:00.000Z", "key": 1577836800000, "doc_count": 3},
			{"key_as_string": "2021-01-01T00:00:00.000Z", "key": 1609459200000, "doc_count": 0},
			{"key_as_string": "2022-01-01T00:00:00.000Z", "key": 1640995200000, "doc_count": 3}
		]},
		"none": {"value": null}, "distinct": {"value": 3}
	}`, string(body))
}

func TestAppend_RepeatedKeysAreRejected(t *testing.T) {
	to := 5.0
	list := []aggregation.Aggregation{{
		Name: "r", Kind: aggregation.Range, Keyed: true, Ranges: []aggregation.Interval{{Key: "*-5.0", To: &to},
			{Key: "*-5.0", To: &to}},
	}}
	values, err := aggregation.Finish(list, aggregation.NewPartials(list))
	require.NoError(t, err)
	_, err = aggregation.Append(nil, list, values)
	require.EqualError(t, err, `aggregations: "r" is keyed, and two of its buckets have the key "*-5.0": omit keyed, `+
		`or use other keys or another format`)
	list[0].Keyed = false
	body, err := aggregation.Append(nil, list, values)
	require.NoError(t, err)
	require.JSONEq(t, `{"r":{"buckets":[{"key":"*-5.0","to":5,"doc_count":0},{"key":"*-5.0","to":5,"doc_count":0}]}}`,
		string(body))
}

// Buckets without values come last, in both directions.
func TestFinish_OrdersByAverageWithMissingOnesLast(t *testing.T) {
	for _, descending := range []bool{false, true} {
		list := []aggregation.Aggregation{{
			Name: "words", Kind: aggregation.Terms, Field: field("w", readmodel.SearchText), Size: 10, MinCount: 1,
			Orders: []aggregation.Order{{By: aggregation.BySub, Descending: descending}},
			Sub: []aggregation.Aggregation{
				{Name: "avg", Kind: aggregation.Avg, Field: field("n", readmodel.SearchLong)},
			},
		}}
		p := aggregation.NewPartials(list)
		for word, n := range map[string]int64{"a": 0, "b": 2, "c": 1, "d": 0} {
			b := p[0].Bucket(&list[0], aggregation.Key{Text: word}, &aggregation.Budget{})
			if b.Count++; n != 0 {
				b.Sub[0].AddNumber(n)
			}
		}
		values, err := aggregation.Finish(list, p)
		require.NoError(t, err)
		var got []string
		for _, b := range values[0].Buckets {
			got = append(got, b.Key.Text)
		}
		want := []string{"c", "b", "a", "d"}
		if descending {
			want = []string{"b", "c", "a", "d"}
		}
		require.Equal(t, want, got)
	}
}

func TestLimits_TooManyValuesAndBuckets(t *testing.T) {
	list := []aggregation.Aggregation{{Name: "n", Kind: aggregation.Cardinality}}
	p, budget := aggregation.NewPartials(list), &aggregation.Budget{}
	for i := range int64(aggregation.MaxCollected) {
		p[0].AddDistinct(aggregation.Key{Number: i}, budget)
		p[0].AddDistinct(aggregation.Key{Number: i}, budget)
	}
	require.False(t, budget.Exceeded())
	p[0].AddDistinct(aggregation.Key{Number: -1}, budget)
	require.True(t, budget.Exceeded())

	second, _ := aggregation.FixedRounding("1s")
	list = []aggregation.Aggregation{{Name: "h", Kind: aggregation.DateHistogram, Interval: second}}
	for last, want := range map[int64]error{65_534_000: nil, 65_535_000: aggregation.ErrTooManyBuckets} {
		p = aggregation.NewPartials(list)
		for _, at := range []int64{0, last} {
			p[0].Bucket(&list[0], aggregation.Key{Number: at}, &aggregation.Budget{}).Count++
		}
		_, err := aggregation.Finish(list, p)
		require.ErrorIs(t, err, want, fmt.Sprint(last))
	}
}
