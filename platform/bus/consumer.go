package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
)

const (
	minFetchBytes = 128 << 10
	maxFetchBytes = 1 << 20
)

// BatchConsumerConfig configures a [BatchConsumer]. Zero fields take their
// defaults.
type BatchConsumerConfig struct {
	Config Config
	Group  string
	Topics []string
	// A batch is handed over as soon as it has MaxMessages (default 10,000) or
	// MaxBytes (default 16 MiB), or its first message is MaxAge (default 100 ms) old,
	// or none has come for MaxIdle (0: however long), and the previous batch is done. At
	// most two batches are held in memory, and a chunk and its fetch a partition (see Memory in the package's comment).
	MaxMessages int
	MaxBytes    int
	MaxAge      time.Duration
	MaxIdle     time.Duration
	// Handle makes the batch's effect durable and returns nil, or an error to be
	// called again with the same batch, after a pause that doubles from RetryMin
	// (default 100 ms) to RetryMax (default 10 s), for as long as the partitions are
	// assigned. Its context ends Timing.Drain after they were revoked. It may keep
	// the messages.
	Handle             func(ctx context.Context, b Batch) error
	RetryMin, RetryMax time.Duration
	// Done is told of every batch whose offsets are committed: also of one without
	// messages, which Handle never sees. Optional.
	Done   func(b Batch)
	Timing GroupTiming
	// MaxWait is how long the broker may hold a fetch when there is nothing to
	// read. It delays neither messages nor the end. Default 2 s.
	MaxWait time.Duration
	// LagInterval is how often the lag metrics are renewed. Default 5 s.
	LagInterval time.Duration
	Logger      *slog.Logger          // nil: nothing is logged, not even lost messages
	Registerer  prometheus.Registerer // nil: no metrics
}

// BatchConsumer hands the messages of a consumer group to a handler in batches
// that span all partitions assigned to this process.
//
// Offsets are committed after Handle returned nil and never beyond. Those that hold
// no message, as the markers of transactions and what compaction leaves, belong to
// the batch before or after them, or to one without messages, which is committed
// without Handle: the end of the log is reached. The next batch fills while one is
// handled. When partitions are revoked the batch in hand
// has Timing.Drain to finish; what is not finished then is dropped uncommitted and
// delivered again to the next owner. Committed offsets that retention has
// overtaken, and record batches that cannot be read, are an error in the log and in
// the lost_records_total metric.
type BatchConsumer struct {
	cfg      BatchConsumerConfig
	metrics  *consumerMetrics
	wait     func() retryDelay
	presence presence
}

type retryDelay interface{ NextBackOff() time.Duration }

// NewBatchConsumer checks cfg and registers the metrics. It does not connect.
func NewBatchConsumer(cfg BatchConsumerConfig) (*BatchConsumer, error) {
	if err := cfg.Config.validate(); err != nil {
		return nil, fmt.Errorf("batch consumer: %w", err)
	}
	switch {
	case cfg.Group == "":
		return nil, errors.New("batch consumer: Group is empty")
	case len(cfg.Topics) == 0:
		return nil, errors.New("batch consumer: no Topics")
	case cfg.Handle == nil:
		return nil, errors.New("batch consumer: Handle is nil")
	case cfg.MaxMessages < 0 || cfg.MaxBytes < 0 || cfg.MaxAge < 0 || cfg.MaxIdle < 0:
		return nil, errors.New("batch consumer: negative limit")
	}
	setDefault(&cfg.MaxMessages, 10_000)
	setDefault(&cfg.MaxBytes, 16<<20)
	setDefault(&cfg.MaxAge, 100*time.Millisecond)
	setDefault(&cfg.RetryMin, 100*time.Millisecond)
	setDefault(&cfg.RetryMax, 10*time.Second)
	setDefault(&cfg.MaxWait, 2*time.Second)
	setDefault(&cfg.LagInterval, 5*time.Second)
	cfg.Timing = cfg.Timing.withDefaults(cfg.Config.Session)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	metrics, err := newConsumerMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("batch consumer: register metrics: %w", err)
	}
	return &BatchConsumer{cfg: cfg, metrics: metrics, wait: func() retryDelay { return newBackoff(cfg.RetryMin, cfg.RetryMax) }}, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Run consumes until ctx ends, then returns nil once the batch in hand is
// finished or dropped and the group left: within Timing.Drain and about a second.
// It waits for topics that do not exist yet. Failures of the brokers, of joining,
// and of Handle are retried without end; other errors mean a wrong configuration.
func (c *BatchConsumer) Run(ctx context.Context) error {
	tr := c.cfg.Config.transport(c.cfg.Topics...)
	defer tr.CloseIdleConnections()
	client := c.cfg.Config.client(tr)
	g := &group{
		cfg: c.cfg.Config, id: c.cfg.Group, topics: c.cfg.Topics, timing: c.cfg.Timing, logger: c.cfg.Logger,
		onError: func(error) { c.metrics.joinErrors.WithLabelValues(c.cfg.Group).Inc() },
	}
	c.presence.begin()
	defer c.presence.end()
	err := g.run(ctx, func(ctx context.Context, gen *kafka.Generation) {
		c.presence.joined()
		defer c.presence.left()
		c.metrics.generations.WithLabelValues(c.cfg.Group).Inc()
		c.generation(ctx, client, gen)
	})
	if err != nil {
		return fmt.Errorf("batch consumer: %w", err)
	}
	return nil
}

// Away is how long a consumer that runs has belonged to no generation of its group: it is
// joining, cannot join, or waits for its topics. It is 0 while it belongs to one, though
// that may give it no partitions.
func (c *BatchConsumer) Away() time.Duration { return c.presence.away() }

// generation owns the partitions of one generation until ctx ends.
func (c *BatchConsumer) generation(ctx context.Context, client *kafka.Client, gen *kafka.Generation) {
	progress := newProgress(gen.Assignments)
	if len(progress.partitions) == 0 {
		<-ctx.Done()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	chunks := make(chan chunk)
	fetchBytes := min(max(2*c.cfg.MaxBytes/len(progress.partitions), minFetchBytes), maxFetchBytes)
	for tp, p := range progress.partitions {
		f := &fetcher{
			client: client, tp: tp, position: p.next, maxBytes: fetchBytes, maxWait: c.cfg.MaxWait, logger: c.cfg.Logger,
			onGap: func(ctx context.Context, g gap) { c.reportGap(ctx, client, g) },
		}
		wg.Go(func() {
			f.run(ctx, func(ctx context.Context, ch chunk) bool {
				progress.fetched(ch)
				if len(ch.messages) == 0 && ch.next <= ch.from {
					return true
				}
				select {
				case chunks <- ch:
					return true
				case <-ctx.Done():
					return false
				}
			})
		})
	}
	ready := make(chan Batch)
	wg.Go(func() { c.assemble(ctx, chunks, ready) })
	wg.Go(func() { c.reportLag(ctx, client, progress) })
	for {
		select {
		case b := <-ready:
			if ctx.Err() != nil { // both were ready; nothing new begins after a revoke
				return
			}
			if !c.process(ctx, gen, b, progress) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// assemble fills batches from chunks and offers them when they are full, old, or nothing
// comes.
func (c *BatchConsumer) assemble(ctx context.Context, chunks <-chan chunk, ready chan<- Batch) {
	a := &assembler{maxMessages: c.cfg.MaxMessages, maxBytes: c.cfg.MaxBytes}
	age, idle := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	age.Stop()
	idle.Stop()
	defer age.Stop()
	defer idle.Stop()
	due := false
	for {
		in, out := chunks, chan<- Batch(nil)
		var b Batch
		if a.full() {
			in = nil
		}
		if !a.empty() && (a.full() || due) {
			out, b = ready, a.batch()
		}
		select {
		case ch := <-in:
			first := a.empty()
			a.add(ch)
			if first {
				age.Reset(c.cfg.MaxAge)
			}
			if c.cfg.MaxIdle > 0 {
				idle.Reset(c.cfg.MaxIdle)
			}
		case out <- b:
			a.next()
			due = false
			age.Stop()
			idle.Stop()
			if !a.empty() {
				age.Reset(c.cfg.MaxAge)
			}
		case <-age.C:
			due = true
		case <-idle.C:
			due = true
		case <-ctx.Done():
			return
		}
	}
}

// process handles and commits one batch. It returns false when the generation is
// over for this process.
func (c *BatchConsumer) process(ctx context.Context, gen *kafka.Generation, b Batch, progress *progress) bool {
	// The handler outlives the generation by Drain, to finish what it has begun.
	hctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(c.cfg.Timing.Drain, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(hctx, func() { t.Stop() })
	})
	defer stop()

	group := c.cfg.Group
	wait := c.wait()
	for attempt := 1; len(b.Messages) > 0; attempt++ {
		start := time.Now()
		err := c.cfg.Handle(hctx, b)
		c.metrics.handle.WithLabelValues(group).Observe(time.Since(start).Seconds())
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			c.metrics.retries.WithLabelValues(group).Inc()
			c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "batch not handled, trying again", slog.String("group", group),
				slog.String("batch", b.Token()), slog.Int("records", len(b.Messages)), slog.Int("attempt", attempt), slog.Any("error", err))
		}
		if ctx.Err() != nil || !sleep(ctx, wait.NextBackOff()) {
			c.metrics.dropped.WithLabelValues(group).Inc()
			return false
		}
	}
	if !c.commit(ctx, gen, b) {
		return false
	}
	if len(b.Messages) > 0 {
		c.metrics.batches.WithLabelValues(group).Inc()
		c.metrics.batchSize.WithLabelValues(group).Observe(float64(len(b.Messages)))
	}
	perTopic := make(map[string]int)
	for i := range b.Messages {
		perTopic[b.Messages[i].Topic]++
	}
	for topic, n := range perTopic {
		c.metrics.records.WithLabelValues(group, topic).Add(float64(n))
	}
	progress.handled(b)
	if c.cfg.Done != nil {
		c.cfg.Done(b)
	}
	return true
}

// commit tries until the offsets are stored or the generation is over. It
// returns false when somebody else may own the partitions.
func (c *BatchConsumer) commit(ctx context.Context, gen *kafka.Generation, b Batch) bool {
	wait := newBackoff(50*time.Millisecond, 2*time.Second)
	offsets := b.offsets()
	for {
		err := gen.CommitOffsets(offsets)
		if err == nil {
			return true
		}
		c.metrics.commitErrors.WithLabelValues(c.cfg.Group).Inc()
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "offsets not committed", slog.String("group", c.cfg.Group), slog.String("batch", b.Token()), slog.Any("error", err))
		if isFenced(err) || ctx.Err() != nil || !sleep(ctx, wait.NextBackOff()) {
			return false
		}
	}
}

// isFenced says that the member no longer belongs to the group's generation.
func isFenced(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.FencedInstanceID)
}

// reportGap alarms about messages that are gone before they were handled. On a
// topic that is compacted only, a log start that moved is compaction's work: the
// newest message of every key is still there.
func (c *BatchConsumer) reportGap(ctx context.Context, client *kafka.Client, g gap) {
	if g.logDamage(ctx, c.cfg.Logger, slog.String("group", c.cfg.Group)) {
		c.metrics.skipped.WithLabelValues(c.cfg.Group, g.tp.topic, strconv.Itoa(g.tp.partition)).Add(float64(g.to - g.from))
		return
	}
	attrs := []slog.Attr{
		slog.String("group", c.cfg.Group), slog.String("topic", g.tp.topic), slog.Int("partition", g.tp.partition),
		slog.Int64("position", g.from), slog.Int64("resumed_at", g.to),
	}
	if g.pastTheEnd {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelError, "committed offset is past the end of the log: the topic lost its newest messages or was created anew; reading it from its start", attrs...)
		c.metrics.skipped.WithLabelValues(c.cfg.Group, g.tp.topic, strconv.Itoa(g.tp.partition)).Inc()
		return
	}
	policy, err := cleanupPolicy(ctx, client, g.tp.topic)
	if err == nil && policy == compactOnly {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "log start of a compacted topic moved past the position", attrs...)
		return
	}
	c.metrics.skipped.WithLabelValues(c.cfg.Group, g.tp.topic, strconv.Itoa(g.tp.partition)).Add(float64(g.to - g.from))
	c.cfg.Logger.LogAttrs(ctx, slog.LevelError, "committed offset is below the start of the log: retention removed messages that were never handled",
		append(attrs, slog.Int64("lost", g.to-g.from))...)
}

// compactOnly is the cleanup.policy under which retention removes nothing.
const compactOnly = "compact"

func cleanupPolicy(ctx context.Context, client *kafka.Client, topic string) (string, error) {
	res, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"cleanup.policy"}},
	}})
	if err != nil {
		return "", fmt.Errorf("read cleanup.policy of %s: %w", topic, err)
	}
	for _, r := range res.Resources {
		for _, e := range r.ConfigEntries {
			if e.ConfigName == "cleanup.policy" {
				return e.ConfigValue, nil
			}
		}
	}
	return "", fmt.Errorf("read cleanup.policy of %s: not in the answer", topic)
}

// reportLag renews the gauges until ctx ends and then removes them.
func (c *BatchConsumer) reportLag(ctx context.Context, client *kafka.Client, progress *progress) {
	if c.cfg.Registerer == nil {
		return
	}
	defer func() {
		for tp := range progress.partitions {
			c.metrics.forget(c.cfg.Group, tp)
		}
	}()
	tps := make([]topicPartition, 0, len(progress.partitions))
	for tp := range progress.partitions {
		tps = append(tps, tp)
	}
	for {
		// While fetching is held back nobody else learns how the log grows.
		if offsets, err := listOffsets(ctx, client, tps); err == nil {
			for _, o := range offsets {
				progress.sawBounds(topicPartition{o.Topic, o.Partition}, o)
			}
		}
		now := time.Now()
		for tp, p := range progress.snapshot() {
			if p.known {
				c.metrics.setLag(c.cfg.Group, tp, p, now)
			}
		}
		if !sleep(ctx, c.cfg.LagInterval) {
			return
		}
	}
}

// progress is how far the partitions of a generation are.
type progress struct {
	mu         sync.Mutex
	partitions map[topicPartition]*partitionProgress // the set of keys never changes
}

type partitionProgress struct {
	next        int64 // offset after the last handled message; negative: unknown yet
	end         int64
	known       bool // end was seen
	lastHandled time.Time
	pending     []fetchedChunk // fetched and not handled, oldest first; as many as memory holds, a few
}

// fetchedChunk is what the age of a partition's unhandled messages is told from.
type fetchedChunk struct {
	last  int64     // offset of its last message
	since time.Time // timestamp of its first message
}

// lag is the number of offsets that are not handled.
func (p *partitionProgress) lag() int64 { return max(0, p.end-max(p.next, 0)) }

func newProgress(assignments map[string][]kafka.PartitionAssignment) *progress {
	p := &progress{partitions: make(map[topicPartition]*partitionProgress)}
	for topic, parts := range assignments {
		for _, a := range parts {
			p.partitions[topicPartition{topic, a.ID}] = &partitionProgress{next: a.Offset}
		}
	}
	return p
}

// fetched notes a chunk and the end of the log as its fetch saw it.
func (p *progress) fetched(c chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pp := p.partitions[c.tp]
	pp.end, pp.known = max(pp.end, c.highWater), true
	if pp.next < 0 {
		pp.next = c.next
		if len(c.messages) > 0 {
			pp.next = c.messages[0].Offset
		}
	}
	if n := len(c.messages); n > 0 {
		pp.pending = append(pp.pending, fetchedChunk{last: c.messages[n-1].Offset, since: c.messages[0].Time})
	}
}

func (p *progress) sawBounds(tp topicPartition, o PartitionOffsets) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pp := p.partitions[tp]
	pp.end, pp.known = o.End, true
	if pp.next < o.First {
		pp.next = o.First
	}
}

func (p *progress) handled(b Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range b.Ranges {
		pp := p.partitions[topicPartition{r.Topic, r.Partition}]
		pp.next = r.Last + 1
		done := 0
		for done < len(pp.pending) && pp.pending[done].last < pp.next {
			done++
		}
		pp.pending = slices.Delete(pp.pending, 0, done)
	}
	for i := range b.Messages {
		m := &b.Messages[i]
		p.partitions[topicPartition{m.Topic, m.Partition}].lastHandled = m.Time
	}
}

func (p *progress) snapshot() map[topicPartition]partitionProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[topicPartition]partitionProgress, len(p.partitions))
	for tp, pp := range p.partitions {
		copied := *pp
		copied.pending = slices.Clone(pp.pending)
		out[tp] = copied
	}
	return out
}
