package search

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
)

func TestSourceFilter_SelectsFields(t *testing.T) {
	const document = `{"profile_id":"p","name":"Ann","location":{"city":"Oslo","country":"Norway"},` +
		`"jobs":[{"title":"Cook","company":{"name":"A","size":3}},{"title":"Baker"},[]],"tags":["a","b"],"none":{}}`
	const all = `"location":{"city":"Oslo","country":"Norway"},"jobs":[{"title":"Cook","company":{"name":"A",` +
		`"size":3}},{"title":"Baker"},[]]`
	of := func(s algebra.Source) sourceFilter { return sourceFilter{s, "profile_id"} }
	for name, c := range map[string]struct {
		filter sourceFilter
		want   string
	}{
		"all of it": {of(algebra.Source{}), document},
		"nothing":   {of(algebra.Source{None: true}), `{"profile_id":"p"}`},
		"a field":   {of(algebra.Source{Includes: []string{"name"}}), `{"profile_id":"p","name":"Ann"}`},
		"an array":  {of(algebra.Source{Includes: []string{"tags"}}), `{"profile_id":"p","tags":["a","b"]}`},
		"an object": {of(algebra.Source{Includes: []string{"location"}}),
			`{"profile_id":"p","location":{"city":"Oslo","country":"Norway"}}`},
		"a field of an object": {of(algebra.Source{Includes: []string{"location.city"}}),
			`{"profile_id":"p","location":{"city":"Oslo"}}`},
		"a field below an array": {of(algebra.Source{Includes: []string{"jobs.company.size"}}),
			`{"profile_id":"p","jobs":[{"company":{"size":3}}]}`},
		"a pattern":           {of(algebra.Source{Includes: []string{"*.name"}}), `{"profile_id":"p","jobs":[{"company":{"name":"A"}}]}`},
		"a field of a string": {of(algebra.Source{Includes: []string{"name.first"}}), `{"profile_id":"p"}`},
		"an unknown field":    {of(algebra.Source{Includes: []string{"location.street"}}), `{"profile_id":"p"}`},
		"all but fields": {of(algebra.Source{Excludes: []string{"name", "tags", "none"}}), `{"profile_id":"p",` + all +
			`}`},
		"all but a field of an object": {of(algebra.Source{Excludes: []string{"jobs", "tags", "location.city", "none"}}),
			`{"profile_id":"p","name":"Ann","location":{"country":"Norway"}}`},
		"all but the fields of a pattern": {of(algebra.Source{Excludes: []string{"jobs.*", "tags", "na*", "no*"}}),
			`{"profile_id":"p","location":{"city":"Oslo","country":"Norway"},"jobs":[]}`},
		"an object without a field": {of(algebra.Source{Includes: []string{"location"}, Excludes: []string{"*.city"}}),
			`{"profile_id":"p","location":{"country":"Norway"}}`},
		"an excluded object is empty": {of(algebra.Source{Includes: []string{"location.city"},
			Excludes: []string{"location"}}), `{"profile_id":"p"}`},
		"the id is always shown": {of(algebra.Source{Includes: []string{"name"}, Excludes: []string{"*"}}), `{"profile_id":"p"}`},
	} {
		got, err := c.filter.apply([]byte(document))
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(got), name)
	}
	_, err := of(algebra.Source{Includes: []string{"location.city"}}).apply([]byte(document[:len(document)/2]))
	require.Error(t, err, "truncated document")
}
