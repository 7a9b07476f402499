package bus

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// tracker tracks which delivered offsets of a partition are unfinished. It is safe for concurrent use.
type tracker struct {
	mu   sync.Mutex
	open []int64 // unfinished offsets, in order of delivery
	// done counts how often offsets in open were finished out of order. A log that lost its end may deliver an offset
	// again.
	done          map[int64]int
	commit        int64 // offset to commit, since everything before is finished; -1: none
	stored        int64 // last committed offset
	onCommittable func()
}

func newTracker(onCommittable func()) *tracker {
	return &tracker{done: make(map[int64]int), commit: -1, stored: -1, onCommittable: onCommittable}
}

func (t *tracker) begin(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = append(t.open, offset)
}

// finish returns the number of offsets that became committable.
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
		clear(t.done) // offsets that were finished twice
	}
	t.mu.Unlock()
	if moved > 0 {
		t.onCommittable()
	}
	return moved
}

// skip finishes offsets without a message before next.
func (t *tracker) skip(next int64) (moved int) {
	t.begin(next - 1)
	return t.finish(next - 1)
}

// reset drops unfinished offsets, which will be delivered again.
func (t *tracker) reset() {
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

// committer commits the offsets of a generation's partitions, with many acks in one request.
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
		default: // a flush is already pending
		}
	})
	c.trackers[tp] = t
	return t
}

// run commits until finished is closed, and then once more. ctx is the context of the generation.
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
		// Retry even if nothing more is acked.
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

// flush commits what is committable. It returns false if that failed.
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
		if ctx.Err() != nil || isFenced(err) { // the new owner receives the messages again
			level = slog.LevelDebug
		}
		c.logger.LogAttrs(ctx, level, "offset commit failed",
			slog.String("group", c.gen.GroupID), slog.Any("error", err))
		return false
	}
	for topic, parts := range offsets {
		for p, o := range parts {
			c.trackers[topicPartition{topic, p}].committed(o)
		}
	}
	return true
}
