package bus_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// startOwn starts a broker only for this test, for fault injection. The test runs in parallel.
func startOwn(t *testing.T) (*broker.Broker, bus.Config) {
	t.Helper()
	t.Parallel()
	b := brokertest.Start(t)
	return b, bus.Config{Brokers: b.Addrs()}
}

// stored returns the values of a topic, counted and in order.
func stored(t *testing.T, cfg bus.Config, topic string) (values map[string]int, order []string) {
	t.Helper()
	values = make(map[string]int)
	collect := func(_ context.Context, m kafka.Message) error {
		values[string(m.Value)]++
		order = append(order, string(m.Value))
		return nil
	}
	f := bus.Follow(t.Context(), cfg, bus.FollowConfig{Topics: []string{topic}, Handle: collect})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	return values, order
}

func TestWriteAll_RetriesTransientErrors(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"not leader":             {Err: kerr.NotLeaderForPartition, Count: 6},
		"not enough replicas":    {Err: kerr.NotEnoughReplicas, Count: 6},
		"storage error":          {Err: kerr.KafkaStorageError, Count: 6},
		"leader not available":   {Err: kerr.LeaderNotAvailable, Count: 6},
		"unknown server error":   {Err: kerr.UnknownServerError, Count: 6},
		"timed out when applied": {Err: kerr.RequestTimedOut, Count: 6},
		"appended, not in sync":  {Err: kerr.NotEnoughReplicasAfterAppend, Count: 6},
		"topic not yet known":    {Err: kerr.UnknownTopicOrPartition, Count: 6},
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg := startOwn(t)
			topic := bustest.Topic(t, cfg, 1, nil)
			fault.Keys = []kmsg.Key{kmsg.Produce}
			handle := b.Cluster().Fault(fault)
			w := bustest.Writer(t, cfg, bus.WithBatch(10, 0))
			var msgs []kafka.Message
			for v := range 100 {
				msgs = append(msgs, kafka.Message{Topic: topic, Key: fmt.Append(nil, v%5), Value: fmt.Append(nil, v)})
			}
			require.NoError(t, bus.WriteAll(t.Context(), w, msgs))
			require.Equal(t, 6, handle.Hits())
			values, order := stored(t, cfg, topic)
			require.Len(t, values, 100, "nothing lost")
			// Duplicates are allowed, but the last message of a key must be stored last.
			last := make(map[int]int)
			for _, v := range order {
				var n int
				_, err := fmt.Sscan(v, &n)
				require.NoError(t, err)
				last[n%5] = n
			}
			require.Equal(t, map[int]int{0: 95, 1: 96, 2: 97, 3: 98, 4: 99}, last)
		})
	}
}

func TestWriteAll_ReportsPermanentErrorsAndWritesOthers(t *testing.T) {
	for name, e := range map[string]*kerr.Error{
		"no permission":  kerr.TopicAuthorizationFailed,
		"invalid record": kerr.InvalidRecord,
		"too large":      kerr.MessageTooLarge,
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg := startOwn(t)
			good, bad := bustest.Topic(t, cfg, 1, nil), bustest.Topic(t, cfg, 1, nil)
			b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: bad, Err: e, Count: -1})
			msgs := append(bustest.Messages(good, 0, 5), bustest.Messages(bad, 5, 3)...)
			msgs = append(msgs, bustest.Messages(good, 8, 5)...)
			err := bus.WriteAll(t.Context(), bustest.Writer(t, cfg), msgs)
			var rejected *bus.RejectedError
			require.ErrorAs(t, err, &rejected)
			require.ErrorIs(t, err, kafka.Error(e.Code))
			require.True(t, bus.IsPermanentWriteError(err))
			for i, m := range rejected.Messages {
				require.Equal(t, 5+i, m.Index)
				require.Equal(t, bad, m.Topic)
			}
			require.Len(t, rejected.Messages, 3)
			values, _ := stored(t, cfg, good)
			require.Len(t, values, 10)
		})
	}
}

func TestWriteAll_SplitsBatchThatIsTooLargeForTopic(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, map[string]string{"max.message.bytes": "3000"})
	msgs := bustest.Messages(topic, 0, 20)
	for i := range msgs {
		msgs[i].Value = append(msgs[i].Value, strings.Repeat(fmt.Sprint(i), 500)...)
	}
	msgs[7].Value = []byte(strings.Repeat("x", 5000))
	w := bustest.Writer(t, cfg)
	w.Compression = 0
	err := bus.WriteAll(t.Context(), w, msgs)
	var rejected *bus.RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Messages, 1)
	require.Equal(t, 7, rejected.Messages[0].Index)
	values, _ := stored(t, cfg, topic)
	require.Len(t, values, 19)
}

func TestWriteAll_StopsRetryingWithItsContext(t *testing.T) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	handle := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = handle.Wait(t.Context(), 3)
		cancel()
	}()
	err := bus.WriteAll(ctx, bustest.Writer(t, cfg), bustest.Messages(topic, 0, 3))
	require.ErrorIs(t, err, context.Canceled)
}

func TestConsumer_SurvivesBrokerErrors(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"fetch: not leader":    {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 5},
		"fetch: unknown error": {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: 5},
		"fetch: unknown topic": {
			Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownTopicOrPartition, Count: 5,
		},
		"fetch: out of range though within": {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: 5},
		"offsets: storage error": {
			Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.KafkaStorageError, Count: 5,
		},
		"commit: timed out when applied": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: 5},
		"commit: coordinator unavailable": {
			Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: 5,
		},
		"commit: unknown error": {
			Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: 3,
		},
		"commit: illegal generation": {
			Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration, Count: 2,
		},
		"commit: unknown member": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownMemberID, Count: 2},
		"commit: rebalance in progress": {
			Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 2,
		},
		"heartbeat: rebalance": {
			Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: 2,
		},
		"heartbeat: unknown member": {Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 1},
		"join: coordinator loading": {
			Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorLoadInProgress, Count: 2,
		},
		"sync: rebalance": {
			Keys: []kmsg.Key{kmsg.SyncGroup}, Err: kerr.RebalanceInProgress, Count: 2,
		},
		"coordinator: not available": {
			Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 2,
		},
		"committed offset: unstable": {
			Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnstableOffsetCommit, Count: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg := startOwn(t)
			topic := bustest.Topic(t, cfg, 3, nil)
			w := bustest.Writer(t, cfg)
			bustest.Produce(t, w, topic, 0, 300)
			if fault.Keys[0] == kmsg.OffsetFetch {
				fault.Topic = topic // otherwise kfake omits the partitions, unlike Kafka
			}
			handle := b.Cluster().Fault(fault)
			ledger := bustest.NewLedger()
			consumer := bustest.StartConsumer(t, bus.BatchConsumerConfig{
				Config: cfg, Group: "g", Topics: []string{topic}, MaxMessages: 30, MaxAge: 5 * time.Millisecond,
				Registerer: prometheus.NewRegistry(),
				Handle:     func(_ context.Context, b bus.Batch) error { ledger.Apply(b); return nil },
			})
			allHandled := func() bool { return ledger.Count() == 300 && handle.Hits() == fault.Count }
			bustest.Eventually(t, allHandled, "all messages and all faults")
			ledger.RequireCommitsHandled(t, cfg, "g", topic)
			bustest.Produce(t, w, topic, 300, 30)
			bustest.Eventually(t, func() bool { return ledger.Count() == 330 }, "further messages")
			handle.Remove()
			bustest.Eventually(t, func() bool {
				lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
				if err != nil {
					return false
				}
				for _, p := range lag {
					if p.Lag > 0 {
						return false
					}
				}
				return true
			}, "everything committed")
			require.NoError(t, consumer.Stop())
			ledger.RequireCommitsHandled(t, cfg, "g", topic)
		})
	}
}

// logSink is a concurrent buffer for log lines.
type logSink struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *logSink) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logSink) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// overtake stops a consumer, moves the log start past its committed offset, and starts it again. It returns what was
// logged, the metrics and the handled messages.
func overtake(
	t *testing.T, settings map[string]string, keyOf func(i int) string, lost int64,
) (string, *prometheus.Registry, *bustest.Ledger) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, settings)
	w := bustest.Writer(t, cfg, bus.WithBatch(1, 0))
	produce := func(first, n int) {
		for i := first; i < first+n; i++ {
			m := kafka.Message{
				Topic: topic, Key: []byte(keyOf(i)), Value: fmt.Append(nil, i), Time: time.Now().Add(-time.Hour),
			}
			require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
		}
	}
	ledger, log, reg := bustest.NewLedger(), &logSink{}, prometheus.NewRegistry()
	start := func() *bustest.Consumer {
		return bustest.StartConsumer(t, bus.BatchConsumerConfig{
			Config: cfg, Group: "g", Topics: []string{topic}, Registerer: reg,
			Logger: slog.New(slog.NewTextHandler(log, nil)), Timing: bustest.SlowTiming(),
			Handle: func(_ context.Context, b bus.Batch) error { ledger.Apply(b); return nil },
		})
	}
	produce(0, 10)
	first := start()
	bustest.Eventually(t, func() bool { return ledger.Count() == 10 }, "first messages")
	require.NoError(t, first.Stop())
	produce(10, 20)
	require.NoError(t, b.Compact(t.Context()))
	offsets, err := bus.EndOffsets(t.Context(), cfg, []string{topic})
	require.NoError(t, err)
	require.Greater(t, offsets[0].First, int64(10), "log start after retention or compaction")
	lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
	require.NoError(t, err)
	require.Equal(t, lost, lag[0].Lost, "while the consumer is stopped")
	newest := kafka.Message{Topic: topic, Key: []byte("new"), Value: []byte("new"), Time: time.Now()}
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{newest}))
	start()
	bustest.Eventually(t, func() bool {
		for _, v := range ledger.Values() {
			if v == "new" {
				return true
			}
		}
		return false
	}, "the consumer continues")
	return log.String(), reg, ledger
}

func sumOf(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestConsumer_ReportsMessagesLostToRetention(t *testing.T) {
	keyOf := func(i int) string { return fmt.Sprint(i) }
	log, reg, _ := overtake(t, map[string]string{"retention.ms": "60000"}, keyOf, 20)
	require.Contains(t, log, "retention removed messages that were never handled")
	require.Contains(t, log, "level=ERROR")
	require.Equal(t, 20.0, sumOf(t, reg, "muster_consumer_records_lost_total"))
}

func TestConsumer_DoesNotReportCompactedMessages(t *testing.T) {
	keyOf := func(int) string { return "the only key" }
	log, reg, ledger := overtake(t, map[string]string{"cleanup.policy": "compact"}, keyOf, 0)
	require.NotContains(t, log, "level=ERROR")
	require.Zero(t, sumOf(t, reg, "muster_consumer_records_lost_total"))
	require.Contains(t, ledger.Values(), "29", "the newest of the key")
}

func TestConsumer_ReadsRecreatedTopicFromItsStart(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 50)
	ledger, log := bustest.NewLedger(), &logSink{}
	start := func() *bustest.Consumer {
		return bustest.StartConsumer(t, bus.BatchConsumerConfig{
			Config: cfg, Group: "g", Topics: []string{topic}, Registerer: prometheus.NewRegistry(),
			Logger: slog.New(slog.NewTextHandler(log, nil)),
			Handle: func(_ context.Context, b bus.Batch) error { ledger.Apply(b); return nil },
		})
	}
	first := start()
	bustest.Eventually(t, func() bool { return ledger.Count() == 50 }, "messages of the first topic")
	require.NoError(t, first.Stop())
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}
	res, err := client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[topic])
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: topic, Partitions: 1}}))
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 100, 5)
	start()
	bustest.Eventually(t, func() bool { return ledger.Count() == 55 }, "messages of the second topic")
}

// Compacted topics have gaps, and batches that lost their last records.
func TestConsumer_ReachesEndOfCompactedTopic(t *testing.T) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 2, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "0"})
	w := bustest.Writer(t, cfg, bus.WithBatch(10, 0))
	for v := range 40 {
		msgs := make([]kafka.Message, 20)
		for k := range msgs {
			msgs[k] = kafka.Message{Topic: topic, Key: fmt.Append(nil, k), Value: fmt.Appendf(nil, "%d of %d", v, k)}
			if v == 39 && k%2 == 1 {
				msgs[k].Value = nil
			}
		}
		require.NoError(t, bus.WriteAll(t.Context(), w, msgs))
	}
	require.NoError(t, b.Compact(t.Context()))
	state := make(map[string]string)
	apply := func(_ context.Context, m kafka.Message) error {
		if m.Value == nil {
			delete(state, string(m.Key))
		} else {
			state[string(m.Key)] = string(m.Value)
		}
		return nil
	}
	f := bus.Follow(t.Context(), cfg, bus.FollowConfig{Topics: []string{topic}, Handle: apply})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	for k := range 20 {
		v, ok := state[fmt.Sprint(k)]
		require.Equal(t, k%2 == 0, ok)
		if ok {
			require.Equal(t, fmt.Sprintf("39 of %d", k), v)
		}
	}
	ledger := bustest.NewLedger()
	consumer := bustest.StartConsumer(t, bus.BatchConsumerConfig{
		Config: cfg, Group: "g", Topics: []string{topic},
		Handle: func(_ context.Context, b bus.Batch) error { ledger.Apply(b); return nil },
	})
	bustest.Eventually(t, func() bool { return ledger.Applied() >= 10 }, "remaining messages")
	bustest.Produce(t, w, topic, 0, 10)
	bustest.Eventually(t, func() bool {
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
		return err == nil && lag[0].Lag+lag[1].Lag == 0
	}, "the end is reached")
	require.NoError(t, consumer.Stop())
}

func TestSubscriber_CommitsUpToFirstUnfinished(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 10)
	subscribe := func(inFlight int, timing bus.GroupTiming) (*bus.Subscriber, <-chan *message.Message) {
		sub, err := bus.NewSubscriber(bus.SubscriberConfig{
			Config: cfg, Group: "g", MaxInFlight: inFlight, NackDelay: time.Millisecond, Timing: timing,
		})
		require.NoError(t, err)
		out, err := sub.Subscribe(t.Context(), topic)
		require.NoError(t, err)
		return sub, out
	}
	committed := func() int64 {
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
		require.NoError(t, err)
		return lag[0].Committed
	}
	sub, out := subscribe(6, bustest.Timing())
	var held []*message.Message
	for range 6 {
		held = append(held, <-out)
	}
	select {
	case m := <-out:
		t.Fatalf("a seventh message in flight: %s", m.Payload)
	case <-time.After(50 * time.Millisecond):
	}
	for _, i := range []int{0, 1, 3, 5} { // 2 and 4 stay unfinished
		require.True(t, held[i].Ack())
	}
	bustest.Eventually(t, func() bool { return committed() == 2 }, "0 and 1 are committed")
	for range 4 {
		held = append(held, <-out) // 6 to 9 take the slots of the acked ones
	}
	for _, m := range held[6:] {
		m.Ack()
	}
	held[4].Nack()
	redelivered := <-out
	require.Equal(t, held[4].Payload, redelivered.Payload, "a nacked message is redelivered")
	redelivered.Ack()
	require.Equal(t, int64(2), committed())
	require.NoError(t, sub.Close())
	require.Equal(t, int64(2), committed())

	sub, out = subscribe(1, bustest.SlowTiming())
	for i := 2; i < 10; i++ {
		m := <-out
		require.Equal(t, fmt.Sprintf("v%d", i), string(m.Payload))
		o, ok := bus.MessageOrigin(m.Context())
		require.True(t, ok)
		require.Equal(t, int64(i), o.Offset)
		m.Ack()
	}
	require.NoError(t, sub.Close(), "Close commits what was acked")
	require.Equal(t, int64(10), committed())
}

func TestSubscriber_RetriesCommits(t *testing.T) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 20)
	handle := b.Cluster().
		Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: 3})
	sub, err := bus.NewSubscriber(bus.SubscriberConfig{
		Config: cfg, Group: "g", Timing: bustest.Timing(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	out, err := sub.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	for range 20 {
		(<-out).Ack()
	}
	bustest.Eventually(t, func() bool {
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
		return err == nil && lag[0].Lag == 0
	}, "committed after retries, without further acks")
	require.Equal(t, 3, handle.Hits())
	require.NoError(t, sub.Close())
}

func TestLag_WaitsForUnavailableCoordinator(t *testing.T) {
	for name, tt := range map[string]struct {
		err  *kerr.Error
		fail bool
	}{
		"not coordinator": {err: kerr.NotCoordinator},
		"loading":         {err: kerr.CoordinatorLoadInProgress},
		"not available":   {err: kerr.CoordinatorNotAvailable},
		"unauthorized":    {err: kerr.GroupAuthorizationFailed, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg := startOwn(t)
			topic := bustest.Topic(t, cfg, 1, nil)
			handle := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Count: 2, Err: tt.err})
			lags, err := bus.Lag(t.Context(), cfg, "readers", []string{topic})
			if tt.fail {
				require.ErrorIs(t, err, kafka.GroupAuthorizationFailed)
				require.Equal(t, 1, handle.Hits())
				return
			}
			require.NoError(t, err)
			require.Len(t, lags, 1)
			require.Equal(t, 2, handle.Hits())
		})
	}
}

func TestConsumer_NotInGroupForIsZeroOnlyForMembers(t *testing.T) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	start := func() *bus.BatchConsumer {
		c, err := bus.NewBatchConsumer(bus.BatchConsumerConfig{
			Config: cfg, Group: "away", Topics: []string{topic}, Timing: bustest.Timing(),
			Handle: func(context.Context, bus.Batch) error { return nil },
		})
		require.NoError(t, err)
		require.Zero(t, c.NotInGroupFor(), "before Run")
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-done)
			require.Zero(t, c.NotInGroupFor(), "after Run")
		})
		return c
	}
	joins := b.Cluster().Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1,
	})
	first := start()
	isAway := func(c *bus.BatchConsumer) bool { return c.NotInGroupFor() > 100*time.Millisecond }
	bustest.Eventually(t, func() bool { return isAway(first) && joins.Hits() > 2 }, "joins fail")
	joins.Remove()
	bustest.Eventually(t, func() bool { return first.NotInGroupFor() == 0 }, "the first has joined")
	second := start()
	bothJoined := func() bool { return first.NotInGroupFor() == 0 && second.NotInGroupFor() == 0 }
	bustest.Eventually(t, bothJoined, "both have joined, with one partition")
	b.Cluster().Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.JoinGroup, kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: -1,
	})
	bustest.Eventually(t, func() bool { return isAway(first) && isAway(second) }, "both are fenced")
}
