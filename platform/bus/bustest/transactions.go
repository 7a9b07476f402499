package bustest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"muster/platform/bus"
)

// Transact writes messages as one transaction of an outside producer, which it
// commits or aborts. Behind them each partition has a marker, an offset without a
// message. The brokers must take connections without TLS and SASL.
func Transact(t testing.TB, cfg bus.Config, commit bool, messages ...kafka.Message) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.TransactionalID(newID("transaction")))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, client.BeginTransaction())
	for _, m := range messages {
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value}).FirstErr())
	}
	require.NoError(t, client.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
}

// reachesTheEnd has nothing but markers of transactions behind what was handled, in
// whatever order they come: they are committed, too, and Handle never sees them.
func reachesTheEnd(t *testing.T, c *Cluster) {
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
	atTheEnd := func() bool {
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
	Eventually(t, func() bool { return ledger.Count() == 50 && atTheEnd() }, "the end behind a transaction")
	Transact(t, c.Config, true, Messages(topic, 50, 50)...)
	Eventually(t, func() bool { return ledger.Count() == 100 && atTheEnd() }, "the end behind another")
	require.NoError(t, consumer.Stop())

	// Where a release that passed over markers has left off: nothing but markers is to be read.
	client := &kafka.Client{Addr: kafka.TCP(c.Config.Brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{TLS: c.Config.TLS, SASL: c.Config.SASL}}
	ends, err := bus.EndOffsets(t.Context(), c.Config, []string{topic})
	require.NoError(t, err)
	var back []kafka.OffsetCommit
	for _, e := range ends {
		back = append(back, kafka.OffsetCommit{Partition: e.Partition, Offset: e.End - 1})
	}
	Eventually(t, func() bool {
		res, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: back}})
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
	require.False(t, atTheEnd())
	reached.Store(0)
	applied := ledger.Applied()
	consumer = start()
	Eventually(t, func() bool { return atTheEnd() && reached.Load() == 3 }, "the end behind markers alone")
	Produce(t, Writer(t, c.Config), topic, 100, 30)
	Eventually(t, func() bool { return ledger.Count() == 130 && atTheEnd() }, "what comes behind markers")
	require.NoError(t, consumer.Stop())
	require.Equal(t, applied+30, ledger.Applied(), "nothing twice")
}
