package bus_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// What the lag of several groups costs does not grow with the partitions.
func TestLagsAskOnce(t *testing.T) {
	b, cfg := own(t)
	many, few := bustest.Topic(t, cfg, 40, nil), bustest.Topic(t, cfg, 2, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), many, 0, 50)
	ends, err := bus.EndOffsets(t.Context(), cfg, []string{many})
	require.NoError(t, err)
	filled := slices.IndexFunc(ends, func(o bus.PartitionOffsets) bool { return o.End > 0 })
	commit := func(group string, offset int64) {
		client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
		_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{many: {{Partition: ends[filled].Partition, Offset: offset}}},
		})
		require.NoError(t, err)
	}
	commit("c", ends[filled].End-1)
	var bounds, connections atomic.Int32
	for key, count := range map[kmsg.Key]*atomic.Int32{kmsg.ListOffsets: &bounds, kmsg.ApiVersions: &connections} {
		b.Cluster().ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.Cluster().KeepControl()
			count.Add(1)
			return nil, nil, false
		})
	}
	groups := []bus.GroupTopics{{Group: "a", Topics: []string{many}}, {Group: "b", Topics: []string{few}}, {Group: "c", Topics: []string{few, many}}, {Group: "d"}}
	lags, err := bus.Lags(t.Context(), cfg, groups)
	require.NoError(t, err)
	require.EqualValues(t, 2, bounds.Load(), "the beginning and the end")
	require.LessOrEqual(t, connections.Load(), int32(6))
	for i, partitions := range []int{40, 2, 42, 0} {
		require.Len(t, lags[i], partitions)
		alone, err := bus.Lag(t.Context(), cfg, groups[i].Group, groups[i].Topics)
		require.NoError(t, err)
		require.Equal(t, alone, lags[i])
	}
	var waiting int64
	for _, l := range lags[2] {
		waiting += l.Lag
	}
	require.EqualValues(t, 50-(ends[filled].End-1), waiting)
	require.EqualValues(t, -1, lags[0][filled].Committed, "another group")
}

// A topic that several ask for is named to the brokers once.
func TestEndOffsetsNameATopicOnce(t *testing.T) {
	b, cfg := own(t)
	one, other := bustest.Topic(t, cfg, 2, nil), bustest.Topic(t, cfg, 1, nil)
	want, err := bus.EndOffsets(t.Context(), cfg, []string{one, other})
	require.NoError(t, err)
	require.Len(t, want, 3)
	var doubled atomic.Int32
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Observe: true, Count: -1, When: func(r kmsg.Request) bool {
		named := make(map[string]bool)
		for _, topic := range r.(*kmsg.MetadataRequest).Topics {
			if named[*topic.Topic] {
				doubled.Add(1)
			}
			named[*topic.Topic] = true
		}
		return true
	}})
	asked := []string{one, other, one}
	got, err := bus.EndOffsets(t.Context(), cfg, asked)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Zero(t, doubled.Load())
	require.Equal(t, []string{one, other, one}, asked)
}

// Each broker is asked for what it leads, and one that is not the leader answers nothing.
func TestBoundsOfSeveralBrokers(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(12, "t"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	for p := range int32(12) {
		require.NoError(t, cluster.MoveTopicPartition("t", p, p%3))
	}
	cfg := bus.Config{Brokers: cluster.ListenAddrs()}
	bustest.Produce(t, bustest.Writer(t, cfg), "t", 0, 50)
	offsets, err := bus.EndOffsets(t.Context(), cfg, []string{"t"})
	require.NoError(t, err)
	var stored int64
	for i, o := range offsets {
		require.Equal(t, i, o.Partition)
		stored += o.End - o.First
	}
	require.Len(t, offsets, 12)
	require.EqualValues(t, 50, stored)
}

// What handles a message ends the reading with its error.
func TestReadEndsWithAnError(t *testing.T) {
	_, cfg := own(t)
	topic := bustest.Topic(t, cfg, 2, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 20)
	enough := errors.New("enough")
	read := 0
	_, err := bus.Read(t.Context(), cfg, topic, nil, func(kafka.Message) error {
		if read++; read == 3 {
			return enough
		}
		return nil
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 3, read)
}

func TestRewind_HasAGroupReadEverythingAgain(t *testing.T) {
	_, cfg := own(t)
	topic := bustest.Topic(t, cfg, 3, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 30)
	rewound, err := bus.Rewind(t.Context(), cfg, "g", []string{topic})
	require.NoError(t, err)
	require.False(t, rewound, "it has read nothing")
	for range 2 {
		ledger := bustest.NewLedger()
		consumer := bustest.StartConsumer(t, bus.BatchConsumerConfig{
			Config: cfg, Group: "g", Topics: []string{topic}, Handle: func(_ context.Context, b bus.Batch) error {
				ledger.Apply(b)
				return nil
			},
		})
		bustest.Eventually(t, func() bool { return ledger.Count() == 30 }, "all messages")
		require.NoError(t, consumer.Stop())
		rewound, err = bus.Rewind(t.Context(), cfg, "g", []string{topic, "none"})
		require.NoError(t, err)
		require.True(t, rewound)
	}
}
