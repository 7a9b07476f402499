package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// A leader may not know the end of its log yet, and may return an empty response.
func TestMessageAt_RetriesTransientFailures(t *testing.T) {
	outOfRange := kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: 1}
	t.Run("out of range once", func(t *testing.T) {
		b, cfg := startOwn(t)
		topic := bustest.Topic(t, cfg, 1, nil)
		bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 3)
		b.Cluster().Fault(outOfRange)
		m, err := bus.MessageAt(t.Context(), cfg, topic, 0, 1)
		require.NoError(t, err)
		require.Equal(t, "v1", string(m.Value))
	})
	t.Run("empty response once", func(t *testing.T) {
		b, cfg := startOwn(t)
		topic := bustest.Topic(t, cfg, 1, nil)
		bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 3)
		b.Cluster().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			req := r.(*kmsg.FetchRequest)
			res := req.ResponseKind().(*kmsg.FetchResponse)
			part := kmsg.NewFetchResponseTopicPartition()
			part.HighWatermark, part.LastStableOffset = 1, 1 // as of a leader that lags
			topicRes := kmsg.NewFetchResponseTopic()
			topicRes.Topic, topicRes.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
			topicRes.Partitions = append(topicRes.Partitions, part)
			res.Topics = append(res.Topics, topicRes)
			return res, nil, true
		})
		m, err := bus.MessageAt(t.Context(), cfg, topic, 0, 1)
		require.NoError(t, err)
		require.Equal(t, "v1", string(m.Value))
	})
	t.Run("out of range permanently, though within the log", func(t *testing.T) {
		b, cfg := startOwn(t)
		topic := bustest.Topic(t, cfg, 1, nil)
		bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 3)
		fault := outOfRange
		fault.Count = -1
		b.Cluster().Fault(fault)
		_, err := bus.MessageAt(t.Context(), cfg, topic, 0, 1)
		require.ErrorIs(t, err, kafka.OffsetOutOfRange)
		require.NotErrorIs(t, err, bus.ErrNoMessage)
	})
}

func TestMessageAt_ReturnsErrNoMessageIfRemoved(t *testing.T) {
	b, cfg := startOwn(t)
	w := bustest.Writer(t, cfg, bus.WithBatch(1, 0))
	old := bustest.Topic(t, cfg, 1, map[string]string{"retention.ms": "60000"})
	compacted := bustest.Topic(t, cfg, 1, map[string]string{"cleanup.policy": "compact"})
	for i := range 20 {
		for _, topic := range []string{old, compacted} {
			require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{
				{Topic: topic, Key: []byte("k"), Value: fmt.Append(nil, i), Time: time.Now().Add(-time.Hour)},
			}))
		}
	}
	require.NoError(t, b.Compact(t.Context()))
	for name, at := range map[string]struct {
		topic  string
		offset int64
	}{
		"before the log": {old, 1}, "compacted": {compacted, 1}, "past the end": {compacted, 30},
	} {
		_, err := bus.MessageAt(t.Context(), cfg, at.topic, 0, at.offset)
		require.ErrorIs(t, err, bus.ErrNoMessage, name)
	}
}
