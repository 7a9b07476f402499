package webhook_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// The brokers reject state records for a while (missing ACL). No offset is committed before the
// states are written, and no receiver is called twice because of it.
func TestService_RetriesRejectedStateWrites(t *testing.T) {
	c := newClusterWithPartitions(t, 1)
	c.createSecret(t, "org1")
	var calls atomic.Int64
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/down" && calls.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	fault := c.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: event.TopicWebhookState,
		Err: kerr.TopicAuthorizationFailed, Count: -1})
	stop := c.start(t, nil)
	c.send(t, task("waits", "org1", r.URL+"/down"), task("other", "org1", r.URL+"/up"))
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "waits", 1)[0].Status)
	require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, "other", 1)[0].Status)
	require.Eventually(t, func() bool { return fault.Hits() >= 3 }, 20*time.Second, time.Millisecond)
	lag, err := bus.Lag(t.Context(), c.bus, webhook.Group, webhook.Topics())
	require.NoError(t, err)
	require.Equal(t, int64(2), lag[0].Lag, "no offset is committed")
	fault.Remove()
	require.Eventually(t, func() bool {
		lag, err := bus.Lag(t.Context(), c.bus, webhook.Group, webhook.Topics())
		return err == nil && lag[0].Lag == 0
	}, 20*time.Second, time.Millisecond)
	stop()
	require.Len(t, r.requestsFor("other"), 1)
	c.start(t, nil)
	require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, "waits", 2)[1].Status, "the next sender retries it")
	require.Len(t, r.requestsFor("other"), 1)
}

// Fetches of a dead letter's body fail for a while. Concurrent calls continue, and completed
// deliveries are not repeated.
func TestService_UnreadableDeadLetterBodyRepeatsNoCall(t *testing.T) {
	c := newClusterWithPartitions(t, 1) // all endpoints share one worker
	c.createSecret(t, "org1")
	var gone atomic.Bool
	release, finish := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case strings.HasPrefix(req.URL.Path, "/slow"):
			<-finish
		case gone.Load():
			<-release
			if req.URL.Path == "/a" {
				w.WriteHeader(http.StatusGone)
			}
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	c.start(t, func(cfg *webhook.Config) { cfg.Timeout = time.Minute })
	c.send(t, task("waits", "org1", r.URL+"/a"))
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "waits", 1)[0].Status)
	gone.Store(true)
	// The first call gets a 410, the second is delivered concurrently, the third keeps running.
	c.send(t, task("gone", "org1", r.URL+"/a"), task("other", "org1", r.URL+"/b"), task("runs", "org1", r.URL+"/slow"))
	require.Eventually(t, func() bool { return r.countIDs() == 4 }, 20*time.Second, time.Millisecond)
	fault := c.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: event.TopicWebhookTask,
		Err: kerr.NotLeaderForPartition, Count: -1})
	close(release)
	require.Eventually(t, func() bool { return fault.Hits() > 8 }, 30*time.Second, 5*time.Millisecond)
	fault.Remove()
	require.Equal(t, "endpoint_stopped", c.awaitAttempts(t, "waits", 2)[1].Error)
	require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, "other", 1)[0].Status, "%+v", c.attemptsOf("other"))
	close(finish)
	require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, "runs", 1)[0].Status)
	require.Eventually(t, func() bool { return len(c.deadLetters()) == 2 }, 20*time.Second, 5*time.Millisecond)
	for _, m := range c.deadLetters() {
		require.NotEmpty(t, m.Value, "the dead letter has the body")
	}
	for _, id := range []string{"gone", "other", "runs"} {
		require.Len(t, r.requestsFor(id), 1, id)
	}
}
