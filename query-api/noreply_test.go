package queryapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func TestEnrichPerson_FindsAccountsByNoReplyAddress(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	f.insert(record.KindCodehostPerson,
		codehostPerson(7654, "milakern", "2026-01-01", `"emails":["mila@x.example"]`, `"network_username":"mila-net"`),
		codehostPerson(31, "jorisalo", "2026-01-01"),
		codehostPerson(41, "passed-on", "2025-01-01"), codehostPerson(42, "passed-on", "2026-01-01"),
		codehostPerson(55501, "pinbot[bot]", "2026-01-01", `"type":"Bot"`),
		codehostPerson(51, "erased", "2026-01-01"),
		codehostPerson(61, "lister", "2026-01-01", `"emails":["62+listed@users.noreply.codehost.example"]`),
	)
	f.insert(record.KindNetworkPerson, networkPerson("n1", "mila-net", "2026-01-01"))
	erase(t, set, suppress.Email, "51+erased@users.noreply.codehost.example")
	for request, want := range map[string]string{
		`{"email":"7654+milakern@users.noreply.codehost.example"}`:                                  "7654/-",
		`{"email":"7654+MilaKern@Users.NoReply.CodeHost.example"}`:                                  "7654/-",
		`{"email":"7654+milakern@users.noreply.github.com"}`:                                        "7654/-",
		`{"email":"Mila <milakern@users.noreply.codehost.example>"}`:                                "7654/-",
		`{"email":"7654+renamed@users.noreply.codehost.example"}`:                                   "7654/-",
		`{"email":"7654+milakern@users.noreply.codehost.example","websets":["codehost","network"]}`: "7654/n1",
		`{"email":"7654+milakern@users.noreply.codehost.example","codehost":"milakern"}`:            "7654/-",
		`{"email":"7654+milakern@users.noreply.codehost.example","codehost":"absent"}`:              "7654/-",
		`{"email":"99+milakern@users.noreply.codehost.example"}`:                                    "-/-",
		`{"email":"41+passed-on@users.noreply.codehost.example"}`:                                   "41/-",
		`{"email":"passed-on@users.noreply.codehost.example"}`:                                      "42/-",
		`{"email":"jorisalo@users.noreply.codehost.example"}`:                                       "31/-",
		`{"email":"55501+pinbot[bot]@users.noreply.codehost.example"}`:                              "55501/-",
		`{"email":"pinbot[bot]@users.noreply.codehost.example"}`:                                    "55501/-",
		`{"codehost":"pinbot[bot]"}`:                                                                "55501/-",
		`{"email":"absent@users.noreply.codehost.example"}`:                                         "-/-",
		`{"email":"31+jorisalo@users.noreply.elsewhere.example"}`:                                   "-/-",
		`{"email":"31+jorisalo@codehost.example"}`:                                                  "-/-",
		`{"email":"51+erased@users.noreply.codehost.example"}`:                                      "-/-",
		`{"email":"erased@users.noreply.codehost.example"}`:                                         "51/-",
		`{"email":"62+listed@users.noreply.codehost.example"}`:                                      "61/-",
	} {
		require.Equal(t, want, answeredBy(t, f.enrich(request)), request)
	}
	found := f.enrich(
		`{"email":"7654+milakern@users.noreply.codehost.example"}`)["person"].(map[string]any)["codehost"].(map[string]any)
	require.Equal(t, "mila@x.example", found["email"])
	require.Equal(t, []any{"mila@x.example"}, found["emails"], "the address is no contact")
	found = f.enrich(
		`{"email":"jorisalo@users.noreply.codehost.example"}`)["person"].(map[string]any)["codehost"].(map[string]any)
	require.NotContains(t, found, "email")
	require.Contains(t, f.get("/v1/webset/codehost/person?codehost=pinbot%5Bbot%5D").body, `"user_id":55501`)
}
