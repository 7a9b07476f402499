package finder_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/judge"
	"muster/discovery-worker/internal/model"
	"muster/discovery-worker/internal/model/modeltest"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/provider"
	"muster/discovery-worker/internal/websearch"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// fakeHost is a code host with some accounts. If err is set, lookups fail with it.
type fakeHost struct {
	people map[string]*people.Profile
	err    error
}

func (fakeHost) Name() string { return "codehost" }

func (h fakeHost) Ask(_ context.Context, username string) (*people.Profile, error) {
	return h.people[username], h.err
}

func TestFind_UsesProvidersAndDegrades(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{record.KindNetworkPerson: {
		`{"profile_id":"p1","username":"wenda-quarrelby","full_name":"Wenda Quarrelby","headline":"Compiler ` +
			`engineer at Farrowdale","location":{"city":"Oslo"},"current_position":{"summary":"Compiler engineer",` +
			`"company":{"name":"Farrowdale"}},"last_updated":"2026-01-01T00:00:00Z"}`,
	}})
	status := http.StatusOK
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w,
			`{"results":[{"url":"https://github.com/wquarrelby","title":"wquarrelby (Wenda Quarrelby)",`+
				`"content":"Compilers"}]}`)
	}))
	t.Cleanup(engine.Close)
	service, err := websearch.NewService(websearch.SearXNG, websearch.Endpoint{URL: engine.URL}, provider.NewClient())
	require.NoError(t, err)
	web := websearch.New([]websearch.Service{service}, identity.Default())
	live := fakeHost{people: map[string]*people.Profile{"wquarrelby": {
		Platform: identity.Codehost, Username: "wquarrelby", Key: "wquarrelby", Identity: "7",
		Names: []string{"Wenda Quarrelby"}, Bio: "Compiler engineer", Places: []string{"Oslo"},
		Employers: []string{"Farrowdale"}, Current: 1, Followers: 3, Person: true,
	}}}
	input := event.Account{Platform: identity.Network, Username: "wenda-quarrelby"}

	require.Len(t, s.finder().Find(t.Context(), input).Socials, 1, "the account has no record")
	d := s.finder().WithProviders(finder.Providers{Web: web, Live: live}).Find(t.Context(), input)
	require.Empty(t, d.Degraded)
	require.Len(t, d.Socials, 2, "%+v", d.Socials)
	require.Equal(t, "7", d.Socials[1].Identity)
	before := d.Socials[1].Confidence

	// The model can lower a confidence, but not raise it, whatever a bio makes it say.
	for answer, check := range map[string]func(*event.Discovery){
		`{"scores":[{"candidate":0,"same_person":1.0}]}`: func(d *event.Discovery) {
			require.Len(t, d.Socials, 2)
			require.LessOrEqual(t, d.Socials[1].Confidence, before)
			require.NotEmpty(t, d.Versions[event.StageLanguageModel])
		},
		`{"scores":[{"candidate":0,"same_person":0.0}]}`: func(d *event.Discovery) {
			for _, social := range d.Socials[1:] {
				require.Less(t, social.Confidence, before)
			}
		},
		`{"scores":[{"candidate":99,"same_person":7}]}`: func(d *event.Discovery) {
			require.InDelta(t, before, d.Socials[1].Confidence, 1e-9)
		},
	} {
		server := modeltest.New(modeltest.Replies(modeltest.Reply{Content: answer}))
		client, err := model.New(model.Config{URL: server.URL(), Name: "test"},
			model.Deps{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		j := judge.New(client)
		d := s.finder().WithProviders(finder.Providers{Web: web, Live: live, Judge: j, JudgeVersion: j.Version()}).Find(
			t.Context(), input)
		require.Empty(t, d.Degraded)
		check(d)
		require.Contains(t, server.Calls()[0].User, "Farrowdale")
		require.NotContains(t, server.Calls()[0].System, "Farrowdale", "data must not be in the instructions")
		client.Close()
		server.Close()
	}

	// A failing stage is named and does not affect the others.
	server := modeltest.New(modeltest.Replies(modeltest.Reply{Status: http.StatusInternalServerError}))
	t.Cleanup(server.Close)
	client, err := model.New(model.Config{URL: server.URL(), Name: "test"}, model.Deps{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	d = s.finder().WithProviders(finder.Providers{Web: web, Live: live, Judge: judge.New(client)}).Find(t.Context(),
		input)
	require.Equal(t, []string{event.StageLanguageModel}, d.Degraded)
	require.Len(t, d.Socials, 2)
	status = http.StatusInternalServerError
	d = s.finder().WithProviders(finder.Providers{Web: web, Live: live}).Find(t.Context(), input)
	require.Equal(t, []string{event.StageWebSearch}, d.Degraded)
	require.Len(t, d.Socials, 1)
	d = s.finder().WithProviders(finder.Providers{Live: fakeHost{err: errors.New("down")}}).Find(t.Context(),
		event.Account{Platform: identity.Codehost, Username: "unknown"})
	require.Equal(t, []string{event.StageCodeHost}, d.Degraded)
}

// Discovered links of any confidence do not change a score (rulings.md, Person enrichment).
func TestFind_DiscoveredLinksAreNotEvidence(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"wenda-quarrelby","full_name":"Wenda Quarrelby",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`},
		record.KindCodehostPerson: {
			`{"user_id":7,"codehost_username":"wquarrelby","full_name":"Wenda Quarrelby",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`},
		record.KindMicroblogPerson: {
			`{"user_id":"m1","username":"someone_else","name":"Ola Other","last_updated":"2026-01-01T00:00:00Z"}`,
		},
	})
	inputs := []event.Account{
		{Platform: identity.Network, Username: "wenda-quarrelby"},
		{Platform: identity.Codehost, Username: "wquarrelby"}, {Platform: identity.Microblog, Username: "someone_else"},
	}
	var before []*event.Discovery
	for _, in := range inputs {
		before = append(before, s.finder().Find(t.Context(), in))
	}
	require.True(t, before[0].Found(), "%+v", before[0])
	var batch readmodel.DiscoveryBatch
	for i, in := range inputs {
		d := event.Discovery{RequestID: fmt.Sprint(i), Input: in, At: time.Now(),
			Socials: []event.Social{{Account: in, Confidence: 1, Identity: []string{"p1", "7", "m1"}[i]}}}
		for j, other := range inputs {
			if i != j {
				d.Socials = append(d.Socials,
					event.Social{Account: other, Confidence: 0.999, Identity: []string{"p1", "7", "m1"}[j]})
			}
		}
		require.NoError(t, batch.Add(&d, readmodel.Position{Topic: event.TopicDiscovery}))
	}
	require.NoError(t, readmodel.InsertDiscoveries(t.Context(), s.conn, "kept", &batch))
	for i, in := range inputs {
		require.Equal(t, before[i].Socials, s.finder().Find(t.Context(), in).Socials)
	}
}

// An account that a record or a confident account-link names is returned without a record
// (interface.md, discovery rule 2). One whose username has moved, or that is only mentioned in a
// text, is not.
func TestFind_ReturnsDeclaredAccountsWithoutRecord(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"declares","full_name":"Wenda Quarrelby","codehost_username":"Wenda-Q",` +
				`"summary":"More at https://microblog.example/wenda_mentions","last_updated":"2026-01-01T00:00:00Z"}`,
			`{"profile_id":"p2","username":"linked","full_name":"Ola Halvorsen","last_updated":"2026-01-01T00:00:00Z"}`,
			`{"profile_id":"p3","username":"stale","full_name":"Juno Abara","codehost_username":"juno-old",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`,
		},
		record.KindCodehostPerson: {
			`{"user_id":7,"codehost_username":"juno-old","full_name":"Someone Else",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`},
		record.KindAccountLink: {
			`{"a":{"platform":"network","username":"linked"},"b":{"platform":"microblog","username":"ola_h"},` +
				`"source":"crawl","confidence":1,"observed_at":"2026-01-01T00:00:00Z"}`,
		},
	})
	s.insert(map[record.Kind][]string{record.KindCodehostPerson: {
		`{"user_id":7,"codehost_username":"someone-else","full_name":"Someone Else",` +
			`"last_updated":"2026-02-01T00:00:00Z"}`,
	}})
	for username, want := range map[string]event.Account{
		"declares": {Platform: identity.Codehost, Username: "wenda-q"},
		"linked":   {Platform: identity.Microblog, Username: "ola_h"},
		"stale":    {},
	} {
		d := s.finder().Find(t.Context(), event.Account{Platform: identity.Network, Username: username})
		require.Empty(t, d.Degraded)
		if want == (event.Account{}) {
			require.Len(t, d.Socials, 1, username)
			continue
		}
		require.Len(t, d.Socials, 2, username)
		require.Equal(t, want, d.Socials[1].Account)
		require.Nil(t, d.Socials[1].Context)
		require.Greater(t, d.Socials[1].Confidence, 0.9)
	}
}
