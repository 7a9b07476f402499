package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// minRetryDelay and maxRetryDelay bound the backoff of retries.
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = 10 * time.Second
	// receiveWait is how long the broker may hold a fetch without data.
	receiveWait = 2 * time.Second
	// replayWait is receiveWait for a fetch of stored messages only.
	replayWait = 250 * time.Millisecond
)

// PartitionConsumerConfig configures a [PartitionConsumer]. Zero fields take their
// defaults.
type PartitionConsumerConfig struct {
	Config Config
	Group  string
	Topic  string
	// Own is called for each partition that is assigned to this process. It owns the partition until ctx ends; then it
	// must return within Timing.Drain. If it returns an error before, it is called again from the committed offset on,
	// with a backoff from 100 ms to 10 s.
	Own    func(ctx context.Context, p *Partition) error
	Timing GroupTiming
	Logger *slog.Logger // nil: nothing is logged
}

// PartitionConsumer assigns each partition of a topic to one owner at a time, for work with state for each partition:
// an owner restores its state before it receives messages, and finishes messages in any order. In an orderly rebalance
// an owner returns before the next one is called. A process that is suspended for longer than Timing.Session loses its
// partitions without notice: what it does until its next heartbeat may overlap with the new owner.
type PartitionConsumer struct{ cfg PartitionConsumerConfig }

// NewPartitionConsumer checks cfg. It does not connect.
func NewPartitionConsumer(cfg PartitionConsumerConfig) (*PartitionConsumer, error) {
	if err := cfg.Config.validate(); err != nil {
		return nil, fmt.Errorf("partition consumer: %w", err)
	}
	if cfg.Group == "" || cfg.Topic == "" || cfg.Own == nil {
		return nil, errors.New("partition consumer: Group, Topic and Own are required")
	}
	cfg.Timing = cfg.Timing.withDefaults(cfg.Config.Session)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &PartitionConsumer{cfg: cfg}, nil
}

// Run is a member of the group until ctx ends. It returns nil after every owner has returned and finished messages are
// committed.
func (c *PartitionConsumer) Run(ctx context.Context) error {
	g := &group{
		cfg: c.cfg.Config, id: c.cfg.Group, topics: []string{c.cfg.Topic}, timing: c.cfg.Timing,
		logger: c.cfg.Logger, onError: func(error) {},
	}
	if err := g.run(ctx, c.generation); err != nil {
		return fmt.Errorf("partition consumer: %w", err)
	}
	return nil
}

func (c *PartitionConsumer) generation(ctx context.Context, gen *kafka.Generation) {
	tr := c.cfg.Config.transport(c.cfg.Topic)
	defer tr.CloseIdleConnections()
	client := c.cfg.Config.client(tr)
	commits := &committer{gen: gen, logger: c.cfg.Logger, dirty: make(chan struct{}, 1)}
	var owners, committing sync.WaitGroup
	for topic, assignments := range gen.Assignments {
		for _, a := range assignments {
			tp := topicPartition{topic, a.ID}
			track := commits.tracker(tp)
			owners.Go(func() { c.runOwner(ctx, client, tp, a.Offset, track) })
		}
	}
	finished := make(chan struct{})
	committing.Go(func() { commits.run(ctx, finished) })
	<-ctx.Done()
	owners.Wait()
	close(finished)
	committing.Wait()
}

// runOwner calls the owner in a loop until ctx ends.
func (c *PartitionConsumer) runOwner(
	ctx context.Context, client *kafka.Client, tp topicPartition, offset int64, track *tracker,
) {
	wait := newBackoff(minRetryDelay, maxRetryDelay)
	for ctx.Err() == nil {
		if next, ok := track.committable(); ok || next >= 0 {
			offset = next
		}
		track.reset()
		p := &Partition{
			Number: tp.partition, cfg: c.cfg.Config, client: client, tp: tp, position: offset, track: track,
			logger: c.cfg.Logger,
		}
		err := c.cfg.Own(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("owner returned early")
		}
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "partition owner failed, retrying",
			slog.String("group", c.cfg.Group), slog.String("topic", tp.topic), slog.Int("partition", tp.partition),
			slog.Any("error", err))
		if !sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// Partition is a partition assigned to an owner.
type Partition struct {
	Number int

	cfg      Config
	client   *kafka.Client
	tp       topicPartition
	position int64
	track    *tracker
	logger   *slog.Logger
}

// Receive passes the messages from the committed offset on to handle, in order, until ctx ends or handle returns false.
// Each message is unfinished until Finish is called with its offset.
func (p *Partition) Receive(ctx context.Context, handle func(kafka.Message) bool) {
	f := &fetcher{
		client: p.client, tp: p.tp, position: p.position, maxBytes: maxFetchBytes, maxWait: receiveWait,
		logger: p.logger,
		onGap: func(ctx context.Context, g gap) {
			if g.logCorrupt(ctx, p.logger) {
				return
			}
			p.logger.LogAttrs(ctx, slog.LevelError,
				"position of partition is not in the log, messages were never handled",
				slog.String("topic", g.tp.topic), slog.Int("partition", g.tp.partition), slog.Int64("position", g.from),
				slog.Int64("resumed_at", g.to))
		},
	}
	f.run(ctx, func(ctx context.Context, c chunk) bool {
		for i := range c.messages {
			if ctx.Err() != nil {
				return false
			}
			p.track.begin(c.messages[i].Offset)
			if !handle(c.messages[i]) {
				return false
			}
		}
		if c.endsWithoutMessage() {
			p.track.skip(c.next)
		}
		return true
	})
}

// Finish marks a received message as finished: its effect is durable. Its offset is committed once all messages before
// it are finished as well.
func (p *Partition) Finish(offset int64) { p.track.finish(offset) }

// Finished returns the offset before which all received messages are finished. ok is false if there is none.
func (p *Partition) Finished() (offset int64, ok bool) {
	offset, _ = p.track.committable()
	return offset, offset >= 0
}

// Replay passes the messages of the partition with the same number of another topic to handle, up to its end at the
// call. It stops at an error of handle. It waits for unavailable brokers until ctx ends.
func (p *Partition) Replay(ctx context.Context, topic string, handle func(kafka.Message) error) error {
	tr := p.cfg.transport(topic)
	defer tr.CloseIdleConnections()
	client := p.cfg.client(tr)
	tp := topicPartition{topic, p.Number}
	wait := newBackoff(minRetryDelay, maxRetryDelay)
	for {
		bounds, err := listOffsets(ctx, client, []topicPartition{tp})
		if err == nil {
			return replay(ctx, client, tp, bounds[0], p.logger, handle)
		}
		p.logger.LogAttrs(ctx, slog.LevelDebug, "replay: list offsets failed, retrying",
			slog.String("topic", topic), slog.Any("error", err))
		if !sleep(ctx, wait.NextBackOff()) {
			return fmt.Errorf("replay %s/%d: %w (last: %w)", topic, p.Number, context.Cause(ctx), err)
		}
	}
}

func replay(
	ctx context.Context, client *kafka.Client, tp topicPartition, bounds PartitionOffsets, logger *slog.Logger,
	handle func(kafka.Message) error,
) error {
	if bounds.First >= bounds.End {
		return nil
	}
	done := false
	var failed error
	f := &fetcher{
		client: client, tp: tp, position: bounds.First, maxBytes: maxFetchBytes, maxWait: replayWait,
		logger: slog.New(slog.DiscardHandler),
		onGap:  func(ctx context.Context, g gap) { g.logCorrupt(ctx, logger) }, // compaction may move the log start
	}
	f.run(ctx, func(_ context.Context, c chunk) bool {
		for i := range c.messages {
			if c.messages[i].Offset >= bounds.End {
				break
			}
			if failed = handle(c.messages[i]); failed != nil {
				return false
			}
		}
		done = c.next >= bounds.End || c.drained
		return !done
	})
	switch {
	case failed != nil:
		return fmt.Errorf("replay %s/%d: %w", tp.topic, tp.partition, failed)
	case !done:
		return fmt.Errorf("replay %s/%d: %w", tp.topic, tp.partition, context.Cause(ctx))
	}
	return nil
}

// ErrNoMessage means that the log has no readable message at an offset.
var ErrNoMessage = errors.New("the log no longer holds the message")

// From returns the messages of one fetch from an offset on. The first one is the message at offset. It returns
// [ErrNoMessage] if that does not exist.
func (p *Partition) From(ctx context.Context, offset int64) ([]kafka.Message, error) {
	return fetchFrom(ctx, p.client, p.tp, offset)
}

// MessageAt returns the message at an offset, or [ErrNoMessage].
func MessageAt(
	ctx context.Context, cfg Config, topic string, partition int, offset int64,
) (kafka.Message, error) {
	if err := cfg.validate(); err != nil {
		return kafka.Message{}, fmt.Errorf("read message: %w", err)
	}
	tr := cfg.transport(topic)
	defer tr.CloseIdleConnections()
	messages, err := fetchFrom(ctx, cfg.client(tr), topicPartition{topic, partition}, offset)
	if err != nil {
		return kafka.Message{}, err
	}
	return messages[0], nil
}

// fetchFrom implements Partition.From. It retries before it reports a message at or past the end as missing: a new
// leader may not know the end of its log yet.
func fetchFrom(
	ctx context.Context, client *kafka.Client, tp topicPartition, offset int64,
) ([]kafka.Message, error) {
	f := &fetcher{client: client, tp: tp, position: offset, maxBytes: minFetchBytes, maxWait: replayWait}
	wait := newBackoff(50*time.Millisecond, time.Second)
	for attempt := 0; ; attempt++ {
		c, err := f.fetch(ctx)
		if err == nil && len(c.messages) > 0 && c.messages[0].Offset == offset {
			return c.messages, nil
		}
		missing := c.next > offset // the fetch returned later messages
		var corrupt *corruptError
		if errors.As(err, &corrupt) {
			if missing = attempt == maxCorruptRetries; !missing {
				err = nil
			}
		} else if !missing && (err == nil || errors.Is(err, kafka.OffsetOutOfRange)) {
			var o PartitionOffsets
			if o, err = f.bounds(ctx); err == nil {
				atEnd := offset >= o.End || c.drained
				missing = offset < o.First || atEnd && attempt == maxPastEndRetries
				if !missing && attempt == maxPastEndRetries {
					err = kafka.OffsetOutOfRange
				}
			}
		}
		switch {
		case missing:
			return nil, fmt.Errorf("read %s/%d at %d: %w", tp.topic, tp.partition, offset, ErrNoMessage)
		case err != nil:
			return nil, fmt.Errorf("read %s/%d at %d: %w", tp.topic, tp.partition, offset, err)
		case !sleep(ctx, wait.NextBackOff()):
			return nil, fmt.Errorf("read %s/%d at %d: %w", tp.topic, tp.partition, offset, context.Cause(ctx))
		}
	}
}
