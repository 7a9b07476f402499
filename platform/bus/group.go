package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

// GroupTiming is how a consumer takes part in its group. The zero value means the
// defaults.
type GroupTiming struct {
	// Heartbeat is how soon a member learns of a rebalance. Default 1 s.
	Heartbeat time.Duration
	// Session is how long a member may be silent before its partitions go to
	// others. Default 10 s.
	Session time.Duration
	// Rebalance is how long the group waits for a member to join again, and so
	// how long its partitions rest when it was killed. Default 10 s.
	Rebalance time.Duration
	// JoinBackoff is the pause after a failed join. Default 500 ms.
	JoinBackoff time.Duration
	// PartitionWatch is how often the topics are looked at for new partitions.
	// Default 10 s.
	PartitionWatch time.Duration
	// Drain is how long a handler may go on when its partitions are revoked or the
	// consumer is stopped; then its context ends. It must stay well below Session and
	// Rebalance. Default 2 s.
	Drain time.Duration
}

// withDefaults fills in what is not set; session is Config.Session.
func (t GroupTiming) withDefaults(session time.Duration) GroupTiming {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&t.Heartbeat, time.Second)
	def(&session, 10*time.Second)
	def(&t.Session, session)
	def(&t.Rebalance, session)
	def(&t.JoinBackoff, 500*time.Millisecond)
	def(&t.PartitionWatch, 10*time.Second)
	def(&t.Drain, 2*time.Second)
	return t
}

// presence knows since when a running consumer has had no generation.
type presence struct {
	mu          sync.Mutex
	running     bool
	generations int // one that ends late overlaps with the next
	since       time.Time
}

func (p *presence) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.since = true, time.Now()
}

func (p *presence) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

func (p *presence) joined() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generations++
}

func (p *presence) left() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generations--
	p.since = time.Now()
}

func (p *presence) away() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running || p.generations > 0 {
		return 0
	}
	return time.Since(p.since)
}

// joinPatience is how long a stopping member waits for a join in progress.
const joinPatience = 500 * time.Millisecond

// group is one membership in a consumer group.
type group struct {
	cfg    Config
	id     string
	topics []string
	timing GroupTiming
	logger *slog.Logger
	// onError observes failures to join or stay in the group.
	onError func(error)
}

// run takes part in the group until ctx ends. For each generation it calls
// consume with a context that ends with the generation; consume must return then,
// and the generation ends when consume returns. run returns after it has left the
// group.
func (g *group) run(ctx context.Context, consume func(ctx context.Context, gen *kafka.Generation)) error {
	if _, err := awaitTopics(ctx, g.cfg, g.topics); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("consumer group %s: %w", g.id, err)
	}
	conns := &connTracker{cfg: g.cfg, conns: make(map[net.Conn]struct{})}
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:      g.id,
		Brokers: g.cfg.Brokers,
		Dialer: &kafka.Dialer{
			ClientID:      g.cfg.ClientID,
			Timeout:       dialTimeout,
			SASLMechanism: g.cfg.SASL,
			DialFunc:      conns.dial,
		},
		Topics:            g.topics,
		HeartbeatInterval: g.timing.Heartbeat,
		SessionTimeout:    g.timing.Session,
		RebalanceTimeout:  g.timing.Rebalance,
		JoinGroupBackoff:  g.timing.JoinBackoff,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return fmt.Errorf("consumer group %s: %w", g.id, err)
	}
	var wg sync.WaitGroup
	var handling atomic.Int32 // generations
	wg.Go(func() {
		<-ctx.Done()
		closed := make(chan struct{})
		wg.Go(func() {
			defer close(closed)
			_ = cg.Close() // always nil
		})
		// Close waits for a join in progress, which lasts as long as the slowest
		// member; take its connection away once handlers have had their time.
		// A member that is joining has none.
		patience := g.timing.Drain + time.Second
		if handling.Load() == 0 {
			patience = joinPatience
		}
		for {
			select {
			case <-closed:
				return
			case <-time.After(patience):
				conns.closeAll()
				patience = time.Second
			}
		}
	})
	defer wg.Wait()
	for {
		// Close, not ctx, ends Next: a generation must not get lost in between.
		gen, err := cg.Next(context.WithoutCancel(ctx))
		switch {
		case errors.Is(err, kafka.ErrGroupClosed):
			return nil
		case err != nil:
			if !errors.Is(err, kafka.RebalanceInProgress) && ctx.Err() == nil {
				g.logger.LogAttrs(ctx, slog.LevelWarn, "kafka group join failed, trying again", slog.String("group", g.id), slog.Any("error", err))
				g.onError(err)
			}
			continue
		}
		g.logger.LogAttrs(ctx, slog.LevelDebug, "kafka group joined", slog.String("group", g.id), slog.Int("generation", int(gen.ID)))
		wg.Add(2) // a generation that has already ended does not wait for what it starts
		handling.Add(1)
		gen.Start(func(gctx context.Context) {
			defer wg.Done()
			defer handling.Add(-1)
			cctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			stop := context.AfterFunc(gctx, func() { cancel(kafka.ErrGenerationEnded) })
			defer stop()
			defer cancel(nil)
			consume(cctx, gen)
		})
		gen.Start(func(gctx context.Context) {
			defer wg.Done()
			g.watchPartitions(gctx)
		})
	}
}

// watchPartitions returns, and so ends the generation, when a topic has gained or
// lost partitions. kafka-go's own watcher rejoins without pause while a topic is
// missing.
func (g *group) watchPartitions(ctx context.Context) {
	count := func() (int, error) {
		meta, err := fetchTopics(ctx, g.cfg, g.topics)
		n := 0
		for _, t := range meta {
			n += len(t.Partitions)
		}
		return n, err
	}
	before := -1
	for {
		n, err := count() // on an error the heartbeat decides whether the broker is gone
		if err == nil && before >= 0 && n != before {
			g.logger.LogAttrs(ctx, slog.LevelInfo, "kafka topics changed their partitions, joining again", slog.String("group", g.id), slog.Int("before", before), slog.Int("now", n))
			return
		}
		if err == nil {
			before = n
		}
		if !sleep(ctx, g.timing.PartitionWatch) {
			return
		}
	}
}

// connTracker knows the group's connections, to end a join that blocks.
type connTracker struct {
	cfg   Config
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (t *connTracker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := t.cfg.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tc := &trackedConn{Conn: c, tracker: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[tc] = struct{}{}
	return tc, nil
}

func (t *connTracker) closeAll() {
	t.mu.Lock()
	open := make([]net.Conn, 0, len(t.conns))
	for c := range t.conns {
		open = append(open, c)
	}
	t.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // whoever uses it gets the error
	}
}

type trackedConn struct {
	net.Conn
	tracker *connTracker
}

func (c *trackedConn) Close() error {
	c.tracker.mu.Lock()
	delete(c.tracker.conns, c)
	c.tracker.mu.Unlock()
	return c.Conn.Close()
}
