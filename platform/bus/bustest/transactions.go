package bustest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"muster/platform/bus"
)

// Transact writes messages in a transaction of another producer and commits or aborts it. The transaction ends with a
// marker in each partition, an offset without a message. The brokers must accept connections without TLS and SASL.
func Transact(t testing.TB, cfg bus.Config, commit bool, messages ...kafka.Message) {
	t.Helper()
	Begin(t, cfg, newID("transaction"), messages...)(commit)
}

// Begin writes messages in a transaction that stays open until end is called.
func Begin(t testing.TB, cfg bus.Config, id string, messages ...kafka.Message) (end func(commit bool)) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.TransactionalID(id))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	require.NoError(t, client.BeginTransaction())
	for _, m := range messages {
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value}).FirstErr())
	}
	return func(commit bool) {
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		require.NoError(t, client.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
		client.Close()
	}
}

// readsCommittedOnly tests that all readers skip aborted messages and wait at an open transaction.
func readsCommittedOnly(t *testing.T, c *Cluster) {
	topic := Topic(t, c.Config, 1, nil)
	w := Writer(t, c.Config)
	messages := func(first, n int) []kafka.Message { return Messages(topic, first, n) }
	var want []string
	committed := func(first, n int) {
		for _, m := range messages(first, n) {
			want = append(want, string(m.Value))
		}
	}
	Produce(t, w, topic, 0, 10) // offsets 0..9
	committed(0, 10)
	Transact(t, c.Config, false, messages(100, 10)...) // 10..19, the marker at 20
	Transact(t, c.Config, true, messages(10, 5)...)
	committed(10, 5)
	end := Begin(t, c.Config, newID("transaction"), messages(200, 5)...)
	Produce(t, w, topic, 15, 5) // during a transaction that is aborted later
	committed(15, 5)
	end(false)
	large := messages(300, 5) // larger than one fetch response
	for i := range large {
		large[i].Value = make([]byte, 400<<10)
		_, _ = rand.Read(large[i].Value) // incompressible
	}
	Transact(t, c.Config, false, large...)
	Produce(t, w, topic, 20, 5)
	committed(20, 5)
	Transact(t, c.Config, false, messages(400, 3)...)

	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	read := func(from int64) (got []string) {
		_, err := bus.Read(ctx, c.Config, topic, map[int]int64{0: from}, func(m kafka.Message) error {
			got = append(got, string(m.Value))
			return nil
		})
		require.NoError(t, err)
		return got
	}
	require.Equal(t, want, read(0), "Read")
	require.Equal(t, want[10:], read(15), "Read from within an aborted transaction")
	var scanned []string
	require.NoError(t, bus.Scan(ctx, c.Config, []string{topic}, func(m kafka.Message) error {
		scanned = append(scanned, string(m.Value))
		return nil
	}))
	require.Equal(t, want, scanned, "Scan")
	_, err := bus.MessageAt(ctx, c.Config, topic, 0, 12)
	require.ErrorIs(t, err, bus.ErrNoMessage, "an aborted message")
	m, err := bus.MessageAt(ctx, c.Config, topic, 0, 21)
	require.NoError(t, err)
	require.Equal(t, "v10", string(m.Value))

	group, ledger := newID("group"), NewLedger()
	consumer := StartConsumer(t, bus.BatchConsumerConfig{
		Config: c.Config, Group: group, Topics: []string{topic}, MaxMessages: 7, MaxAge: 20 * time.Millisecond,
		Handle: func(_ context.Context, b bus.Batch) error {
			ledger.Apply(b)
			return nil
		},
	})
	atEnd := func() bool {
		lag, err := bus.Lag(t.Context(), c.Config, group, []string{topic})
		return err == nil && len(lag) == 1 && lag[0].Lag == 0
	}
	Eventually(t, atEnd, "no lag after aborted transactions")
	slices.Sort(want)
	require.Equal(t, want, ledger.Values(), "BatchConsumer")
	require.Equal(t, len(want), ledger.Applied(), "each once")

	end = Begin(t, c.Config, newID("transaction"), messages(30, 3)...)
	Produce(t, w, topic, 33, 3)
	require.False(t, atEnd(), "messages of an open transaction are not handled yet")
	require.Equal(t, want, ledger.Values())
	end(true)
	committed(30, 6)
	slices.Sort(want)
	Eventually(t, atEnd, "no lag after the transaction is committed")
	require.Equal(t, want, ledger.Values())
	require.NoError(t, consumer.Stop())
}

// reachesEndAfterMarkers tests that offsets of transaction markers after the last message are committed, without a call
// of Handle.
func reachesEndAfterMarkers(t *testing.T, c *Cluster) {
	topic, group, ledger := Topic(t, c.Config, 3, nil), newID("group"), NewLedger()
	var reached atomic.Int64
	start := func() *Consumer {
		return StartConsumer(t, bus.BatchConsumerConfig{
			Config: c.Config, Group: group, Topics: []string{topic}, MaxMessages: 40, MaxAge: 20 * time.Millisecond,
			Handle: func(_ context.Context, b bus.Batch) error {
				if len(b.Messages) == 0 {
					return errors.New("a batch without messages")
				}
				ledger.Apply(b)
				return nil
			},
			Done: func(b bus.Batch) {
				for _, r := range b.Ranges {
					reached.Add(r.Last - r.First + 1)
				}
			},
		})
	}
	atEnd := func() bool {
		lag, err := bus.Lag(t.Context(), c.Config, group, []string{topic})
		if err != nil || len(lag) != 3 {
			return false
		}
		for _, p := range lag {
			if p.Lag > 0 {
				return false
			}
		}
		return true
	}
	Transact(t, c.Config, true, Messages(topic, 0, 50)...)
	consumer := start()
	Eventually(t, func() bool { return ledger.Count() == 50 && atEnd() }, "no lag after a transaction")
	Transact(t, c.Config, true, Messages(topic, 50, 50)...)
	Eventually(t, func() bool { return ledger.Count() == 100 && atEnd() }, "no lag after another transaction")
	require.NoError(t, consumer.Stop())

	// Earlier releases committed the offset of the marker: only markers are left to read.
	client := newClient(c.Config)
	ends, err := bus.EndOffsets(t.Context(), c.Config, []string{topic})
	require.NoError(t, err)
	var back []kafka.OffsetCommit
	for _, e := range ends {
		back = append(back, kafka.OffsetCommit{Partition: e.Partition, Offset: e.End - 1})
	}
	Eventually(t, func() bool {
		res, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: back},
		})
		if err != nil {
			return false
		}
		for _, p := range res.Topics[topic] {
			if p.Error != nil {
				return false
			}
		}
		return true
	}, "offsets before the markers are committed")
	require.False(t, atEnd())
	reached.Store(0)
	applied := ledger.Applied()
	consumer = start()
	Eventually(t, func() bool { return atEnd() && reached.Load() == 3 }, "no lag after markers alone")
	Produce(t, Writer(t, c.Config), topic, 100, 30)
	Eventually(t, func() bool { return ledger.Count() == 130 && atEnd() }, "messages after markers")
	require.NoError(t, consumer.Stop())
	require.Equal(t, applied+30, ledger.Applied(), "no duplicates")
}
