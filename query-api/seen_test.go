package queryapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// seen writes a version bump of a record.
func (f *fixture) seen(kind record.Kind, raw string) {
	f.t.Helper()
	rec, err := record.Decode(kind, []byte(raw))
	require.NoError(f.t, err)
	b := &readmodel.Batch{}
	bump := event.VersionBump{Kind: rec.Kind, Key: rec.Key, Version: rec.VersionText, Hash: rec.Hash}
	require.NoError(f.t, b.VersionBump(bump, rec.Version, readmodel.Position{Topic: event.TopicVersionBump}))
	require.NoError(f.t, readmodel.Insert(f.t.Context(), f.conn, raw, b))
	f.syncSearch(kind)
}

// Same content with a newer version (records.md, rule 5).
func TestVersionBump_UpdatesLastUpdated(t *testing.T) {
	f := start(t, nil)
	mail := `"emails":["shared@x.example"]`
	f.insert(record.KindNetworkPerson, networkPerson("n1", "anna-net", "2026-01-01", mail))
	f.insert(record.KindCodehostPerson, codehostPerson(1, "anna", "2026-01-02", mail, `"network_username":"anna-net"`),
		codehostPerson(2, "bela", "2026-01-03", mail))
	f.insert(record.KindNetworkCompany, `{"company_id":"c1","network_slug":"acme","last_updated":"2026-01-01"}`)
	f.seen(record.KindNetworkPerson, networkPerson("n1", "anna-net", "2026-02-01", mail))
	f.seen(record.KindNetworkCompany, `{"company_id":"c1","network_slug":"acme","last_updated":"2026-02-02"}`)

	require.Equal(t, "2026-02-01T00:00:00Z", f.get("/v1/webset/network/person?network=anna-net").json()["last_updated"])
	network := f.enrich(
		`{"network_username":"anna-net","websets":["network"]}`)["person"].(map[string]any)["network"].(map[string]any)
	require.Equal(t, "2026-02-01T00:00:00Z", network["updated_at"])
	company := f.post("/v1/company/enrich", `{"network_slug":"acme"}`).json()["company"].(map[string]any)
	require.Equal(t, "2026-02-02T00:00:00Z", company["last_updated"])

	require.Equal(t, "2/-", answeredBy(t, f.enrich(`{"email":"shared@x.example"}`)))
	f.seen(record.KindCodehostPerson, codehostPerson(1, "anna", "2026-03-01", mail, `"network_username":"anna-net"`))
	require.Equal(t, "1/-", answeredBy(t, f.enrich(`{"email":"shared@x.example"}`)))
	record1 := f.get("/v1/webset/codehost/person?codehost=anna").json()
	require.Equal(t, "2026-03-01T00:00:00Z", record1["last_updated"])
	addon := f.get("/v1/webset/network/person?network=anna-net&addons=codehost").json()["codehost"].(map[string]any)
	require.Equal(t, "2026-03-01T00:00:00Z", addon["last_updated"])

	// Newer content replaces it, and version bumps of the older content no longer count.
	f.insert(record.KindCodehostPerson, codehostPerson(1, "anna-b", "2026-02-15", mail))
	require.Equal(t, "2026-02-15T00:00:00Z", f.get("/v1/webset/codehost/person?codehost=anna-b").json()["last_updated"])
	require.Equal(t, "1/-", answeredBy(t, f.enrich(`{"email":"shared@x.example"}`)))
}

func TestSearch_UsesVersionBumps(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	newest := `,"sort":[{"updated_at":"desc"}]}`
	require.Equal(t, []string{"p5", "p4", "p3", "p2", "p1"}, ids(f.search(`{"query":{"match_all":{}}`+newest)))
	f.seen(record.KindNetworkPerson, strings.Replace(searchPeople()[1], "2026-02-01", "2026-06-01", 1))
	var order []string
	polltest.Until(t, waitTimeout, func() bool { // absence of version bumps is cached briefly
		order = ids(f.search(`{"query":{"match_all":{}}` + newest))
		return slices.Equal([]string{"p2", "p5", "p4", "p3", "p1"}, order)
	}, "the newest is not the first: %v", func() any { return order })
	got := f.search(`{"query":{"range":{"updated_at":{"gt":"2026-05-01"}}}}`)
	require.Equal(t, []string{"p2"}, ids(got))
	require.EqualValues(t, 1, got["total"])
	require.Equal(t, "2026-06-01T00:00:00Z", got["results"].([]any)[0].(map[string]any)["updated_at"])
	require.Equal(t, []string{"p1", "p2"},
		ids(
			f.search(
				`{"query":{"bool":{"should":[{"match":{"profile.headline":"data engineer"}},{"range":{"updated_at":`+
					`{"gte":"2026-06-01","lt":"2026-07"}}}],"must_not":{"range":{"updated_at":{"gte":"2026-03",`+
					`"lt":"2026-06"}}}}},"sort":["profile_id.keyword"]}`)))
	require.Equal(t, []string{"p2"},
		ids(
			f.search(
				`{"query":{"function_score":{"query":{"match":{"profile.headline":"engineer"}},`+
					`"linear":{"updated_at":{"origin":"2026-06-01","scale":"30d","decay":0.5}},"min_score":1e-9}}}`)))
	walked, next := []string{}, ""
	for range 5 {
		page := f.search(`{"query":{"match_all":{}},"size":2` + next + newest)
		walked = append(walked, ids(page)...)
		cursor, ok := page["next_cursor"].(string)
		if !ok {
			break
		}
		next = `,"cursor":"` + cursor + `"`
	}
	require.Equal(t, []string{"p2", "p5", "p4", "p3", "p1"}, walked)
	// Of two bumps the newest counts; bumps of other content do not.
	f.seen(record.KindNetworkPerson, strings.Replace(searchPeople()[1], "2026-02-01", "2026-05-15", 1))
	require.Equal(t, []string{"p2"}, ids(f.search(`{"query":{"range":{"updated_at":{"gte":"2026-06-01"}}}}`)))
	f.insert(record.KindNetworkPerson,
		strings.NewReplacer("2026-02-01", "2026-03-15", "Software", "Hardware").Replace(searchPeople()[1]))
	require.Empty(t, ids(f.search(`{"query":{"range":{"updated_at":{"gte":"2026-06-01"}}}}`)))
	require.NotContains(t, f.post("/v1/person/search/explain",
		`{"query":{"range":{"updated_at":{"gte":"2026-06-01"}}}}`).json(), "refused")
}
