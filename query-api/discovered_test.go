package queryapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// keep stores a discovery result as the newest one of its input.
func (f *fixture) keep(input event.Social, found ...event.Social) {
	f.t.Helper()
	f.inserts++
	var rows readmodel.DiscoveryBatch
	input.Confidence = 1
	d := event.Discovery{
		RequestID: fmt.Sprintf("kept-%d", f.inserts), Input: input.Account,
		Socials: append([]event.Social{input}, found...),
		At:      time.Now().Add(time.Duration(f.inserts) * time.Second),
	}
	require.NoError(f.t, d.Validate())
	require.NoError(f.t, rows.Add(&d, readmodel.Position{Topic: event.TopicDiscovery}))
	require.NoError(f.t, readmodel.InsertDiscoveries(f.t.Context(), f.conn, d.RequestID, &rows))
}

func profile(platform, username, id string, confidence float64) event.Social {
	return event.Social{Account: event.Account{Platform: platform, Username: username}, Identity: id,
		Confidence: confidence}
}

// erase adds an identifier to a suppression set.
func erase(t *testing.T, set *suppress.Set, kind suppress.Type, value string) {
	t.Helper()
	entry, err := json.Marshal(suppress.Entry{Type: kind, Scope: suppress.All, RequestedAt: "2026-11-21T00:00:00Z",
		Key: set.Key().ID()})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(kind, value).String()), entry))
}

// In both directions, for enrichment, add-ons and lookups; declared links take precedence.
func TestDiscoveredLinks_AreFollowedFromConfidence(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	for i, name := range []string{"found", "weak", "declared", "other", "late"} {
		declares := ""
		if name == "declared" {
			declares = `,"codehost_username":"dev-other"`
		}
		f.insert(record.KindNetworkPerson,
			fmt.Sprintf(
				`{"profile_id":"p%d","username":"%s","full_name":"N %[2]s"%s,"last_updated":"2026-01-01T00:00:00Z"}`,
				i+1, name, declares))
		f.insert(record.KindCodehostPerson,
			fmt.Sprintf(
				`{"user_id":%d,"codehost_username":"Dev-%s","full_name":"C %[2]s","emails":["%[2]s@muster.example"],`+
					`"last_updated":"2026-01-01T00:00:00Z"}`, i+1, name))
	}
	f.keep(profile("network", "Found", "p1", 0), profile("codehost", "dev-found", "1", 0.9312),
		profile("microblog", "found", "m1", 0.99))
	f.keep(profile("network", "weak", "p2", 0), profile("codehost", "dev-weak", "2", 0.8999))
	f.keep(profile("network", "declared", "p3", 0), profile("codehost", "dev-declared", "3", 0.99))
	f.keep(profile("codehost", "unknown", "", 0), profile("network", "late", "p5", 0.95))

	const both = `,"websets":["codehost","network"]}`
	mark := func(platform, username string, confidence float64) map[string]any {
		return map[string]any{"platform": platform, "username": username, "confidence": confidence}
	}
	person := func(body string) (codehost, network map[string]any) {
		p := f.enrich(body)["person"].(map[string]any)
		codehost, _ = p["codehost"].(map[string]any)
		network, _ = p["network"].(map[string]any)
		return codehost, network
	}

	t.Run("enrich", func(t *testing.T) {
		codehost, network := person(`{"network_username":"found"` + both)
		require.EqualValues(t, 1, codehost["user_id"])
		require.Equal(t, mark("network", "found", 0.9312), codehost["discovered_link"])
		require.Equal(t, "found", codehost["network_username"])
		require.NotContains(t, network, "discovered_link", "requested")
		codehost, network = person(`{"codehost":"dev-FOUND"` + both)
		require.Equal(t, "p1", network["profile_id"])
		require.Equal(t, mark("codehost", "Dev-found", 0.9312), network["discovered_link"])
		require.Equal(t, mark("network", "found", 0.9312), codehost["discovered_link"], "of its network_username")
		codehost, _ = person(`{"email":"found@muster.example"}`)
		require.Equal(t, "found", codehost["network_username"])
		_, network = person(`{"codehost":"unknown","websets":["network"]}`)
		require.Equal(t, "p5", network["profile_id"], "of an account without a record")
		require.Equal(t, mark("codehost", "unknown", 0.95), network["discovered_link"])
	})
	t.Run("websets", func(t *testing.T) {
		r := f.get("/v1/webset/network/person?network=found&addons=codehost").json()
		require.Equal(t, mark("network", "found", 0.9312), r["codehost"].(map[string]any)["discovered_link"])
		r = f.get("/v1/webset/codehost/person?codehost=1&addons=network").json()
		require.Equal(t, "N found", r["network"].(map[string]any)["full_name"])
		require.Equal(t, mark("codehost", "Dev-found", 0.9312), r["network"].(map[string]any)["discovered_link"])
		require.NotEmpty(t, f.get("/v1/webset/codehost/person?codehost=dev-found&must_have=network").json())
		require.Empty(t, f.get("/v1/webset/codehost/person?codehost=dev-weak&must_have=network").json())
	})
	t.Run("too weak", func(t *testing.T) {
		codehost, _ := person(`{"network_username":"weak"` + both)
		require.Nil(t, codehost)
	})
	t.Run("declared first", func(t *testing.T) {
		codehost, network := person(`{"network_username":"declared"` + both)
		require.EqualValues(t, 4, codehost["user_id"])
		require.NotContains(t, codehost, "discovered_link")
		require.NotNil(t, network)
		codehost, network = person(`{"codehost":"dev-declared"` + both)
		require.Nil(t, network, "declares another account")
		require.NotContains(t, codehost, "network_username")
	})
	t.Run("surer one elsewhere", func(t *testing.T) {
		f.keep(profile("network", "weak", "p2", 0), profile("codehost", "dev-found", "1", 0.91))
		codehost, _ := person(`{"network_username":"weak"` + both)
		require.Nil(t, codehost)
	})
	t.Run("moved", func(t *testing.T) {
		f.keep(profile("codehost", "dev-late", "5", 0), profile("network", "late", "p5", 0.97))
		_, network := person(`{"codehost":"dev-late"` + both)
		require.Equal(t, "p5", network["profile_id"])
		// Another account has the input name now; the found account keeps its record under any name.
		f.insert(record.KindNetworkPerson,
			`{"profile_id":"p5","username":"married","full_name":"N","last_updated":"2026-02-01T00:00:00Z"}`)
		_, network = person(`{"codehost":"dev-late"` + both)
		require.Equal(t, "married", network["network_username"])
		f.insert(record.KindCodehostPerson,
			`{"user_id":5,"codehost_username":"gone","last_updated":"2026-02-01T00:00:00Z"}`,
			`{"user_id":50,"codehost_username":"dev-late","last_updated":"2026-02-01T00:00:00Z"}`)
		codehost, network := person(`{"codehost":"dev-late"` + both)
		require.EqualValues(t, 50, codehost["user_id"])
		require.Nil(t, network)
	})
	t.Run("no more", func(t *testing.T) {
		f.keep(profile("network", "found", "p1", 0), profile("codehost", "dev-found", "1", 0.7))
		codehost, _ := person(`{"network_username":"found"` + both)
		require.Nil(t, codehost)
		_, network := person(`{"codehost":"dev-found"` + both)
		require.Equal(t, "p2", network["profile_id"], "the next most confident")
	})
	t.Run("erased", func(t *testing.T) {
		erase(t, set, suppress.NetworkUsername, "weak")
		_, network := person(`{"codehost":"dev-found"` + both)
		require.Nil(t, network)
	})
}
