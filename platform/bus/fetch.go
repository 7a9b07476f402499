package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
)

// kafka.Reader is not used: it skips silently from an offset below the log start
// to the log start, bounds its queue by messages and not by bytes, waits out
// MaxWait when it is closed, checks no CRC, and misreads the empty batches that
// compaction leaves behind for idempotent producers. Nor is what reads kafka-go's
// Client.Fetch: see fetchRequest.

// endTries is how often a position past the end of the log is asked for again
// before it is believed: a new leader may not know yet how far its log goes.
const endTries = 5

// maxRequestedBytes is the bound of a whole answer. It does not bind: there is one partition, which has a bound of its
// own, and the embedded broker leaves the index of aborted transactions out of answers that reach the bound of the whole.
const maxRequestedBytes = 64 << 20

// damageTries is how often a record batch that cannot be read is fetched again before
// it is believed: disks and connections may have failed for once.
const damageTries = 5

// chunk is the next messages of one partition, all from one fetch.
type chunk struct {
	tp        topicPartition
	messages  []kafka.Message
	bytes     int
	from      int64 // the position before this chunk
	next      int64 // the position after it; offsets that hold no message may come before
	highWater int64
	// drained: nothing readable lies between next and highWater, though they differ
	// (compaction removed the tail).
	drained bool
}

// passes says that the chunk ends with offsets that hold no message, as those of a
// record batch that was stepped over.
func (c *chunk) passes() bool {
	if n := len(c.messages); n > 0 {
		return c.next > c.messages[n-1].Offset+1
	}
	return c.next > c.from
}

// gap says that the messages from one offset up to another are gone.
type gap struct {
	tp         topicPartition
	from, to   int64
	pastTheEnd bool // the log is shorter than what was read: it starts again from to
	// damage is what is wrong with the record batch that was stepped over; nil when
	// the messages are not in the log.
	damage error
}

// logDamage logs a record batch that was stepped over, and says whether that is what
// the gap is.
func (g gap) logDamage(ctx context.Context, logger *slog.Logger, attrs ...slog.Attr) bool {
	if g.damage == nil {
		return false
	}
	logger.LogAttrs(ctx, slog.LevelError, "a record batch cannot be read and was stepped over: its messages were never handled", append(attrs,
		slog.String("topic", g.tp.topic), slog.Int("partition", g.tp.partition), slog.Int64("position", g.from), slog.Int64("resumed_at", g.to),
		slog.Int64("lost", g.to-g.from), slog.Any("error", g.damage))...)
	return true
}

// damagedError says that nothing can be read from the position up to end. Another
// record batch begins there, or the same one is asked for again.
type damagedError struct {
	end, highWater int64
	err            error
}

func (e *damagedError) Error() string { return fmt.Sprintf("up to offset %d: %v", e.end, e.err) }
func (e *damagedError) Unwrap() error { return e.err }

// fetcher reads one partition from one position on, without a group.
type fetcher struct {
	client   *kafka.Client
	tp       topicPartition
	position int64 // or kafka.FirstOffset, kafka.LastOffset
	maxBytes int
	maxWait  time.Duration
	logger   *slog.Logger
	// onGap reports lost messages before reading goes on.
	onGap func(ctx context.Context, g gap)

	decoder recordbatch.Decoder
	ends    map[int64]marker // of transactions that reach beyond the last answer, by producer
	buffer  []byte           // of the last answer, for the next
	reading *reading         // the last answer, if it has more chunks
	names   headerNames
}

// run fetches until ctx ends and gives each chunk to emit, which blocks while
// there is no room and returns false when ctx has ended.
func (f *fetcher) run(ctx context.Context, emit func(context.Context, chunk) bool) {
	wait := newBackoff(50*time.Millisecond, time.Second)
	failures, pastEnd, damaged, blocked := 0, 0, 0, 0
	for ctx.Err() == nil {
		c, err := f.step(ctx)
		var damage *damagedError
		if errors.As(err, &damage) {
			if damaged++; damaged == damageTries {
				c, err = f.stepOver(ctx, damage), nil
			}
		}
		switch {
		case err == nil:
			if failures > 0 || pastEnd > 0 {
				f.reached(ctx, pastEnd)
				failures, pastEnd, damaged, blocked = 0, 0, 0, 0
				wait.Reset()
			}
			advanced := c.next != f.position
			f.position = c.next
			if len(c.messages) == 0 && !c.drained && !advanced && c.next != c.highWater {
				// Answered before there was anything to answer; do not spin.
				if !sleep(ctx, 10*time.Millisecond) {
					return
				}
			}
			if !emit(ctx, c) {
				return
			}
			continue
		case ctx.Err() != nil:
			return
		case errors.Is(err, kafka.OffsetOutOfRange):
			refused, at := err, f.position
			if pastEnd, err = f.relocate(ctx, pastEnd); err == nil && pastEnd == 0 {
				if f.position != at {
					continue
				}
				err = refused // although the partition has the position
			}
		}
		if err != nil {
			failures++
			level := slog.LevelDebug
			if failures > 3 { // leaders move, brokers restart: that is not worth a line
				level = slog.LevelWarn
			}
			if errors.Is(err, recordbatch.ErrOldFormat) || errors.Is(err, recordbatch.ErrIncomplete) {
				// Nothing comes after it until somebody has looked: say so once.
				if blocked++; blocked == damageTries {
					level = slog.LevelError
				}
			}
			f.logger.LogAttrs(ctx, level, "kafka fetch failed, trying again", slog.String("topic", f.tp.topic),
				slog.Int("partition", f.tp.partition), slog.Int64("offset", f.position), slog.Int("failures", failures), slog.Any("error", err))
		}
		if !sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// stepOver reports a record batch that cannot be read, and is what it holds: nothing.
func (f *fetcher) stepOver(ctx context.Context, damage *damagedError) chunk {
	f.onGap(ctx, gap{tp: f.tp, from: f.position, to: damage.end, damage: damage.err})
	return chunk{tp: f.tp, from: f.position, next: damage.end, highWater: damage.highWater}
}

// step makes the position absolute if it is not, or fetches once.
func (f *fetcher) step(ctx context.Context) (chunk, error) {
	if f.position < 0 {
		o, err := f.bounds(ctx)
		if err != nil {
			return chunk{}, err
		}
		switch f.position {
		case kafka.LastOffset:
			f.position = o.End
		default:
			f.position = o.First
		}
		return chunk{tp: f.tp, from: f.position, next: f.position, highWater: o.End}, nil
	}
	return f.fetch(ctx)
}

func (f *fetcher) bounds(ctx context.Context) (PartitionOffsets, error) {
	o, err := listOffsets(ctx, f.client, []topicPartition{f.tp})
	if err != nil {
		return PartitionOffsets{}, err
	}
	return o[0], nil
}

// relocate finds where to go on after the broker refused the position. It returns
// how often in a row the position was past the end, 0 when a new one is set.
func (f *fetcher) relocate(ctx context.Context, pastEnd int) (int, error) {
	o, err := f.bounds(ctx)
	if err != nil {
		return pastEnd, err
	}
	switch {
	case f.position < o.First:
		f.onGap(ctx, gap{tp: f.tp, from: f.position, to: o.First})
		f.position = o.First
		return 0, nil
	case f.position <= o.End:
		f.reached(ctx, pastEnd)
		return 0, nil
	case pastEnd < endTries:
		return pastEnd + 1, nil
	}
	f.onGap(ctx, gap{tp: f.tp, from: f.position, to: o.First, pastTheEnd: true})
	f.position = o.First
	return 0, nil
}

// reached tells that a log which was shorter than the position has it again. Nothing was
// lost if its leader only did not know it yet; if brokers have lost the log's end, others
// have the offsets of what they lost, and nobody can tell.
func (f *fetcher) reached(ctx context.Context, pastEnd int) {
	if pastEnd == 0 {
		return
	}
	f.logger.LogAttrs(ctx, slog.LevelError, "the log had been shorter than the position, and is not any more: if the brokers have lost its end, messages written since then, before the position, are not handled",
		slog.String("topic", f.tp.topic), slog.Int("partition", f.tp.partition), slog.Int64("position", f.position))
}

// fetch returns the next chunk of the answer that is held, or else of a new one.
func (f *fetcher) fetch(ctx context.Context) (chunk, error) {
	defer func() {
		if f.reading == nil && cap(f.buffer) > keptAnswerBytes {
			f.buffer = nil
		}
	}()
	if f.reading != nil {
		c, err := f.decodeNext()
		if err != nil {
			return chunk{}, fmt.Errorf("fetch: decode: %w", err)
		}
		if c.next > c.from {
			return c, nil
		}
	}
	buffer := f.buffer
	f.buffer = nil // it belongs to the answer
	res, p, err := f.ask(ctx, f.position, buffer)
	if err != nil {
		return chunk{}, err
	}
	f.buffer = res.buffer
	if err := f.findEnds(ctx, p); err != nil {
		return chunk{}, err
	}
	c, err := f.decode(p)
	if err != nil {
		return chunk{}, fmt.Errorf("fetch: decode: %w", err)
	}
	// A throttled broker answers early with nothing.
	c.drained = len(p.RecordBatches) == 0 && c.next < p.HighWatermark && p.LastStableOffset == p.HighWatermark && res.ThrottleMillis == 0
	return c, nil
}

// ask sends one request for record batches from an offset on, whose answer is read into the buffer if that is large
// enough.
func (f *fetcher) ask(ctx context.Context, offset int64, buffer []byte) (*fetchResponse, *kmsg.FetchResponseTopicPartition, error) {
	rctx, cancel := context.WithTimeout(ctx, f.maxWait+requestTimeout)
	defer cancel()
	req := &fetchRequest{clientID: clientID(f.client), buffer: buffer, Request: fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    int32(f.maxWait.Milliseconds()), //nolint:gosec // seconds
		MinBytes:       1,
		MaxBytes:       maxRequestedBytes,
		IsolationLevel: int8(kafka.ReadCommitted),
		SessionID:      -1,
		SessionEpoch:   -1,
		Topics: []fetch.RequestTopic{{
			Topic: f.tp.topic,
			Partitions: []fetch.RequestPartition{{
				Partition:          int32(f.tp.partition), //nolint:gosec // it came as one
				CurrentLeaderEpoch: -1,
				FetchOffset:        offset,
				LogStartOffset:     -1,
				PartitionMaxBytes:  int32(f.maxBytes), //nolint:gosec // maxFetchBytes at most
			}},
		}},
	}}
	r, err := f.client.Transport.RoundTrip(rctx, f.client.Addr, req)
	if err != nil {
		return nil, nil, fmt.Errorf("fetch: %w", err)
	}
	res := r.(*fetchResponse)
	if res.ErrorCode != 0 {
		return nil, nil, fmt.Errorf("fetch: %w", kafka.Error(res.ErrorCode))
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return nil, nil, errors.New("fetch: the broker answered for another partition")
	}
	p := &res.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return nil, nil, fmt.Errorf("fetch: %w", kafka.Error(p.ErrorCode))
	}
	return res, p, nil
}
