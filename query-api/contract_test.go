package queryapi_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// contractPeople inserts the records of testdata/contract, which the contract cases use.
func contractPeople(f *fixture) {
	f.t.Helper()
	for _, kind := range []record.Kind{record.KindNetworkPerson, record.KindCodehostPerson, record.KindNetworkCompany} {
		raw, err := os.ReadFile(filepath.Join("testdata", "contract", string(kind)+".ndjson"))
		require.NoError(f.t, err)
		f.insert(kind, strings.Split(strings.TrimSpace(string(raw)), "\n")...)
	}
}

// usernames returns the usernames in a person enrichment response, as "codehost/network".
func usernames(t *testing.T, r response) string {
	t.Helper()
	person := r.json()["person"].(map[string]any)
	out := [2]string{"-", "-"}
	matched := []any{}
	for i, member := range []struct{ webset, username string }{
		{"codehost", "codehost_username"}, {"network", "network_username"},
	} {
		if p, ok := person[member.webset].(map[string]any); ok {
			out[i] = fmt.Sprint(p[member.username])
			matched = append(matched, member.webset)
		}
	}
	require.Equal(t, matched, r.json()["websets_matched"])
	charged := "1"
	if len(matched) == 0 {
		charged = "0"
	}
	require.Equal(t, charged, r.header.Get("X-Credits-Charged"))
	return strings.Join(out[:], "/")
}

func TestContract_EachWebsetIsResolvedByItself(t *testing.T) {
	f := start(t, nil)
	contractPeople(f)
	const both, network = `"websets":["codehost","network"]`, `"websets":["network"]`
	for request, want := range map[string]string{
		`{"network_username":"lin-net","codehost":"lin-code",` + network + `}`:        "-/lin-net",
		`{"network_username":"lin-net","codehost":"lin-code","websets":["codehost"]}`: "lin-code/-",
		`{"network_username":"lin-net","codehost":"lin-code",` + both +
			`}`: "lin-code/lin-net",
		`{"codehost":"lin-code","email":"lin@tamm.example",` + both +
			`}`: "lin-code/lin-net",
		`{"network_username":"lin-net","email":"lin@tamm.example"}`:                           "lin-code/-",
		`{"codehost":"missing-here","network_username":"lin-net","email":"lin@tamm.example"}`: "lin-code/-",
		`{"email":"lin@tamm.example",` + both +
			`}`: "lin-code/lin-net",
		`{"codehost":"rae-code","network_username":"stranger-net",` + both +
			`}`: "rae-code/rae-net",
		`{"codehost":"other-code","network_username":"sol-net",` + both + `}`: "other-code/-",
		`{"codehost":"rae-code","email":"stranger@lone.example",` + both +
			`}`: "rae-code/rae-net",
		`{"network_username":"rae-net"}`:                                        "rae-code/-",
		`{"codehost":"missing-here","network_username":"rae-net"}`:              "rae-code/-",
		`{"codehost":"sol-code",` + network + `}`:                               "-/sol-net",
		`{"network_username":"una-net","email":"una@oja.example",` + both + `}`: "-/una-net",
		`{"codehost":"other-code","email":"stranger@lone.example",` + both +
			`}`: "other-code/stranger-net",
		`{"email":"shared@raud.example",` + both +
			`}`: "ode-code/ode-net",
		`{"email":"rae@kask.example",` + both +
			`}`: "rae-code/rae-net",
		`{"email":"rae@kask.example",` + network + `}`: "-/rae-net",
		`{"email":"una@oja.example",` + both + `}`:     "una-code/-",
		`{"codehost":"lin-code","network_username":"sol-net","email":"lin@tamm.example",` + both +
			`}`: "lin-code/lin-net",
		`{"codehost":"missing-here","network_username":"missing-there","email":"no@one.example"}`: "-/-",
		// On this endpoint digits are a username only.
		`{"codehost":"4242"}`:   "4242/-",
		`{"codehost":"630017"}`: "-/-",
		// Organizations are not people.
		`{"codehost":"fjord-org"}`:              "-/-",
		`{"email":"org@fjord-org.example"}`:     "-/-",
		`{"codehost":"fjord-org",` + both + `}`: "-/-",
	} {
		require.Equal(t, want, usernames(t, f.post(enrichPath, request)), request)
	}
	own := f.enrich(`{"email":"PRIM@fields.example"}`)["person"].(map[string]any)["codehost"].(map[string]any)
	require.Equal(t, "prim@fields.example", own["email"])
	require.Equal(t, []any{"other@fields.example", "prim@fields.example"}, own["emails"])
	require.Equal(t, []any{"Own Fields", "O. Fields", "Fields, Own"}, own["names"])
	profile := f.enrich(`{"network_username":"bare-net",` + network +
		`}`)["person"].(map[string]any)["network"].(map[string]any)["profile"]
	require.IsType(t, map[string]any{}, profile)
}

func TestContract_PersonEndpointsServePeople(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson,
		codehostPerson(1, "acme", "2026-01-01",
			`"type":"Organization","network_username":"jo","emails":["all@acme.example"]`),
		codehostPerson(2, "depend[bot]", "2026-01-01", `"type":"Bot","emails":["bot@acme.example"]`),
		codehostPerson(4, "was-user", "2025-01-01", `"type":"User"`),
		codehostPerson(5, "was-org", "2025-01-01", `"type":"Organization"`),
	)
	f.insert(record.KindCodehostPerson,
		codehostPerson(4, "was-user", "2026-01-01", `"type":"Organization"`),
		codehostPerson(5, "was-org", "2026-01-01", `"type":"User"`))
	f.insert(record.KindNetworkPerson,
		networkPerson("n1", "jo", "2026-01-01", `"social_accounts":["https://codehost.example/acme"]`))

	for request, want := range map[string]string{
		`{"codehost":"acme"}`: "-/-", `{"email":"all@acme.example"}`: "-/-", `{"network_username":"jo"}`: "-/-",
		`{"network_username":"jo","websets":["codehost","network"]}`: "-/jo",
		`{"codehost":"Depend[Bot]"}`:                                 "depend[bot]/-",
		`{"codehost":"depend%5Bbot%5D"}`:                             "depend[bot]/-",
		`{"codehost":"https://codehost.example/depend%5bbot%5d"}`:    "depend[bot]/-",
		`{"email":"bot@acme.example"}`:                               "depend[bot]/-",
		`{"codehost":"was-user"}`:                                    "-/-", `{"codehost":"was-org"}`: "was-org/-",
	} {
		require.Equal(t, want, usernames(t, f.post(enrichPath, request)), request)
	}
	for identifier, found := range map[string]bool{
		"acme": false, "1": false, "https://codehost.example/acme": false, "depend[bot]": true, "depend%5Bbot%5D": true,
		"2":        true,
		"was-user": false, "4": false, "was-org": true,
	} {
		got := f.get(codehostPath + "?codehost=" + url.QueryEscape(identifier))
		require.Equal(t, found, got.json()["user_id"] != nil, identifier)
		require.Equal(t, map[bool]string{true: "1", false: "0"}[found], got.header.Get("X-Credits-Charged"))
		require.Equal(t, found,
			f.post(codehostPath, fmt.Sprintf(`{"codehost":[%q]}`, identifier)).list()[0]["user_id"] != nil, identifier)
	}
	require.Equal(t, "Bot", f.get(codehostPath + "?codehost=depend[bot]").json()["type"])
	require.NotContains(t, f.get(networkPath+"?network=jo&addons=codehost").json(), "codehost")
	require.Equal(t, "{}", f.get(networkPath+"?network=jo&must_have=codehost").body)
	require.Equal(t, 400, f.get(codehostPath+"?codehost=depend[cat]").status)
	require.Equal(t, 422, f.post(enrichPath, `{"codehost":"depend[cat]"}`).status)
}

func TestContract_WebsetsServeTimestampsAndTestAddresses(t *testing.T) {
	f := start(t, nil)
	contractPeople(f)
	require.Equal(t, "2026-10-02T00:00:00Z", f.get(networkPath + "?network=4242").json()["last_updated"])
	require.Equal(t, "id-4242", f.get(codehostPath + "?codehost=4242").json()["codehost_username"])
	require.Equal(t, "Digits Name", f.get(codehostPath + "?codehost=630017").json()["full_name"])

	f.insert(record.KindCodehostPerson,
		codehostPerson(1, "school", "2026",
			`"school_email":"s@school.example","created_at":"2019-05","updated_at":"2026-01-02T03:04:05"`),
		codehostPerson(2, "single", "2026-01-01", `"email":"e@x.example"`),
		codehostPerson(3, "listed", "2026-01-01", `"emails":["","e@x.example"]`),
		codehostPerson(4, "personal", "2026-01-01", `"personal_email":"e@x.example","network_username":"mailed"`),
		codehostPerson(5, "odd", "2026-01-01", `"email":7,"emails":[""],"additional_emails":["a@x.example"]`),
	)
	f.insert(record.KindNetworkPerson, networkPerson("n1", "mailed", "2026-01-01", `"email":"e@x.example"`),
		networkPerson("n2", "mute", "2026-01-01"))
	for name, met := range map[string]bool{"school": false, "single": true, "listed": true, "personal": true,
		"odd": false, "mail-code": true} {
		got := f.get(codehostPath + "?must_have=personal_email&codehost=" + name)
		require.Equal(t, met, got.body != "{}", "%s: %s", name, got.body)
	}
	school := f.get(codehostPath + "?codehost=school").json()
	require.Equal(t, []any{"2026-01-01T00:00:00Z", "2019-05-01T00:00:00Z", "2026-01-02T03:04:05Z"},
		[]any{school["last_updated"], school["created_at"], school["updated_at"]})
	mailed := f.get(networkPath + "?addons=personal_email&must_have=personal_email&network=mailed").json()
	require.Equal(t, map[string]any{"email": "e@x.example"}, mailed["personal_email"])
	require.Equal(t, "{}", f.get(networkPath+"?addons=personal_email&must_have=personal_email&network=mute").body)
	require.NotContains(t, f.get(networkPath+"?network=mailed").body, "x.example")

	// The link is tested with the add-on and without it.
	for _, addons := range []string{"", "&addons=network"} {
		require.Equal(t, "personal",
			f.get(codehostPath + "?codehost=personal&must_have=network" + addons).json()["codehost_username"])
		require.Equal(t, "{}", f.get(codehostPath+"?codehost=single&must_have=network"+addons).body)
	}
}
