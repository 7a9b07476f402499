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
	// A batch is complete when it has MaxMessages (default 10,000) or MaxBytes (default 16 MiB), when its first message
	// was received MaxAge (default 100 ms) ago, or when no message has arrived for MaxIdle (0: no limit). It is handled
	// when the previous batch is done. Up to two batches are held in memory, and a chunk and its fetch for each
	// partition (see Memory in the package comment).
	MaxMessages int
	MaxBytes    int
	MaxAge      time.Duration
	MaxIdle     time.Duration
	// Rest is the pause after a batch, as a multiple of the time that it took to handle, and MaxRest its maximum. If
	// either is 0, there is no pause. The next batch grows meanwhile: for work that can wait.
	Rest    int
	MaxRest time.Duration
	// Handle makes the batch's effect durable and returns nil. After an error it is called again with the same batch,
	// with a backoff from RetryMin (default 100 ms) to RetryMax (default 10 s), as long as the partitions are assigned.
	// Its context ends Timing.Drain after they were revoked. It may retain the messages.
	Handle             func(ctx context.Context, b Batch) error
	RetryMin, RetryMax time.Duration
	// Done is called with every batch whose offsets are committed, including those without messages, for which Handle
	// is not called. Optional.
	Done   func(b Batch)
	Timing GroupTiming
	// MaxWait is how long the broker may hold a fetch without data. It delays neither messages nor shutdown.
	// Default 2 s.
	MaxWait time.Duration
	// LagInterval is how often the lag metrics are updated. Default 5 s.
	LagInterval time.Duration
	Logger      *slog.Logger          // nil: nothing is logged, not even lost messages
	Registerer  prometheus.Registerer // nil: no metrics
}

// BatchConsumer consumes as a member of a consumer group and passes messages to a handler in batches that span all
// partitions assigned to this process. The next batch is filled while one is handled.
//
// Offsets are committed only after Handle returned nil. Offsets without a message, such as transaction markers and
// those removed by compaction, belong to the batch before or after them, or to a batch without messages, which is
// committed without Handle; so the end of the log is reached.
//
// When partitions are revoked, the batch in flight has Timing.Drain to finish. Otherwise it is dropped uncommitted and
// delivered again to the next owner. Messages that are lost, since retention removed them before they were handled or
// their record batch is corrupt, are logged as errors and counted in records_lost_total.
type BatchConsumer struct {
	cfg        BatchConsumerConfig
	metrics    *consumerMetrics
	newBackoff func() retryDelay
	membership membership
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
	case cfg.MaxMessages < 0 || cfg.MaxBytes < 0 || cfg.MaxAge < 0 || cfg.MaxIdle < 0 || cfg.Rest < 0 || cfg.MaxRest < 0:
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
	return &BatchConsumer{
		cfg: cfg, metrics: metrics, newBackoff: func() retryDelay { return newBackoff(cfg.RetryMin, cfg.RetryMax) },
	}, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Run consumes until ctx ends and returns nil after the batch in flight is finished or dropped and the group is left,
// which takes Timing.Drain and about a second. It waits for missing topics. Errors of the brokers, of joining and of
// Handle are retried without limit; other errors mean an invalid configuration.
func (c *BatchConsumer) Run(ctx context.Context) error {
	tr := c.cfg.Config.transport(c.cfg.Topics...)
	defer tr.CloseIdleConnections()
	client := c.cfg.Config.client(tr)
	g := &group{
		cfg: c.cfg.Config, id: c.cfg.Group, topics: c.cfg.Topics, timing: c.cfg.Timing, logger: c.cfg.Logger,
		onError: func(error) { c.metrics.joinErrors.WithLabelValues(c.cfg.Group).Inc() },
	}
	c.membership.start()
	defer c.membership.stop()
	err := g.run(ctx, func(ctx context.Context, gen *kafka.Generation) {
		c.membership.join()
		defer c.membership.leave()
		c.metrics.generations.WithLabelValues(c.cfg.Group).Inc()
		c.generation(ctx, client, gen)
	})
	if err != nil {
		return fmt.Errorf("batch consumer: %w", err)
	}
	return nil
}

// NotInGroupFor returns how long the running consumer has been outside its group: it is joining, cannot join, or waits
// for its topics. It returns 0 while it is a member, even without partitions.
func (c *BatchConsumer) NotInGroupFor() time.Duration { return c.membership.outsideFor() }

// generation consumes the partitions of one generation until ctx ends.
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
			client: client, tp: tp, position: p.next, maxBytes: fetchBytes, maxWait: c.cfg.MaxWait,
			logger: c.cfg.Logger, onGap: func(ctx context.Context, g gap) { c.reportGap(ctx, client, g) },
		}
		wg.Go(func() {
			f.run(ctx, func(ctx context.Context, ch chunk) bool {
				progress.addFetched(ch)
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
			if ctx.Err() != nil { // both cases were ready; no batch starts after a revoke
				return
			}
			began := time.Now()
			if !c.process(ctx, gen, b, progress) ||
				!sleep(ctx, min(time.Duration(c.cfg.Rest)*time.Since(began), c.cfg.MaxRest)) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// assemble fills batches from chunks and offers them when they are full, old or idle.
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

// process handles and commits one batch. It returns false when the generation has ended for this process.
func (c *BatchConsumer) process(ctx context.Context, gen *kafka.Generation, b Batch, progress *progress) bool {
	// The handler may outlive the generation by Drain, to finish the batch.
	hctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(c.cfg.Timing.Drain, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(hctx, func() { t.Stop() })
	})
	defer stop()

	group := c.cfg.Group
	wait := c.newBackoff()
	for attempt := 1; len(b.Messages) > 0; attempt++ {
		start := time.Now()
		err := c.cfg.Handle(hctx, b)
		c.metrics.handle.WithLabelValues(group).Observe(time.Since(start).Seconds())
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			c.metrics.retries.WithLabelValues(group).Inc()
			c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "batch failed, retrying", slog.String("group", group),
				slog.String("batch", b.Token()), slog.Int("records", len(b.Messages)), slog.Int("attempt", attempt),
				slog.Any("error", err))
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
	progress.markHandled(b)
	if c.cfg.Done != nil {
		c.cfg.Done(b)
	}
	return true
}

// commit retries until the offsets are committed. It returns false if the generation has ended: another member may own
// the partitions.
func (c *BatchConsumer) commit(ctx context.Context, gen *kafka.Generation, b Batch) bool {
	wait := newBackoff(50*time.Millisecond, 2*time.Second)
	offsets := b.offsets()
	for {
		err := gen.CommitOffsets(offsets)
		if err == nil {
			return true
		}
		c.metrics.commitErrors.WithLabelValues(c.cfg.Group).Inc()
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "offset commit failed", slog.String("group", c.cfg.Group),
			slog.String("batch", b.Token()), slog.Any("error", err))
		if isFenced(err) || ctx.Err() != nil || !sleep(ctx, wait.NextBackOff()) {
			return false
		}
	}
}

// isFenced reports whether the member no longer belongs to the group's generation.
func isFenced(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.FencedInstanceID)
}

// reportGap logs and counts messages that were lost before they were handled. If the topic is only compacted, a moved
// log start is not a loss: the newest message of every key is still there.
func (c *BatchConsumer) reportGap(ctx context.Context, client *kafka.Client, g gap) {
	addLost := func(n int64) {
		c.metrics.skipped.WithLabelValues(c.cfg.Group, g.tp.topic, strconv.Itoa(g.tp.partition)).Add(float64(n))
	}
	if g.logCorrupt(ctx, c.cfg.Logger, slog.String("group", c.cfg.Group)) {
		addLost(g.to - g.from)
		return
	}
	attrs := []slog.Attr{
		slog.String("group", c.cfg.Group), slog.String("topic", g.tp.topic), slog.Int("partition", g.tp.partition),
		slog.Int64("position", g.from), slog.Int64("resumed_at", g.to),
	}
	if g.pastEnd {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelError, "committed offset is past the end of the log: "+
			"the topic lost its newest messages or was recreated; reading it from its start", attrs...)
		addLost(1)
		return
	}
	policy, err := cleanupPolicy(ctx, client, g.tp.topic)
	if err == nil && policy == compactOnly {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "log start of a compacted topic moved past the position", attrs...)
		return
	}
	addLost(g.to - g.from)
	c.cfg.Logger.LogAttrs(ctx, slog.LevelError, "committed offset is below the start of the log: "+
		"retention removed messages that were never handled", append(attrs, slog.Int64("lost", g.to-g.from))...)
}

// compactOnly is the cleanup.policy without retention.
const compactOnly = "compact"

func cleanupPolicy(ctx context.Context, client *kafka.Client, topic string) (string, error) {
	res, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"cleanup.policy"}},
		},
	})
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
	return "", fmt.Errorf("read cleanup.policy of %s: missing in the response", topic)
}

// reportLag updates the lag metrics until ctx ends and then removes them.
func (c *BatchConsumer) reportLag(ctx context.Context, client *kafka.Client, progress *progress) {
	if c.cfg.Registerer == nil {
		return
	}
	defer func() {
		for tp := range progress.partitions {
			c.metrics.deletePartition(c.cfg.Group, tp)
		}
	}()
	tps := make([]topicPartition, 0, len(progress.partitions))
	for tp := range progress.partitions {
		tps = append(tps, tp)
	}
	for {
		// Fetches report the end as well, but they pause while a batch waits.
		if offsets, err := listOffsets(ctx, client, tps); err == nil {
			for _, o := range offsets {
				progress.updateBounds(topicPartition{o.Topic, o.Partition}, o)
			}
		}
		now := time.Now()
		for tp, p := range progress.snapshot() {
			if p.endKnown {
				c.metrics.setLag(c.cfg.Group, tp, p, now)
			}
		}
		if !sleep(ctx, c.cfg.LagInterval) {
			return
		}
	}
}

// progress is the progress of the partitions of a generation. It is safe for concurrent use.
type progress struct {
	mu         sync.Mutex
	partitions map[topicPartition]*partitionProgress // the set of keys never changes
}

type partitionProgress struct {
	next        int64 // offset after the last handled message; negative: unknown
	end         int64
	endKnown    bool
	lastHandled time.Time
	pending     []fetchedChunk // fetched and not handled, oldest first
}

// fetchedChunk records the age of the unhandled messages of a partition.
type fetchedChunk struct {
	last  int64     // offset of its last message
	since time.Time // timestamp of its first message
}

// lag returns the number of offsets that are not handled.
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

// addFetched records a chunk and the end of the log at its fetch.
func (p *progress) addFetched(c chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pp := p.partitions[c.tp]
	pp.end, pp.endKnown = max(pp.end, c.highWater), true
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

func (p *progress) updateBounds(tp topicPartition, o PartitionOffsets) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pp := p.partitions[tp]
	pp.end, pp.endKnown = o.End, true
	if pp.next < o.First {
		pp.next = o.First
	}
}

func (p *progress) markHandled(b Batch) {
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
