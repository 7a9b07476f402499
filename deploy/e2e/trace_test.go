package e2e_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/schemas/event"
)

// traced returns which topics have a message of a trace.
func traced(t *testing.T, p *platform, trace string, topics ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	require.NoError(t, bus.Scan(t.Context(), p.bus(t), topics, func(m kafka.Message) error {
		for _, h := range m.Headers {
			if h.Key == "traceparent" && strings.Contains(string(h.Value), trace) {
				found[m.Topic] = true
			}
		}
		return nil
	}))
	return found
}

// The trace of a caller is in the task and in its result.
func TestTraceCrossesKafka(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--sample", "20")
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.BaseURL+"/v1/person/discover",
		bytes.NewReader([]byte(`{"codehost":"person-unknown"}`)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+p.APIKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	topics := []string{event.TopicDiscoveryTask, event.TopicDiscovery}
	eventually(t, time.Minute, func() (bool, string) {
		found := traced(t, p, trace, topics...)
		for _, topic := range topics {
			if !found[topic] {
				return false, "no message of the trace on " + topic
			}
		}
		return true, ""
	})
	deadDiscovery(t, p)
}
