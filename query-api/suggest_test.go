package queryapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

const suggestPath = "/v1/suggest?field=experience.title.keyword"

// suggestTitles inserts people with titles, and counts them like the projector.
func suggestTitles(f *fixture) {
	var people []string
	for i, title := range []string{"Engineer", "Engineer", "Éngineer", "Engineer", "Engine Driver", "Rare", "Rare"} {
		for k := range 3 {
			if title == "Rare" && k > 0 {
				continue
			}
			people = append(people, fmt.Sprintf(`{"profile_id":"s%d-%d","username":"s%[1]d-%[2]d","last_updated":"2026",`+
				`"full_name":"Ann Lee","experience":[{"title":%q},{"title":%[3]q}]}`, i, k, title))
		}
	}
	f.insert(record.KindNetworkPerson, people...)
	require.NoError(f.t, readmodel.CountSuggestions(f.t.Context(), f.conn,
		readmodel.SuggestionState{Run: readmodel.NewSuggestionRun(time.Now(), 0)}))
}

func TestSuggest_CompletesValues(t *testing.T) {
	f := start(t, nil)
	require.JSONEq(t, `{"values":[]}`, f.get(suggestPath).body, "nothing was counted yet")
	suggestTitles(f)
	require.Equal(t, `{"values":[{"value":"Engineer","count":9},{"value":"Engine Driver","count":3},`+
		`{"value":"Éngineer","count":3}]}`, f.get(suggestPath+"&prefix=ENG").body)
	require.Equal(t, f.get(suggestPath).body, f.get(suggestPath+"&prefix=").body)
	require.Equal(t, `{"values":[{"value":"Engineer","count":9}]}`,
		f.get(suggestPath+"&size=1&prefix="+url.QueryEscape("éng")).body)
	got := f.get(suggestPath + "&prefix=" + url.QueryEscape(`e'"\%`))
	require.Equal(t, `{"values":[]}`, got.body)
	require.Empty(t, got.header.Get("X-Credits-Charged"), "it is free")
	require.NotEmpty(t, got.header.Get("X-RateLimit-Limit"))
}

func TestSuggest_RefusesOtherFieldsByName(t *testing.T) {
	f := start(t, nil)
	for query, want := range map[string]string{
		"field=profile.full_name.keyword":                                   `the values of "profile.full_name" are not suggested`,
		"field=profile.first_name.keyword":                                  "they are names of people",
		"field=profile.personal_email.keyword":                              "they are e-mail addresses",
		"field=profile_id.keyword":                                          "they are IDs",
		"field=_id":                                                         "they are IDs",
		"field=network_username":                                            "they are usernames",
		"field=experience.company_url.keyword":                              "they are URLs",
		"field=education.school_id.keyword":                                 "they are IDs",
		"field=profile.image_url.keyword":                                   "they are URLs",
		"field=experience.title":                                            `give "experience.title.keyword"`,
		"field=profile.connections":                                         "is not text",
		"field=experience.titel.keyword":                                    `did you mean "experience.title.keyword"?`,
		"field=experience":                                                  "is an object",
		"field=":                                                            "unknown field",
		"prefix=a":                                                          `the parameter "field" is missing`,
		"field=experience.title.keyword&size=0":                             "from 1 to 50",
		"field=experience.title.keyword&size=51":                            "from 1 to 50",
		"field=experience.title.keyword&size=-1":                            "from 1 to 50",
		"field=experience.title.keyword&size=x":                             "must be an integer",
		"field=experience.title.keyword&prefxi=x":                           `did you mean "prefix"?`,
		"field=experience.title.keyword&prefix=" + strings.Repeat("a", 257): "257 characters",
	} {
		got := f.get("/v1/suggest?" + query)
		require.Equal(t, http.StatusBadRequest, got.status, query)
		require.Contains(t, got.detail(), want, query)
	}
}

func TestSuggestedFields_AreNotIdentifying(t *testing.T) {
	var names []string
	for _, field := range readmodel.SuggestedFields() {
		names = append(names, field.Path)
		for _, word := range []string{"_name", "id", "url", "username", "email"} {
			if strings.HasSuffix(field.Path, word) {
				require.Regexp(t, "(company|school)_name$", field.Path)
			}
		}
	}
	require.Subset(t, names, []string{"experience.title", "experience.company_name", "profile.location.country"})
}
