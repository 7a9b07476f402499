package standalone_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muster/deploy/internal/standalone"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
)

func TestEnsureTopics_CreatesMissingTopicsAndReportsOthers(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: event.TopicUsage, Partitions: 2}}))
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		require.NoError(t, standalone.EnsureTopics(t.Context(), cfg, 0, logger))
	}
	require.Contains(t, log.String(), event.TopicUsage)
	require.NotContains(t, log.String(), event.TopicAccount)
	require.NotContains(t, log.String(), "single replica", "there is one broker")
	var names []string
	for _, topic := range event.Topics() {
		names = append(names, topic.Name)
	}
	ends, err := bus.EndOffsets(t.Context(), cfg, names)
	require.NoError(t, err)
	partitions := map[string]int{}
	for _, e := range ends {
		partitions[e.Topic]++
	}
	require.Equal(t, 2, partitions[event.TopicUsage])
	for _, topic := range event.Topics() {
		if topic.Name != event.TopicUsage {
			require.Equal(t, topic.Partitions, partitions[topic.Name], topic.Name)
		}
	}
}

func TestEnsureTopics_UsesReplicationAndReportsSingleReplicas(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	cfg := bus.Config{Brokers: cluster.ListenAddrs()}
	require.NoError(t,
		bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: event.TopicErasure, Partitions: 1, Replication: 1}}))
	var log bytes.Buffer
	require.NoError(t, standalone.EnsureTopics(t.Context(), cfg, 3, slog.New(slog.NewTextHandler(&log, nil))))
	require.Contains(t, log.String(), "single replica")
	require.Contains(t, log.String(), "topics=["+event.TopicErasure+"]")
	require.NotContains(t, log.String(), event.TopicAccount)
	single, err := bus.UnreplicatedTopics(t.Context(), cfg, []string{event.TopicErasure, event.TopicAccount, "none"})
	require.NoError(t, err)
	require.Equal(t, []string{event.TopicErasure}, single)
}
