package project_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Covers results that were in flight during the erasure, with the person as input or match, and results
// without data.
func TestProjector_OmitsDiscoveriesOfErasedPeople(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Suppressed = set })
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
		h.Publish(kafka.Message{Topic: event.TopicDiscovery, Key: []byte(input.Platform + ":" + input.Username),
			Value: value, Headers: bus.SetEvent(nil, bus.Event{
				ID: id, Type: event.TypeDiscovery, Source: "test", Subject: id, Time: d.At,
				ContentType: "application/json",
			})})
	}
	publish("input", account("codehost", "Ghost"))
	publish("found", account("network", "someone"), account("codehost", "ghost"))
	publish("kept", account("network", "another"), account("codehost", "alive"))
	h.Publish(kafka.Message{Topic: event.TopicDiscovery, Key: []byte("identify:1"),
		Value:   []byte(`{"request_id":"i","at":"2026-01-01T00:00:00Z","matches":[]}`),
		Headers: bus.SetEvent(nil, bus.Event{ID: "i", Type: event.TypeIdentification, Source: "test", Subject: "i"})})
	names := func(ctx context.Context) []string {
		var out []string
		rows, err := h.Conn.Query(ctx, "SELECT request_id FROM "+readmodel.DiscoveryTable)
		require.NoError(t, err)
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			out = append(out, id)
		}
		require.NoError(t, rows.Close())
		return out
	}
	projectortest.Eventually(t, func(ctx context.Context) bool {
		lag, err := bus.Lag(ctx, h.Kafka, projector.DiscoveryGroup, []string{event.TopicDiscovery})
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
	require.EqualValues(t, 1, h.Count("SELECT count() FROM "+readmodel.DiscoveredTable+
		" WHERE found_key = 'alive' AND input_key = 'another' AND confidence = 0.97"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM "+readmodel.DiscoveredTable+
		" WHERE found_key = 'another' AND input_key = 'another'"), "the input")
	require.EqualValues(t, 2, h.Count("SELECT count() FROM "+readmodel.DiscoveredTable))
	ends, err := bus.EndOffsets(t.Context(), h.Kafka, []string{event.TopicRejected})
	require.NoError(t, err)
	for _, end := range ends {
		require.Zero(t, end.End, "an identification is rejected")
	}
}

// Repeated reports replace rows. Operators see the last attempt of each delivery, all attempts of one, and
// totals by endpoint.
func TestWebhookAttempts_RepeatedReportsReplaceRows(t *testing.T) {
	s := projectortest.OpenStore(t)
	at := time.Date(2026, 11, 21, 1, 2, 3, 456789000, time.UTC)
	a := event.WebhookAttempt{
		DeliveryID: "d1", Attempt: 1, EndpointID: "ep_1", OrganizationID: "o1", RequestID: "r1",
		Address: "https://h:443/a", At: at,
		DurationMicros: 1500, HTTPStatus: 500, Status: event.WebhookPending, Error: "status", Response: "sorry",
		NextAt:    at.Add(5 * time.Second),
		CreatedAt: at.Add(-time.Second), TaskPartition: 3, TaskOffset: 42,
	}
	require.NoError(t, a.Validate())
	b := a
	b.Attempt, b.At, b.HTTPStatus, b.Status, b.Error, b.Response, b.NextAt = 2, at.Add(5*time.Second), 204,
		event.WebhookDelivered, "", "", time.Time{}
	c := a
	c.DeliveryID, c.EndpointID, c.OrganizationID, c.Status, c.Error, c.NextAt, c.At = "d2", "ep_2", "o2",
		event.WebhookDead, "gone", time.Time{}, at.Add(time.Hour)
	var rows readmodel.WebhookBatch
	for i, x := range []event.WebhookAttempt{a, b, b, c} {
		rows.Add(&x, readmodel.Position{Topic: event.TopicWebhook, Offset: int64(i)})
	}
	for range 2 { // a batch that is repeated
		require.NoError(t, readmodel.InsertWebhooks(t.Context(), s.Conn, "t", &rows))
	}
	all, err := readmodel.WebhookDeliveries(t.Context(), s.Conn, readmodel.WebhookFilter{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []event.WebhookAttempt{c, b}, all)
	for _, f := range []readmodel.WebhookFilter{
		{Organization: "o1", Limit: 10}, {Endpoint: "ep_1", Limit: 10}, {Delivery: "d1", Limit: 10},
		{Status: event.WebhookDelivered, Limit: 10},
	} {
		got, err := readmodel.WebhookDeliveries(t.Context(), s.Conn, f)
		require.NoError(t, err)
		require.Equal(t, []event.WebhookAttempt{b}, got, "%+v", f)
	}
	pending, err := readmodel.WebhookDeliveries(t.Context(), s.Conn,
		readmodel.WebhookFilter{Status: event.WebhookPending, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, pending, "delivered by the last attempt")
	history, err := readmodel.WebhookAttempts(t.Context(), s.Conn, readmodel.WebhookFilter{Delivery: "d1", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []event.WebhookAttempt{a, b}, history)
	endpoints, err := readmodel.WebhookEndpoints(t.Context(), s.Conn, readmodel.WebhookFilter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []readmodel.WebhookEndpoint{{
		EndpointID: "ep_2", OrganizationID: "o2", Address: "https://h:443/a", Attempts: 1, Dead: 1, LastAt: c.At,
		LastError: "gone",
	}}, endpoints)
}

func TestProjector_StoresFeedbackWithItsDecisionButNotOfErasedPeople(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Suppressed = set })
	at := time.Now().UTC().Truncate(time.Microsecond)
	publish := func(id, username string, status event.FeedbackStatus) {
		f := event.Feedback{
			ID: id, OrganizationID: "o", KeyID: "k", At: at, Verdict: event.FeedbackRight, Status: status,
			Accounts: []event.Account{{Platform: "network", Username: "x"}, {Platform: "codehost", Username: username}},
		}
		if status != event.FeedbackPending {
			f.DecidedAt = at.Add(time.Hour)
		}
		require.NoError(t, f.Validate())
		value, err := json.Marshal(&f)
		require.NoError(t, err)
		h.Publish(kafka.Message{Topic: event.TopicFeedback, Key: []byte("one partition"), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: id, Type: event.TypeFeedback, Source: "test", Subject: id, Time: at,
			})})
	}
	publish("decided", "alive", event.FeedbackAccepted)
	publish("decided", "alive", event.FeedbackPending) // repeated, late
	publish("erased", "Ghost", event.FeedbackPending)
	publish("pending", "alive", event.FeedbackPending)
	read := func(ctx context.Context, status event.FeedbackStatus) (ids []string) {
		list, err := readmodel.ReadFeedback(ctx, h.Conn, readmodel.FeedbackFilter{Status: status, Limit: 10})
		require.NoError(t, err)
		for _, f := range list {
			ids = append(ids, f.ID)
		}
		return ids
	}
	projectortest.Eventually(t, func(ctx context.Context) bool {
		return slices.Equal([]string{"pending"}, read(ctx, event.FeedbackPending))
	}, "the feedback is projected")
	require.Equal(t, []string{"decided"}, read(t.Context(), event.FeedbackAccepted))
	require.Equal(t, []string{"decided", "pending"}, read(t.Context(), ""))
	one, err := readmodel.ReadFeedback(t.Context(), h.Conn,
		readmodel.FeedbackFilter{ID: "decided", Organization: "o", Limit: 1})
	require.NoError(t, err)
	require.Equal(t, at.Add(time.Hour), one[0].DecidedAt)
}
