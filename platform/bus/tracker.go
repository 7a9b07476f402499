package bus

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// tracker knows which delivered offsets of a partition are unfinished.
type tracker struct {
	mu       sync.Mutex
	open     []int64       // begun, in order
	done     map[int64]int // how often those in open are finished, out of order; a log that goes back begins offsets again
	commit   int64         // next offset to read once everything before is finished; -1: none
	stored   int64         // what was last committed
	finished func()
}

func newTracker(finished func()) *tracker {
	return &tracker{done: make(map[int64]int), commit: -1, stored: -1, finished: finished}
}

func (t *tracker) begin(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = append(t.open, offset)
}

// finish returns how many offsets have become committable by it.
func (t *tracker) finish(offset int64) (moved int) {
	t.mu.Lock()
	t.done[offset]++
	for len(t.open) > 0 && t.done[t.open[0]] > 0 {
		if t.done[t.open[0]]--; t.done[t.open[0]] == 0 {
			delete(t.done, t.open[0])
		}
		t.commit = t.open[0] + 1
		t.open = t.open[1:]
		moved++
	}
	if len(t.open) == 0 {
		clear(t.done) // what was finished without need
	}
	t.mu.Unlock()
	if moved > 0 {
		t.finished()
	}
	return moved
}

// pass finishes offsets before next that hold no message, once everything before them
// is finished.
func (t *tracker) pass(next int64) (moved int) {
	t.begin(next - 1)
	return t.finish(next - 1)
}

// restart forgets what is unfinished: it will begin again.
func (t *tracker) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = nil
	clear(t.done)
}

// committable returns the offset to commit, if it is newer than the stored one.
func (t *tracker) committable() (int64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.commit, t.commit > t.stored
}

func (t *tracker) committed(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stored = max(t.stored, offset)
}

// committer stores the offsets of a generation's partitions, many acks a request.
type committer struct {
	gen      *kafka.Generation
	logger   *slog.Logger
	dirty    chan struct{}
	trackers map[topicPartition]*tracker
}

func (c *committer) tracker(tp topicPartition) *tracker {
	if c.trackers == nil {
		c.trackers = make(map[topicPartition]*tracker)
	}
	t := newTracker(func() {
		select {
		case c.dirty <- struct{}{}:
		default: // the committer has not come to the previous one yet
		}
	})
	c.trackers[tp] = t
	return t
}

// run commits until finished closes, and then what is left. ctx is the generation's.
func (c *committer) run(ctx context.Context, finished <-chan struct{}) {
	wait := newBackoff(50*time.Millisecond, time.Second)
	for {
		select {
		case <-c.dirty:
		case <-finished:
			c.flush(ctx)
			return
		}
		if c.flush(ctx) {
			wait.Reset()
			continue
		}
		// Try again even if nothing more is acked.
		select {
		case c.dirty <- struct{}{}:
		default:
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-finished:
		}
	}
}

// flush returns whether everything committable is stored.
func (c *committer) flush(ctx context.Context) bool {
	offsets := make(map[string]map[int]int64)
	for tp, t := range c.trackers {
		if o, ok := t.committable(); ok {
			if offsets[tp.topic] == nil {
				offsets[tp.topic] = make(map[int]int64)
			}
			offsets[tp.topic][tp.partition] = o
		}
	}
	if len(offsets) == 0 {
		return true
	}
	if err := c.gen.CommitOffsets(offsets); err != nil {
		level := slog.LevelWarn
		if ctx.Err() != nil || isFenced(err) { // the messages are delivered again to whoever owns them now
			level = slog.LevelDebug
		}
		c.logger.LogAttrs(ctx, level, "offsets not committed", slog.String("group", c.gen.GroupID), slog.Any("error", err))
		return false
	}
	for topic, parts := range offsets {
		for p, o := range parts {
			c.trackers[topicPartition{topic, p}].committed(o)
		}
	}
	return true
}
