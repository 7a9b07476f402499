package queryapi_test

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// derivedPeople inserts records without values that can be derived from others.
func derivedPeople(f *fixture) {
	f.t.Helper()
	f.insert(record.KindCodehostPerson,
		codehostPerson(630010, "derive-me", "2026-05-01", `"full_name":"Dag Rive","location":"Bergen, Norway"`),
		codehostPerson(630011, "derive-not", "2026-05-01", `"full_name":"Given Own","location":"Bergen, Norway",
			"location_canonical":{"city":"Own City","country":"Own Land"},"url":"https://codehost.example/derive-not"`),
		codehostPerson(630012, "nowhere", "2026-05-01", `"full_name":"Mononym","location":"the internet"`),
	)
	f.insert(record.KindNetworkPerson,
		networkPerson("k-n10", "jobs-one", "2026-05-01", `"codehost_username":"derive-me","experience":[
			{"summary":"Data engineer","start":"2020-02-01","end":null,"current":true,"location":{"city":"Bergen",`+
			`"country":"Norway"},
				"company":{"name":"Fjord Metrics","network_url":"https://network.example/company/fjord-metrics"}},
			{"summary":"Intern","start":"2018","end":"2019","current":false,"company":{"name":"Oldworks"}}]`),
		networkPerson("k-n11", "jobs-two", "2026-05-01", `"experience":[
			{"title":"Board member","start":"2015-01","end":null,"company":{"name":"Choir"}},
			{"title":"Head of Tide","summary":"Runs it","start":"2023-04","end":null,"company":{"name":"Tide Desk"}}]`),
		networkPerson("k-n12", "jobs-past", "2026-05-01",
			`"experience":[{"title":"Cook","start":"2010","end":"2012","current":false}]`),
		networkPerson("k-n13", "jobs-own", "2026-05-01",
			`"current_position":{"summary":"As given"},"experience":[{"title":"Other","start":"2024"}]`),
		networkPerson("k-n20", "bruna-lopes", "2026-05-01",
			`"first_name":"Bruna","last_name":"Lopes","location":{"city":"Braga","country":"Portugal"}`),
		networkPerson("k-n21", "carl-moss", "2026-05-01",
			`"full_name":"Carl Moss","location":{"raw_address":"Malmö, Sweden"}`),
		networkPerson("k-n22", "fumi-abe", "2026-05-01",
			`"full_name":"Fumi Abe","location":{"city":"Sapporo","country_code":"JP"}`),
		networkPerson("k-n23", "plato", "2026-05-01", `"full_name":"Plato","location":{"raw_address":"Remote"}`),
	)
}

// pick returns the named members of a response; paths are dotted.
func pick(t *testing.T, body string, names ...string) string {
	t.Helper()
	var answer map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	out := map[string]any{}
	for _, name := range names {
		if v, ok := answer[name]; ok {
			out[name] = v
		}
	}
	text, err := json.Marshal(out, json.Deterministic(true))
	require.NoError(t, err)
	return string(text)
}

func TestDerivedValues_AreServedAndListed(t *testing.T) {
	f := start(t, nil)
	derivedPeople(f)
	const network, codehost = networkPath + "?network=", codehostPath + "?codehost="
	for name, tc := range map[string]struct {
		path    string
		members []string
		want    string
	}{
		"place of an account": {codehost + "derive-me", []string{"location", "location_canonical", "derived"},
			`{"location":"Bergen, Norway",
			"location_canonical":{"city":"Bergen","state":"Vestland","country":"Norway","country_code":"NO",` +
				`"continent":"Europe","latitude":60.393,
				"longitude":5.3242,"label":"Bergen, Vestland, Norway","timezone":"Europe/Oslo"},` +
				`"derived":["first_name","last_name","location_canonical","names","url"]}`},
		"recorded values stay": {codehost + "derive-not", []string{"location_canonical", "url", "derived"}, `{
			"location_canonical":{"city":"Own City","country":"Own Land"},` +
			`"url":"https://codehost.example/derive-not","derived":["first_name","last_name","names"]}`},
		"no place": {codehost + "nowhere", []string{"location_canonical", "first_name", "last_name"},
			`{"first_name":"Mononym"}`},
		"account is met": {codehost + "derive-me&must_have=location_canonical,url,first_name,last_name",
			[]string{"user_id"}, `{"user_id":630010}`},
		"account is not": {codehost + "nowhere&must_have=location_canonical", []string{"user_id"}, `{}`},
		"present job": {network + "jobs-one&must_have=current_position", []string{"current_position"},
			`{"current_position":{"summary":"Data engineer",
			"start":"2020-02-01","current":true,"location":{"city":"Bergen","country":"Norway"},
			"company":{"name":"Fjord Metrics","network_url":"https://network.example/company/fjord-metrics"}}}`},
		"newest of two": {network + "jobs-two", []string{"current_position"},
			`{"current_position":{"title":"Head of Tide","summary":"Runs it",
			"start":"2023-04-01","current":true,"company":{"name":"Tide Desk"}}}`},
		"no job": {network + "jobs-past&must_have=current_position", []string{"username"}, `{}`},
		"given job": {network + "jobs-own", []string{"current_position"},
			`{"current_position":{"summary":"As given"}}`},
		"structured place": {network + "bruna-lopes", []string{"full_name", "location", "url"},
			`{"full_name":"Bruna Lopes","url":"https://network.example/in/bruna-lopes",
			"location":{"city":"Braga","state":"Braga","country":"Portugal","country_code":"PT","continent":"Europe",` +
				`"raw_address":"Braga, Portugal"}}`},
		"place from text": {network + "carl-moss", []string{"first_name", "last_name", "location", "derived"},
			`{"first_name":"Carl","last_name":"Moss",
			"location":{"city":"Malmö","state":"Skåne","country":"Sweden","country_code":"SE","continent":"Europe",` +
				`"raw_address":"Malmö, Sweden"},
			"derived":["first_name","last_name","location.city","location.continent","location.country",` +
				`"location.country_code","location.state","url"]}`},
		"place from a code": {network + "fumi-abe", []string{"location"},
			`{"location":{"city":"Sapporo","state":"Hokkaido","country":"Japan",
			"country_code":"JP","continent":"Asia","raw_address":"Sapporo, Japan"}}`},
		"mononym": {network + "plato", []string{"first_name", "last_name", "location"},
			`{"first_name":"Plato","location":{"raw_address":"Remote"}}`},
		"add-on codehost": {network + "jobs-one&addons=codehost", []string{"codehost"},
			`{"codehost":{"user_id":630010,"username":"derive-me","full_name":"Dag Rive",
			"location":"Bergen, Norway","url":"https://codehost.example/derive-me","derived":["url"],` +
				`"last_updated":"2026-05-01T00:00:00Z"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t = t
			got := f.get(tc.path)
			require.Equal(t, 200, got.status, got.body)
			require.JSONEq(t, tc.want, pick(t, got.body, tc.members...))
		})
	}
	addon := f.get(codehost + "derive-me&addons=network").json()["network"].(map[string]any)
	require.Equal(t, "Data engineer", addon["current_position"].(map[string]any)["summary"])
	require.Contains(t, addon["derived"], "current_position")
	person := f.enrich(`{"codehost":"derive-me","websets":["codehost","network"]}`)["person"].(map[string]any)
	require.Equal(t, []any{"first_name", "last_name", "location_canonical", "url"},
		person["codehost"].(map[string]any)["derived"])
	require.Equal(t, []any{"network_url"}, person["network"].(map[string]any)["derived"])
}

func TestDerivedValues_AreSearched(t *testing.T) {
	f := start(t, nil)
	derivedPeople(f)
	for query, want := range map[string]string{
		`{"term":{"profile.location.country_code.keyword":"PT"}}`:                   "bruna-lopes",
		`{"term":{"profile.location.country.keyword":"Sweden"}}`:                    "carl-moss",
		`{"match":{"profile.first_name":"carl"}}`:                                   "carl-moss",
		`{"match":{"profile.full_name":"bruna"}}`:                                   "bruna-lopes",
		`{"term":{"network_url.keyword":"https://network.example/in/bruna-lopes"}}`: "bruna-lopes",
		`{"match":{"profile.location.raw_address":"sapporo"}}`:                      "fumi-abe",
	} {
		answer := f.search(`{"query":` + query + `}`)
		require.EqualValues(t, 1, answer["total"], query)
		result := answer["results"].([]any)[0].(map[string]any)
		require.Equal(t, want, result["network_username"], query)
		require.NotEmpty(t, result["derived"], query)
	}
}

func TestDerivedValues_CombineRecordsOfAPerson(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("k-n30", "ada-net", "2026-05-01", `"full_name":"Ada Maria Quell"`))
	commit := func(sha, name, email, login string) string {
		return fmt.Sprintf(`{"sha":%q,"author_name":%q,"author_email":%q,"author_login":%q,"author_date":"2026-01-01"}`,
			sha, name, email, login)
	}
	f.insert(record.KindCodehostPerson,
		codehostPerson(630013, "names-code", "2026-05-01",
			`"full_name":"Ada Quell","network_username":"ada-net","commits":[`+
				commit("f1", "A. Quell", "ada@quell.example", "names-code")+","+commit("f2", "Ada Quell",
				"ada@quell.example", "")+`]`),
		codehostPerson(630014, "own-fields", "2026-05-01",
			`"full_name":"Own Fields","names":["Own Fields","O. Fields","Fields, Own"],"email":"prim@fields.example",`+
				`"emails":["other@fields.example"]`),
		codehostPerson(630010, "derive-me", "2026-05-01", `"full_name":"Dag Rive","emails":["dag@rive.example"],
			"repos":[{"id":1,"language":"Go","updated_at":"2026"},{"id":2,"language":"Rust","updated_at":"2026"},`+
			`{"id":3,"language":"Rust","updated_at":"2026"}],
			"commits":[`+commit("d1", "Dag", "dag@fjord.example", "derive-me")+","+
			commit("d2", "", "630010+derive-me@users.noreply.codehost.example", "")+","+
			commit("d3", "Olga", "olga@fjord.example", "olga")+`]`),
	)
	members := func(body string, names ...string) string {
		got := f.post("/v1/person/enrich", body)
		require.Equal(t, 200, got.status, got.body)
		var answer struct {
			Person struct {
				Codehost jsontext.Value `json:"codehost"`
			} `json:"person"`
		}
		require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
		if answer.Person.Codehost == nil {
			return "none"
		}
		return pick(t, string(answer.Person.Codehost), names...)
	}
	require.JSONEq(t, `{"names":["Ada Quell","Ada Maria Quell","A. Quell"]}`,
		members(`{"codehost":"names-code"}`, "names"))
	require.JSONEq(
		t, `{"names":["Own Fields","O. Fields","Fields, Own"],"email":"prim@fields.example",`+
			`"emails":["other@fields.example","prim@fields.example"]}`,
		members(`{"codehost":"own-fields"}`, "names", "email", "emails"))
	require.JSONEq(t, `{"emails":["dag@rive.example","dag@fjord.example"],"commit_count":3,"repo_languages":["Rust","Go"],
		"derived":["commit_count","emails","first_name","last_name","names","repo_languages","url"]}`,
		members(`{"codehost":"derive-me"}`, "emails", "commit_count", "repo_languages", "derived"))
	for _, address := range []string{"DAG@fjord.example", "630010+derive-me@users.noreply.codehost.example"} {
		require.JSONEq(t, `{"user_id":630010}`, members(`{"email":"`+address+`"}`, "user_id"), address)
	}
	require.Equal(t, "none", members(`{"email":"olga@fjord.example"}`, "user_id"), "the author of another account")
	for query, want := range map[string]string{
		"derive-me&must_have=commit_count":    `{"user_id":630010}`,
		"derive-me&must_have=repo_languages":  `{"user_id":630010}`,
		"names-code&must_have=personal_email": `{"user_id":630013}`, "own-fields&must_have=commit_count": `{}`,
	} {
		require.JSONEq(t, want, pick(t, f.get(codehostPath+"?codehost="+query).body, "user_id"), query)
	}
}

// Answers are rebuilt after an erasure. Until then, and if a build that began earlier finishes later, they hold the
// author's commits.
func TestErasedAuthor_IsNotShownByAnswersBuiltBefore(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	commit := func(sha, name, email, more string) string {
		return fmt.Sprintf(`{"sha":%q,"message":"by %s","author_name":%[2]q,"author_email":%[3]q%[4]s,`+
			`"author_date":"2026-01-01"}`, sha, name, email, more)
	}
	f.insert(record.KindNetworkPerson, networkPerson("e-n1", "host", "2026-05-01", `"codehost_username":"host"`))
	f.insert(record.KindCodehostPerson,
		codehostPerson(640001, "host", "2026-05-01", `"repos":[{"id":1,"name":"kept","updated_at":"2026"}],"commits":[`+
			commit("a1", "Ghost", "Ghost@gone.example", "")+","+
			commit("a2", "Guest", "guest@stays.example", `,"author_login":"guest"`)+","+
			commit("a3", "Ghost", "ghost@gone.example", `,"author_login":"ghost"`)+`]`),
		codehostPerson(640002, "only", "2026-05-01", `"commits":[`+
			commit("b1", "Ghost", "other@gone.example", "")+`]`),
	)
	calls := func() string {
		return f.post(networkPath, `{"network":"host","addons":["codehost","personal_email"]}`).body +
			f.post(networkPath, `{"network":"host","addons":["codehost"]}`).body +
			f.post("/v1/person/enrich", `{"codehost":"host","websets":["codehost","network"]}`).body +
			f.get(codehostPath+"?codehost=host").body + f.get(codehostPath+"?codehost=only").body
	}
	require.Contains(t, calls(), "Ghost")
	erase(t, set, suppress.Email, "ghost@gone.example")
	require.NotContains(t, calls(), "host@gone.example")
	host := f.get(codehostPath + "?codehost=host").json()
	require.Len(t, host["commits"], 1)
	require.EqualValues(t, 1, host["commits_count"])
	require.EqualValues(t, 1, host["commit_count"])
	require.Len(t, host["repos"], 1)
	require.NotContains(t, host, "emails")
	require.NotContains(t, host, "names")
	require.Contains(t, f.get(codehostPath+"?codehost=only").body, "Ghost", "another address")

	erase(t, set, suppress.Email, "other@gone.example")
	only := f.get(codehostPath + "?codehost=only").json()
	require.NotContains(t, only, "commits")
	require.NotContains(t, only, "commit_count")
	require.JSONEq(t, `{}`, f.get(codehostPath+"?codehost=only&must_have=commits,commit_count,emails").body)
	require.NotContains(t, calls(), "Ghost")
}
