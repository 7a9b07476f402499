package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/segmentio/kafka-go"
)

// SubscriberConfig configures a [Subscriber]. Zero fields take their defaults.
type SubscriberConfig struct {
	Config Config
	// Group is the consumer group. If it is empty, every Subscribe reads the whole topic from its beginning and nothing
	// is committed.
	Group string
	// MaxInFlight is the maximum number of unfinished messages of one partition. 1, the default, preserves their order;
	// with more, later messages overtake a nacked one.
	MaxInFlight int
	// NackDelay is the pause before a nacked message is redelivered. Default 100 ms.
	NackDelay time.Duration
	Timing    GroupTiming
	// MaxWait is how long the broker may hold a fetch without data. Default 2 s.
	MaxWait time.Duration
	// Initialize configures topics created by SubscribeInitialize; its Name is ignored. Default: one partition.
	Initialize Topic
	Logger     *slog.Logger // nil: nothing is logged
}

// Subscriber implements Watermill's Subscriber. It is safe for concurrent use.
//
// Each Subscribe with a group is a member of the group. A message's offset is committed when it and all messages
// before it in its partition are acked. Delivery pauses 128 times MaxInFlight messages after an unfinished one. A
// nacked message is redelivered after NackDelay, without limit. When partitions are revoked, on Close, and when the
// context of Subscribe ends, messages in flight have Timing.Drain to be acked; then their contexts end and they are
// redelivered later.
type Subscriber struct {
	cfg SubscriberConfig

	closing context.Context // ends with Close
	close   context.CancelFunc

	mu      sync.Mutex // orders Subscribe before the wait in Close
	running sync.WaitGroup
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber returns a subscriber. It does not connect.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	if err := cfg.Config.validate(); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if cfg.MaxInFlight < 0 {
		return nil, errors.New("subscriber: MaxInFlight is negative")
	}
	setDefault(&cfg.MaxInFlight, 1)
	setDefault(&cfg.NackDelay, 100*time.Millisecond)
	setDefault(&cfg.MaxWait, 2*time.Second)
	setDefault(&cfg.Initialize.Partitions, 1)
	cfg.Timing = cfg.Timing.withDefaults(cfg.Config.Session)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	closing, cancel := context.WithCancel(context.Background())
	return &Subscriber{cfg: cfg, closing: closing, close: cancel}, nil
}

// SubscribeInitialize creates the topic if it is missing.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*requestTimeout)
	defer cancel()
	t := s.cfg.Initialize
	t.Name = topic
	return EnsureTopics(ctx, s.cfg.Config, []Topic{t})
}

// Subscribe delivers the topic's messages until ctx ends or Close; then it closes the channel. It does not wait for the
// topic to exist.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if topic == "" {
		return nil, errors.New("subscribe: topic is empty")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return nil, ErrClosed
	}
	sub := &subscription{
		cfg: s.cfg, topic: topic, out: make(chan *message.Message), msgCtx: context.WithoutCancel(ctx),
	}
	// Either end stops reading immediately, and the messages after their drain.
	rctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel) //nolint:contextcheck // Close ends it independently of ctx
	s.running.Go(func() {
		defer close(sub.out)
		defer cancel()
		defer stop()
		if err := sub.run(rctx); err != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "subscription failed", slog.String("topic", topic),
				slog.String("group", s.cfg.Group), slog.Any("error", err))
		}
	})
	return sub.out, nil
}

// Close ends all subscriptions, commits what was acked, and closes the channels. It does not need a reader of the
// channels or acks to complete. It is idempotent.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// subscription is the state of one Subscribe.
type subscription struct {
	cfg    SubscriberConfig
	topic  string
	out    chan *message.Message
	msgCtx context.Context // parent of the messages' contexts
}

func (s *subscription) run(ctx context.Context) error {
	tr := s.cfg.Config.transport(s.topic)
	defer tr.CloseIdleConnections()
	client := s.cfg.Config.client(tr)
	if s.cfg.Group == "" {
		return s.withoutGroup(ctx, client)
	}
	g := &group{
		cfg: s.cfg.Config, id: s.cfg.Group, topics: []string{s.topic}, timing: s.cfg.Timing, logger: s.cfg.Logger,
		onError: func(error) {},
	}
	return g.run(ctx, func(ctx context.Context, gen *kafka.Generation) {
		start := make(map[topicPartition]int64)
		for topic, parts := range gen.Assignments {
			for _, p := range parts {
				start[topicPartition{topic, p.ID}] = p.Offset
			}
		}
		s.consume(ctx, client, start, gen)
	})
}

// withoutGroup reads all partitions, and partitions that are added later.
func (s *subscription) withoutGroup(ctx context.Context, client *kafka.Client) error {
	if _, err := awaitTopics(ctx, s.cfg.Config, []string{s.topic}); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	reading := make(map[topicPartition]bool)
	for {
		meta, err := fetchTopics(ctx, s.cfg.Config, []string{s.topic})
		if err == nil {
			start := make(map[topicPartition]int64)
			for _, p := range meta[s.topic].Partitions {
				if tp := (topicPartition{s.topic, p.ID}); !reading[tp] {
					reading[tp] = true
					start[tp] = kafka.FirstOffset
				}
			}
			if len(start) > 0 {
				wg.Go(func() { s.consume(ctx, client, start, nil) })
			}
		}
		if !sleep(ctx, s.cfg.Timing.PartitionWatch) {
			return nil
		}
	}
}

// consume delivers the messages of some partitions. It returns after ctx has ended and everything delivered is finished
// or has had its drain.
func (s *subscription) consume(
	ctx context.Context, client *kafka.Client, start map[topicPartition]int64, gen *kafka.Generation,
) {
	// mctx is the parent of the messages' contexts.
	mctx, cancel := context.WithCancelCause(s.msgCtx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(s.cfg.Timing.Drain, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(mctx, func() { t.Stop() })
	})
	defer stop()

	c := &committer{gen: gen, logger: s.cfg.Logger, dirty: make(chan struct{}, 1)}
	var workers sync.WaitGroup
	for tp, position := range start {
		f := &fetcher{
			client: client, tp: tp, position: position, maxBytes: maxFetchBytes, maxWait: s.cfg.MaxWait,
			logger: s.cfg.Logger, onGap: s.reportGap,
		}
		w := &partitionWorker{
			sub: s, tp: tp, track: c.tracker(tp),
			slots:  make(chan struct{}, s.cfg.MaxInFlight),
			window: make(chan struct{}, s.cfg.MaxInFlight*windowFactor),
		}
		workers.Go(func() {
			defer w.unfinished.Wait()
			f.run(ctx, func(ctx context.Context, ch chunk) bool { return w.deliver(ctx, mctx, ch) })
		})
	}
	if len(start) == 0 {
		workers.Go(func() { <-ctx.Done() })
	}
	var committing sync.WaitGroup
	finished := make(chan struct{})
	if gen != nil {
		committing.Go(func() { c.run(ctx, finished) })
	}
	workers.Wait()
	close(finished)
	committing.Wait()
}

func (s *subscription) reportGap(ctx context.Context, g gap) {
	if g.logCorrupt(ctx, s.cfg.Logger, slog.String("group", s.cfg.Group)) {
		return
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelError,
		"position of subscription is not in the log, messages were never handled", slog.String("topic", g.tp.topic),
		slog.Int("partition", g.tp.partition), slog.String("group", s.cfg.Group), slog.Int64("position", g.from),
		slog.Int64("resumed_at", g.to))
}

// windowFactor is the maximum number of uncommittable messages of a partition, in multiples of MaxInFlight. They are
// redelivered after a restart.
const windowFactor = 128

// partitionWorker delivers one partition with at most cap(slots) unfinished messages and cap(window) uncommittable
// ones.
type partitionWorker struct {
	sub        *subscription
	tp         topicPartition
	track      *tracker
	slots      chan struct{}
	window     chan struct{}
	unfinished sync.WaitGroup
}

// deliver sends the chunk's messages in order. It returns false when ctx has ended.
func (w *partitionWorker) deliver(ctx, mctx context.Context, ch chunk) bool {
	for i := range ch.messages {
		if !acquire(ctx, w.window) || !acquire(ctx, w.slots) {
			return false
		}
		km := &ch.messages[i]
		w.track.begin(km.Offset)
		m, cancel, ok := w.send(ctx, mctx, km)
		if !ok {
			return false
		}
		w.unfinished.Go(func() {
			if w.await(ctx, mctx, km, m, cancel) {
				w.release(w.track.finish(km.Offset))
			}
			<-w.slots
		})
	}
	if ch.endsWithoutMessage() {
		if !acquire(ctx, w.window) {
			return false
		}
		w.release(w.track.skip(ch.next))
	}
	return true
}

// acquire waits for a slot. It returns false when ctx has ended.
func acquire(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// release frees n slots of the window after messages became committable.
func (w *partitionWorker) release(n int) {
	for range n {
		<-w.window
	}
}

// send decodes a message and sends it to the channel. It returns false when ctx has ended.
func (w *partitionWorker) send(
	ctx, mctx context.Context, km *kafka.Message,
) (*message.Message, context.CancelFunc, bool) {
	msgCtx, cancel := context.WithCancel(mctx)
	m := decodeMessage(msgCtx, km)
	select {
	case w.sub.out <- m:
		return m, cancel, true
	case <-ctx.Done():
		cancel()
		return nil, nil, false
	}
}

// await waits until the message is acked, and redelivers it after a nack. It returns false if it was not acked in time.
func (w *partitionWorker) await(
	ctx, mctx context.Context, km *kafka.Message, m *message.Message, cancel context.CancelFunc,
) bool {
	for {
		select {
		case <-m.Acked():
			cancel()
			return true
		case <-m.Nacked():
			cancel()
			if !sleep(ctx, w.sub.cfg.NackDelay) {
				return false
			}
			var ok bool
			if m, cancel, ok = w.send(ctx, mctx, km); !ok {
				return false
			}
		case <-mctx.Done():
			cancel()
			return false
		}
	}
}
