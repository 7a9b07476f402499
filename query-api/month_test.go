package queryapi_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

func TestUsage_MonthEndsAtMidnightUTC(t *testing.T) {
	var clock atomic.Pointer[time.Time]
	set := func(text string) {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		clock.Store(&at)
	}
	set("2026-11-30T23:59:50Z")
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Now = func() time.Time { return *clock.Load() } })
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	f.withLimits(func(l *event.Limits) { l.Credits, l.MonthlyRequests = 2, 2 })
	body := `{"network_username":"octavia","websets":["network"]}`
	for range 2 {
		require.Equal(t, 1, charged(t, f.post(enrichPath, body)))
	}
	got := f.post(enrichPath, body)
	require.Equal(t, 429, got.status)
	require.Contains(t, got.detail(), "monthly request limit exceeded")
	require.Equal(t, 429, f.post(networkPath, `{"network":"octavia"}`).status, "no credits")
	require.Equal(t, "2026-11", f.get("/v1/usage").json()["period"].(map[string]any)["name"])

	// Midnight of other time zones does not count.
	set("2026-12-01T01:30:00+02:00")
	require.Equal(t, 429, f.post(enrichPath, body).status)

	set("2026-12-01T00:00:00Z")
	require.Equal(t, "2026-12", f.get("/v1/usage").json()["period"].(map[string]any)["name"])
	requests, credits := f.usage()
	require.Zero(t, requests)
	require.Zero(t, credits)
	require.Equal(t, 1, charged(t, f.post(enrichPath, body)))
	requests, credits = f.usage()
	require.InDelta(t, 1, requests, 0)
	require.InDelta(t, 1, credits, 0)
}
