package queryapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// company is a network-company with a profile and headquarters.
func company(id, name, website, city, country string) string {
	return fmt.Sprintf(`{"company_id":%q,"network_slug":%q,"last_updated":"2026-01-01",`+
		`"profile":{"name":%q,"website":%q},"headquarters":{"city":%q,"country":%q}}`, id, "slug-"+id, name, website, city,
		country)
}

func TestEnrichCompany_FindsByWhatPeopleHave(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkCompany,
		company("acme", "Acme, Inc.", "https://www.acme.example", "Lisbon", "Portugal"),
		company("acme-de", "Acme GmbH", "https://acme.example/de", "Berlin", "Germany"),
		company("twin-a", "Twin", "https://twin.example/a", "Paris", "FR"),
		company("twin-b", "TWIN", "https://twin.example/b", "Lyon", "France"),
		company("solo", "Société Solo", "solo.co.uk", "", ""),
		company("page", "Page", "https://www.facebook.com/page", "", ""),
		company("mailer", "Mailer", "https://gmail.com", "", ""),
		company("moved", "Before", "https://before.example", "", ""),
		company("gone", "Gone", "https://gone.example", "", ""),
	)
	f.insert(record.KindNetworkCompany,
		`{"company_id":"moved","last_updated":"2026-02-01","profile":{"name":"After","website":"after.example"}}`,
		`{"company_id":"gone","last_updated":"2026-02-01","deleted":true}`)
	for _, tc := range []struct{ request, want string }{
		{`{"website":"https://WWW.Acme.example:443/jobs?x#y"}`, "acme"}, // the one with the domain itself as its website
		{`{"domain":"acme.example"}`, "acme"},
		{`{"domain":"mail.de.acme.example"}`, "acme"},
		{`{"email":"Ada@Acme.example"}`, "acme"},
		{`{"website":"twin.example"}`, "twin-a 0.5, twin-b 0.5"},
		{`{"website":"www.solo.co.uk"}`, "solo"},
		{`{"domain":"other.co.uk"}`, ""},
		{`{"website":"https://www.facebook.com/page"}`, ""},
		{`{"website":"https://www.facebook.com"}`, ""},
		{`{"email":"ada@gmail.com"}`, ""},
		{`{"domain":"gmail.com"}`, ""},
		{`{"email":"ada@googlemail.com","name":"solo"}`, ""},
		{`{"email":"ada@gmail.com","name":"société solo"}`, "solo"},
		{`{"domain":"before.example"}`, ""},
		{`{"name":"Before"}`, ""},
		{`{"domain":"after.example"}`, "moved"},
		{`{"domain":"gone.example"}`, ""},
		{`{"name":"gone"}`, ""},
		{`{"name":"SOCIETE solo"}`, "solo"},
		{`{"name":"Acme"}`, "acme 0.95, acme-de 0.95"},
		{`{"name":"ACME Inc"}`, "acme"},
		{`{"name":"Acme Ltd"}`, "acme 0.6, acme-de 0.6"},
		{`{"name":"acme","location":"Berlin"}`, "acme-de"},
		{`{"name":"Acme","location":"Portugal"}`, "acme"},
		{`{"name":"Acme","location":"Paris, France"}`, "acme 0.475, acme-de 0.475"},
		{`{"name":"Twin"}`, "twin-a 1, twin-b 1"},
		{`{"name":"Twin","location":"Lyon"}`, "twin-b"},
		{`{"name":"Twin","location":"France"}`, "twin-a 1, twin-b 1"},
		{`{"name":"Société Solo","location":"Paris"}`, "solo"}, // 0.9: its place is unknown
		{`{"name":"Twin","location":"nowhere at all"}`, "twin-a 0.9, twin-b 0.9"},
		{`{"website":"twin.example","name":"Société Solo"}`, "solo"},
		{`{"website":"twin.example","name":"Acme"}`, "twin-a 0.5, twin-b 0.5"},
		{`{"company_id":"absent","website":"acme.example"}`, "acme"},
		{`{"network_slug":"slug-solo","website":"not a website"}`, "solo"},
	} {
		got := f.post(companyPath, tc.request)
		body := got.json()
		found := ""
		switch {
		case body["matched"] == true:
			found = body["company"].(map[string]any)["company_id"].(string)
			require.Equal(t, 1, charged(t, got), tc.request)
			require.NotContains(t, body, "candidates")
			require.Empty(t, got.header.Get("X-Miss-Reason"))
		case body["candidates"] != nil:
			for i, c := range body["candidates"].([]any) {
				if i > 0 {
					found += ", "
				}
				found += fmt.Sprint(c.(map[string]any)["company_id"], " ", c.(map[string]any)["score"])
				require.NotEmpty(t, c.(map[string]any)["name"])
			}
			require.Equal(t, 0, charged(t, got), tc.request)
			require.Equal(t, "below_confidence", got.header.Get("X-Miss-Reason"))
		default:
			require.Equal(t, 0, charged(t, got), tc.request)
			require.Equal(t, "not_found", got.header.Get("X-Miss-Reason"))
		}
		require.Equal(t, tc.want, found, tc.request)
		// An item is answered like a call.
		item := f.post(companyPath, withItems(tc.request)).results()[0]
		if reason := got.header.Get("X-Miss-Reason"); reason != "" {
			body["miss_reason"] = reason
		}
		require.Equal(t, body, item, tc.request)
	}
}

func TestEnrichCompany_CandidatesAreBounded(t *testing.T) {
	f := start(t, nil)
	var many []string
	for i := range 300 {
		many = append(many, company(fmt.Sprintf("c%03d", i), "Consulting", "https://shared.example/x", "Paris", "France"))
	}
	f.insert(record.KindNetworkCompany, many...)
	for _, request := range []string{`{"name":"Consulting"}`, `{"domain":"shared.example"}`} {
		got := f.post(companyPath, request).json()
		require.Len(t, got["candidates"], 20, request)
		require.Equal(t, "c000", got["candidates"].([]any)[0].(map[string]any)["company_id"])
	}
}

func TestEnrichCompany_RejectsMalformedWebsitesAndNames(t *testing.T) {
	f := start(t, nil)
	for request, detail := range map[string]string{
		`{"website":""}`:                         "website is empty",
		`{"website":"not a website"}`:            "website is not a website or domain name such as acme.example",
		`{"domain":"co.uk"}`:                     "domain is a public suffix",
		`{"domain":"127.0.0.1"}`:                 "domain is not a website or domain name",
		`{"website":"ftp://acme.example"}`:       "website is not a website or domain name",
		`{"email":"acme.example"}`:               "email is not an e-mail address",
		`{"email":"a@localhost"}`:                "email",
		`{"name":" "}`:                           "name is empty",
		`{"name":"!!"}`:                          "name has neither letters nor digits",
		`{"name":"a\u0000b"}`:                    "name holds control characters",
		`{"name":"Acme","location":" "}`:         "location is empty",
		`{"location":"Lisbon"}`:                  "location is given without name",
		`{"company_id":"x","location":"Lisbon"}`: "location is given without name",
		`{"items":[{"name":"x"}],"name":"Acme"}`: "put it into the items",
		`{"name":5}`:                             "name must be a string",
		`{"nam":"Acme"}`:                         `did you mean "name"?`,
	} {
		got := f.post(companyPath, request)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, request)
		require.Contains(t, got.detail(), detail, request)
	}
}
