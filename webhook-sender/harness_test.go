package webhook_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// loopback returns the allowed prefixes: test receivers listen on loopback.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func key() []byte { return make([]byte, event.WebhookKeySize) }

// cluster is an embedded broker with the topics of the sender. It collects attempts and dead
// letters.
type cluster struct {
	broker             *broker.Broker
	bus                bus.Config
	writer             *bus.Writer
	mu                 sync.Mutex
	attempts           map[string][]event.WebhookAttempt // by delivery ID
	deadLetterMessages []kafka.Message
}

func newCluster(t *testing.T) *cluster { return newClusterWithPartitions(t, 0) }

// newClusterWithPartitions is like newCluster, with the given number of partitions. 0 means the
// declared number.
func newClusterWithPartitions(t *testing.T, partitions int) *cluster {
	t.Helper()
	b := brokertest.Start(t)
	c := &cluster{broker: b, bus: bus.Config{Brokers: b.Addrs()}, attempts: make(map[string][]event.WebhookAttempt)}
	var topics []bus.Topic
	for _, d := range append(event.Topics(), webhook.DeadLetterTopic()) {
		switch d.Name {
		case event.TopicAccount, event.TopicWebhookTask, event.TopicWebhook, event.TopicWebhookState,
			webhook.DeadLetterTopic().Name:
			topics = append(topics, bus.Topic{Name: d.Name, Partitions: cmp.Or(partitions, d.Partitions),
				Config: d.Config()})
		}
	}
	require.NoError(t, bus.EnsureTopics(t.Context(), c.bus, topics))
	c.writer = bus.NewWriter(c.bus)
	follower := bus.Follow(t.Context(), c.bus, bus.FollowConfig{
		Topics: []string{event.TopicWebhook, webhook.DeadLetterTopic().Name}, MaxWait: 100 * time.Millisecond,
		Handle: func(_ context.Context, m kafka.Message) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if m.Topic != event.TopicWebhook {
				c.deadLetterMessages = append(c.deadLetterMessages, m)
				return nil
			}
			var a event.WebhookAttempt
			if err := json.Unmarshal(m.Value, &a); err != nil {
				return err
			}
			c.attempts[a.DeliveryID] = append(c.attempts[a.DeliveryID], a)
			return nil
		},
	})
	t.Cleanup(func() {
		require.NoError(t, c.writer.Close())
		require.NoError(t, follower.Close())
	})
	return c
}

// createSecret creates and returns the organization's first secret.
func (c *cluster) createSecret(t *testing.T, organization string) string {
	t.Helper()
	s, err := webhook.OpenSecrets(t.Context(), webhook.SecretsConfig{Bus: c.bus, Key: key()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	created, err := s.Create(t.Context(), organization)
	require.NoError(t, err)
	return created.Secret
}

// start runs a sender until stop is called or the test ends.
func (c *cluster) start(t *testing.T, change func(*webhook.Config)) (stop func()) {
	t.Helper()
	return c.startAt(t, nil, change)
}

// startAt is like start, with the given clock for the schedule.
func (c *cluster) startAt(t *testing.T, now func() time.Time, change func(*webhook.Config)) (stop func()) {
	t.Helper()
	return c.startWith(t, webhook.Deps{Now: now,
		Logger: slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelWarn}))}, change)
}

// startWith is like start, with the given dependencies.
func (c *cluster) startWith(t *testing.T, deps webhook.Deps, change func(*webhook.Config)) (stop func()) {
	t.Helper()
	cfg := webhook.Config{
		Bus: c.bus, Key: key(), Allow: loopback(), Timeout: 20 * time.Second,
		Timing: bus.GroupTiming{JoinBackoff: 50 * time.Millisecond, Drain: 20 * time.Second},
	}
	if change != nil {
		change(&cfg)
	}
	s, err := webhook.New(cfg, deps)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-done)
		})
	}
	t.Cleanup(stop)
	return stop
}

// testWriter writes log output to the test's log.
type testWriter struct{ t *testing.T }

func (w *testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}

func (c *cluster) send(t *testing.T, tasks ...event.WebhookTask) {
	t.Helper()
	var messages []kafka.Message
	for i := range tasks {
		m, err := webhook.Task(t.Context(), &tasks[i])
		require.NoError(t, err)
		messages = append(messages, m)
	}
	require.NoError(t, bus.WriteAll(t.Context(), c.writer, messages))
}

// task returns a delivery of an organization.
func task(id, organization, url string) event.WebhookTask {
	return event.WebhookTask{
		DeliveryID: id, OrganizationID: organization, URL: url, RequestID: id, CreatedAt: time.Now(),
		Body: []byte(`{"profile": "` + id + `", "e": "é\u0000 "}` + "\n"),
	}
}

// attemptsOf returns the attempts reported so far.
func (c *cluster) attemptsOf(id string) []event.WebhookAttempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]event.WebhookAttempt(nil), c.attempts[id]...)
}

// awaitAttempts waits until a delivery has at least n attempts, and returns them.
func (c *cluster) awaitAttempts(t *testing.T, id string, n int) []event.WebhookAttempt {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(c.attemptsOf(id)) >= n
	}, 30*time.Second, 5*time.Millisecond, "attempts of %s", id)
	return c.attemptsOf(id)
}

func (c *cluster) deadLetters() []kafka.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]kafka.Message(nil), c.deadLetterMessages...)
}

// receiver is a test endpoint that records its requests.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	got     map[string][]received // by webhook-id
	handler http.HandlerFunc
}

type received struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{got: make(map[string][]received), handler: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		id := req.Header.Get("webhook-id")
		r.mu.Lock()
		r.got[id] = append(r.got[id], received{req.Header.Clone(), body})
		r.mu.Unlock()
		r.handler(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requestsFor(id string) []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got[id]...)
}

func (r *receiver) countIDs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
