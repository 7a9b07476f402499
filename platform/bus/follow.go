package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

// FollowConfig configures a [Follower]. Zero fields take their defaults.
type FollowConfig struct {
	Topics []string
	// FromEnd skips stored messages: only messages after the end offsets at the start are handled.
	FromEnd bool
	// Handle is called with one message at a time, in offset order within a partition. After an error it is called
	// again with the same message, with a backoff from 50 ms to 5 s. It may retain the message.
	Handle func(ctx context.Context, m kafka.Message) error
	// MaxWait is how long the broker may hold a fetch without data. Default 2 s.
	MaxWait time.Duration
	// PartitionWatch is how often the topics are checked for new partitions. Default 10 s.
	PartitionWatch time.Duration
	Logger         *slog.Logger // nil: nothing is logged
}

// Follower reads whole topics without a consumer group. See [Follow].
type Follower struct {
	cfg    Config
	follow FollowConfig

	ready  chan struct{}
	done   chan struct{}
	cancel context.CancelFunc
	err    error                 // set before done closes
	last   atomic.Pointer[error] // why the topics are not available yet
}

// Follow reads every partition of the topics, from the beginning unless FromEnd is set, until ctx ends or Close. It
// commits nothing: each start and each process reads everything. It waits for missing topics.
func Follow(ctx context.Context, cfg Config, follow FollowConfig) *Follower {
	setDefault(&follow.MaxWait, 2*time.Second)
	setDefault(&follow.PartitionWatch, 10*time.Second)
	if follow.Logger == nil {
		follow.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &Follower{cfg: cfg, follow: follow, ready: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(f.done)
		defer cancel()
		f.err = f.run(ctx)
	}()
	return f
}

// Ready returns a channel that is closed when everything stored at the start has been handled.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// WaitReady waits for Ready. It returns an error if ctx ends or the follower stops before.
func (f *Follower) WaitReady(ctx context.Context) error {
	select {
	case <-f.ready:
		return nil
	case <-f.done:
		select {
		case <-f.ready:
			return nil
		default:
		}
		if f.err != nil {
			return f.err
		}
		return errors.New("follow: stopped before it was ready")
	case <-ctx.Done():
		if last := f.last.Load(); last != nil {
			return fmt.Errorf("follow: wait until ready: %w (last: %w)", context.Cause(ctx), *last)
		}
		return fmt.Errorf("follow: wait until ready: %w", context.Cause(ctx))
	}
}

// Done returns a channel that is closed when the follower has stopped and no handler is running.
func (f *Follower) Done() <-chan struct{} { return f.done }

// Close stops the follower and waits for a running handler. It returns the error that stopped the follower, if any. It
// is idempotent.
func (f *Follower) Close() error {
	f.cancel()
	<-f.done
	return f.err
}

func (f *Follower) run(ctx context.Context) error {
	if err := f.cfg.validate(); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if len(f.follow.Topics) == 0 || f.follow.Handle == nil {
		return errors.New("follow: Topics and Handle are required")
	}
	setLast := func(err error) { f.last.Store(&err) }
	if _, err := awaitTopicsWithReason(ctx, f.cfg, f.follow.Topics, setLast); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("follow: %w", err)
	}
	f.last.Store(nil)
	tr := f.cfg.transport(f.follow.Topics...)
	defer tr.CloseIdleConnections()
	p := followedPartitions{
		Follower: f, client: f.cfg.client(tr), chunks: make(chan chunk),
		started: make(map[topicPartition]bool), waiting: make(map[topicPartition]int64),
	}
	defer p.fetchers.Wait()
	if !p.startAll(ctx) {
		return nil
	}
	watch := time.NewTicker(f.follow.PartitionWatch)
	defer watch.Stop()
	for {
		select {
		case c := <-p.chunks:
			for i := range c.messages {
				if !f.handle(ctx, c.messages[i]) {
					return nil
				}
			}
			p.markHandled(c)
		case <-watch.C:
			p.startNew(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// followedPartitions are the partitions of a running follower, each with a fetcher goroutine.
type followedPartitions struct {
	*Follower
	client   *kafka.Client
	chunks   chan chunk
	fetchers sync.WaitGroup
	started  map[topicPartition]bool
	waiting  map[topicPartition]int64 // end offsets to reach until the follower is ready
}

// startAll starts the existing partitions. It returns false if ctx ended before.
func (p *followedPartitions) startAll(ctx context.Context) bool {
	offsets, err := p.startOffsets(ctx, p.client)
	if err != nil {
		return false
	}
	for _, o := range offsets {
		tp := topicPartition{o.Topic, o.Partition}
		position := o.First
		if p.follow.FromEnd {
			position = o.End
		}
		if position < o.End {
			p.waiting[tp] = o.End
		}
		p.start(ctx, tp, position)
	}
	if len(p.waiting) == 0 {
		close(p.ready)
	}
	return true
}

func (p *followedPartitions) start(ctx context.Context, tp topicPartition, position int64) {
	p.started[tp] = true
	ft := &fetcher{
		client: p.client, tp: tp, position: position, maxBytes: maxFetchBytes, maxWait: p.follow.MaxWait,
		logger: p.follow.Logger, onGap: p.reportGap,
	}
	p.fetchers.Go(func() {
		ft.run(ctx, func(ctx context.Context, c chunk) bool {
			select {
			case p.chunks <- c:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
}

// markHandled records that a chunk was handled.
func (p *followedPartitions) markHandled(c chunk) {
	end, ok := p.waiting[c.tp]
	if !ok || c.next < end && !c.drained {
		return
	}
	delete(p.waiting, c.tp)
	if len(p.waiting) == 0 {
		close(p.ready)
	}
}

// startNew starts partitions that were added. After an error the next tick tries again.
func (p *followedPartitions) startNew(ctx context.Context) {
	meta, err := fetchTopics(ctx, p.cfg, p.follow.Topics)
	if err != nil {
		return
	}
	for name, t := range meta {
		for _, partition := range t.Partitions {
			if tp := (topicPartition{name, partition.ID}); !p.started[tp] {
				p.start(ctx, tp, kafka.FirstOffset) // a new partition is read from its beginning, also with FromEnd
			}
		}
	}
}

// startOffsets returns the bounds of all partitions, retrying until ctx ends.
func (f *Follower) startOffsets(ctx context.Context, client *kafka.Client) ([]PartitionOffsets, error) {
	wait := newBackoff(50*time.Millisecond, 2*time.Second)
	for {
		offsets, err := partitionOffsets(ctx, f.cfg, client, f.follow.Topics)
		if err == nil {
			return offsets, nil
		}
		f.follow.Logger.LogAttrs(ctx, slog.LevelDebug, "follow: list offsets failed, retrying", slog.Any("error", err))
		if !sleep(ctx, wait.NextBackOff()) {
			return nil, context.Cause(ctx)
		}
	}
}

// handle returns false if ctx ended before the message was handled.
func (f *Follower) handle(ctx context.Context, m kafka.Message) bool {
	wait := newBackoff(50*time.Millisecond, 5*time.Second)
	for {
		err := f.follow.Handle(ctx, m)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		f.follow.Logger.LogAttrs(ctx, slog.LevelWarn, "follow: handler failed, retrying", slog.String("topic", m.Topic),
			slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.Any("error", err))
		if !sleep(ctx, wait.NextBackOff()) {
			return false
		}
	}
}

func (f *Follower) reportGap(ctx context.Context, g gap) {
	if g.logCorrupt(ctx, f.follow.Logger) {
		return
	}
	level := slog.LevelInfo // retention and compaction move the log start, which is no loss here
	if g.pastEnd {
		level = slog.LevelError
	}
	f.follow.Logger.LogAttrs(ctx, level, "follow: position is no longer in the log", slog.String("topic", g.tp.topic),
		slog.Int("partition", g.tp.partition), slog.Int64("position", g.from), slog.Int64("resumed_at", g.to))
}
