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

// kafka.Reader is not used: it silently skips from an offset below the log start to the log start, limits its queue by
// messages and not by bytes, blocks for MaxWait when it is closed, does not check CRCs, and misreads the empty batches
// that compaction leaves for idempotent producers. Client.Fetch is not used either: see fetchRequest.

// maxPastEndRetries is the number of fetches at a position past the end of the log before the position is reset: a new
// leader may not know the end of its log yet.
const maxPastEndRetries = 5

// maxRequestedBytes is the size limit of a whole response. It is above the limit of the only partition, since the
// embedded broker omits the index of aborted transactions from responses that reach the limit of the whole.
const maxRequestedBytes = 64 << 20

// maxCorruptRetries is the number of fetches of a corrupt record batch before it is skipped: the error of the disk or
// of the connection may be transient.
const maxCorruptRetries = 5

// chunk holds the next messages of one partition, from one fetch.
type chunk struct {
	tp        topicPartition
	messages  []kafka.Message
	bytes     int
	from      int64 // position before this chunk
	next      int64 // position after it; may be past offsets without a message
	highWater int64
	// drained: there is nothing readable from next to highWater, although they differ (compaction removed the tail).
	drained bool
}

// endsWithoutMessage reports whether the chunk ends with offsets that have no message, such as a skipped record batch.
func (c *chunk) endsWithoutMessage() bool {
	if n := len(c.messages); n > 0 {
		return c.next > c.messages[n-1].Offset+1
	}
	return c.next > c.from
}

// gap is a range of offsets whose messages are lost.
type gap struct {
	tp       topicPartition
	from, to int64
	pastEnd  bool // the log is shorter than the position: reading restarts at to
	// corrupt is the error of a record batch that was skipped; nil if the messages are not in the log.
	corrupt error
}

// logCorrupt logs a skipped record batch. It returns false if the gap has another cause.
func (g gap) logCorrupt(ctx context.Context, logger *slog.Logger, attrs ...slog.Attr) bool {
	if g.corrupt == nil {
		return false
	}
	logger.LogAttrs(
		ctx,
		slog.LevelError,
		"skipping corrupt record batch, its messages were never handled",
		append(attrs,
			slog.String("topic", g.tp.topic), slog.Int("partition", g.tp.partition), slog.Int64("position", g.from),
			slog.Int64("resumed_at", g.to), slog.Int64("lost", g.to-g.from), slog.Any("error", g.corrupt))...)
	return true
}

// corruptError means that the offsets from the position up to end are unreadable.
type corruptError struct {
	end, highWater int64
	err            error
}

func (e *corruptError) Error() string { return fmt.Sprintf("up to offset %d: %v", e.end, e.err) }
func (e *corruptError) Unwrap() error { return e.err }

// fetcher reads one partition from a position, without a group.
type fetcher struct {
	client   *kafka.Client
	tp       topicPartition
	position int64 // or kafka.FirstOffset, kafka.LastOffset
	maxBytes int
	maxWait  time.Duration
	logger   *slog.Logger
	// onGap reports lost messages before reading continues.
	onGap func(ctx context.Context, g gap)

	decoder recordbatch.Decoder
	ends    map[int64]marker // end markers of transactions past the last response, by producer
	buffer  []byte           // of the last response, reused for the next one
	reader  *partitionReader // the last response, if it has more chunks
	names   headerNames
}

// run fetches until ctx ends and passes each chunk to emit, which blocks while the consumer is busy and returns false
// when ctx has ended.
func (f *fetcher) run(ctx context.Context, emit func(context.Context, chunk) bool) {
	wait := newBackoff(50*time.Millisecond, time.Second)
	failures, pastEnd, corrupts, blocked := 0, 0, 0, 0
	for ctx.Err() == nil {
		c, err := f.step(ctx)
		var corrupt *corruptError
		if errors.As(err, &corrupt) {
			if corrupts++; corrupts == maxCorruptRetries {
				c, err = f.skipCorrupt(ctx, corrupt), nil
			}
		}
		switch {
		case err == nil:
			if failures > 0 || pastEnd > 0 {
				f.warnIfWasShorter(ctx, pastEnd)
				failures, pastEnd, corrupts, blocked = 0, 0, 0, 0
				wait.Reset()
			}
			advanced := c.next != f.position
			f.position = c.next
			if len(c.messages) == 0 && !c.drained && !advanced && c.next != c.highWater {
				// The broker returned early without data; do not spin.
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
			rejected, at := err, f.position
			if pastEnd, err = f.resetPosition(ctx, pastEnd); err == nil && pastEnd == 0 {
				if f.position != at {
					continue
				}
				err = rejected // although the partition has the position
			}
		}
		if err != nil {
			failures++
			level := slog.LevelDebug
			if failures > 3 { // leader changes and broker restarts are routine
				level = slog.LevelWarn
			}
			if errors.Is(err, recordbatch.ErrOldFormat) || errors.Is(err, recordbatch.ErrIncomplete) {
				// The partition stalls until an operator acts: log this once.
				if blocked++; blocked == maxCorruptRetries {
					level = slog.LevelError
				}
			}
			f.logger.LogAttrs(ctx, level, "kafka fetch failed, retrying", slog.String("topic", f.tp.topic),
				slog.Int("partition", f.tp.partition), slog.Int64("offset", f.position),
				slog.Int("failures", failures), slog.Any("error", err))
		}
		if !sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// skipCorrupt reports a corrupt record batch and returns an empty chunk in its place.
func (f *fetcher) skipCorrupt(ctx context.Context, e *corruptError) chunk {
	f.onGap(ctx, gap{tp: f.tp, from: f.position, to: e.end, corrupt: e.err})
	return chunk{tp: f.tp, from: f.position, next: e.end, highWater: e.highWater}
}

// step resolves a relative position, or fetches once.
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

// resetPosition finds the position to continue at after OffsetOutOfRange. It returns the number of consecutive times
// that the position was past the end, or 0 if the position is valid or was reset.
func (f *fetcher) resetPosition(ctx context.Context, pastEnd int) (int, error) {
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
		f.warnIfWasShorter(ctx, pastEnd)
		return 0, nil
	case pastEnd < maxPastEndRetries:
		return pastEnd + 1, nil
	}
	f.onGap(ctx, gap{tp: f.tp, from: f.position, to: o.First, pastEnd: true})
	f.position = o.First
	return 0, nil
}

// warnIfWasShorter logs an error if the log had been shorter than the position and no longer is. Nothing is lost if the
// leader did not know its end yet. If the brokers lost the end of the log, new messages have the lost offsets, which
// cannot be detected.
func (f *fetcher) warnIfWasShorter(ctx context.Context, pastEnd int) {
	if pastEnd == 0 {
		return
	}
	f.logger.LogAttrs(ctx, slog.LevelError, "the log was shorter than the position for a while: "+
		"if the brokers lost its end, messages written since then before the position are not handled",
		slog.String("topic", f.tp.topic), slog.Int("partition", f.tp.partition), slog.Int64("position", f.position))
}

// fetch returns the next chunk of the retained response, or of a new one.
func (f *fetcher) fetch(ctx context.Context) (chunk, error) {
	defer func() {
		if f.reader == nil && cap(f.buffer) > maxReusedBufferBytes {
			f.buffer = nil
		}
	}()
	if f.reader != nil {
		c, err := f.decodeNext()
		if err != nil {
			return chunk{}, fmt.Errorf("fetch: decode: %w", err)
		}
		if c.next > c.from {
			return c, nil
		}
	}
	buffer := f.buffer
	f.buffer = nil // owned by the response
	res, p, err := f.request(ctx, f.position, buffer)
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
	// A throttled broker returns early without data.
	c.drained = len(p.RecordBatches) == 0 && c.next < p.HighWatermark && p.LastStableOffset == p.HighWatermark &&
		res.ThrottleMillis == 0
	return c, nil
}

// request fetches record batches from an offset on. The response is read into buffer if it fits.
func (f *fetcher) request(
	ctx context.Context, offset int64, buffer []byte,
) (*fetchResponse, *kmsg.FetchResponseTopicPartition, error) {
	rctx, cancel := context.WithTimeout(ctx, f.maxWait+requestTimeout)
	defer cancel()
	req := &fetchRequest{clientID: clientID(f.client), buffer: buffer, Request: fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    int32(f.maxWait.Milliseconds()), //nolint:gosec // a few seconds
		MinBytes:       1,
		MaxBytes:       maxRequestedBytes,
		IsolationLevel: int8(kafka.ReadCommitted),
		SessionID:      -1,
		SessionEpoch:   -1,
		Topics: []fetch.RequestTopic{{
			Topic: f.tp.topic,
			Partitions: []fetch.RequestPartition{{
				Partition:          int32(f.tp.partition), //nolint:gosec // int32 in the protocol
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
		return nil, nil, errors.New("fetch: response is for another partition")
	}
	p := &res.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return nil, nil, fmt.Errorf("fetch: %w", kafka.Error(p.ErrorCode))
	}
	return res, p, nil
}
