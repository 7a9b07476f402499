package queryapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// insertCompany inserts a company.
func insertCompany(f *fixture) {
	f.t.Helper()
	f.insert(record.KindNetworkCompany, `{"company_id":"c1","network_slug":"acme","last_updated":"2026-01-01",`+
		`"profile":{"name":"Acme","employees":3},"headquarters":{"city":"Graz"},"shoe_size":39}`)
}

func TestFields_SelectMembersOfTheRecord(t *testing.T) {
	f := start(t, nil)
	websetPeople(f)
	insertCompany(f)
	person := func(record string) string {
		return `{"websets_matched":["codehost"],"person":{"codehost":` + record + `}}`
	}
	for _, tc := range []struct{ path, request, want string }{
		{enrichPath, `{"codehost":"octavia","fields":["codehost.bio"]}`, person(`{"bio":"Write to o@lin.example"}`)},
		{enrichPath, `{"codehost":"octavia","fields":["codehost.repos.name","codehost.repos.language"]}`,
			person(`{"repos":[{"name":"new"},{"name":"old"}]}`)},
		{enrichPath, `{"codehost":"octavia","websets":["codehost","network"],"fields":["network.profile.full_name"]}`,
			`{"websets_matched":["codehost","network"],"person":{"codehost":{},` +
				`"network":{"profile":{"full_name":"Octavia Lin"}}}}`},
		{enrichPath, `{"items":[{"codehost":"octavia"},{"codehost":"octavia","websets":["codehost","network"]}],` +
			`"fields":["codehost.user_id"]}`, `{"results":[` + person(`{"user_id":12}`) + `,{"websets_matched":` +
			`["codehost","network"],"person":{"codehost":{"user_id":12},"network":{}}}]}`},
		{enrichPath, `{"codehost":"octavia","websets":["codehost","network"],"fields":["network.profile.full_name",` +
			`"codehost.codehost.user_id"]}`,
			`{"websets_matched":["codehost","network"],"person":{"codehost":{"codehost":{"user_id":12}},` +
				`"network":{"profile":{"full_name":"Octavia Lin"}}}}`},
		{enrichPath, `{"codehost":"absent","fields":["codehost.bio"]}`, `{"websets_matched":[],"person":{}}`},
		{enrichPath, `{"items":[{"codehost":"octavia"},{"codehost":"absent"}],"fields":["codehost.user_id"]}`,
			`{"results":[` + person(`{"user_id":12}`) +
				`,{"websets_matched":[],"person":{},"miss_reason":"not_found"}]}`},
		{companyPath, `{"network_slug":"acme","fields":["profile.name","headquarters","headquarters.city"]}`,
			`{"matched":true,"company":{"profile":{"name":"Acme"},"headquarters":{"city":"Graz",` +
				`"country":null,"line1":null,"line2":null,"postal_code":null,"region":null}}}`},
		{companyPath, `{"items":[{"network_slug":"acme"}],"fields":["company_id"]}`,
			`{"results":[{"matched":true,"company":{"company_id":"c1"}}]}`},
		{companyPath, `{"company_id":"absent","fields":["company_id"]}`, `{"matched":false,"company":null}`},
		{networkPath, `{"network":"octavia-lin","fields":["experience.company.name"]}`,
			`{"experience":[{"company":{"name":"Acme"}}]}`},
		{networkPath, `{"network":["octavia-lin","absent"],"fields":["full_name"]}`, `[{"full_name":"Octavia Lin"},{}]`},
		{networkPath, `{"network":"octavia-lin","addons":["codehost","personal_email"],` +
			`"fields":["codehost.user_id","personal_email"]}`,
			`{"codehost":{"user_id":12},"personal_email":{"email":"o@lin.example"}}`},
		{networkPath, `{"network":"octavia-lin","fields":["full_name"],"must_have":["education"]}`, `{}`},
		{codehostPath, `{"codehost":"12","fields":["personal_email","starred_repos"]}`,
			`{"personal_email":"o@lin.example","starred_repos":[{"full_name":"a/b"}]}`},
		{codehostPath, `{"codehost":"12","fields":null,"max_credits":1}`, f.get(codehostPath + "?codehost=12").body},
	} {
		got := f.post(tc.path, tc.request)
		require.Equal(t, http.StatusOK, got.status, "%s: %s", tc.request, got.body)
		require.JSONEq(t, tc.want, got.body, tc.request)
		var plain map[string]any
		require.NoError(t, json.Unmarshal([]byte(tc.request), &plain))
		delete(plain, "fields")
		text, err := json.Marshal(plain)
		require.NoError(t, err)
		require.Equal(t, charged(t, f.post(tc.path, string(text))), charged(t, got), "the price is that of the record")
	}
	require.JSONEq(t, `{"full_name":"Octavia Lin","experience":[{"start":"2021-03"}]}`,
		f.get(networkPath+"?network=octavia-lin&fields=full_name,experience.start").body)
	require.JSONEq(t, `{"bio":"Write to o@lin.example"}`, f.get(codehostPath+"?codehost=octavia&fields=bio").body)
}

func TestFields_InvalidFieldsAreErrors(t *testing.T) {
	f := start(t, nil)
	for _, tc := range []struct{ path, request, detail string }{
		{enrichPath, `{"codehost":"x","fields":[]}`, "fields is empty"},
		{enrichPath, `{"codehost":"x","fields":["bio"]}`, `there is no field "bio": known are codehost, network`},
		{enrichPath, `{"codehost":"x","fields":["codehost.boi"]}`, `did you mean "bio"?`},
		{enrichPath, `{"codehost":"x","fields":["codehost."]}`, "names of fields, joined by dots"},
		{enrichPath, `{"codehost":"x","fields":"codehost"}`, "fields must be a list, not a string"},
		{enrichPath, `{"codehost":"x","fields":[1]}`, "fields[0] must be a string, not a number"},
		{enrichPath, `{"items":[{"codehost":"x","fields":["codehost"]}],"fields":["microblog"]}`, "known are codehost"},
		{enrichPath, `{"codehost":"x","fields":["websets_matched"]}`, "known are codehost, network"},
		{companyPath, `{"company_id":"x","fields":["profil.name"]}`, `did you mean "profile"?`},
		{companyPath, `{"company_id":"x","fields":` + list(101) + `}`, "fields has 101 elements"},
		{enrichPath, `{"codehost":"x","fields":["network.profile"]}`, "add network to websets"},
		{enrichPath, `{"codehost":"x","websets":["codehost"],"fields":["codehost","network"]}`, "add network to websets"},
		{enrichPath, `{"email":"o@lin.example","websets":["network"],"fields":["codehost.bio"]}`,
			"add codehost to websets"},
		{enrichPath, `{"codehost":"x","websets":["network"],"fields":["network._score"]}`, "there is no field"},
		{enrichPath, `{"codehost":"x","websets":["network"],"fields":["network.highlight"]}`, "there is no field"},
		{enrichPath, `{"codehost":"x","websets":["network"],"fields":["network.inner_hits.a"]}`, "there is no field"},
		{enrichPath, `{"codehost":"x","websets":["network"],"fields":["network.matched_queries"]}`, "there is no field"},
		{companyPath, `{"company_id":"x","fields":["_score"]}`, `there is no field "_score": known are company_id`},
		{companyPath, `{"company_id":"x","fields":["highlight"]}`, "there is no field"},
		{companyPath, `{"company_id":"x","fields":["matched_queries"]}`, "there is no field"},
		{networkPath, `{"network":"x","fields":["personal_email"]}`, "needs the add-on personal_email"},
		{networkPath, `{"network":"x","fields":["full_name","emails"]}`, "add personal_email to addons"},
		{networkPath, `{"network":"x","addons":["codehost"],"fields":["emails_count"]}`, "add personal_email to addons"},
		{networkPath, `{"network":["x"],"fields":["codehost.username"]}`, "add codehost to addons"},
		{codehostPath, `{"codehost":"x","fields":["network.full_name"]}`, "add network to addons"},
		{codehostPath, `{"codehost":"x","fields":["repos.nam"]}`, `did you mean "name"?`},
	} {
		got := f.post(tc.path, tc.request)
		want := map[bool]int{true: http.StatusUnprocessableEntity, false: http.StatusBadRequest}
		require.Equal(t, want[strings.HasSuffix(tc.path, "enrich")], got.status, "%s: %s", tc.request, got.body)
		require.Contains(t, got.detail(), tc.detail, tc.request)
	}
	got := f.post(enrichPath, `{"items":[{"codehost":"octavia"},{"codehost":"octavia","websets":["network"]}],`+
		`"fields":["network.profile"]}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Contains(t, got.body, `{"detail":"fields names network, which is not requested: add network to websets"}`)
	require.Zero(t, charged(t, got))
	got = f.get(networkPath + "?network=x&fields=")
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Equal(t, http.StatusBadRequest, f.get(networkPath+"?network=x&fields=full_name&fields=url").status)
}

// pathsOf returns the paths of all values in a record.
func pathsOf(prefix string, value any, to map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			to[prefix+name] = true
			pathsOf(prefix+name+".", member, to)
		}
	case []any:
		for _, element := range v {
			pathsOf(prefix, element, to)
		}
	}
}

func TestFields_EveryDescribedMemberOfARecordCanBeSelected(t *testing.T) {
	f := start(t, nil)
	websetPeople(f)
	contractPeople(f)
	insertCompany(f)
	upstream := []string{"shoe_size", "mail", "network.shoe_size", "network.mail"}
	for _, call := range []struct{ path, member, request string }{
		{networkPath, "", `{"network":"octavia-lin","addons":["codehost","personal_email"]%s}`},
		{networkPath, "", `{"network":"lin-net"%s}`},
		{codehostPath, "", `{"codehost":"12","addons":["network"]%s}`},
		{codehostPath, "", `{"codehost":"lin-code","addons":["network"]%s}`},
		{enrichPath, "person", `{"codehost":"octavia","websets":["codehost","network"]%s}`},
		{companyPath, "company", `{"company_id":"c1"%s}`},
	} {
		record := func(fields string) map[string]any {
			got := f.post(call.path, fmt.Sprintf(call.request, fields)).json()
			if call.member != "" {
				got = got[call.member].(map[string]any)
			}
			return got
		}
		whole, paths := record(""), make(map[string]bool)
		pathsOf("", whole, paths)
		require.Greater(t, len(paths), 4, call.request)
		for _, name := range upstream {
			delete(paths, name)
		}
		selected := make(map[string]any)
		for chunk := range slices.Chunk(slices.Sorted(maps.Keys(paths)), 100) {
			text, err := json.Marshal(chunk)
			require.NoError(t, err)
			maps.Copy(selected, record(`,"fields":`+string(text)))
		}
		delete(whole, "shoe_size")
		delete(whole, "mail")
		require.Equal(t, whole, selected, call.request)
	}
}
