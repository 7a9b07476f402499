package finder_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/provider"
	"muster/discovery-worker/internal/websearch"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// newWebSearch returns a web search that finds wquarrelby at the code host.
func newWebSearch(t *testing.T) *websearch.Searcher {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w,
			`{"results":[{"url":"https://github.com/wquarrelby","title":"wquarrelby (Wenda Quarrelby)",`+
				`"content":"Compiler engineer at Farrowdale, Oslo"}]}`)
	}))
	t.Cleanup(engine.Close)
	service, err := websearch.NewService(websearch.SearXNG, websearch.Endpoint{URL: engine.URL}, provider.NewClient())
	require.NoError(t, err)
	return websearch.New([]websearch.Service{service}, identity.Default())
}

const wenda = `{"profile_id":"p1","username":"wenda-quarrelby","full_name":"Wenda Quarrelby","headline":"Compiler ` +
	`engineer at Farrowdale","location":{"city":"Oslo"},"current_position":{"summary":"Compiler engineer",` +
	`"company":{"name":"Farrowdale"}},"last_updated":"2026-01-01T00:00:00Z"}`

func TestFind_CodeHostOutageKeepsOtherResults(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"declares","full_name":"Wenda Quarrelby",` +
				`"codehost_username":"not-on-record","microblog_username":"zz_top_9",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`,
		},
		record.KindMicroblogPerson: {
			`{"user_id":"m1","username":"zz_top_9","name":"","bio":"https://network.example/in/declares",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`},
	})
	unavailable := s.finder().WithProviders(finder.Providers{Live: fakeHost{err: errors.New("down")}})
	for _, in := range []event.Account{{Platform: identity.Network, Username: "declares"},
		{Platform: identity.Codehost, Username: "not-on-record"}} {
		without := s.finder().Find(t.Context(), in)
		require.Len(t, without.Socials, 3)
		d := unavailable.Find(t.Context(), in)
		require.Equal(t, without.Socials, d.Socials)
		require.Equal(t, []string{event.StageCodeHost}, d.Degraded)
	}
}

// A live lookup overrides records of others: an erased person is not found in any way, and a
// deleted account is not found by search.
func TestFind_LiveLookupOverridesRecords(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: {
			wenda,
			`{"profile_id":"p2","username":"declares","full_name":"Ola Halvorsen","codehost_username":"wquarrelby",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`,
			`{"profile_id":"p3","username":"linked","full_name":"Juno Abara","last_updated":"2026-01-01T00:00:00Z"}`,
		},
		record.KindAccountLink: {
			`{"a":{"platform":"network","username":"linked"},"b":{"platform":"codehost","username":"wquarrelby"},` +
				`"source":"crawl","confidence":1,"observed_at":"2026-01-01T00:00:00Z"}`,
		},
	})
	found := func(f *finder.Finder, platform, username string) []event.Social {
		t.Helper()
		d := f.Find(t.Context(), event.Account{Platform: platform, Username: username})
		require.Empty(t, d.Degraded)
		return d.Socials[1:]
	}

	t.Run("erased", func(t *testing.T) {
		// Erased by stable ID; the username has changed since.
		set := suppress.NewSet(suppress.NoKey())
		set.Loaded()
		entry, err := json.Marshal(suppress.Entry{Type: suppress.UserID, Scope: suppress.All,
			RequestedAt: "2026-11-21T00:00:00Z", Key: set.Key().ID()})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.UserID, "7").String()), entry))
		model, err := evidence.Default()
		require.NoError(t, err)
		reader := people.NewReader(s.conn, identity.Default(), people.Config{Suppressed: set})
		t.Cleanup(reader.Close)
		f := finder.New(reader, model, slog.New(slog.DiscardHandler),
			time.Now).WithProviders(finder.Providers{Web: newWebSearch(t),
			Live: fakeHost{people: map[string]*people.Profile{
				"wquarrelby": {Platform: identity.Codehost, Username: "wquarrelby", Key: "wquarrelby", Identity: "7",
					Names: []string{"Wenda Quarrelby"}, Followers: 3, Person: true},
			}}})
		require.Empty(t, found(f, identity.Network, "wenda-quarrelby"), "found by search")
		require.Empty(t, found(f, identity.Network, "declares"), "found by declared field")
		require.Empty(t, found(f, identity.Network, "linked"), "found by account link")
		require.Empty(t, found(f, identity.Codehost, "wquarrelby"), "found as input")
	})

	t.Run("gone", func(t *testing.T) {
		f := s.finder().WithProviders(finder.Providers{Web: newWebSearch(t), Live: fakeHost{}})
		require.Empty(t, found(f, identity.Network, "wenda-quarrelby"))
		require.Len(t, found(f, identity.Network, "declares"), 1,
			"a declared account needs no record")
		require.Len(t, found(s.finder().WithProviders(finder.Providers{Web: newWebSearch(t)}), identity.Network,
			"wenda-quarrelby"), 1, "no provider was available")
	})
}
