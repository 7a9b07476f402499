package queryapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// websetPeople inserts a linked pair, an empty person, and accounts with numeric names.
func websetPeople(f *fixture) {
	f.t.Helper()
	f.insert(record.KindNetworkPerson,
		networkPerson("p1", "Octavia-Lin", "2026-10-02T01:02:03Z",
			`"full_name":"Octavia Lin","headline":"Ask o@lin.example","codehost_username":"octavia",
			"experience":[{"summary":"Engineer","start":"2021-03","current":true,"company":{"name":"Acme"}}],`+
				`"personal_email":"o@lin.example","emails":["o@lin.example","x@lin.example"],
			"codehost":{"upstream":"kept, not served"},"mail":"o@lin.example","shoe_size":39`),
		networkPerson("p2", "bare", "2026-01-01"),
	)
	f.insert(record.KindCodehostPerson,
		codehostPerson(12, "Octavia", "2026-10-01", `"type":"User","bio":"Write to o@lin.example",`+
			`"network_username":"octavia-lin","personal_email":"o@lin.example","location":"Graz",
			"starred_repos":[{"full_name":"a/b"}],"network":"kept, not served",
			"repos":[{"id":2,"name":"new","updated_at":"2026-01-01","description":"by o@lin.example"},`+
			`{"id":1,"name":"old","updated_at":"2020"}],
			"commits":[{"sha":"ab12","author_date":"2026-02-03","author_email":"o@lin.example",`+
			`"message":"Signed-off-by: o@lin.example"}]`),
		codehostPerson(13, "bare", "2026-01-01"),
		codehostPerson(14, "12", "2026-01-01"), codehostPerson(15, "99", "2026-01-01"),
	)
}

func TestNetworkPerson(t *testing.T) {
	f := start(t, nil)
	websetPeople(f)
	plain := `"profile_id":"p1","username":"Octavia-Lin","full_name":"Octavia Lin","codehost_username":"octavia",` +
		`"shoe_size":39,"last_updated":"2026-10-02T01:02:03Z",
		"experience":[{"summary":"Engineer","start":"2021-03","end":null,"current":true,"company":{"name":"Acme"}}],` +
		`"experience_count":1,
		"first_name":"Octavia","last_name":"Lin","url":"https://network.example/in/Octavia-Lin",
		"current_position":{"summary":"Engineer","start":"2021-03-01","current":true,"company":{"name":"Acme"}},
		"derived":["current_position","first_name","last_name","url"]`
	closed := `"headline":"Ask [e-mail removed]"`
	open := `"headline":"Ask o@lin.example","mail":"o@lin.example","personal_email":{"email":"o@lin.example"},` +
		`"emails":["o@lin.example","x@lin.example"],"emails_count":2`
	account := func(email, authorEmail string) string {
		return `"codehost":{"user_id":12,"username":"Octavia","type":"User","bio":"Write to ` + email +
			`","location":"Graz","last_updated":"2026-10-01T00:00:00Z",
			"url":"https://codehost.example/Octavia","commit_count":1,"derived":["commit_count","url"],
			"stars":[{"full_name":"a/b"}],"stars_count":1,
			"repos":[{"id":2,"name":"new","updated_at":"2026-01-01","description":"by ` + email +
			`"},{"id":1,"name":"old","updated_at":"2020"}],"repos_count":2,
			"commits":[{"sha":"ab12","author_date":"2026-02-03",` + authorEmail + `"message":"Signed-off-by: ` + email +
			`"}],"commits_count":1}`
	}
	for name, tc := range map[string]struct{ query, want string }{
		"record": {"network=octavia-lin", "{" + plain + "," + closed + "}"},
		"by URL": {"network=" + url.QueryEscape("https://www.network.example/in/OCTAVIA-LIN/?x=y"), "{" +
			plain + "," + closed + "}"},
		"with e-mail": {"network=octavia-lin&addons=personal_email", "{" + plain + "," + open + "}"},
		"with the account": {"network=octavia-lin&addons=codehost", "{" + plain + "," + closed + "," +
			account("[e-mail removed]", "") + "}"},
		"with both": {"network=octavia-lin&addons=personal_email,codehost", "{" + plain + "," + open + "," +
			account("o@lin.example", `"author_email":"o@lin.example",`) + "}"},
		"no match": {"network=missing", "{}"},
		"bare": {"network=bare&addons=personal_email,codehost",
			`{"profile_id":"p2","username":"bare","last_updated":"2026-01-01T00:00:00Z",` +
				`"url":"https://network.example/in/bare","derived":["url"]}`},
		"must_have met":     {"network=octavia-lin&must_have=education,experience", "{" + plain + "," + closed + "}"},
		"must_have unmet":   {"network=octavia-lin&must_have=education,location", "{}"},
		"must_have account": {"network=octavia-lin&must_have=codehost", "{" + plain + "," + closed + "}"},
		"no account":        {"network=bare&must_have=codehost", "{}"},
		"must_have e-mail": {"network=octavia-lin&addons=personal_email&must_have=personal_email", "{" + plain + "," +
			open + "}"},
		"no e-mail": {"network=bare&addons=personal_email&must_have=personal_email", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			got := f.get(networkPath + "?" + tc.query)
			require.Equal(t, 200, got.status, got.body)
			require.JSONEq(t, tc.want, got.body)
			if !strings.Contains(tc.query, "personal_email") {
				require.NotContains(t, got.body, "lin.example")
			}
			// POST takes the same parameters as JSON.
			q, err := url.ParseQuery(tc.query)
			require.NoError(t, err)
			body := map[string]any{"network": q.Get("network")}
			for _, name := range []string{"addons", "must_have"} {
				if v := q.Get(name); v != "" {
					body[name] = strings.Split(v, ",")
				}
			}
			text, err := json.Marshal(body)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, f.post(networkPath, string(text)).body)
		})
	}
}

func TestCodehostPerson(t *testing.T) {
	f := start(t, nil)
	websetPeople(f)
	plain := `"user_id":12,"codehost_username":"Octavia","type":"User","bio":"Write to o@lin.example",` +
		`"network_username":"octavia-lin","personal_email":"o@lin.example","location":"Graz",
		"location_canonical":{"city":"Graz","state":"Styria","country":"Austria","country_code":"AT",` +
		`"continent":"Europe","label":"Graz, Styria, Austria",
			"timezone":"Europe/Vienna","latitude":47.0673,"longitude":15.442},` +
		`"url":"https://codehost.example/Octavia","names":["Octavia Lin"],"names_count":1,"commit_count":1,
		"derived":["commit_count","location_canonical","names","url"],
		"starred_repos":[{"full_name":"a/b"}],"starred_repos_count":1,
		"repos":[{"id":2,"name":"new","updated_at":"2026-01-01","description":"by o@lin.example"},` +
		`{"id":1,"name":"old","updated_at":"2020"}],"repos_count":2,
		"commits":[{"sha":"ab12","author_date":"2026-02-03","author_email":"o@lin.example","message":"Signed-off-by: ` +
		`o@lin.example"}],"commits_count":1,"last_updated":"2026-10-01T00:00:00Z"`
	linked := `"network":{"username":"Octavia-Lin","full_name":"Octavia Lin","headline":"Ask [e-mail removed]",
		"url":"https://network.example/in/Octavia-Lin","current_position":{"summary":"Engineer","start":"2021-03-01",` +
		`"current":true,"company":{"name":"Acme"}},
		"derived":["current_position","first_name","last_name","url"],
		"experience":[{"summary":"Engineer","start":"2021-03","end":null,"current":true,"company":{"name":"Acme"}}],` +
		`"experience_count":1}`
	for name, tc := range map[string]struct{ query, want string }{
		"record": {"codehost=octavia", "{" + plain + "}"},
		"by URL": {"codehost=" + url.QueryEscape("codehost.example/OCTAVIA/"), "{" + plain + "}"},
		"by id":  {"codehost=12", "{" + plain + "}"},
		"digits as a name": {"codehost=99",
			`{"user_id":15,"codehost_username":"99","last_updated":"2026-01-01T00:00:00Z",` +
				`"url":"https://codehost.example/99","derived":["url"]}`},
		"digits in a URL": {"codehost=" + url.QueryEscape("https://codehost.example/12"),
			`{"user_id":14,"codehost_username":"12","last_updated":"2026-01-01T00:00:00Z",` +
				`"url":"https://codehost.example/12","derived":["url"]}`},
		"with the profile": {"codehost=octavia&addons=network", "{" + plain + "," + linked + "}"},
		"by id, with it":   {"codehost=12&addons=network", "{" + plain + "," + linked + "}"},
		"no profile": {"codehost=bare&addons=network",
			`{"user_id":13,"codehost_username":"bare","last_updated":"2026-01-01T00:00:00Z",` +
				`"url":"https://codehost.example/bare","derived":["url"]}`},
		"must_have link":      {"codehost=octavia&must_have=network", "{" + plain + "}"},
		"no link":             {"codehost=bare&must_have=network", "{}"},
		"must_have repos":     {"codehost=octavia&must_have=company,repos", "{" + plain + "}"},
		"must_have commits":   {"codehost=octavia&must_have=commits", "{" + plain + "}"},
		"no repos":            {"codehost=bare&must_have=repos,commits,network", "{}"},
		"must_have unmet":     {"codehost=octavia&must_have=company,hireable", "{}"},
		"must_have stored":    {"codehost=octavia&must_have=location,repos", "{" + plain + "}"},
		"no match":            {"codehost=missing&addons=network", "{}"},
		"an unknown ID":       {"codehost=987654321", "{}"},
		"more than an id":     {"codehost=99999999999999999999", "{}"},
		"an id with a zero":   {"codehost=012", "{}"},
		"a sign before an ID": {"codehost=-12", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			got := f.get(codehostPath + "?" + tc.query)
			require.Equal(t, 200, got.status, got.body)
			require.JSONEq(t, tc.want, got.body)
		})
	}
}

func TestWebset_ListKeepsOrderAndMisses(t *testing.T) {
	f := start(t, nil)
	var people []string
	for i := range 100 {
		people = append(people,
			codehostPerson(1000+i, fmt.Sprintf("user-%d", i), "2026-01-01",
				fmt.Sprintf(`"repos":[{"id":%d,"updated_at":"2026"}]`, i)))
	}
	f.insert(record.KindCodehostPerson, people...)
	var ids []string
	for i := range 100 {
		switch i % 4 {
		case 0:
			ids = append(ids, fmt.Sprintf("user-%d", i))
		case 1:
			ids = append(ids, fmt.Sprint(1000+i))
		case 2:
			ids = append(ids, fmt.Sprintf("https://codehost.example/USER-%d", i))
		case 3:
			ids = append(ids, "missing")
		}
	}
	body, err := json.Marshal(map[string]any{"codehost": ids})
	require.NoError(t, err)
	got := f.post(codehostPath, string(body)).list()
	require.Len(t, got, 100)
	for i, r := range got {
		if i%4 == 3 {
			require.Empty(t, r)
			continue
		}
		require.EqualValues(t, 1000+i, r["user_id"])
		require.EqualValues(t, i, r["repos"].([]any)[0].(map[string]any)["id"])
	}
	require.Equal(t, []map[string]any{got[4], got[4]}, f.post(codehostPath, `{"codehost":["user-4","1004"]}`).list(),
		"one person twice")
	require.Equal(t, []map[string]any{got[8]}, f.post(codehostPath, `{"codehost":["user-8"]}`).list(),
		"a list of one is a list")
	require.Equal(t, []map[string]any{{}, got[8]},
		f.post(codehostPath, `{"codehost":["missing","user-8"],"must_have":["repos"]}`).list())

	// The keys of a list are batched: one or two queries per table, not a hundred.
	require.Less(t, f.queries("lookups"), 30)
	require.Less(t, f.queries(readmodel.AnswersTable), 30)
}

// queries returns the number of read-model queries of a table.
func (f *fixture) queries(table string) int {
	f.t.Helper()
	families, err := f.registry.Gather()
	require.NoError(f.t, err)
	for _, family := range families {
		if family.GetName() != "muster_query_api_batch_keys" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == table {
				return int(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}
