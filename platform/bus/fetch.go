package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// kafka.Reader is not used: it skips silently from an offset below the log start
// to the log start, bounds its queue by messages and not by bytes, waits out
// MaxWait when it is closed, checks no CRC, and misreads the empty batches that
// compaction leaves behind for idempotent producers.

// endTries is how often a position past the end of the log is asked for again
// before it is believed: a new leader may not know yet how far its log goes.
const endTries = 5

// chunk is what one fetch brought from one partition.
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

// gap says that the messages from one offset up to another are gone.
type gap struct {
	tp         topicPartition
	from, to   int64
	pastTheEnd bool // the log is shorter than what was read: it starts again from to
}

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
}

// run fetches until ctx ends and gives each chunk to emit, which blocks while
// there is no room and returns false when ctx has ended.
func (f *fetcher) run(ctx context.Context, emit func(context.Context, chunk) bool) {
	wait := newBackoff(50*time.Millisecond, time.Second)
	failures, pastEnd := 0, 0
	for ctx.Err() == nil {
		c, err := f.step(ctx)
		switch {
		case err == nil:
			if failures > 0 || pastEnd > 0 {
				failures, pastEnd = 0, 0
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
			pastEnd, err = f.relocate(ctx, pastEnd)
			if err == nil && pastEnd == 0 {
				continue
			}
		}
		if err != nil {
			failures++
			level := slog.LevelDebug
			if failures > 3 { // leaders move, brokers restart: that is not worth a line
				level = slog.LevelWarn
			}
			f.logger.LogAttrs(ctx, level, "kafka fetch failed, trying again", slog.String("topic", f.tp.topic),
				slog.Int("partition", f.tp.partition), slog.Int64("offset", f.position), slog.Int("failures", failures), slog.Any("error", err))
		}
		if !sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
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
		return 0, nil
	case pastEnd < endTries:
		return pastEnd + 1, nil
	}
	f.onGap(ctx, gap{tp: f.tp, from: f.position, to: o.First, pastTheEnd: true})
	f.position = o.First
	return 0, nil
}

func (f *fetcher) fetch(ctx context.Context) (chunk, error) {
	rctx, cancel := context.WithTimeout(ctx, f.maxWait+requestTimeout)
	defer cancel()
	r, err := f.client.Transport.RoundTrip(rctx, f.client.Addr, &fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    int32(f.maxWait.Milliseconds()), //nolint:gosec // seconds
		MinBytes:       1,
		MaxBytes:       int32(f.maxBytes), //nolint:gosec // maxFetchBytes at most
		IsolationLevel: int8(kafka.ReadCommitted),
		SessionID:      -1,
		SessionEpoch:   -1,
		Topics: []fetch.RequestTopic{{
			Topic: f.tp.topic,
			Partitions: []fetch.RequestPartition{{
				Partition:          int32(f.tp.partition), //nolint:gosec // it came as one
				CurrentLeaderEpoch: -1,
				FetchOffset:        f.position,
				LogStartOffset:     -1,
				PartitionMaxBytes:  int32(f.maxBytes), //nolint:gosec // maxFetchBytes at most
			}},
		}},
	})
	if err != nil {
		return chunk{}, fmt.Errorf("fetch: %w", err)
	}
	res := r.(*fetch.Response)
	if res.ErrorCode != 0 {
		return chunk{}, fmt.Errorf("fetch: %w", kafka.Error(res.ErrorCode))
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return chunk{}, errors.New("fetch: the broker answered for another partition")
	}
	p := &res.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return chunk{}, fmt.Errorf("fetch: %w", kafka.Error(p.ErrorCode))
	}
	c, batches, err := f.decode(p.RecordSet.Records)
	if err != nil {
		return chunk{}, fmt.Errorf("fetch: decode: %w", err)
	}
	c.highWater = p.HighWatermark
	// A throttled broker answers early with nothing.
	c.drained = batches == 0 && c.next < p.HighWatermark && p.LastStableOffset == p.HighWatermark && res.ThrottleTimeMs == 0
	return c, nil
}

// decode copies the records at or after the position out of the response's pages.
func (f *fetcher) decode(records protocol.RecordReader) (chunk, int, error) {
	c := chunk{tp: f.tp, from: f.position, next: f.position}
	stream, ok := records.(*protocol.RecordStream)
	if !ok {
		if records != nil {
			return c, 0, fmt.Errorf("unexpected record set %T", records)
		}
		return c, 0, nil
	}
	lastBase := f.position
	for _, b := range stream.Records {
		control := false
		if v, ok := b.(interface{ Offset() int64 }); ok {
			lastBase = max(lastBase, v.Offset())
		}
		if _, ok := b.(*protocol.ControlBatch); ok {
			control = true
		}
		for {
			r, err := b.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return c, 0, err
			}
			if err := f.take(&c, r, control); err != nil {
				return c, 0, err
			}
		}
	}
	if c.next == f.position && len(stream.Records) > 0 {
		// Only batches without a record at or after the position: what compaction left
		// of them. The response does not say where they end, so feel the way forward.
		c.next = max(f.position, lastBase) + 1
	}
	return c, len(stream.Records), nil
}

func (f *fetcher) take(c *chunk, r *protocol.Record, control bool) error {
	keyLen, valueLen := -1, -1
	if r.Key != nil {
		defer r.Key.Close()
		keyLen = r.Key.Len()
	}
	if r.Value != nil {
		defer r.Value.Close()
		valueLen = r.Value.Len()
	}
	if r.Offset < f.position { // the batch began before the position
		return nil
	}
	c.next = max(c.next, r.Offset+1)
	if control {
		return nil
	}
	m := kafka.Message{Topic: f.tp.topic, Partition: f.tp.partition, Offset: r.Offset, Time: r.Time, Headers: r.Headers}
	// One allocation for both: a record is kept or dropped as a whole.
	buf := make([]byte, max(keyLen, 0)+max(valueLen, 0))
	if keyLen >= 0 {
		m.Key = buf[:keyLen:keyLen]
		if _, err := io.ReadFull(r.Key, m.Key); err != nil {
			return fmt.Errorf("key of offset %d: %w", r.Offset, err)
		}
	}
	if valueLen >= 0 {
		m.Value = buf[max(keyLen, 0):]
		if _, err := io.ReadFull(r.Value, m.Value); err != nil {
			return fmt.Errorf("value of offset %d: %w", r.Offset, err)
		}
	}
	c.messages = append(c.messages, m)
	c.bytes += int(messageSize(&m))
	return nil
}
