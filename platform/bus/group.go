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

// GroupTiming configures the timeouts of a consumer group member. Zero fields take their defaults.
type GroupTiming struct {
	// Heartbeat is the heartbeat interval, and so how soon a member learns of a rebalance. Default 1 s.
	Heartbeat time.Duration
	// Session is how long a member may be silent before its partitions are reassigned. Default 10 s.
	Session time.Duration
	// Rebalance is how long the group waits for a member to rejoin, and so how long the partitions of a killed member
	// are idle. Default 10 s.
	Rebalance time.Duration
	// JoinBackoff is the pause after a failed join. Default 500 ms.
	JoinBackoff time.Duration
	// PartitionWatch is how often the topics are checked for new partitions. Default 10 s.
	PartitionWatch time.Duration
	// Drain is how long a handler may continue after its partitions are revoked or the consumer is stopped; then its
	// context ends. It must stay well below Session and Rebalance. Default 2 s.
	Drain time.Duration
}

// withDefaults returns t with defaults for zero fields. session is Config.Session.
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

// membership tracks how long a running consumer has been outside its group. It is safe for concurrent use.
type membership struct {
	mu          sync.Mutex
	running     bool
	generations int // a generation that ends late overlaps with the next one
	since       time.Time
}

func (p *membership) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.since = true, time.Now()
}

func (p *membership) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

func (p *membership) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generations++
}

func (p *membership) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generations--
	p.since = time.Now()
}

// outsideFor returns 0 for a member and for a consumer that is not running.
func (p *membership) outsideFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running || p.generations > 0 {
		return 0
	}
	return time.Since(p.since)
}

// joinTimeout is how long a stopping member waits for a join in progress.
const joinTimeout = 500 * time.Millisecond

// group is one membership in a consumer group.
type group struct {
	cfg    Config
	id     string
	topics []string
	timing GroupTiming
	logger *slog.Logger
	// onError is called with failures to join or stay in the group.
	onError func(error)
}

// run is a member of the group until ctx ends. For each generation it calls consume with a context that ends with the
// generation; consume must return then, and the generation ends when consume returns. run returns after it has left the
// group.
func (g *group) run(ctx context.Context, consume func(ctx context.Context, gen *kafka.Generation)) error {
	meta, err := awaitTopics(ctx, g.cfg, g.topics)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("consumer group %s: %w", g.id, err)
	}
	var partitions atomic.Int64 // number of partitions as seen before the group was joined
	partitions.Store(countPartitions(meta))
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
	var consuming atomic.Int32 // number of generations with a running consume
	wg.Go(func() {
		<-ctx.Done()
		closed := make(chan struct{})
		wg.Go(func() {
			defer close(closed)
			_ = cg.Close() // always nil
		})
		// Close waits for a join in progress, which lasts as long as the slowest member. Close its connection once
		// handlers have had their time to drain; a member that is joining has none.
		timeout := g.timing.Drain + time.Second
		if consuming.Load() == 0 {
			timeout = joinTimeout
		}
		for {
			select {
			case <-closed:
				return
			case <-time.After(timeout):
				conns.closeAll()
				timeout = time.Second
			}
		}
	})
	defer wg.Wait()
	for {
		// Only Close ends Next, not ctx: otherwise a generation could get lost in between.
		gen, err := cg.Next(context.WithoutCancel(ctx))
		switch {
		case errors.Is(err, kafka.ErrGroupClosed):
			return nil
		case err != nil:
			if !errors.Is(err, kafka.RebalanceInProgress) && ctx.Err() == nil {
				g.logger.LogAttrs(ctx, slog.LevelWarn, "kafka group join failed, retrying",
					slog.String("group", g.id), slog.Any("error", err))
				g.onError(err)
			}
			continue
		}
		g.logger.LogAttrs(ctx, slog.LevelDebug, "kafka group joined",
			slog.String("group", g.id), slog.Int("generation", int(gen.ID)))
		wg.Add(2) // a generation that has already ended does not wait for the goroutines it starts
		consuming.Add(1)
		gen.Start(func(gctx context.Context) {
			defer wg.Done()
			defer consuming.Add(-1)
			cctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			stop := context.AfterFunc(gctx, func() { cancel(kafka.ErrGenerationEnded) })
			defer stop()
			defer cancel(nil)
			consume(cctx, gen)
		})
		gen.Start(func(gctx context.Context) {
			defer wg.Done()
			g.watchPartitions(gctx, &partitions)
		})
	}
}

// watchPartitions returns, which ends the generation, when the number of partitions differs from the last known one,
// which it updates. The known one is of before the group was joined: the leader may have assigned fewer partitions than
// there are now. kafka-go's own watcher begins after the join, and rejoins in a busy loop while a topic is missing.
func (g *group) watchPartitions(ctx context.Context, known *atomic.Int64) {
	for {
		meta, err := fetchTopics(ctx, g.cfg, g.topics)
		if err == nil { // otherwise the heartbeat decides whether the broker is available
			now := countPartitions(meta)
			if before := known.Swap(now); now != before {
				g.logger.LogAttrs(ctx, slog.LevelInfo, "kafka topics changed their partitions, rejoining group",
					slog.String("group", g.id), slog.Int64("before", before), slog.Int64("now", now))
				return
			}
		}
		if !sleep(ctx, g.timing.PartitionWatch) {
			return
		}
	}
}

// countPartitions returns the number of partitions of all topics.
func countPartitions(topics map[string]kafka.Topic) (n int64) {
	for _, t := range topics {
		n += int64(len(t.Partitions))
	}
	return n
}

// connTracker tracks the connections of a group, so that a blocked join can be ended.
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
		_ = c.Close() // the user of the connection gets the error
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
