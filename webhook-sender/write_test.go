package webhook

import (
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
)

func TestWriteEach_LimitsBatchBytes(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	topic := DeadLetterTopic().Name
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: topic, Partitions: 1}}))
	s, err := New(Config{Bus: cfg, Key: make([]byte, event.WebhookKeySize)}, Deps{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.events.Close()) }()
	const size = 1 << 20
	written := 0
	require.NoError(t, writeEach(t.Context(), s, s.events, make([]int, 20), func(*int) (kafka.Message, error) {
		ends, err := bus.EndOffsets(t.Context(), cfg, []string{topic})
		require.NoError(t, err)
		require.LessOrEqual(t, (written-int(ends[0].End))*size, maxWriteBytes)
		written++
		return kafka.Message{Topic: topic, Key: []byte("k"), Value: make([]byte, size)}, nil
	}))
}
