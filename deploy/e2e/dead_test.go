package e2e_test

import (
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/schemas/event"
)

// deadDiscovery requires that an invalid discovery task becomes a dead letter that an operator can list, show and
// resubmit, and that it is dead-lettered again.
func deadDiscovery(t *testing.T, p *platform) {
	t.Helper()
	const handler, payload = "discovery-worker.discovery", "not a task at all"
	w := bus.NewWriter(p.bus(t))
	require.NoError(t,
		bus.WriteAll(t.Context(), w,
			[]kafka.Message{{Topic: event.TopicDiscoveryTask, Key: []byte("codehost:x"), Value: []byte(payload)}}))
	require.NoError(t, w.Close())
	type letter struct {
		ID       string `json:"id"`
		Code     string `json:"code"`
		Handler  string `json:"handler"`
		Attempts int    `json:"attempts"`
	}
	list := func() []letter {
		var letters []letter
		eventually(t, time.Minute, func() (bool, string) {
			p.musterJSON(t, &letters, "dlq", "list", "--json", "--handler", handler)
			return len(letters) == 1, "want one dead letter"
		})
		require.Equal(t, letter{letters[0].ID, "malformed_task", handler, 1}, letters[0])
		return letters
	}
	first := list()[0]
	shown := p.muster(t, "dlq", "show", first.ID)
	require.Contains(t, shown, payload)
	require.Contains(t, shown, event.TopicDiscoveryTask)
	require.Contains(t, p.muster(t, "dlq", "list", "--summary"), "malformed_task")
	require.Contains(t, p.muster(t, "dlq", "resubmit", "--handler", handler, "--since", "1h"),
		"1 selected, 1 resubmitted")
	require.NotEqual(t, first.ID, list()[0].ID, "only the new dead letter is listed")
}
