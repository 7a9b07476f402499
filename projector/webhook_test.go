package projector_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Repeated reports replace rows. Operators see the last attempt of each delivery, all attempts of one, and
// totals by endpoint.
func TestWebhookAttempts_RepeatedReportsReplaceRows(t *testing.T) {
	s := openStore(t)
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
		require.NoError(t, readmodel.InsertWebhooks(t.Context(), s.conn, "t", &rows))
	}
	all, err := readmodel.WebhookDeliveries(t.Context(), s.conn, readmodel.WebhookFilter{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []event.WebhookAttempt{c, b}, all)
	for _, f := range []readmodel.WebhookFilter{
		{Organization: "o1", Limit: 10}, {Endpoint: "ep_1", Limit: 10}, {Delivery: "d1", Limit: 10},
		{Status: event.WebhookDelivered, Limit: 10},
	} {
		got, err := readmodel.WebhookDeliveries(t.Context(), s.conn, f)
		require.NoError(t, err)
		require.Equal(t, []event.WebhookAttempt{b}, got, "%+v", f)
	}
	pending, err := readmodel.WebhookDeliveries(t.Context(), s.conn,
		readmodel.WebhookFilter{Status: event.WebhookPending, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, pending, "its last attempt delivered it")
	history, err := readmodel.WebhookAttempts(t.Context(), s.conn, readmodel.WebhookFilter{Delivery: "d1", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []event.WebhookAttempt{a, b}, history)
	endpoints, err := readmodel.WebhookEndpoints(t.Context(), s.conn, readmodel.WebhookFilter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []readmodel.WebhookEndpoint{{
		EndpointID: "ep_2", OrganizationID: "o2", Address: "https://h:443/a", Attempts: 1, Dead: 1, LastAt: c.At,
		LastError: "gone",
	}}, endpoints)
}
