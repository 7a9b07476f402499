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

// own starts a broker for this test alone, to break.
func own(t *testing.T) (*broker.Broker, bus.Config) {
	t.Helper()
	t.Parallel()
	b := brokertest.Start(t)
	return b, bus.Config{Brokers: b.Addrs()}
}

// stored reads a whole topic back.
func stored(t *testing.T, cfg bus.Config, topic string) (values map[string]int, order []string) {
	t.Helper()
	values = make(map[string]int)
	f := bus.Follow(t.Context(), cfg, bus.FollowConfig{Topics: []string{topic}, Handle: func(_ context.Context, m kafka.Message) error {
		values[string(m.Value)]++
		order = append(order, string(m.Value))
		return nil
	}})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	return values, order
}

func TestProduceFaultsThatPass(t *testing.T) {
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
			b, cfg := own(t)
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
			// Duplicates are allowed; the last stored message of a key is the last one given.
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

func TestProduceFaultsThatStay(t *testing.T) {
	for name, e := range map[string]*kerr.Error{
		"no permission":  kerr.TopicAuthorizationFailed,
		"invalid record": kerr.InvalidRecord,
		"too large":      kerr.MessageTooLarge,
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg := own(t)
			good, bad := bustest.Topic(t, cfg, 1, nil), bustest.Topic(t, cfg, 1, nil)
			b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: bad, Err: e, Count: -1})
			msgs := append(bustest.Messages(good, 0, 5), bustest.Messages(bad, 5, 3)...)
			msgs = append(msgs, bustest.Messages(good, 8, 5)...)
			err := bus.WriteAll(t.Context(), bustest.Writer(t, cfg), msgs)
			var refused *bus.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorIs(t, err, kafka.Error(e.Code))
			require.True(t, bus.IsPermanentWriteError(err))
			for i, m := range refused.Messages {
				require.Equal(t, 5+i, m.Index)
				require.Equal(t, bad, m.Topic)
			}
			require.Len(t, refused.Messages, 3)
			values, _ := stored(t, cfg, good)
			require.Len(t, values, 10)
		})
	}
}

// A batch can be too large for a topic whose messages are not.
func TestBatchTooLargeIsSplit(t *testing.T) {
	_, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, map[string]string{"max.message.bytes": "3000"})
	msgs := bustest.Messages(topic, 0, 20)
	for i := range msgs {
		msgs[i].Value = append(msgs[i].Value, strings.Repeat(fmt.Sprint(i), 500)...)
	}
	msgs[7].Value = []byte(strings.Repeat("x", 5000))
	w := bustest.Writer(t, cfg)
	w.Compression = 0
	err := bus.WriteAll(t.Context(), w, msgs)
	var refused *bus.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Messages, 1)
	require.Equal(t, 7, refused.Messages[0].Index)
	values, _ := stored(t, cfg, topic)
	require.Len(t, values, 19)
}

func TestWriteAllEndsWithItsContext(t *testing.T) {
	b, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	handle := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = handle.Wait(t.Context(), 3)
		cancel()
	}()
	require.ErrorIs(t, bus.WriteAll(ctx, bustest.Writer(t, cfg), bustest.Messages(topic, 0, 3)), context.Canceled)
}

func TestConsumerFaults(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"fetch: not leader":                 {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 5},
		"fetch: unknown error":              {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: 5},
		"fetch: unknown topic":              {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownTopicOrPartition, Count: 5},
		"fetch: out of range though within": {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: 5},
		"offsets: storage error":            {Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.KafkaStorageError, Count: 5},
		"commit: timed out when applied":    {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: 5},
		"commit: coordinator away":          {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: 5},
		"commit: unknown error":             {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: 3},
		"commit: illegal generation":        {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration, Count: 2},
		"commit: unknown member":            {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownMemberID, Count: 2},
		"commit: rebalance in progress":     {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 2},
		"heartbeat: rebalance":              {Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: 2},
		"heartbeat: unknown member":         {Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 1},
		"join: coordinator loading":         {Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorLoadInProgress, Count: 2},
		"sync: rebalance":                   {Keys: []kmsg.Key{kmsg.SyncGroup}, Err: kerr.RebalanceInProgress, Count: 2},
		"coordinator: not available":        {Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 2},
		"committed offset: unstable":        {Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnstableOffsetCommit, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg := own(t)
			topic := bustest.Topic(t, cfg, 3, nil)
			w := bustest.Writer(t, cfg)
			bustest.Produce(t, w, topic, 0, 300)
			if fault.Keys[0] == kmsg.OffsetFetch {
				fault.Topic = topic // else kfake leaves the partitions out, which no Kafka does
			}
			handle := b.Cluster().Fault(fault)
			ledger := bustest.NewLedger()
			consumer := bustest.StartConsumer(t, bus.BatchConsumerConfig{
				Config: cfg, Group: "g", Topics: []string{topic}, MaxMessages: 30, MaxAge: 5 * time.Millisecond, Registerer: prometheus.NewRegistry(),
				Handle: func(_ context.Context, b bus.Batch) error { ledger.Apply(b); return nil },
			})
			bustest.Eventually(t, func() bool { return ledger.Count() == 300 && handle.Hits() == fault.Count }, "all messages and all faults")
			ledger.RequireCommitsHandled(t, cfg, "g", topic)
			bustest.Produce(t, w, topic, 300, 30)
			bustest.Eventually(t, func() bool { return ledger.Count() == 330 }, "going on")
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

// logSink keeps what was logged.
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

// overtake lets a consumer stop, the log start move past its committed offset, and
// the consumer start again. It returns what was logged and the registry.
func overtake(t *testing.T, settings map[string]string, keyOf func(i int) string, lost int64) (string, *prometheus.Registry, *bustest.Ledger) {
	b, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, settings)
	w := bustest.Writer(t, cfg, bus.WithBatch(1, 0))
	produce := func(first, n int) {
		for i := first; i < first+n; i++ {
			require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: topic, Key: []byte(keyOf(i)), Value: fmt.Append(nil, i), Time: time.Now().Add(-time.Hour)}}))
		}
	}
	ledger, log, reg := bustest.NewLedger(), &logSink{}, prometheus.NewRegistry()
	start := func() *bustest.Consumer {
		return bustest.StartConsumer(t, bus.BatchConsumerConfig{
			Config: cfg, Group: "g", Topics: []string{topic}, Registerer: reg, Logger: slog.New(slog.NewTextHandler(log, nil)), Timing: bustest.PatientTiming(),
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
	require.Greater(t, offsets[0].First, int64(10), "the log start has moved")
	lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
	require.NoError(t, err)
	require.Equal(t, lost, lag[0].Lost, "while the consumer is stopped")
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: topic, Key: []byte("new"), Value: []byte("new"), Time: time.Now()}}))
	start()
	bustest.Eventually(t, func() bool {
		for _, v := range ledger.Values() {
			if v == "new" {
				return true
			}
		}
		return false
	}, "the consumer goes on")
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

func TestRetentionOvertakingIsAlarmed(t *testing.T) {
	log, reg, _ := overtake(t, map[string]string{"retention.ms": "60000"}, func(i int) string { return fmt.Sprint(i) }, 20)
	require.Contains(t, log, "retention removed messages that were never handled")
	require.Contains(t, log, "level=ERROR")
	require.Equal(t, 20.0, sumOf(t, reg, "muster_bus_lost_records_total"))
}

func TestCompactionOvertakingIsNot(t *testing.T) {
	log, reg, ledger := overtake(t, map[string]string{"cleanup.policy": "compact"}, func(int) string { return "the only key" }, 0)
	require.NotContains(t, log, "level=ERROR")
	require.Zero(t, sumOf(t, reg, "muster_bus_lost_records_total"))
	require.Contains(t, ledger.Values(), "29", "the newest of the key")
}

func TestTopicCreatedAnewIsAlarmed(t *testing.T) {
	_, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 50)
	ledger, log := bustest.NewLedger(), &logSink{}
	start := func() *bustest.Consumer {
		return bustest.StartConsumer(t, bus.BatchConsumerConfig{
			Config: cfg, Group: "g", Topics: []string{topic}, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(log, nil)),
			Handle: func(_ context.Context, b bus.Batch) error { ledger.Apply(b); return nil },
		})
	}
	first := start()
	bustest.Eventually(t, func() bool { return ledger.Count() == 50 }, "first life")
	require.NoError(t, first.Stop())
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}
	res, err := client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[topic])
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: topic, Partitions: 1}}))
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 100, 5)
	start()
	bustest.Eventually(t, func() bool { return ledger.Count() == 55 }, "second life")
}

// Compacted topics have gaps and batches that lost their last records.
func TestCompactedTopicIsReadToItsEnd(t *testing.T) {
	b, cfg := own(t)
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
	f := bus.Follow(t.Context(), cfg, bus.FollowConfig{Topics: []string{topic}, Handle: func(_ context.Context, m kafka.Message) error {
		if m.Value == nil {
			delete(state, string(m.Key))
		} else {
			state[string(m.Key)] = string(m.Value)
		}
		return nil
	}})
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
	bustest.Eventually(t, func() bool { return ledger.Applied() >= 10 }, "what is left")
	bustest.Produce(t, w, topic, 0, 10)
	bustest.Eventually(t, func() bool {
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
		return err == nil && lag[0].Lag+lag[1].Lag == 0
	}, "the end is reached")
	require.NoError(t, consumer.Stop())
}

// With several messages in flight, only a finished beginning is committed.
func TestSubscriberCommitsUpToFirstUnfinished(t *testing.T) {
	_, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 10)
	subscribe := func(inFlight int, timing bus.GroupTiming) (*bus.Subscriber, <-chan *message.Message) {
		sub, err := bus.NewSubscriber(bus.SubscriberConfig{Config: cfg, Group: "g", MaxInFlight: inFlight, NackDelay: time.Millisecond, Timing: timing})
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
		held = append(held, <-out) // 6 to 9 take the places of the acked ones
	}
	for _, m := range held[6:] {
		m.Ack()
	}
	held[4].Nack()
	again := <-out
	require.Equal(t, held[4].Payload, again.Payload, "nack means again")
	again.Ack()
	require.Equal(t, int64(2), committed())
	require.NoError(t, sub.Close())
	require.Equal(t, int64(2), committed())

	sub, out = subscribe(1, bustest.PatientTiming())
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

func TestSubscriberCommitFaults(t *testing.T) {
	b, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 20)
	handle := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: 3})
	sub, err := bus.NewSubscriber(bus.SubscriberConfig{Config: cfg, Group: "g", Timing: bustest.Timing(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	out, err := sub.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	for range 20 {
		(<-out).Ack()
	}
	bustest.Eventually(t, func() bool {
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
		return err == nil && lag[0].Lag == 0
	}, "committed in spite of faults, without further acks")
	require.Equal(t, 3, handle.Hits())
	require.NoError(t, sub.Close())
}

// A coordinator that moves, or is still loading, is waited for; one that refuses is not.
func TestLagWaitsForTheCoordinator(t *testing.T) {
	for name, tt := range map[string]struct {
		err  *kerr.Error
		fail bool
	}{
		"not coordinator": {err: kerr.NotCoordinator},
		"loading":         {err: kerr.CoordinatorLoadInProgress},
		"not available":   {err: kerr.CoordinatorNotAvailable},
		"refused":         {err: kerr.GroupAuthorizationFailed, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg := own(t)
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

// A consumer that may not join says for how long it has not; one that belongs to its group is not away, also without a partition.
func TestConsumerAway(t *testing.T) {
	b, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	start := func() *bus.BatchConsumer {
		c, err := bus.NewBatchConsumer(bus.BatchConsumerConfig{
			Config: cfg, Group: "away", Topics: []string{topic}, Timing: bustest.Timing(),
			Handle: func(context.Context, bus.Batch) error { return nil },
		})
		require.NoError(t, err)
		require.Zero(t, c.Away(), "it does not run")
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-done)
			require.Zero(t, c.Away(), "it has stopped")
		})
		return c
	}
	refused := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	first := start()
	bustest.Eventually(t, func() bool { return first.Away() > 100*time.Millisecond && refused.Hits() > 2 }, "it is refused")
	refused.Remove()
	bustest.Eventually(t, func() bool { return first.Away() == 0 }, "it has joined")
	second := start()
	bustest.Eventually(t, func() bool { return first.Away() == 0 && second.Away() == 0 }, "both have joined, for one partition")
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup, kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: -1})
	bustest.Eventually(t, func() bool { return first.Away() > 100*time.Millisecond && second.Away() > 100*time.Millisecond }, "they are thrown out")
}
