package discovery

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// The panic is in work that several tasks share.
func TestHandleDiscovery_PanicGivesDegradedResult(t *testing.T) {
	// Without a finder, Find panics.
	s := &Service{deps: Deps{Logger: slog.New(slog.DiscardHandler), Now: time.Now}}
	var err error
	s.metrics, err = newMetrics(nil)
	require.NoError(t, err)
	task := event.DiscoveryTask{RequestID: "r", Input: event.Account{Platform: "codehost", Username: "JunoA"},
		RequestedAt: time.Now(), Deadline: time.Now().Add(time.Minute)}
	value, err := json.Marshal(task)
	require.NoError(t, err)
	out, err := s.handleDiscovery(message.NewMessage("m", value))
	require.NoError(t, err)
	require.Len(t, out, 1)
	var d event.Discovery
	require.NoError(t, json.Unmarshal(out[0].Payload, &d))
	require.Equal(t, "r", d.RequestID)
	require.Equal(t, []event.Social{{Account: task.Input, Confidence: 1}}, d.Socials)
	require.Equal(t, []string{event.StageInput, event.StageKnownLinks, event.StageWebSearch}, d.Degraded)
	require.False(t, d.At.IsZero())
}
