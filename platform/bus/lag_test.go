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

// The number of requests does not grow with the number of partitions or groups.
func TestLags_RequestsOffsetsOnce(t *testing.T) {
	b, cfg := startOwn(t)
	many, few := bustest.Topic(t, cfg, 40, nil), bustest.Topic(t, cfg, 2, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), many, 0, 50)
	ends, err := bus.EndOffsets(t.Context(), cfg, []string{many})
	require.NoError(t, err)
	filled := slices.IndexFunc(ends, func(o bus.PartitionOffsets) bool { return o.End > 0 })
	commit := func(group string, offset int64) {
		client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
		at := kafka.OffsetCommit{Partition: ends[filled].Partition, Offset: offset}
		_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{many: {at}},
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
	groups := []bus.GroupTopics{
		{Group: "a", Topics: []string{many}}, {Group: "b", Topics: []string{few}},
		{Group: "c", Topics: []string{few, many}}, {Group: "d"},
	}
	lags, err := bus.Lags(t.Context(), cfg, groups)
	require.NoError(t, err)
	require.EqualValues(t, 2, bounds.Load(), "one request each for start and end offsets")
	require.LessOrEqual(t, connections.Load(), int32(6))
	for i, partitions := range []int{40, 2, 42, 0} {
		require.Len(t, lags[i], partitions)
		single, err := bus.Lag(t.Context(), cfg, groups[i].Group, groups[i].Topics)
		require.NoError(t, err)
		require.Equal(t, single, lags[i])
	}
	var waiting int64
	for _, l := range lags[2] {
		waiting += l.Lag
	}
	require.EqualValues(t, 50-(ends[filled].End-1), waiting)
	require.EqualValues(t, -1, lags[0][filled].Committed, "another group")
}

// commit commits the offset of partition 0 for a group without members.
func commit(t *testing.T, cfg bus.Config, group, topic string, offset int64) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: offset}}},
	})
	require.NoError(t, err)
}

// A consumer whose committed offset is past the end, as after the topic was recreated, reads the topic from its start.
func TestLag_CommitPastTheEndLeavesTheWholeTopicUnread(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 10)
	for committed, next := range map[int64]int64{4: 4, 10: 10, 11: 0, 500: 0} {
		commit(t, cfg, "g", topic, committed)
		lags, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
		require.NoError(t, err)
		require.Equal(t, []bus.PartitionLag{
			{Topic: topic, Committed: committed, End: 10, Next: next, Lag: 10 - next},
		}, lags)
	}
}

func TestLag_LogThatGrewMeanwhileIsNotPassed(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 10)
	commit(t, cfg, "g", topic, 8)
	lags, err := bus.GroupLag(t.Context(), cfg, "g", []bus.PartitionOffsets{{Topic: topic, End: 5}})
	require.NoError(t, err)
	require.Equal(t, []bus.PartitionLag{{Topic: topic, Committed: 8, End: 10, Next: 8, Lag: 2}}, lags)
}

func TestEndOffsets_RequestsEachTopicOnce(t *testing.T) {
	b, cfg := startOwn(t)
	one, other := bustest.Topic(t, cfg, 2, nil), bustest.Topic(t, cfg, 1, nil)
	want, err := bus.EndOffsets(t.Context(), cfg, []string{one, other})
	require.NoError(t, err)
	require.Len(t, want, 3)
	var doubled atomic.Int32
	countDoubled := func(r kmsg.Request) bool {
		named := make(map[string]bool)
		for _, topic := range r.(*kmsg.MetadataRequest).Topics {
			if named[*topic.Topic] {
				doubled.Add(1)
			}
			named[*topic.Topic] = true
		}
		return true
	}
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Observe: true, Count: -1, When: countDoubled})
	topics := []string{one, other, one}
	got, err := bus.EndOffsets(t.Context(), cfg, topics)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Zero(t, doubled.Load())
	require.Equal(t, []string{one, other, one}, topics, "the argument is unchanged")
}

func TestEndOffsets_RequestsEachLeader(t *testing.T) {
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

func TestRead_ReturnsErrorOfHandler(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 2, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 20)
	errEnough := errors.New("enough")
	read := 0
	_, err := bus.Read(t.Context(), cfg, topic, nil, func(kafka.Message) error {
		if read++; read == 3 {
			return errEnough
		}
		return nil
	})
	require.ErrorIs(t, err, errEnough)
	require.Equal(t, 3, read)
}

func TestRewind_GroupReadsEverythingAgain(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 3, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 30)
	rewound, err := bus.Rewind(t.Context(), cfg, "g", []string{topic})
	require.NoError(t, err)
	require.False(t, rewound, "before the first commit")
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
