package watermark_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/polltest"
	"muster/query-api/internal/watermark"
)

// log is the topics of two groups of which the first publishes for the second.
type log struct {
	t      *testing.T
	bus    bus.Config
	client *kafka.Client
	groups []bus.GroupTopics
	// visible is Config.Visible.
	visible time.Duration
	// comparisons counts the comparisons that have begun.
	comparisons atomic.Int64
}

func newLog(t *testing.T) *log {
	t.Helper()
	addrs := brokertest.Start(t).Addrs()
	l := &log{
		t: t, bus: bus.Config{Brokers: addrs, ClientID: "watermark-test"}, client: &kafka.Client{Addr: kafka.TCP(addrs...)},
		groups: []bus.GroupTopics{{Group: "first", Topics: []string{"records", "absent"}},
			{Group: "second", Topics: []string{"tasks"}}},
	}
	for _, topic := range []string{"records", "tasks"} {
		require.NoError(t, bus.EnsureTopics(t.Context(), l.bus, []bus.Topic{{Name: topic, Partitions: 2, Replication: 1}}))
	}
	return l
}

// publish publishes a message with a timestamp.
func (l *log) publish(topic string, partition int, at time.Time) {
	l.t.Helper()
	res, err := l.client.Produce(l.t.Context(), &kafka.ProduceRequest{
		Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Time: at, Value: kafka.NewBytes([]byte("x"))}),
	})
	require.NoError(l.t, err)
	require.NoError(l.t, res.Error)
}

// commit commits the next offset of a group.
func (l *log) commit(group, topic string, partition int, offset int64) {
	l.t.Helper()
	polltest.Until(l.t, 30*time.Second, func() bool {
		res, err := l.client.OffsetCommit(l.t.Context(), &kafka.OffsetCommitRequest{
			GroupID: group, GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: partition, Offset: offset}}},
		})
		return err == nil && res.Topics[topic][0].Error == nil
	}, "offset is not committed")
}

func (l *log) run(logger *slog.Logger, timeout time.Duration) *watermark.Watermark {
	l.t.Helper()
	w := watermark.New(watermark.Config{
		Bus: l.bus, Groups: l.groups, Interval: 10 * time.Millisecond, Timeout: timeout, Visible: l.visible, Logger: logger,
		Now: func() time.Time {
			l.comparisons.Add(1)
			return time.Now()
		},
	})
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	l.t.Cleanup(func() {
		stop()
		<-done
	})
	return w
}

// awaitComparisons waits until some more comparisons have ended.
func (l *log) awaitComparisons(n int64) {
	l.t.Helper()
	end := l.comparisons.Load() + n + 1 // the last one has only begun
	polltest.Until(l.t, 30*time.Second, func() bool { return l.comparisons.Load() >= end }, "the watermark is not updated")
}

// reaches waits until the watermark is a time, or now if at is zero.
func reaches(t *testing.T, w *watermark.Watermark, at time.Time) {
	t.Helper()
	began := time.Now()
	var got time.Time
	polltest.Until(t, 30*time.Second, func() bool {
		var known bool
		got, known = w.AsOf()
		if at.IsZero() {
			return known && !got.Before(began)
		}
		return known && got.Equal(at)
	}, "watermark is %v", func() any { return got })
}

// An effect becomes visible some time after its offset is committed: the watermark follows then.
func TestWatermark_WaitsUntilEffectsAreVisible(t *testing.T) {
	const visible = 200 * time.Millisecond
	l := newLog(t)
	l.visible = visible
	w := l.run(slog.New(slog.DiscardHandler), 0)
	for range 3 {
		before, _ := w.AsOf()
		var at time.Time
		polltest.Until(t, 30*time.Second, func() bool {
			at, _ = w.AsOf()
			return at.After(before)
		}, "watermark stays")
		require.GreaterOrEqual(t, time.Since(at), visible)
	}
}

func TestWatermark_IsTheOldestWaitingMessage(t *testing.T) {
	l := newLog(t)
	hour := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	l.publish("records", 0, hour)
	l.publish("records", 1, hour.Add(time.Minute))
	l.publish("records", 1, hour.Add(3*time.Minute))
	l.publish("tasks", 0, hour.Add(2*time.Minute))
	w := l.run(slog.New(slog.DiscardHandler), 0)
	reaches(t, w, hour)
	l.commit("first", "records", 0, 1)
	reaches(t, w, hour.Add(time.Minute))
	l.commit("first", "records", 1, 1)
	reaches(t, w, hour.Add(2*time.Minute))
	l.commit("second", "tasks", 0, 1)
	reaches(t, w, hour.Add(3*time.Minute))
	l.commit("first", "records", 1, 2)
	reaches(t, w, time.Time{})
	// It never decreases: older timestamps come from clocks of producers.
	before, _ := w.AsOf()
	l.publish("records", 0, hour)
	l.awaitComparisons(2)
	after, known := w.AsOf()
	require.True(t, known)
	require.False(t, after.Before(before))
}

// lockedBuffer is a log of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestWatermark_StaysUnknownAndLogsOnceWithoutKafka(t *testing.T) {
	l := &log{t: t, bus: bus.Config{Brokers: []string{"127.0.0.1:1"}, ClientID: "watermark-test"},
		groups: []bus.GroupTopics{{Group: "first", Topics: []string{"records"}}}}
	out := &lockedBuffer{}
	w := l.run(slog.New(slog.NewTextHandler(out, nil)), 100*time.Millisecond)
	polltest.Until(t, 30*time.Second, func() bool { return out.String() != "" }, "nothing is logged")
	l.awaitComparisons(3)
	_, known := w.AsOf()
	require.False(t, known)
	require.Equal(t, 1, strings.Count(out.String(), "offsets unavailable"))
}
