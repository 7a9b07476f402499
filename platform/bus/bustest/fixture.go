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

// waitTimeout is how long a test waits for an expected condition. It is generous for busy machines.
const waitTimeout = 2 * time.Minute

// Topic creates a topic with a unique name and returns the name.
func Topic(t testing.TB, cfg bus.Config, partitions int, settings map[string]string) string {
	t.Helper()
	name := newID("test")
	topics := []bus.Topic{{Name: name, Partitions: partitions, Config: settings}}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, topics))
	return name
}

// Writer returns a writer that is closed when the test ends.
func Writer(t testing.TB, cfg bus.Config, opts ...bus.WriterOption) *bus.Writer {
	t.Helper()
	w := bus.NewWriter(cfg, opts...)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// Messages returns n messages with the keys k<first>, ... and the values v<first>, ....
func Messages(topic string, first, n int) []kafka.Message {
	out := make([]kafka.Message, n)
	for i := range out {
		id := first + i
		out[i] = kafka.Message{Topic: topic, Key: fmt.Appendf(nil, "k%d", id), Value: fmt.Appendf(nil, "v%d", id)}
	}
	return out
}

// Produce writes n messages as returned by Messages.
func Produce(t testing.TB, w *bus.Writer, topic string, first, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	require.NoError(t, bus.WriteAll(ctx, w, Messages(topic, first, n)))
}

// Eventually waits until holds returns true. what describes the condition.
func Eventually(t testing.TB, holds func() bool, what string, args ...any) {
	t.Helper()
	require.Eventuallyf(t, holds, waitTimeout, 10*time.Millisecond, what, args...)
}

// Ledger records which messages a handler was called with. It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	values  map[string]int            // times by value
	offsets map[string]map[int64]bool // offsets by topic/partition
	batches map[string]int            // applied attempts by token
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		values: make(map[string]int), offsets: make(map[string]map[int64]bool), batches: make(map[string]int),
	}
}

// Apply records the messages of a batch.
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

// Count returns the number of distinct values.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.values)
}

// Applied returns the number of messages including duplicates.
func (l *Ledger) Applied() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, times := range l.values {
		n += times
	}
	return n
}

// Values returns the distinct values, sorted.
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

// RequireCommitsHandled requires that all messages before the committed offsets are in the ledger, and returns the lag.
// It may be called while consumers run.
func (l *Ledger) RequireCommitsHandled(
	t testing.TB, cfg bus.Config, group string, topics ...string,
) []bus.PartitionLag {
	t.Helper()
	lag := readLag(t, cfg, group, topics)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range lag {
		tp := partitionName(p.Topic, p.Partition)
		for o := p.First; o < p.Committed; o++ {
			require.Truef(t, l.offsets[tp][o], "%s: offset %d is committed (%d) but was not handled", tp, o,
				p.Committed)
		}
	}
	return lag
}

// readLag retries: after a restart of a broker, partitions have no leader for a moment.
func readLag(t testing.TB, cfg bus.Config, group string, topics []string) []bus.PartitionLag {
	t.Helper()
	for began := time.Now(); ; <-time.After(100 * time.Millisecond) {
		lag, err := bus.Lag(t.Context(), cfg, group, topics)
		if err == nil || time.Since(began) > waitTimeout {
			require.NoError(t, err)
			return lag
		}
	}
}

func partitionName(topic string, partition int) string { return fmt.Sprintf("%s/%d", topic, partition) }

// RequireNoLag requires that a group has committed everything.
func RequireNoLag(t testing.TB, cfg bus.Config, group string, topics ...string) {
	t.Helper()
	lag := readLag(t, cfg, group, topics)
	require.NotEmpty(t, lag)
	for _, p := range lag {
		require.Zerof(t, p.Lag, "%+v", p)
	}
}

// Consumer is a batch consumer that runs in the background.
type Consumer struct {
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

// StartConsumer runs a consumer until Stop or the end of the test. The default of cfg.Timing is Timing().
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
		case <-time.After(waitTimeout):
			c.err = fmt.Errorf("consumer did not stop within %s", waitTimeout)
		}
	})
	return c.err
}
