package queryapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Also at a replica that sums up the ledger.
func TestCredits_RejectedCallCountsAsRequest(t *testing.T) {
	f := start(t, nil)
	f.withLimits(func(l *event.Limits) { l.Credits, l.MonthlyRequests = 0, 2 })
	body := `{"network_username":"octavia","websets":["network"]}`
	require.Equal(t, 422, f.post(enrichPath, `{}`).status)
	for range 2 {
		got := f.post(enrichPath, body)
		require.Equal(t, 429, got.status)
		require.Contains(t, got.detail(), "insufficient credits")
	}
	got := f.post(enrichPath, body)
	require.Equal(t, 429, got.status)
	require.Contains(t, got.detail(), "monthly request limit exceeded")
	require.Equal(t, 429, f.post(networkPath, `{"network":"octavia"}`).status, "no credits, and not counted")
	want := f.get("/v1/usage").json()
	require.InDelta(t, 2, want["requests"].(map[string]any)["used"], 0)
	require.InDelta(t, 0, want["credits"].(map[string]any)["used"], 0)

	rec := httptest.NewRecorder()
	f.service.FlushUsage(rec,
		httptest.NewRequestWithContext(t.Context(), http.MethodPost, queryapi.FlushUsagePath, nil))
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	rows := &readmodel.UsageBatch{}
	_, err := bus.Read(t.Context(), f.bus, event.TopicUsage, nil, func(m kafka.Message) error {
		var u event.Usage
		if err := json.Unmarshal(m.Value, &u); err != nil {
			return err
		}
		rows.Add(&u, readmodel.Position{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset})
		return nil
	})
	require.NoError(t, err)
	for _, insert := range []bool{false, true} {
		if insert {
			require.NoError(t, readmodel.InsertUsage(t.Context(), f.conn, "u", rows))
		}
		other := *f
		other.service, err = queryapi.New(t.Context(), queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()},
			queryapi.Deps{Secret: testSecret(t), ClickHouse: f.conn, Bus: f.bus})
		require.NoError(t, err)
		run(t, other.service)
		got := other.get("/v1/usage").json()
		require.Equal(t, want["requests"], got["requests"])
		require.Equal(t, want["endpoints"], got["endpoints"])
	}
}

func TestCredits_RejectionAdvisesToReduceOnlyIfPossible(t *testing.T) {
	f := start(t, nil)
	for _, c := range []struct {
		credits           int64
		path, body, wants string
	}{
		{0, enrichPath, `{"codehost":"x"}`, "up to 1: upgrade the plan;"},
		{0, companyPath, `{"network_slug":"x"}`, "up to 1: upgrade the plan;"},
		{0, networkPath, `{"network":"x"}`, "up to 1: upgrade the plan;"},
		{0, networkPath, `{"network":["x"]}`, "up to 1: upgrade the plan;"},
		{0, networkPath, `{"network":["x","y"]}`, "up to 2: upgrade the plan;"},
		{2, networkPath, `{"network":["x","y","z"]}`,
			"up to 3: reduce the list of identifiers to at most 2 or upgrade the plan;"},
		{3, searchPath, `{"query":{"match_all":{}},"size":10}`,
			"up to 10: reduce size to at most 3 or upgrade the plan;"},
		// the total is free
		{0, searchPath, `{"query":{"match_all":{}},"size":1}`,
			"up to 1: reduce size to at most 0 or upgrade the plan;"},
	} {
		f.withLimits(func(l *event.Limits) { l.Credits = c.credits })
		got := f.post(c.path, c.body)
		require.Equal(t, http.StatusTooManyRequests, got.status, got.body)
		require.Contains(t, got.detail(), c.wants, c.path)
	}
}
