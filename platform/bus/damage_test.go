package bus_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
	"muster/platform/internal/recordbatch/recordbatchtest"
)

// startUnchecked starts a broker that stores every batch with a correct checksum.
func startUnchecked(t *testing.T, partitions int) bus.Config {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(partitions), "t"),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8388608"}))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return bus.Config{Brokers: cluster.ListenAddrs()}
}

func produceRaw(t *testing.T, cfg bus.Config, partition int, batches ...[]byte) {
	t.Helper()
	conn, err := net.Dial("tcp", cfg.Brokers[0])
	require.NoError(t, err)
	defer conn.Close()
	for _, raw := range batches {
		p := kmsg.NewPtrProduceRequest()
		p.Version, p.Acks, p.TimeoutMillis = 7, -1, 1000
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = int32(partition), raw
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.Partitions = "t", []kmsg.ProduceRequestTopicPartition{part}
		p.Topics = []kmsg.ProduceRequestTopic{topic}
		_, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, p, 1))
		require.NoError(t, err)
		var head [8]byte
		_, err = io.ReadFull(conn, head[:])
		require.NoError(t, err)
		body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
		_, err = io.ReadFull(conn, body)
		require.NoError(t, err)
		res := kmsg.NewPtrProduceResponse()
		res.Version = 7
		require.NoError(t, res.ReadFrom(body))
		require.Zero(t, res.Topics[0].Partitions[0].ErrorCode)
	}
}

func TestConsume_SkipsAndReportsCorruptBatches(t *testing.T) {
	cases := recordbatchtest.Poison()
	cases = slices.DeleteFunc(cases, func(c recordbatchtest.Case) bool {
		count := int32(binary.BigEndian.Uint32(c.Raw[57:]))
		return count < 0 // brokers cannot assign offsets after it
	})
	bomb, err := recordbatchtest.Bomb(recordbatchtest.Zstd, 300<<20)
	require.NoError(t, err)
	cases = append(cases, recordbatchtest.Case{Name: "a bomb", Raw: bomb})
	cfg := startUnchecked(t, len(cases))
	var want []string
	lost := 0.0
	for i, c := range cases {
		before, after := fmt.Sprintf("%s: before", c.Name), fmt.Sprintf("%s: after", c.Name)
		want = append(want, before, after)
		// A corrupt batch at the end of the log must not prevent the group from reaching it.
		produceRaw(t, cfg, i, recordbatchtest.Good(before), c.Raw, recordbatchtest.Good(after), c.Raw)
		if n := binary.BigEndian.Uint32(c.Raw[57:]); n > 0 {
			lost += 2 * float64(n)
		}
	}
	slices.Sort(want)

	var mu sync.Mutex
	log, reg := &logSink{}, prometheus.NewRegistry()
	logger := slog.New(slog.NewTextHandler(log, nil))
	collect := func(into *[]string, m kafka.Message) {
		mu.Lock()
		defer mu.Unlock()
		*into = append(*into, string(m.Value))
	}
	all := func(got *[]string) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(*got) >= len(want) }
	}
	var handled []string
	bustest.StartConsumer(t, bus.BatchConsumerConfig{
		Config: cfg, Group: "g", Topics: []string{"t"}, Registerer: reg, Logger: logger,
		MaxWait: 100 * time.Millisecond,
		Handle: func(_ context.Context, b bus.Batch) error {
			for _, m := range b.Messages {
				collect(&handled, m)
			}
			return nil
		},
	})
	bustest.Eventually(t, all(&handled), "both valid batches of each partition")
	bustest.Eventually(t, func() bool {
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{"t"})
		hasLag := func(l bus.PartitionLag) bool { return l.Lag > 0 }
		return err == nil && len(lag) == len(cases) && !slices.ContainsFunc(lag, hasLag)
	}, "all committed")
	mu.Lock()
	slices.Sort(handled)
	require.Equal(t, want, handled)
	mu.Unlock()
	require.Equal(t, lost, sumOf(t, reg, "muster_consumer_records_lost_total"))
	require.Contains(t, log.String(), "skipping corrupt record batch")
	require.Contains(t, log.String(), "level=ERROR")

	var followed []string
	collectFollowed := func(_ context.Context, m kafka.Message) error {
		collect(&followed, m)
		return nil
	}
	f := bus.Follow(t.Context(), cfg, bus.FollowConfig{
		Topics: []string{"t"}, MaxWait: 100 * time.Millisecond, Handle: collectFollowed,
	})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	slices.Sort(followed)
	require.Equal(t, want, followed)
}

func TestRead_LogsSkippedBatchAndMessageAtReturnsErrNoMessage(t *testing.T) {
	cfg := startUnchecked(t, 1)
	log := &logSink{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	damaged := recordbatchtest.Batch(recordbatchtest.Gzip, 3, 2, []byte("no gzip"))
	produceRaw(t, cfg, 0, recordbatchtest.Good("a"), damaged, recordbatchtest.Good("b"))
	var got []string
	_, err := bus.Read(t.Context(), cfg, "t", nil, func(m kafka.Message) error {
		got = append(got, fmt.Sprint(m.Offset, string(m.Value)))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"0a", "4b"}, got)
	require.Contains(t, log.String(), "lost=3")
	_, err = bus.MessageAt(t.Context(), cfg, "t", 0, 2)
	require.ErrorIs(t, err, bus.ErrNoMessage)
	m, err := bus.MessageAt(t.Context(), cfg, "t", 0, 4)
	require.NoError(t, err)
	require.Equal(t, "b", string(m.Value))
}

func TestRead_LimitsMemoryForManySmallRecords(t *testing.T) {
	const count = 1_000_000
	records := make([]byte, 0, 16*count)
	for i := range count {
		records = append(records, recordbatchtest.Record{OffsetDelta: int64(i)}.Bytes()...)
	}
	compressed, err := recordbatchtest.Compress(recordbatchtest.Zstd, records)
	require.NoError(t, err)
	cfg := startUnchecked(t, 1)
	large := recordbatchtest.Batch(recordbatchtest.Zstd, count, count-1, compressed)
	produceRaw(t, cfg, 0, large, recordbatchtest.Good("after"))
	runtime.GC()
	var start, now runtime.MemStats
	runtime.ReadMemStats(&start)
	next, maxHeap := int64(0), uint64(0)
	_, err = bus.Read(t.Context(), cfg, "t", nil, func(m kafka.Message) error {
		if m.Offset != next {
			return fmt.Errorf("offset %d after %d", m.Offset, next-1)
		}
		if next++; next%100_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			maxHeap = max(maxHeap, now.HeapAlloc)
		}
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, count+1, next)
	require.Less(t, maxHeap, start.HeapAlloc+64<<20)
}

func TestRead_TransientCorruptionLosesNothing(t *testing.T) {
	listen := func(network, addr string) (net.Listener, error) {
		ln, err := net.Listen(network, addr)
		return &corruptingListener{Listener: ln, left: 2}, err
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(listen))
	require.NoError(t, err)
	defer cluster.Close()
	cfg := bus.Config{Brokers: cluster.ListenAddrs()}
	produceRaw(t, cfg, 0, recordbatchtest.Good("fragile"), recordbatchtest.Good("after"))
	var got []string
	_, err = bus.Read(t.Context(), cfg, "t", nil, func(m kafka.Message) error {
		got = append(got, string(m.Value))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"fragile", "after"}, got)
}

// corruptingListener corrupts the first responses that contain the word "fragile".
type corruptingListener struct {
	net.Listener
	mu   sync.Mutex
	left int
}

func (l *corruptingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &corruptingConn{Conn: c, l: l}, err
}

type corruptingConn struct {
	net.Conn
	l *corruptingListener
}

func (c *corruptingConn) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if i := strings.Index(string(p), "fragile"); i >= 0 && c.l.left > 0 {
		c.l.left--
		p = slices.Clone(p)
		p[i] ^= 0x20
	}
	return c.Conn.Write(p)
}

func TestConsume_CommitsSkippedBatchAtEndOfLog(t *testing.T) {
	t.Parallel()
	cfg := startUnchecked(t, 1)
	damaged := recordbatchtest.Batch(recordbatchtest.Gzip, 3, 2, []byte("no gzip"))
	produceRaw(t, cfg, 0, recordbatchtest.Good("a"), damaged)
	s, err := bus.NewSubscriber(bus.SubscriberConfig{Config: cfg, Group: "s", MaxWait: 100 * time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	messages, err := s.Subscribe(t.Context(), "t")
	require.NoError(t, err)
	go func() {
		for m := range messages {
			m.Ack()
		}
	}()
	finishAll := func(ctx context.Context, p *bus.Partition) error {
		p.Receive(ctx, func(m kafka.Message) bool { p.Finish(m.Offset); return true })
		return nil
	}
	c, err := bus.NewPartitionConsumer(bus.PartitionConsumerConfig{Config: cfg, Group: "p", Topic: "t", Own: finishAll})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-ended) }()
	for _, group := range []string{"s", "p"} {
		bustest.Eventually(t, func() bool {
			lag, err := bus.Lag(t.Context(), cfg, group, []string{"t"})
			return err == nil && len(lag) == 1 && lag[0].Lag == 0
		}, "all of "+group+" committed")
	}
}
