package queryapi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// projectUsage writes the events of the ledger to the read model, like the projector.
func projectUsage(f *fixture) {
	f.t.Helper()
	follower := bus.Follow(context.WithoutCancel(f.t.Context()), f.bus, bus.FollowConfig{
		Topics: []string{event.TopicUsage},
		Handle: func(ctx context.Context, m kafka.Message) error {
			var u event.Usage
			if err := json.Unmarshal(m.Value, &u); err != nil {
				return err
			}
			var rows readmodel.UsageBatch
			rows.Add(&u, readmodel.Position{Topic: m.Topic, Offset: m.Offset})
			return readmodel.InsertUsage(ctx, f.conn, u.RequestID+string(u.Outcome), &rows)
		},
	})
	f.t.Cleanup(func() { require.NoError(f.t, follower.Close()) })
}

func TestUsageEvent_IsTheCostOfACall(t *testing.T) {
	f := start(t, nil)
	projectUsage(f)
	f.insert(record.KindCodehostPerson, codehostPerson(12, "octavia", "2026-01-01"))
	began := time.Now()
	matched := f.post(enrichPath, `{"items":[{"codehost":"octavia"},{"codehost":"absent"}]}`)
	missed := f.post(companyPath, `{"company_id":"absent"}`)
	f.do(http.MethodPost, enrichPath, `{"codehost":"octavia"}`, idempotent("k"))
	replayed := f.do(http.MethodPost, enrichPath, `{"codehost":"octavia"}`, idempotent("k"))
	for _, tc := range []struct {
		call              response
		endpoint, outcome string
		requests, credits float64
	}{
		{matched, enrichPath, "charged", 2, 1}, {missed, companyPath, "free", 1, 0},
		{replayed, enrichPath, "replayed", 0, 0},
	} {
		id := tc.call.header.Get("X-Request-Id")
		got := waitForStatus(t, http.StatusOK, func() response { return f.get("/v1/usage/" + id) }).json()
		at, err := time.Parse(time.RFC3339Nano, got["at"].(string))
		require.NoError(t, err)
		require.WithinRange(t, at, began.Add(-time.Second), time.Now())
		require.NotEmpty(t, got["key"])
		require.Positive(t, got["duration_ms"])
		for _, name := range []string{"at", "key", "duration_ms"} {
			delete(got, name)
		}
		require.Equal(t, map[string]any{
			"request_id": id, "method": "POST", "endpoint": tc.endpoint, "status": 200., "outcome": tc.outcome,
			"plan": "development", "key_name": "all", "requests": tc.requests, "credits": tc.credits,
		}, got)
	}
}

func TestUsageEvent_IsOfOwnCallsOnly(t *testing.T) {
	f := start(t, nil)
	projectUsage(f)
	call := f.post(companyPath, `{"company_id":"absent"}`)
	path := "/v1/usage/" + call.header.Get("X-Request-Id")
	waitForStatus(t, http.StatusOK, func() response { return f.get(path) })
	other, err := f.accounts.CreateOrganization(t.Context(), "Other", event.PlanDevelopment)
	require.NoError(t, err)
	_, key, err := f.accounts.CreateKey(t.Context(), other.ID, queryapi.KeyOptions{Name: "other"})
	require.NoError(t, err)
	foreign := map[string]string{"Authorization": "Bearer " + key.Reveal()}
	got := waitForStatus(t, http.StatusNotFound, func() response { return f.do(http.MethodGet, path, "", foreign) })
	require.Contains(t, got.detail(), "no call of your organization")
	require.Equal(t, http.StatusNotFound, f.get("/v1/usage/01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e10").status)
	for _, id := range []string{"x", "00000000-0000-0000-0000-000000000000", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"} {
		require.Equal(t, http.StatusBadRequest, f.get("/v1/usage/"+id).status, id)
	}
	require.Equal(t, http.StatusNotFound, f.get("/v1/usage/").status)
	require.Equal(t, http.StatusMethodNotAllowed, f.post(path, `{}`).status)
}
