package bustest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
)

// patience is how long a test waits for what should take a moment, also on a machine that is busy.
const patience = 2 * time.Minute

// Topic creates a topic that no other test uses and returns its name.
func Topic(t testing.TB, cfg bus.Config, partitions int, settings map[string]string) string {
	t.Helper()
	name := newID("test")
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: name, Partitions: partitions, Config: settings}}))
	return name
}

// Writer returns a writer that is closed when the test ends.
func Writer(t testing.TB, cfg bus.Config, opts ...bus.WriterOption) *bus.Writer {
	t.Helper()
	w := bus.NewWriter(cfg, opts...)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// Messages makes n messages with the keys k0, k1, ... and numbered values.
func Messages(topic string, first, n int) []kafka.Message {
	out := make([]kafka.Message, n)
	for i := range out {
		id := first + i
		out[i] = kafka.Message{Topic: topic, Key: fmt.Appendf(nil, "k%d", id), Value: fmt.Appendf(nil, "v%d", id)}
	}
	return out
}

// Produce writes n messages, as Messages makes them.
func Produce(t testing.TB, w *bus.Writer, topic string, first, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, bus.WriteAll(ctx, w, Messages(topic, first, n)))
}

// Eventually waits until what holds; it polls, because Kafka gives no signal.
func Eventually(t testing.TB, holds func() bool, what string, args ...any) {
	t.Helper()
	require.Eventuallyf(t, holds, patience, 10*time.Millisecond, what, args...)
}

// Ledger is a handler's durable effect: it remembers what was handled.
type Ledger struct {
	mu      sync.Mutex
	values  map[string]int            // value -> times
	offsets map[string]map[int64]bool // topic/partition -> offsets
	batches map[string]int            // token -> attempts that were applied
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{values: make(map[string]int), offsets: make(map[string]map[int64]bool), batches: make(map[string]int)}
}

// Apply makes the batch part of the ledger, any number of times.
func (l *Ledger) Apply(b bus.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches[b.Token()]++
	for _, m := range b.Messages {
		l.values[string(m.Value)]++
		tp := partitionName(m.Topic, m.Partition)
		if l.offsets[tp] == nil {
			l.offsets[tp] = make(map[int64]bool)
		}
		l.offsets[tp][m.Offset] = true
	}
}

// Count is the number of different values.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.values)
}

// Applied is the number of messages, repetitions included.
func (l *Ledger) Applied() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, times := range l.values {
		n += times
	}
	return n
}

// Values are the different values in order.
func (l *Ledger) Values() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, 0, len(l.values))
	for v := range l.values {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// RequireCommitsHandled proves that no offset was committed whose messages are not
// in the ledger. It may be called while consumers run.
func (l *Ledger) RequireCommitsHandled(t testing.TB, cfg bus.Config, group string, topics ...string) []bus.PartitionLag {
	t.Helper()
	lag, err := bus.Lag(t.Context(), cfg, group, topics)
	require.NoError(t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range lag {
		tp := partitionName(p.Topic, p.Partition)
		for o := p.First; o < p.Committed; o++ {
			require.Truef(t, l.offsets[tp][o], "%s: offset %d is committed (%d) but was not handled", tp, o, p.Committed)
		}
	}
	return lag
}

func partitionName(topic string, partition int) string { return fmt.Sprintf("%s/%d", topic, partition) }

// RequireNoLag proves that a group has committed everything.
func RequireNoLag(t testing.TB, cfg bus.Config, group string, topics ...string) {
	t.Helper()
	lag, err := bus.Lag(t.Context(), cfg, group, topics)
	require.NoError(t, err)
	require.NotEmpty(t, lag)
	for _, p := range lag {
		require.Zerof(t, p.Lag, "%+v", p)
	}
}

// Consumer runs a batch consumer in the background.
type Consumer struct {
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

// StartConsumer runs a consumer with the timing of tests until Stop or the end of
// the test.
func StartConsumer(t testing.TB, cfg bus.BatchConsumerConfig) *Consumer {
	t.Helper()
	if cfg.Timing == (bus.GroupTiming{}) {
		cfg.Timing = Timing()
	}
	if cfg.RetryMin == 0 {
		cfg.RetryMin, cfg.RetryMax = 5*time.Millisecond, 50*time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	bc, err := bus.NewBatchConsumer(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c := &Consumer{cancel: cancel, done: make(chan error, 1)}
	go func() { c.done <- bc.Run(ctx) }()
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	return c
}

// Stop ends the consumer and waits for it.
func (c *Consumer) Stop() error {
	c.once.Do(func() {
		c.cancel()
		select {
		case c.err = <-c.done:
		case <-time.After(patience):
			c.err = fmt.Errorf("consumer did not stop within %s", patience)
		}
	})
	return c.err
}
