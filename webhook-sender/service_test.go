package webhook_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// A delivery arrives unchanged, its signature verifies, and its attempt is reported. A repeated
// task is the same delivery.
func TestService_DeliversSignedBodyOnce(t *testing.T) {
	c := newCluster(t)
	secret := c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusNoContent))
	c.start(t, nil)
	first := task("d-1", "org1", r.URL+"/hook?token=x")
	first.Degraded = []string{event.StageWebSearch, event.StageLanguageModel}
	c.send(t, first, first)
	a := c.awaitAttempts(t, "d-1", 1)[0]
	require.Equal(t, event.WebhookDelivered, a.Status)
	require.Equal(t, 204, a.HTTPStatus)
	require.NotContains(t, a.Address, "token", "queries carry secrets")

	got := r.requestsFor("d-1")[0]
	require.Equal(t, first.Body, got.body)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.Equal(t, "web_search,language_model", got.header.Get("X-Degraded"))
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(got.body, got.header))

	// The next delivery is in order after the repeated task, so its arrival shows that the task was
	// handled.
	c.send(t, task("d-2", "org1", r.URL+"/hook"))
	c.awaitAttempts(t, "d-2", 1)
	require.Len(t, r.requestsFor("d-1"), 1, "deliveries of the repeated task")
	require.NotContains(t, r.requestsFor("d-2")[0].header, "X-Degraded", "not degraded")
}

func TestService_RetrySurvivesRestart(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	var down atomic.Bool
	down.Store(true)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			http.Error(w, "sorry, p@example.com 0123456789", http.StatusInternalServerError)
		}
	})
	stop := c.start(t, nil)
	c.send(t, task("d-1", "org1", r.URL))
	first := c.awaitAttempts(t, "d-1", 1)[0]
	require.Equal(t, event.WebhookPending, first.Status)
	require.Equal(t, "status", first.Error)
	require.Equal(t, "sorry, [e-mail] [number]", first.Response)
	wait := first.NextAt.Sub(first.At.Add(time.Duration(first.DurationMicros) * time.Microsecond))
	require.GreaterOrEqual(t, wait, 4*time.Second)
	require.Less(t, wait, 10*time.Second)
	stop()
	down.Store(false)
	c.start(t, nil)
	second := c.awaitAttempts(t, "d-1", 2)[1]
	require.Equal(t, 2, second.Attempt)
	require.Equal(t, event.WebhookDelivered, second.Status)
	require.False(t, second.At.Before(first.NextAt), "sent at %s, due at %s", second.At, first.NextAt)
	require.Equal(t, r.requestsFor("d-1")[0].body, r.requestsFor("d-1")[1].body)
	require.NotEqual(t, r.requestsFor("d-1")[0].header.Get("webhook-timestamp"),
		r.requestsFor("d-1")[1].header.Get("webhook-timestamp"))
}

// Deliveries that arrive while an endpoint is stopped are dead-lettered and can be resent under
// their IDs.
func TestService_GoneStopsEndpointUntilResumed(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	var gone atomic.Bool
	gone.Store(true)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusGone)
		}
	})
	stop := c.start(t, nil)
	c.send(t, task("d-1", "org1", r.URL+"/a"))
	require.Equal(t, event.WebhookDead, c.awaitAttempts(t, "d-1", 1)[0].Status)
	stop()
	c.start(t, nil) // the next owner knows the stop
	c.send(t, task("d-2", "org1", r.URL+"/a"), task("d-3", "org1", r.URL+"/b"))
	stopped := c.awaitAttempts(t, "d-2", 1)[0]
	require.Equal(t, "endpoint_stopped", stopped.Error)
	require.Empty(t, r.requestsFor("d-2"))
	require.Equal(t, "gone", c.awaitAttempts(t, "d-3", 1)[0].Error, "another path is another endpoint")
	require.Eventually(t, func() bool { return len(c.deadLetters()) == 3 }, 20*time.Second, 5*time.Millisecond)
	letter, err := event.ParseDead(func(name string) string { return headerValue(c.deadLetters()[0], name) })
	require.NoError(t, err)
	require.Equal(t, "gone", letter.Code)
	require.Equal(t, event.TopicWebhookTask, letter.Topic)

	op := webhook.NewOperator(webhook.OperatorConfig{Bus: c.bus})
	var states webhook.EndpointHealth
	// States are written after the dead letters.
	require.Eventually(t, func() bool {
		states, err = op.Endpoints(t.Context())
		return err != nil || len(states.Endpoints) == 2
	}, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, err)
	require.False(t, states.Endpoints[0].StoppedAt.IsZero())
	gone.Store(false)
	require.NoError(t, op.Resume(t.Context(), stopped.EndpointID))
	require.NoError(t, op.Resend(t.Context(), "d-2", stopped.TaskPartition, stopped.TaskOffset))
	resent := c.awaitAttempts(t, "d-2", 2)[1]
	require.Equal(t, event.WebhookDelivered, resent.Status)
	require.NotEmpty(t, resent.Round)
	require.Len(t, r.requestsFor("d-2"), 1)
	attempt, err := op.Test(t.Context(), "org1", r.URL+"/a")
	require.NoError(t, err)
	require.Equal(t, event.WebhookDelivered, attempt.Status)
}

func headerValue(m kafka.Message, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func TestService_DeadLettersUndeliverableTasks(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusOK))
	c.start(t, func(cfg *webhook.Config) { cfg.Allow = cfg.Allow[:1] })
	good := task("good", "org1", r.URL)
	m, err := webhook.Task(t.Context(), &good)
	require.NoError(t, err)
	garbage := m
	garbage.Value = []byte(`{"delivery_id": 1}`)
	foreign := m
	foreign.Value = []byte(`{"delivery_id":"x","organization_id":"o","url":"https://h",` +
		`"body":"","created_at":"2026-01-01T00:00:00Z"}`)
	require.NoError(t, bus.WriteAll(t.Context(), c.writer, []kafka.Message{garbage, foreign}))
	c.send(t, task("private", "org1", "https://[::1]:1/"), task("plain", "org1", "http://192.0.2.1/"), good)
	require.Equal(t, event.WebhookDelivered, c.awaitAttempts(t, "good", 1)[0].Status)
	for _, id := range []string{"private", "plain"} {
		a := c.awaitAttempts(t, id, 1)[0]
		require.Equal(t, event.WebhookDead, a.Status)
		require.Equal(t, "forbidden_address", a.Error)
	}
	require.Eventually(t, func() bool { return len(c.deadLetters()) == 4 }, 20*time.Second, 5*time.Millisecond)
	codes := make(map[string]int)
	for _, m := range c.deadLetters() {
		codes[headerValue(m, event.HeaderDeadPrefix+"code")]++
	}
	require.Equal(t, map[string]int{"invalid_task": 2, "forbidden_address": 2}, codes)

	// Without a secret nothing is sent; the attempt is retried.
	c.send(t, task("unsigned", "org2", r.URL))
	require.Equal(t, "no_secret", c.awaitAttempts(t, "unsigned", 1)[0].Error)
	require.Empty(t, r.requestsFor("unsigned"))
}

func TestService_ReplicasShareDeliveries(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusOK))
	const senders, n = 3, 200
	var registries []*prometheus.Registry
	for range senders {
		registries = append(registries, prometheus.NewRegistry())
		c.startWith(t, webhook.Deps{Registerer: registries[len(registries)-1]}, nil)
	}
	client := &kafka.Client{Addr: kafka.TCP(c.bus.Brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}
	require.Eventually(t, func() bool {
		res, err := client.DescribeGroups(t.Context(), &kafka.DescribeGroupsRequest{GroupIDs: []string{webhook.Group}})
		return err == nil && len(res.Groups) == 1 && res.Groups[0].GroupState == "Stable" &&
			len(res.Groups[0].Members) == senders
	}, 30*time.Second, 10*time.Millisecond)
	var tasks []event.WebhookTask
	for i := range n {
		tasks = append(tasks, task(fmt.Sprintf("d-%d", i), "org1", fmt.Sprintf("%s/%d", r.URL, i%20)))
	}
	c.send(t, tasks...)
	for i := range n {
		id := fmt.Sprintf("d-%d", i)
		c.awaitAttempts(t, id, 1)
		require.Len(t, r.requestsFor(id), 1, id)
	}
	for _, registry := range registries {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "muster_webhook_attempt_duration_seconds" {
				require.NotZero(t, f.GetMetric()[0].GetHistogram().GetSampleCount(), "each sender delivers")
			}
		}
	}
}

func TestSecrets_CreateRotateAndList(t *testing.T) {
	c := newCluster(t)
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	s, err := webhook.OpenSecrets(t.Context(),
		webhook.SecretsConfig{Bus: c.bus, Key: key(), Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	rotated, err := s.Rotate(t.Context(), "new", time.Hour)
	require.NoError(t, err, "rotation creates the first secret")
	list, err := s.List("new", true)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, rotated.Secret, list[0].Secret)
	first, err := s.Create(t.Context(), "org1")
	require.NoError(t, err)
	require.Regexp(t, `^whsec_[A-Za-z0-9+/]{43}=$`, first.Secret)
	_, err = s.Create(t.Context(), "org1")
	require.ErrorIs(t, err, webhook.ErrSecretsExist)
	second, err := s.Rotate(t.Context(), "org1", time.Hour)
	require.NoError(t, err)
	_, err = s.Rotate(t.Context(), "org1", time.Hour)
	require.ErrorIs(t, err, webhook.ErrRotating)
	list, err = s.List("org1", true)
	require.NoError(t, err)
	require.Equal(t, []string{second.Secret, first.Secret}, []string{list[0].Secret, list[1].Secret})
	require.Equal(t, now.Add(time.Hour), list[1].ExpiresAt)
	now = now.Add(time.Hour)
	list, err = s.List("org1", true)
	require.NoError(t, err)
	require.False(t, list[1].Valid)
	require.Empty(t, list[1].Secret)

	// Secrets cannot be opened with a key of another root secret.
	other := key()
	other[0] = 1
	stranger, err := webhook.OpenSecrets(t.Context(), webhook.SecretsConfig{Bus: c.bus, Key: other})
	require.NoError(t, err)
	defer func() { require.NoError(t, stranger.Close()) }()
	_, err = stranger.List("org1", true)
	require.ErrorIs(t, err, event.ErrWebhookSecretSealed)
}

func TestNew_ValidatesConfig(t *testing.T) {
	_, err := webhook.New(webhook.Config{}, webhook.Deps{})
	require.ErrorContains(t, err, "no Kafka brokers")
	cfg := webhook.Config{Bus: bus.Config{Brokers: brokertest.Start(t).Addrs()}}
	_, err = webhook.New(cfg, webhook.Deps{})
	require.ErrorContains(t, err, "missing key of webhook secrets")
	cfg.Key, cfg.Timeout = key(), -1
	require.ErrorContains(t, cfg.Validate(), "negative")
	cfg.Timeout = 0
	registry := prometheus.NewRegistry()
	s, err := webhook.New(cfg, webhook.Deps{Registerer: registry})
	require.NoError(t, err)
	require.ErrorContains(t, s.Ready(t.Context()), "does not exist yet")
	_, err = webhook.New(cfg, webhook.Deps{Registerer: registry})
	require.ErrorContains(t, err, "register metrics")
}
