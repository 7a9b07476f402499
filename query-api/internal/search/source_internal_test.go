package search

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSourceShowsPartsOfDocuments(t *testing.T) {
	const document = `{"profile_id":"p","name":"Ann","location":{"city":"Oslo","country":"Norway"},` +
		`"jobs":[{"title":"Cook","company":{"name":"A","size":3}},{"title":"Baker"},[]],"tags":["a","b"],"none":{}}`
	const all = `"location":{"city":"Oslo","country":"Norway"},"jobs":[{"title":"Cook","company":{"name":"A","size":3}},{"title":"Baker"},[]]`
	for name, c := range map[string]struct {
		source source
		want   string
	}{
		"all of it":                        {source{}, document},
		"nothing":                          {source{None: true}, `{"profile_id":"p"}`},
		"a member":                         {source{Includes: []string{"name"}}, `{"profile_id":"p","name":"Ann"}`},
		"a list":                           {source{Includes: []string{"tags"}}, `{"profile_id":"p","tags":["a","b"]}`},
		"an object":                        {source{Includes: []string{"location"}}, `{"profile_id":"p","location":{"city":"Oslo","country":"Norway"}}`},
		"a member of an object":            {source{Includes: []string{"location.city"}}, `{"profile_id":"p","location":{"city":"Oslo"}}`},
		"a member below a list":            {source{Includes: []string{"jobs.company.size"}}, `{"profile_id":"p","jobs":[{"company":{"size":3}}]}`},
		"a pattern":                        {source{Includes: []string{"*.name"}}, `{"profile_id":"p","jobs":[{"company":{"name":"A"}}]}`},
		"a name that is below a text":      {source{Includes: []string{"name.first"}}, `{"profile_id":"p"}`},
		"a name that no object has":        {source{Includes: []string{"location.street"}}, `{"profile_id":"p"}`},
		"all but members":                  {source{Excludes: []string{"name", "tags", "none"}}, `{"profile_id":"p",` + all + `}`},
		"all but a member of an object":    {source{Excludes: []string{"jobs", "tags", "location.city", "none"}}, `{"profile_id":"p","name":"Ann","location":{"country":"Norway"}}`},
		"all but what a pattern names":     {source{Excludes: []string{"jobs.*", "tags", "na*", "no*"}}, `{"profile_id":"p","location":{"city":"Oslo","country":"Norway"},"jobs":[]}`},
		"an object but for a member":       {source{Includes: []string{"location"}, Excludes: []string{"*.city"}}, `{"profile_id":"p","location":{"country":"Norway"}}`},
		"an excluded object keeps nothing": {source{Includes: []string{"location.city"}, Excludes: []string{"location"}}, `{"profile_id":"p"}`},
		"the id is always shown":           {source{Includes: []string{"name"}, Excludes: []string{"*"}}, `{"profile_id":"p"}`},
	} {
		got, err := c.source.apply([]byte(document))
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(got), name)
	}
	_, err := source{Includes: []string{"location.city"}}.apply([]byte(document[:len(document)/2]))
	require.Error(t, err, "a document that ends in the middle")
}
