package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// deleteGroup deletes the consumer group and its committed offsets.
func (c *cluster) deleteGroup(t *testing.T) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(c.bus.Brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}
	res, err := client.DeleteGroups(t.Context(), &kafka.DeleteGroupsRequest{GroupIDs: []string{webhook.Group}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[webhook.Group])
}

// recreateTaskTopic deletes the task topic and creates it with one partition.
func (c *cluster) recreateTaskTopic(t *testing.T) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(c.bus.Brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}
	res, err := client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{event.TopicWebhookTask}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[event.TopicWebhookTask])
	require.NoError(t, bus.EnsureTopics(t.Context(), c.bus, []bus.Topic{{Name: event.TopicWebhookTask, Partitions: 1}}))
}

// A group without offsets receives the tasks of a week again. None is repeated, even long after the
// sender evicted it; new tasks are delivered.
func TestService_LostOffsetsRepeatNoDelivery(t *testing.T) {
	c := newClusterWithPartitions(t, 1)
	c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusOK))
	stop := c.start(t, nil)
	const n = 40
	for i := range n {
		c.send(t, task(fmt.Sprintf("d-%d", i), "org1", fmt.Sprintf("%s/%d", r.URL, i%7)))
		if i%10 == 9 {
			c.awaitAttempts(t, fmt.Sprintf("d-%d", i), 1)
		}
	}
	for i := range n {
		c.awaitAttempts(t, fmt.Sprintf("d-%d", i), 1)
	}
	for round, name := range []string{"first", "second"} {
		stop()
		c.deleteGroup(t)
		ahead := time.Duration(8*(round+1)) * 24 * time.Hour
		later := func() time.Time { return time.Now().Add(ahead) }
		stop = c.startAt(t, later, nil)
		next := task(name, "org1", r.URL+"/new")
		next.CreatedAt = later()
		c.send(t, next)
		require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, name, 1)[0].Status)
		require.Eventually(t, func() bool {
			lag, err := bus.Lag(t.Context(), c.bus, webhook.Group, webhook.Topics())
			return err == nil && lag[0].Lag == 0
		}, 20*time.Second, 10*time.Millisecond, "all offsets are committed")
	}
	for i := range n {
		id := fmt.Sprintf("d-%d", i)
		require.Len(t, r.requestsFor(id), 1, id)
		require.Len(t, c.attemptsOf(id), 1, id)
	}
	require.Empty(t, c.deadLetters())
	require.Len(t, r.requestsFor("first"), 1)
}

// Tasks at offsets that the log lost are new, and are delivered once.
func TestService_DeliversNewTasksAtLostOffsets(t *testing.T) {
	c := newClusterWithPartitions(t, 1)
	c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusOK))
	stop := c.start(t, nil)
	deliver := func(ids ...string) {
		for _, id := range ids {
			c.send(t, task(id, "org1", r.URL))
			require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, id, 1)[0].Status)
		}
	}
	deliver("a", "b", "c", "d")
	stop()
	c.deleteGroup(t)
	c.recreateTaskTopic(t)
	stop = c.start(t, nil)
	deliver("e", "f")
	stop()
	c.deleteGroup(t)
	c.startAt(t, func() time.Time { return time.Now().Add(8 * 24 * time.Hour) }, nil)
	c.send(t, task("last", "org1", r.URL))
	c.awaitAttempts(t, "last", 1)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		require.Len(t, c.attemptsOf(id), 1, id)
	}
}

// The log loses the task of a waiting delivery, and another organization's task takes its offset.
// That task is not sent or dead-lettered in its place.
func TestService_DoesNotSendOtherTaskAtLostOffset(t *testing.T) {
	c := newClusterWithPartitions(t, 1)
	c.createSecret(t, "org1")
	c.createSecret(t, "org2")
	var gone atomic.Bool
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case !strings.HasPrefix(req.URL.Path, "/lost"):
		case gone.Load():
			w.WriteHeader(http.StatusGone)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	stop := c.start(t, nil)
	c.send(t, task("tried", "org1", r.URL+"/lost/a"), task("stopped", "org1", r.URL+"/lost/b"))
	c.awaitAttempts(t, "tried", 1)
	c.awaitAttempts(t, "stopped", 1)
	stop()
	c.deleteGroup(t)
	c.recreateTaskTopic(t)
	gone.Store(true)
	c.send(t, task("of-tried", "org2", r.URL), task("of-stopped", "org2", r.URL), task("gone", "org1", r.URL+"/lost/b"))
	c.start(t, nil)
	// Dead-lettered when the retry is due, or because of the 410.
	for _, id := range []string{"tried", "stopped"} {
		last := c.awaitAttempts(t, id, 2)[1]
		require.Equal(t, event.WebhookDead, last.Status, id)
		require.Contains(t, []string{"task_lost", "endpoint_stopped"}, last.Error, id)
		require.Len(t, r.requestsFor(id), 1, id)
	}
	for _, id := range []string{"of-tried", "of-stopped"} {
		require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, id, 1)[0].Status, id)
		require.Len(t, r.requestsFor(id), 1, id)
	}
	require.Eventually(t, func() bool { return len(c.deadLetters()) == 3 }, 20*time.Second, 5*time.Millisecond)
	for _, m := range c.deadLetters() {
		require.NotContains(t, string(m.Value), "org2")
	}
}
