package webhook_test

import (
	"net/http"
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

// The brokers refuse the states for a while, for want of a permission: no task is finished
// before they are written, and no receiver is called again for it.
func TestRefusedStates(t *testing.T) {
	c := newClusterOf(t, 1)
	c.secret(t, "org1")
	var calls atomic.Int64
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/down" && calls.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	fault := c.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: event.TopicWebhookState, Err: kerr.TopicAuthorizationFailed, Count: -1})
	stop := c.start(t, nil)
	c.send(t, task("waits", "org1", r.URL+"/down"), task("other", "org1", r.URL+"/up"))
	require.Equal(t, event.WebhookPending, c.await(t, "waits", 1)[0].Status)
	require.Equal(t, event.WebhookDelivered, c.await(t, "other", 1)[0].Status)
	require.Eventually(t, func() bool { return fault.Hits() >= 3 }, 20*time.Second, time.Millisecond)
	lag, err := bus.Lag(t.Context(), c.bus, webhook.Group, webhook.Topics())
	require.NoError(t, err)
	require.Equal(t, int64(2), lag[0].Lag, "nothing is finished")
	fault.Remove()
	require.Eventually(t, func() bool {
		lag, err := bus.Lag(t.Context(), c.bus, webhook.Group, webhook.Topics())
		return err == nil && lag[0].Lag == 0
	}, 20*time.Second, time.Millisecond)
	stop()
	require.Len(t, r.of("other"), 1)
	c.start(t, nil)
	require.Equal(t, event.WebhookDelivered, c.await(t, "waits", 2)[1].Status, "the next sender knows of it")
	require.Len(t, r.of("other"), 1)
}
