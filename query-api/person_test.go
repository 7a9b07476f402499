package queryapi_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// codehostPerson is a codehost-person with further members.
func codehostPerson(id int, username, updated string, members ...string) string {
	return fmt.Sprintf(`{"user_id":%d,"codehost_username":%q,"last_updated":%q%s}`, id, username, updated,
		tail(members))
}

// networkPerson is a network-person with further members.
func networkPerson(id, username, updated string, members ...string) string {
	return fmt.Sprintf(`{"profile_id":%q,"username":%q,"last_updated":%q%s}`, id, username, updated, tail(members))
}

// accountLink is an account-link with further members.
func accountLink(codehost, network, source, observed string, members ...string) string {
	return fmt.Sprintf(
		`{"a":{"platform":"codehost","username":%q},"b":{"platform":"network","username":%q},"source":%q,"observed_at":%q%s}`,
		codehost,
		network,
		source,
		observed,
		tail(members),
	)
}

func tail(members []string) string {
	if len(members) == 0 {
		return ""
	}
	return "," + strings.Join(members, ",")
}

// answeredBy returns the identities in a person enrichment response, as "12/p_7", with "-" for a webset without a
// match.
func answeredBy(t *testing.T, answer map[string]any) string {
	t.Helper()
	person := answer["person"].(map[string]any)
	codehost, network := "-", "-"
	matched := []any{}
	if c, ok := person["codehost"].(map[string]any); ok {
		codehost = fmt.Sprint(c["user_id"])
		matched = append(matched, "codehost")
	}
	if n, ok := person["network"].(map[string]any); ok {
		network = fmt.Sprint(n["profile_id"])
		matched = append(matched, "network")
	}
	require.Equal(t, matched, answer["websets_matched"])
	return codehost + "/" + network
}

func TestEnrichPerson_ReturnsAllMappedFields(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p_1", "Octavia-Lin", "2026-10-02",
		`"full_name":"Octavia Lin","headline":"Compilers",
		"url":"https://network.example/in/octavia-lin","location":{"city":"Graz","country":"Austria"},`+
			`"emails":["o@lin.example"],
		"experience":[{"title":"Intern","start":"2015","end":"2016-05"},{"title":"Engineer","start":"2021-03",`+
			`"company":{"name":"Acme"}}],
		"shoe_size":39`))
	f.insert(record.KindCodehostPerson, codehostPerson(12, "Octavia", "2026-10-01T08:00:00Z",
		`"full_name":"Octavia Lin","avatar_url":"https://a.example/12.png",
		"followers":3,"created_at":"2011-05","personal_email":"o@lin.example","emails":["O@Lin.example",`+
			`"octavia@work.example"],
		"social_accounts":["https://network.example/in/octavia-lin"],
		"repos":[{"id":1,"name":"old","updated_at":"2020-01-01"},{"id":2,"name":"new",`+
			`"updated_at":"2026-01-01T00:00:00Z","topics":["go"]}],
		"commits":[{"sha":"ab12","author_date":"2026-02-03","message":"Fix","repo":{"full_name":"octavia/new"}}],`+
			`"emoji":"\ud83e\udd80"`))

	got := f.enrich(`{"codehost":"octavia","websets":["network","codehost"]}`)
	codehost := `{"user_id":12,"codehost_username":"Octavia","avatar_url":"https://a.example/12.png","followers":3,` +
		`"created_at":"2011-05-01"`
	owner := `"owner":{"user_id":12,"codehost_username":"Octavia","avatar_url":"https://a.example/12.png"}`
	want := `{"websets_matched":["codehost","network"],"person":{
		"codehost":` + codehost + `,"full_name":"Octavia Lin","first_name":"Octavia","last_name":"Lin",` +
		`"url":"https://codehost.example/Octavia",
			"commit_count":1,"derived":["commit_count","first_name","last_name","url"],"codehost":` + codehost +
		`},"names":["Octavia Lin"],"names_count":1,
			"emails":["O@Lin.example","octavia@work.example"],"emails_count":2,"email":"o@lin.example",
			"social_accounts":["https://network.example/in/octavia-lin"],"social_accounts_count":1,` +
		`"network_username":"Octavia-Lin",
			"repos":[{"repo_id":2,"name":"new","updated_at":"2026-01-01","topics":["go"],` + owner +
		`},{"repo_id":1,"name":"old","updated_at":"2020-01-01",` + owner + `}],"repos_count":2,
			"commits":[{"sha":"ab12","author_date":"2026-02-03","message":"Fix","repo":{"full_name":"octavia/new"}}],` +
		`"commits_count":1,
			"last_updated":"2026-10-01T08:00:00Z","emoji":"\ud83e\udd80"},
		"network":{"profile_id":"p_1","network_username":"Octavia-Lin",` +
		`"network_url":"https://network.example/in/octavia-lin","updated_at":"2026-10-02T00:00:00Z",
			"profile":{"full_name":"Octavia Lin","first_name":"Octavia","last_name":"Lin","headline":"Compilers",` +
		`"personal_email":"o@lin.example",
				"location":{"city":"Graz","state":"Styria","country":"Austria","country_code":"AT",` +
		`"continent":"Europe","raw_address":"Graz, Austria"}},
			"derived":["profile.first_name","profile.last_name","profile.location.continent","profile.location.country_code",
				"profile.location.raw_address","profile.location.state"],
			"experience":[{"title":"Engineer","company_name":"Acme","start_date":"2021-03-01","end_date":null,"is_current":true},
				{"title":"Intern","start_date":"2015-01-01","end_date":"2016-05-01","is_current":false}],` +
		`"experience_count":2,"shoe_size":39}}}`
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, want, string(text))

	// Without websets it is the codehost one alone.
	require.Equal(t, "12/-", answeredBy(t, f.enrich(`{"codehost":"OCTAVIA"}`)))
	require.Equal(t, "-/p_1", answeredBy(t, f.enrich(`{"codehost":"octavia","websets":["network"]}`)))
}

func TestEnrichPerson_ResolvesIdentifiers(t *testing.T) {
	f := start(t, nil)
	both := `,"websets":["codehost","network"]}`
	f.insert(record.KindCodehostPerson,
		codehostPerson(19, "bea", "2026-01-01", `"emails":["Bea <bea@bücher.example>"]`),
		codehostPerson(1, "anna", "2026-01-01", `"network_username":"anna-net","emails":["anna@x.example"]`),
		codehostPerson(2, "bela", "2026-01-01", `"emails":["bela@x.example"]`),
		codehostPerson(3, "carl", "2026-01-01"),
		codehostPerson(4, "dora", "2026-01-01", `"network_username":"missing"`),
		// A username that moved: 5 had it, 6 has it now.
		codehostPerson(5, "moved", "2025-01-01"),
		codehostPerson(6, "other", "2025-01-01"),
		// Two that claim one name at the same time: the newest record holds it.
		codehostPerson(7, "twin", "2025-01-01"), codehostPerson(8, "twin", "2026-01-01"),
		codehostPerson(9, "gone", "2025-01-01", `"emails":["gone@x.example"]`),
		codehostPerson(10, "shared-old", "2025-01-01", `"emails":["shared@x.example"]`),
		codehostPerson(11, "shared-new", "2026-06-01", `"emails":["SHARED@x.example"]`),
		codehostPerson(12, "eva", "2026-01-01", `"emails":["eva@x.example"]`),
		codehostPerson(13, "finn", "2026-01-01", `"network_username":"finn-declared"`),
		codehostPerson(14, "gwen", "2026-01-01", `"emails":["former@x.example"]`),
		codehostPerson(15, "hugo", "2026-01-01", `"emails":["hugo@x.example"]`),
		codehostPerson(16, "iris", "2026-02-01", `"emails":["pair@x.example"]`),
		codehostPerson(17, "张伟-😀", "2026-02-01"),
		codehostPerson(20, "kate", "2026-01-01"), codehostPerson(21, "claims-kate", "2026-02-01",
			`"network_username":"kate-net"`),
		codehostPerson(22, "leo", "2026-06-01", `"network_username":"leo-net"`),
	)
	f.insert(record.KindNetworkPerson,
		networkPerson("n1", "anna-net", "2026-01-01", `"codehost_username":"anna"`),
		networkPerson("n2", "bela-net", "2026-01-01", `"social_accounts":["https://www.codehost.example/Bela/"]`),
		networkPerson("n3", "carl-net", "2026-01-01"),
		networkPerson("n5", "ghost-declares", "2026-01-01", `"codehost_username":"ghost"`),
		networkPerson("n12", "eva-net", "2025-01-01", `"emails":["eva@x.example"]`),
		networkPerson("n12b", "eva-else", "2025-06-01", `"emails":["eva@x.example"],"codehost_username":"carl"`),
		networkPerson("n13", "finn-declared", "2025-01-01"), networkPerson("n13b", "finn-linked", "2026-05-01"),
		networkPerson("n15", "hugo-net", "2026-03-01",
			`"emails":["hugo@x.example"],"codehost_username":"hugo-elsewhere"`),
		networkPerson("n16", "iris-net", "2026-03-01", `"personal_email":"pair@x.example"`),
		networkPerson("n18", "jan-net", "2026-01-01", `"codehost_username":"jan"`),
		networkPerson("n18b", "jan-old", "2025-01-01", `"codehost_username":"jan"`),
		networkPerson("n20", "kate-net", "2026-06-01", `"codehost_username":"kate"`),
		networkPerson("n22", "leo-net", "2026-01-01"),
		networkPerson("n22b", "claims-leo", "2026-02-01", `"codehost_username":"leo"`),
	)
	f.insert(record.KindAccountLink,
		accountLink("carl", "carl-net", "registry", "2026-01-01"),
		accountLink("carl", "missing-there", "registry", "2026-05-01"),
		accountLink("unknown-codehost", "carl-net", "registry", "2025-01-01"),
		accountLink("finn", "finn-linked", "guess", "2026-06-01", `"confidence":0.95`),
		accountLink("dora", "anna-net", "withdrawn", "2026-01-01"),
	)
	// Former values do not match.
	f.insert(record.KindCodehostPerson, codehostPerson(5, "renamed", "2026-01-01"),
		codehostPerson(6, "moved", "2026-02-01"),
		`{"deleted":true,"user_id":9,"last_updated":"2026-01-01"}`,
		codehostPerson(14, "gwen", "2026-06-01", `"emails":["now@x.example"]`))
	f.insert(record.KindAccountLink,
		`{"a":{"platform":"codehost","username":"dora"},"b":{"platform":"network","username":"anna-net"},`+
			`"source":"withdrawn","observed_at":"2026-02-01","deleted":true}`)
	// An older version that arrives late changes nothing.
	f.insert(record.KindCodehostPerson, codehostPerson(6, "other", "2025-01-01"),
		codehostPerson(9, "gone", "2024-01-01"))

	for _, tc := range []struct{ name, request, want string }{
		{"username", `{"codehost":"anna"}`, "1/-"},
		{"letter case and an escape", `{"codehost":"A%6ENA"}`, "1/-"},
		{"URL", `{"codehost":"https://codehost.example/anna/?tab=x"}`, "1/-"},
		{"other script", `{"codehost":"\u5f20\u4f1f-\ud83d\ude00"}`, "17/-"},
		{"network username finds the codehost record", `{"network_username":"anna-net"}`, "1/-"},
		{"both by either", `{"codehost":"anna"` + both, "1/n1"},
		{"both, by the network username", `{"network_username":"anna-net"` + both, "1/n1"},
		{"declared by the other side, as a URL", `{"codehost":"bela"` + both, "2/n2"},
		{"the same from there", `{"network_username":"bela-net"` + both, "2/n2"},
		{"account-link", `{"codehost":"carl"` + both, "3/n3"},
		{"account-link backwards", `{"network_username":"carl-net","websets":["codehost"]}`, "3/-"},
		{"declares an unknown account", `{"codehost":"dora"` + both, "4/-"},
		{"renamed: the new name", `{"codehost":"renamed"}`, "5/-"},
		{"renamed: another account has the old name", `{"codehost":"moved"}`, "6/-"},
		{"a former name", `{"codehost":"other"}`, "-/-"},
		{"two holders", `{"codehost":"twin"}`, "8/-"},
		{"withdrawn", `{"codehost":"gone"}`, "-/-"},
		{"withdrawn, by e-mail", `{"email":"gone@x.example"}`, "-/-"},
		{"no record with the username, but a declared link", `{"codehost":"ghost","websets":["network"]}`, "-/n5"},
		{"no record with the username, but an account-link", `{"codehost":"unknown-codehost","websets":["network"]}`,
			"-/n3"},
		{"no record with the username, and the linked record's other account was not requested",
			`{"codehost":"unknown-codehost"` + both, "-/n3"},
		{"e-mail", `{"email":"ANNA@x.example"}`, "1/-"},
		{"e-mail with a display name and the other form of the domain", `{"email":"mailto:bea@xn--bcher-kva.example"}`,
			"19/-"},
		{"e-mail of the linked record in a webset that is not requested",
			`{"email":"anna@x.example","websets":["network"]}`, "-/n1"},
		{"e-mail in no requested webset, without a link", `{"email":"now@x.example","websets":["network"]}`, "-/-"},
		{"e-mail brings the linked record", `{"email":"anna@x.example"` + both, "1/n1"},
		{"shared e-mail: the newest", `{"email":"shared@x.example"}`, "11/-"},
		{"former e-mail", `{"email":"former@x.example"}`, "-/-"},
		{"present e-mail", `{"email":"now@x.example"}`, "14/-"},
		{"e-mail in both websets, the other's record leads to someone else", `{"email":"eva@x.example"` + both,
			"12/n12"},
		{"e-mail in both websets, a declared link names someone else", `{"email":"hugo@x.example"` + both, "15/-"},
		{"e-mail in both websets without links", `{"email":"pair@x.example"` + both, "16/n16"},
		{"specific identifier before e-mail", `{"codehost":"bela","email":"anna@x.example"}`, "2/-"},
		{"e-mail when nothing specific matches",
			`{"codehost":"missing","network_username":"no-one","email":"anna@x.example"}`, "1/-"},
		{"no mixture: the first decides", `{"codehost":"dora","network_username":"anna-net"` + both, "4/-"},
		{"second specific when the first does not match", `{"codehost":"missing","network_username":"anna-net"}`, "1/-"},
		{"websets are independent: a record in one does not empty the other",
			`{"codehost":"dora","email":"pair@x.example","websets":["network"]}`, "-/n16"},
		{"declared link before a newer, less confident one", `{"codehost":"finn"` + both, "13/n13"},
		{"two declare one account: the newest", `{"codehost":"jan","websets":["network"]}`, "-/n18"},
		{"the newer declaration, its own", `{"network_username":"kate-net"}`, "20/-"},
		{"the newer declaration, made by the network record", `{"codehost":"leo","websets":["network"]}`, "-/n22"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := *f
			f.t = t
			require.Equal(t, tc.want, answeredBy(t, f.enrich(tc.request)))
		})
	}

	username := func(id string) any {
		return f.enrich(`{"codehost":"` + id +
			`"}`)["person"].(map[string]any)["codehost"].(map[string]any)["network_username"]
	}
	require.Equal(t, "anna-net", username("anna"))
	require.Equal(t, "bela-net", username("bela"), "of the linked record")
	require.Equal(t, "missing", username("dora"), "its own declared username")
	require.Nil(t, username("twin"))
}

func TestEnrichCompany_UsesTheFirstIdentifierThatMatches(t *testing.T) {
	f := start(t, nil)
	company := func(id, slug, network, updated, name string) string {
		return fmt.Sprintf(
			`{"company_id":%q,"network_slug":%q,"network_id":%q,"last_updated":%q,"profile":{"name":%q}}`, id, slug,
			network, updated, name)
	}
	f.insert(record.KindNetworkCompany,
		`{"company_id":"c1","network_slug":"Acme","network_id":"1024","last_updated":"2026-01",`+
			`"profile":{"name":"Acme","employees":0,"specialties":["x"]},"headquarters":{"city":"Graz"},`+
			`"images":{"logo":""},"motto":"More"}`,
		company("c2", "beta", "7", "2026-01-01", "Beta"), company("c3", "gamma", "8", "2025-01-01", "Gamma old"),
		company("c4", "gamma", "9", "2026-01-01", "Gamma"),
	)
	f.insert(record.KindNetworkCompany, company("c2", "beta-renamed", "7", "2026-02-01", "Beta"),
		`{"company_id":"c3","last_updated":"2025-02-01","deleted":true}`)
	text, err := json.Marshal(f.post(companyPath, `{"network_slug":"acme"}`).json())
	require.NoError(t, err)
	require.JSONEq(t, `{"matched":true,"company":{"company_id":"c1","network_slug":"Acme","network_id":"1024",`+
		`"last_updated":"2026-01-01T00:00:00Z",
		"profile":{"name":"Acme","employees":0,"specialties":["x"]},"motto":"More",
		"headquarters":{"city":"Graz","region":null,"country":null,"postal_code":null,"line1":null,"line2":null}}}`,
		string(text))
	for request, want := range map[string]any{
		`{"network_id":"1024"}`: "c1", `{"network_url":"HTTPS://www.network.example/company/ACME/about?x#y"}`: "c1",
		`{"company_id":"c1"}`:     "c1",
		`{"network_slug":"beta"}`: nil, `{"network_slug":"beta-renamed"}`: "c2", `{"network_slug":"gamma"}`: "c4",
		`{"company_id":"c3"}`: nil, `{"network_id":"8"}`: nil,
		`{"company_id":"C1"}`:                                              nil,
		`{"company_id":"c1","network_slug":"gamma"}`:                       "c4",
		`{"company_id":"c1","network_url":"network.example/company/beta"}`: "c1",
		`{"company_id":"c1","network_id":"7"}`:                             "c2",
	} {
		answer := f.post(companyPath, request).json()
		var got any
		if c, ok := answer["company"].(map[string]any); ok {
			got = c["company_id"]
		}
		require.Equal(t, want, got, request)
		require.Equal(t, want != nil, answer["matched"], request)
	}
	// Identifiers after the match are ignored; before it, or alone, a malformed one is an error.
	for _, tc := range []struct {
		request string
		want    int
	}{
		{`{"network_slug":"acme","network_url":"https://elsewhere.example/company/acme"}`, 200},
		{`{"network_slug":"acme","network_id":" ","network_url":"nonsense","company_id":" "}`, 200},
		{`{"network_slug":"nothing","network_id":"1024","company_id":" "}`, 200},
		{`{"network_slug":"nothing","network_url":"https://elsewhere.example/company/acme"}`, 422},
		{`{"network_slug":"a b","network_id":"1024"}`, 422},
		{`{"network_url":"https://network.example/in/acme","company_id":"c1"}`, 422},
		{`{"network_url":"https://elsewhere.example/company/acme"}`, 422},
		{`{"company_id":""}`, 422},
		{`{}`, 422},
	} {
		require.Equal(t, tc.want, f.post(companyPath, tc.request).status, tc.request)
	}
}

func TestDeletion_AppliesToItsVersionInAnyOrder(t *testing.T) {
	f := start(t, nil)
	var people, commits, withdrawn []string
	for i := range 8 {
		people = append(people,
			codehostPerson(100+i, "person"+strconv.Itoa(i), "2026-01-01", `"bio":"`+strconv.Itoa(i)+`"`))
		withdrawn = append(withdrawn, fmt.Sprintf(`{"user_id":%d,"last_updated":"2026-01-01","deleted":true}`, 100+i))
		commits = append(commits, fmt.Sprintf(`{"user_id":7,"sha":"c%d","author_date":"2026-01-01"}`, i))
	}
	f.insert(record.KindCodehostPerson, people[:4]...)
	f.insert(record.KindCodehostPerson, withdrawn...)
	f.insert(record.KindCodehostPerson, people[4:]...)
	for i := range 8 {
		require.Equal(t, "{}", f.get(codehostPath+"?codehost=person"+strconv.Itoa(i)).body)
	}
	f.insert(record.KindCodehostPerson, codehostPerson(7, "lin", "2026-01-01"))
	f.insert(record.KindCodehostCommit, commits...)
	for i := range 7 {
		f.insert(record.KindCodehostCommit,
			fmt.Sprintf(`{"user_id":7,"sha":"c%d","author_date":"2026-01-01","deleted":true}`, i))
	}
	body := f.get(codehostPath + "?codehost=lin").body
	require.Contains(t, body, `"commits_count":1`)
	require.Contains(t, body, `"c7"`)
}

func TestEnrichPerson_KeepsEntriesDatedAtEpoch(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(7, "lin", "0001"))
	f.insert(record.KindCodehostRepo, `{"user_id":7,"id":1,"name":"first","updated_at":"0001-01-01T00:00:00Z"}`)
	f.insert(record.KindCodehostCommit, `{"user_id":7,"sha":"c1","author_date":"0001"}`)
	body := f.get(codehostPath + "?codehost=lin").body
	require.Contains(t, body, `"first"`)
	require.Contains(t, body, `"c1"`)
}
