package discovery

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/suppress"
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

// The work panics, so a result without degraded stages shows that it did not run.
func TestHandleIdentify_ErasedContactCallsNoProvider(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	for kind, value := range map[suppress.Type]string{
		suppress.Email: "juno@example.org", suppress.Phone: "4722222222",
	} {
		entry, err := json.Marshal(suppress.Entry{
			Type: kind, Scope: suppress.All, RequestedAt: "2026-11-21", Key: set.Key().ID(),
		})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(kind, value).String()), entry))
	}
	s := &Service{deps: Deps{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Suppressed: set}}
	var err error
	s.metrics, err = newMetrics(nil)
	require.NoError(t, err)
	for query, erased := range map[event.PersonQuery]bool{
		{Name: "Juno Abara", Email: "juno@example.org"}:  true,
		{Name: "Juno Abara", Phone: "+47 2222 2222"}:     true,
		{Name: "Juno Abara", Email: "other@example.org"}: false,
	} {
		task := event.DiscoveryTask{
			RequestID: "r", Query: &query, RequestedAt: time.Now(), Deadline: time.Now().Add(time.Minute),
		}
		value, err := json.Marshal(task)
		require.NoError(t, err)
		out, err := s.handleDiscovery(message.NewMessage("m", value))
		require.NoError(t, err)
		var d event.Identification
		require.NoError(t, json.Unmarshal(out[0].Payload, &d))
		require.Empty(t, d.Matches)
		require.Equal(t, erased, d.Complete(), "%+v", query)
		require.NoError(t, d.Validate())
	}
}
