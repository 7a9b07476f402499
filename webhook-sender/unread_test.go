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

	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// The body of a delivery that is given up cannot be read for a while: calls that run
// meanwhile go on, and what was delivered is not delivered again.
func TestUnreadDeadLetterRepeatsNothing(t *testing.T) {
	c := newClusterOf(t, 1) // they share an owner
	c.secret(t, "org1")
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
	require.Equal(t, event.WebhookPending, c.await(t, "waits", 1)[0].Status)
	gone.Store(true)
	// The one is answered with 410, the other is delivered at the same time, the third call goes on.
	c.send(t, task("gone", "org1", r.URL+"/a"), task("other", "org1", r.URL+"/b"), task("runs", "org1", r.URL+"/slow"))
	require.Eventually(t, func() bool { return r.ids() == 4 }, 20*time.Second, time.Millisecond)
	fault := c.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: event.TopicWebhookTask, Err: kerr.NotLeaderForPartition, Count: -1})
	close(release)
	require.Eventually(t, func() bool { return fault.Hits() > 8 }, 30*time.Second, 5*time.Millisecond)
	fault.Remove()
	require.Equal(t, "endpoint_stopped", c.await(t, "waits", 2)[1].Error)
	require.Equal(t, event.WebhookDelivered, c.await(t, "other", 1)[0].Status, "%+v", c.attemptsOf("other"))
	close(finish)
	require.Equal(t, event.WebhookDelivered, c.await(t, "runs", 1)[0].Status)
	require.Eventually(t, func() bool { return len(c.letters()) == 2 }, 20*time.Second, 5*time.Millisecond)
	for _, m := range c.letters() {
		require.NotEmpty(t, m.Value, "the letter has the body")
	}
	for _, id := range []string{"gone", "other", "runs"} {
		require.Len(t, r.of(id), 1, id)
	}
}
