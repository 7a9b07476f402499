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
	// retryFirst and retryLimit bound the pause before something is tried again.
	retryFirst = 100 * time.Millisecond
	retryLimit = 10 * time.Second
	// readAhead is how long the broker may hold a fetch when there is nothing to
	// read, replayWait that of a fetch that asks only for what is there.
	readAhead  = 2 * time.Second
	replayWait = 250 * time.Millisecond
)

// PartitionConsumerConfig configures a [PartitionConsumer]. Zero fields take their
// defaults.
type PartitionConsumerConfig struct {
	Config Config
	Group  string
	Topic  string
	// Own is called for each partition that is assigned to this process and has it
	// until ctx ends; then it must return within Timing.Drain. An error before that
	// has it called again, from the committed offset on, after a pause that doubles
	// from 100 ms to 10 s.
	Own    func(ctx context.Context, p *Partition) error
	Timing GroupTiming
	Logger *slog.Logger // nil: nothing is logged
}

// PartitionConsumer gives each partition of a topic to one owner at a time, for
// work that keeps state for a partition: the owner restores its state before it
// takes the first message, and finishes messages in any order. While a group
// rebalances in order, an owner has returned before the next one is called. A
// process that is stopped for longer than Timing.Session loses its partitions
// without knowing: what it does until its next heartbeat may overlap.
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

// Run takes part in the group until ctx ends, then returns nil once every owner
// has returned and what was finished is committed.
func (c *PartitionConsumer) Run(ctx context.Context) error {
	g := &group{
		cfg: c.cfg.Config, id: c.cfg.Group, topics: []string{c.cfg.Topic}, timing: c.cfg.Timing, logger: c.cfg.Logger,
		onError: func(error) {},
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
			owners.Go(func() { c.own(ctx, client, tp, a.Offset, track) })
		}
	}
	finished := make(chan struct{})
	committing.Go(func() { commits.run(ctx, finished) })
	<-ctx.Done()
	owners.Wait()
	close(finished)
	committing.Wait()
}

// own calls the owner until ctx ends.
func (c *PartitionConsumer) own(ctx context.Context, client *kafka.Client, tp topicPartition, offset int64, track *tracker) {
	wait := newBackoff(retryFirst, retryLimit)
	for ctx.Err() == nil {
		if next, ok := track.committable(); ok || next >= 0 {
			offset = next
		}
		track.restart()
		p := &Partition{Number: tp.partition, cfg: c.cfg.Config, client: client, tp: tp, position: offset, track: track, logger: c.cfg.Logger}
		err := c.cfg.Own(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the owner returned early")
		}
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "partition given up by its owner, trying again", slog.String("group", c.cfg.Group),
			slog.String("topic", tp.topic), slog.Int("partition", tp.partition), slog.Any("error", err))
		if !sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// Partition is a partition in the hands of its owner.
type Partition struct {
	Number int

	cfg      Config
	client   *kafka.Client
	tp       topicPartition
	position int64
	track    *tracker
	logger   *slog.Logger
}

// Receive hands the messages from the committed offset on to take, in order, until
// ctx ends or take returns false. Each is unfinished until Finish names its
// offset.
func (p *Partition) Receive(ctx context.Context, take func(kafka.Message) bool) {
	f := &fetcher{
		client: p.client, tp: p.tp, position: p.position, maxBytes: maxFetchBytes, maxWait: readAhead, logger: p.logger,
		onGap: func(ctx context.Context, g gap) {
			if g.logDamage(ctx, p.logger) {
				return
			}
			p.logger.LogAttrs(ctx, slog.LevelError, "partition's position is not in the log: messages were removed before they were handled",
				slog.String("topic", g.tp.topic), slog.Int("partition", g.tp.partition), slog.Int64("position", g.from), slog.Int64("resumed_at", g.to))
		},
	}
	f.run(ctx, func(ctx context.Context, c chunk) bool {
		for i := range c.messages {
			if ctx.Err() != nil {
				return false
			}
			p.track.begin(c.messages[i].Offset)
			if !take(c.messages[i]) {
				return false
			}
		}
		if c.passes() {
			p.track.pass(c.next)
		}
		return true
	})
}

// Finish says that a received message's effect is durable. The offset is committed
// once all before it are finished too.
func (p *Partition) Finish(offset int64) { p.track.finish(offset) }

// Finished returns the offset up to which all that was received is finished; ok is
// false while nothing is.
func (p *Partition) Finished() (offset int64, ok bool) {
	offset, _ = p.track.committable()
	return offset, offset >= 0
}

// Replay hands the messages of the partition of the same number of another topic
// to handle, up to the end that it has when Replay is called. An error of
// handle ends it. Brokers that are away are waited for until ctx ends.
func (p *Partition) Replay(ctx context.Context, topic string, handle func(kafka.Message) error) error {
	tr := p.cfg.transport(topic)
	defer tr.CloseIdleConnections()
	client := p.cfg.client(tr)
	tp := topicPartition{topic, p.Number}
	wait := newBackoff(retryFirst, retryLimit)
	for {
		bounds, err := listOffsets(ctx, client, []topicPartition{tp})
		if err == nil {
			return replay(ctx, client, tp, bounds[0], p.logger, handle)
		}
		p.logger.LogAttrs(ctx, slog.LevelDebug, "bounds of a partition not read, trying again", slog.String("topic", topic), slog.Any("error", err))
		if !sleep(ctx, wait.NextBackOff()) {
			return fmt.Errorf("replay %s/%d: %w (last: %w)", topic, p.Number, context.Cause(ctx), err)
		}
	}
}

func replay(ctx context.Context, client *kafka.Client, tp topicPartition, bounds PartitionOffsets, logger *slog.Logger, handle func(kafka.Message) error) error {
	if bounds.First >= bounds.End {
		return nil
	}
	done := false
	var failed error
	f := &fetcher{
		client: client, tp: tp, position: bounds.First, maxBytes: maxFetchBytes, maxWait: replayWait,
		logger: slog.New(slog.DiscardHandler),
		onGap:  func(ctx context.Context, g gap) { g.logDamage(ctx, logger) }, // compaction may have removed the beginning
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

// ErrNoMessage says that the log holds no message at an offset any more, or none that
// can be read.
var ErrNoMessage = errors.New("the log no longer holds the message")

// From reads messages from an offset on, as many as one fetch brings, the first of
// which is the one at offset; the error is [ErrNoMessage] when that is gone.
func (p *Partition) From(ctx context.Context, offset int64) ([]kafka.Message, error) {
	return fetchFrom(ctx, p.client, p.tp, offset)
}

// MessageAt reads one message of a topic; the error is [ErrNoMessage] when it is gone.
func MessageAt(ctx context.Context, cfg Config, topic string, partition int, offset int64) (kafka.Message, error) {
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

// fetchFrom asks again before it believes that a message at or past the end is gone: a
// leader may not know yet how far its log goes, and may answer with nothing.
func fetchFrom(ctx context.Context, client *kafka.Client, tp topicPartition, offset int64) ([]kafka.Message, error) {
	f := &fetcher{client: client, tp: tp, position: offset, maxBytes: minFetchBytes, maxWait: replayWait}
	wait := newBackoff(50*time.Millisecond, time.Second)
	for try := 0; ; try++ {
		c, err := f.fetch(ctx)
		if err == nil && len(c.messages) > 0 && c.messages[0].Offset == offset {
			return c.messages, nil
		}
		gone := c.next > offset // what comes there is later
		var damage *damagedError
		if errors.As(err, &damage) {
			if gone = try == damageTries; !gone {
				err = nil
			}
		} else if !gone && (err == nil || errors.Is(err, kafka.OffsetOutOfRange)) {
			var o PartitionOffsets
			if o, err = f.bounds(ctx); err == nil {
				atEnd := offset >= o.End || c.drained
				gone = offset < o.First || atEnd && try == endTries
				if !gone && try == endTries {
					err = kafka.OffsetOutOfRange
				}
			}
		}
		switch {
		case gone:
			return nil, fmt.Errorf("read %s/%d at %d: %w", tp.topic, tp.partition, offset, ErrNoMessage)
		case err != nil:
			return nil, fmt.Errorf("read %s/%d at %d: %w", tp.topic, tp.partition, offset, err)
		case !sleep(ctx, wait.NextBackOff()):
			return nil, fmt.Errorf("read %s/%d at %d: %w", tp.topic, tp.partition, offset, context.Cause(ctx))
		}
	}
}
