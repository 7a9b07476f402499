package bus_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// The leader of a group assigns the partitions that it sees when the members join. Partitions that appear before the
// members watch the topics, as of a recreated topic, must not stay without a consumer.
func TestConsumer_DetectsPartitionsAddedWhileJoining(t *testing.T) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	var added atomic.Bool
	b.Cluster().ControlKey(int16(kmsg.SyncGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		if !added.Swap(true) {
			b.Cluster().SleepControl(func() {
				client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Timeout: 10 * time.Second}
				res, err := client.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{
					Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}},
				})
				if err != nil || res.Errors[topic] != nil {
					t.Errorf("add partitions: %v, %v", err, res)
				}
			})
		}
		return nil, nil, false
	})
	ledger := bustest.NewLedger()
	bustest.StartConsumer(t, bus.BatchConsumerConfig{
		Config: cfg, Group: "group", Topics: []string{topic},
		Handle: func(_ context.Context, b bus.Batch) error { ledger.Apply(b); return nil },
	})
	bustest.Eventually(t, func() bool {
		ends, err := bus.EndOffsets(t.Context(), cfg, []string{topic})
		return err == nil && len(ends) == 4
	}, "partitions are added")
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 100)
	bustest.Eventually(t, func() bool { return ledger.Count() == 100 }, "messages of all partitions")
	require.True(t, added.Load())
}
