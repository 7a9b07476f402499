package search

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSourceFilter_SelectsFields(t *testing.T) {
	const document = `{"profile_id":"p","name":"Ann","location":{"city":"Oslo","country":"Norway"},` +
		`"jobs":[{"title":"Cook","company":{"name":"A","size":3}},{"title":"Baker"},[]],"tags":["a","b"],"none":{}}`
	const all = `"location":{"city":"Oslo","country":"Norway"},"jobs":[{"title":"Cook","company":{"name":"A",` +
		`"size":3}},{"title":"Baker"},[]]`
	for name, c := range map[string]struct {
		filter sourceFilter
		want   string
	}{
		"all of it": {sourceFilter{}, document},
		"nothing":   {sourceFilter{None: true}, `{"profile_id":"p"}`},
		"a field":   {sourceFilter{Includes: []string{"name"}}, `{"profile_id":"p","name":"Ann"}`},
		"an array":  {sourceFilter{Includes: []string{"tags"}}, `{"profile_id":"p","tags":["a","b"]}`},
		"an object": {sourceFilter{Includes: []string{"location"}},
			`{"profile_id":"p","location":{"city":"Oslo","country":"Norway"}}`},
		"a field of an object": {sourceFilter{Includes: []string{"location.city"}},
			`{"profile_id":"p","location":{"city":"Oslo"}}`},
		"a field below an array": {sourceFilter{Includes: []string{"jobs.company.size"}},
			`{"profile_id":"p","jobs":[{"company":{"size":3}}]}`},
		"a pattern":           {sourceFilter{Includes: []string{"*.name"}}, `{"profile_id":"p","jobs":[{"company":{"name":"A"}}]}`},
		"a field of a string": {sourceFilter{Includes: []string{"name.first"}}, `{"profile_id":"p"}`},
		"an unknown field":    {sourceFilter{Includes: []string{"location.street"}}, `{"profile_id":"p"}`},
		"all but fields": {sourceFilter{Excludes: []string{"name", "tags", "none"}}, `{"profile_id":"p",` + all +
			`}`},
		"all but a field of an object": {sourceFilter{Excludes: []string{"jobs", "tags", "location.city", "none"}},
			`{"profile_id":"p","name":"Ann","location":{"country":"Norway"}}`},
		"all but the fields of a pattern": {sourceFilter{Excludes: []string{"jobs.*", "tags", "na*", "no*"}},
			`{"profile_id":"p","location":{"city":"Oslo","country":"Norway"},"jobs":[]}`},
		"an object without a field": {sourceFilter{Includes: []string{"location"}, Excludes: []string{"*.city"}},
			`{"profile_id":"p","location":{"country":"Norway"}}`},
		"an excluded object is empty": {sourceFilter{Includes: []string{"location.city"},
			Excludes: []string{"location"}}, `{"profile_id":"p"}`},
		"the id is always shown": {sourceFilter{Includes: []string{"name"}, Excludes: []string{"*"}}, `{"profile_id":"p"}`},
	} {
		got, err := c.filter.apply([]byte(document))
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(got), name)
	}
	_, err := sourceFilter{Includes: []string{"location.city"}}.apply([]byte(document[:len(document)/2]))
	require.Error(t, err, "truncated document")
}
