package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// suppressed returns a set with one erased codehost username.
func suppressed(t *testing.T, username string) *suppress.Set {
	t.Helper()
	set := suppress.NewSet(suppress.NoKey())
	value, err := json.Marshal(suppress.Entry{
		Type: suppress.CodehostUsername, Scope: suppress.All, RequestedAt: "2026-11-21T00:00:00Z", Key: set.Key().ID(),
	})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.CodehostUsername, username).String()), value))
	set.Loaded()
	return set
}

// Covers results that were in flight during the erasure, with the person as input or match, and results
// without data.
func TestProjector_OmitsDiscoveriesOfErasedPeople(t *testing.T) {
	h := newHarness(t)
	set := suppressed(t, "ghost")
	h.start(func(_ *projector.Config, d *projector.Deps) { d.Suppressed = set })
	account := func(platform, username string) event.Account {
		return event.Account{Platform: platform, Username: username}
	}
	publish := func(id string, input event.Account, found ...event.Account) {
		d := event.Discovery{RequestID: id, Input: input, At: time.Now().UTC(),
			Socials: []event.Social{{Account: input, Confidence: 1}}}
		for _, a := range found {
			d.Socials = append(d.Socials, event.Social{Account: a, Confidence: 0.97})
		}
		require.NoError(t, d.Validate())
		value, err := json.Marshal(&d)
		require.NoError(t, err)
		h.publish(kafka.Message{Topic: event.TopicDiscovery, Key: []byte(input.Platform + ":" + input.Username),
			Value: value, Headers: bus.SetEvent(nil, bus.Event{
				ID: id, Type: event.TypeDiscovery, Source: "test", Subject: id, Time: d.At,
				ContentType: "application/json",
			})})
	}
	publish("input", account("codehost", "Ghost"))
	publish("found", account("network", "someone"), account("codehost", "ghost"))
	publish("kept", account("network", "another"), account("codehost", "alive"))
	names := func(ctx context.Context) []string {
		var out []string
		rows, err := h.conn.Query(ctx, "SELECT request_id FROM "+readmodel.DiscoveryTable)
		require.NoError(t, err)
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			out = append(out, id)
		}
		require.NoError(t, rows.Close())
		return out
	}
	eventually(t, func(ctx context.Context) bool {
		lag, err := bus.Lag(ctx, h.kafka, projector.DiscoveryGroup, []string{event.TopicDiscovery})
		if err != nil || len(names(ctx)) == 0 {
			return false
		}
		for _, l := range lag {
			if l.Lag > 0 {
				return false
			}
		}
		return true
	}, "the results are not projected")
	require.Equal(t, []string{"kept"}, names(t.Context()))
	require.EqualValues(t, 1, h.count("SELECT count() FROM "+readmodel.DiscoveredTable+
		" WHERE found_key = 'alive' AND input_key = 'another' AND confidence = 0.97"))
	require.EqualValues(t, 1, h.count("SELECT count() FROM "+readmodel.DiscoveredTable+
		" WHERE found_key = 'another' AND input_key = 'another'"), "the input")
	require.EqualValues(t, 2, h.count("SELECT count() FROM "+readmodel.DiscoveredTable))
}
