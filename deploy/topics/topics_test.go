package topics_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/topics"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
)

// Every topic is made with its settings; one that an operator made otherwise is
// named and left alone.
func TestEnsure(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: event.TopicUsage, Partitions: 2}}))
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		require.NoError(t, topics.Ensure(t.Context(), cfg, logger))
	}
	require.Contains(t, log.String(), event.TopicUsage)
	require.NotContains(t, log.String(), event.TopicAccount)
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
