package webhook_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
	webhook "muster/webhook-sender"
)

// A delivery that waits for its next try when its person is erased is given up: nothing
// more leaves, and its letter does not have the body. So is one that comes after.
func TestErasedWhileWaiting(t *testing.T) {
	c := newCluster(t)
	c.secret(t, "org1")
	r := newReceiver(t, status(http.StatusInternalServerError))
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	s, err := webhook.New(webhook.Config{
		Bus: c.bus, Key: key(), Allow: loopback(), Timeout: 20 * time.Second, Timing: bus.GroupTiming{JoinBackoff: 50 * time.Millisecond, Drain: 20 * time.Second},
	}, webhook.Deps{Logger: slog.New(slog.DiscardHandler), Suppressed: set})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	about := func(id, email string) event.WebhookTask {
		out := task(id, "org1", r.URL)
		out.Body = []byte(`{"full_name": "Somebody", "personal_email": "` + email + `"}`)
		return out
	}
	// The body of these names nobody: it was made of records. They go elsewhere, so that no breaker opens.
	madeOf := func(id string, records ...string) event.WebhookTask {
		out := task(id, "org1", r.URL+"/made")
		out.Body, out.Identities = []byte(`{"custom": {"team": "Harbour"}}`), records
		return out
	}
	erase := func(typ suppress.Type, value string) {
		entry, err := json.Marshal(suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026", Key: set.Key().ID()})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(typ, value).String()), entry))
	}
	c.send(t, about("waits", "ada@example.com"), about("stays", "bob@example.com"),
		madeOf("made", "codehost-person 7", "network-person p1"), madeOf("made-stays", "codehost-person 1", "network-person 7", "company p1"))
	require.Equal(t, event.WebhookPending, c.await(t, "waits", 1)[0].Status)
	require.Equal(t, event.WebhookPending, c.await(t, "made", 1)[0].Status)
	erase(suppress.Email, "ada@example.com")
	erase(suppress.ProfileID, "p1")
	c.send(t, about("comes", "Ada@example.com"), madeOf("made-comes", "network-person p1"))

	for id, n := range map[string]int{"waits": 2, "made": 2, "comes": 1, "made-comes": 1} {
		last := c.await(t, id, n)[n-1]
		require.Equal(t, event.WebhookDead, last.Status, id)
		require.Equal(t, "subject_erased", last.Error, id)
	}
	require.Len(t, r.of("waits"), 1)
	require.Len(t, r.of("made"), 1)
	require.Empty(t, r.of("comes"))
	require.Empty(t, r.of("made-comes"))
	require.Equal(t, event.WebhookPending, c.await(t, "made-stays", 1)[0].Status)
	require.Equal(t, event.WebhookPending, c.await(t, "stays", 1)[0].Status)
	require.Eventually(t, func() bool { return len(c.letters()) == 4 }, 20*time.Second, 5*time.Millisecond)
	for _, m := range c.letters() {
		require.Equal(t, "subject_erased", headerOf(m, event.HeaderDeadPrefix+"code"))
		_, hit := set.Document(identity.Default(), m.Value)
		require.False(t, hit)
		var task event.WebhookTask
		if json.Unmarshal(m.Value, &task) == nil {
			require.Empty(t, task.Body)
		}
	}
}
