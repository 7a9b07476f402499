package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	webhook "muster/webhook-sender"
)

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A task that nobody can do yet is told and left where it is.
func TestTasksAreLeft(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	var log buffer
	registry := prometheus.NewRegistry()
	s, err := webhook.New(webhook.Config{Bus: cfg, PollInterval: 10 * time.Millisecond},
		webhook.Deps{Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: registry})
	require.NoError(t, err)
	require.ErrorContains(t, s.Ready(t.Context()), "does not exist yet")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot look at its topics") }, 20*time.Second, 5*time.Millisecond)

	topic := webhook.Topics()[0]
	var topics []bus.Topic
	for _, name := range webhook.Topics() {
		topics = append(topics, bus.Topic{Name: name, Partitions: 2})
	}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, topics))
	require.Eventually(t, func() bool { return s.Ready(t.Context()) == nil }, 20*time.Second, 5*time.Millisecond)
	w := bus.NewWriter(cfg)
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: topic, Key: []byte("a")}, {Topic: topic, Key: []byte("b")}}))
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "tasks wait") }, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, 1, strings.Count(log.String(), "tasks wait"), "told once")

	expected := "# HELP muster_webhook_tasks_waiting Tasks on a topic that this release leaves there, because it handles no kind of task.\n" +
		"# TYPE muster_webhook_tasks_waiting gauge\n"
	for _, name := range slices.Sorted(slices.Values(webhook.Topics())) {
		n := 0
		if name == topic {
			n = 2
		}
		expected += fmt.Sprintf("muster_webhook_tasks_waiting{topic=%q} %d\n", name, n)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(expected)))
	lag, err := bus.Lag(t.Context(), cfg, webhook.Group, []string{topic})
	require.NoError(t, err)
	for _, p := range lag {
		require.Equal(t, int64(-1), p.Committed, "nothing is committed")
	}
}

func TestConfig(t *testing.T) {
	_, err := webhook.New(webhook.Config{}, webhook.Deps{})
	require.ErrorContains(t, err, "no Kafka brokers")
	cfg := webhook.Config{Bus: bus.Config{Brokers: []string{"127.0.0.1:1"}}, PollInterval: -1}
	require.Error(t, cfg.Validate())
	cfg.PollInterval = 0
	registry := prometheus.NewRegistry()
	s, err := webhook.New(cfg, webhook.Deps{Registerer: registry})
	require.NoError(t, err)
	require.Error(t, s.Ready(t.Context()))
	_, err = webhook.New(cfg, webhook.Deps{Registerer: registry})
	require.ErrorContains(t, err, "register metrics")
}
