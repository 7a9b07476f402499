package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Group is the projector's consumer group.
const Group = "muster.projector.records"

// Topics returns the topics that the projector consumes.
func Topics() []string {
	var topics []string
	for _, d := range record.Definitions() {
		topics = append(topics, d.Topic)
	}
	return append(topics, event.TopicVersionBump)
}

// Config configures a Projector. Only Kafka is required.
type Config struct {
	Kafka bus.Config
	// Group defaults to the constant of this name. A replay into other tables uses its own.
	Group string
	// UsageGroup defaults to the constant of this name.
	UsageGroup string
	// A batch is written when it reaches MaxMessages (default 20,000), MaxBytes (default 8 MiB) or MaxAge
	// (default 400 ms). Two batches are rendered at a time; the rows of each take about five times the bytes
	// of its records.
	MaxMessages int
	MaxBytes    int
	MaxAge      time.Duration
	// LargeAge is the minimum interval between builds of the answer of an account with thousands of rows;
	// default 10 s.
	LargeAge time.Duration
	// Workers is the number of goroutines that decode and render; default GOMAXPROCS.
	Workers int
	// BreakFor is how long inserts pause after ClickHouse failed BreakAfter times in a row; defaults 2 s and
	// 5.
	BreakFor   time.Duration
	BreakAfter uint32
	// RetryMin and RetryMax bound the backoff between attempts of a batch; defaults 100 ms and 10 s.
	RetryMin, RetryMax time.Duration
	// AwayAfter is how long a consumer may be outside its group before Check returns an error; default one
	// minute or three session timeouts of the group, whichever is longer.
	AwayAfter time.Duration
	// Timing of the consumer group; zero fields take the bus's defaults.
	Timing bus.GroupTiming
}

// Deps are the dependencies of a Projector. Conn must pin the insert settings as platform/clickhouse.Open
// does.
type Deps struct {
	Conn       driver.Conn           // required
	Suppressed *suppress.Set         // people who are not stored; nil: none
	Platforms  *identity.Platforms   // default identity.Default()
	Logger     *slog.Logger          // required
	Registerer prometheus.Registerer // nil: no metrics
	Tracer     trace.TracerProvider  // default: no traces
	Now        func() time.Time      // default time.Now
}

// Projector writes the read models. Create it with New and start it with Run.
type Projector struct {
	cfg       Config
	deps      Deps
	metrics   *metrics
	tracer    trace.Tracer
	consumer  *bus.BatchConsumer
	breaker   *breaker.Set
	writer    *bus.Writer // nil in a replay, which does not publish rejections again
	tables    readmodel.Names
	progress  *replayProgress    // nil but in a replay
	usage     *bus.BatchConsumer // nil in a replay
	webhooks  *bus.BatchConsumer // nil in a replay
	discovery *bus.BatchConsumer // nil in a replay
	contexts  *bus.BatchConsumer // nil in a replay
	answers   *bus.BatchConsumer // nil in a replay
	large     *bus.BatchConsumer // nil in a replay
	touched   touched            // accounts whose rows the current batch changed
	restored  atomic.Bool        // some accounts had no answers at the start
	workers   []*worker
	erased    []erasedRecord         // of the current batch
	kinds     map[string]record.Kind // by topic
}

// kindVersionBump is the record kind under which messages of event.TopicVersionBump are counted and rejected.
const kindVersionBump record.Kind = "seen"

// breakerKey is the only key of the projector's breaker.
const breakerKey = "clickhouse"

// New returns a Projector. It validates the configuration and does not connect.
func New(cfg Config, deps Deps) (*Projector, error) {
	p, err := newProjector(cfg, deps, Topics(), nil)
	if err != nil {
		return nil, err
	}
	if p.usage, err = p.newUsageConsumer(); err != nil {
		return nil, fmt.Errorf("projector: usage: %w", err)
	}
	if p.webhooks, err = p.newWebhookConsumer(); err != nil {
		return nil, fmt.Errorf("projector: webhooks: %w", err)
	}
	if p.discovery, err = p.newDiscoveryConsumer(); err != nil {
		return nil, fmt.Errorf("projector: discovery: %w", err)
	}
	if p.contexts, err = p.newContextConsumer(); err != nil {
		return nil, fmt.Errorf("projector: contexts: %w", err)
	}
	if p.answers, err = p.newAnswersConsumer(false); err != nil {
		return nil, fmt.Errorf("projector: answers: %w", err)
	}
	if p.large, err = p.newAnswersConsumer(true); err != nil {
		return nil, fmt.Errorf("projector: large answers: %w", err)
	}
	p.writer = bus.NewWriter(cfg.Kafka, bus.WithWriterLogger(deps.Logger), withFixedPartition)
	return p, nil
}

// newProjector returns a projector of the given topics that writes to tables and publishes nothing.
func newProjector(cfg Config, deps Deps, topics []string, tables readmodel.Names) (*Projector, error) {
	if deps.Conn == nil {
		return nil, errors.New("projector: no connection to ClickHouse")
	}
	if deps.Logger == nil {
		return nil, errors.New("projector: no logger")
	}
	if cfg.MaxMessages < 0 || cfg.MaxBytes < 0 || cfg.MaxAge < 0 || cfg.LargeAge < 0 || cfg.Workers < 0 ||
		cfg.BreakFor < 0 {
		return nil, errors.New("projector: negative limit")
	}
	setDefault(&cfg.Group, Group)
	setDefault(&cfg.UsageGroup, UsageGroup)
	setDefault(&cfg.MaxMessages, 20_000)
	setDefault(&cfg.MaxBytes, 8<<20)
	setDefault(&cfg.MaxAge, 400*time.Millisecond)
	setDefault(&cfg.LargeAge, 10*time.Second)
	setDefault(&cfg.Workers, runtime.GOMAXPROCS(0))
	setDefault(&cfg.BreakFor, 2*time.Second)
	setDefault(&cfg.BreakAfter, 5)
	setDefault(&cfg.AwayAfter, max(time.Minute, 3*cfg.Kafka.Session))
	if deps.Platforms == nil {
		deps.Platforms = identity.Default()
	}
	if deps.Tracer == nil {
		deps.Tracer = noop.NewTracerProvider()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	p := &Projector{cfg: cfg, deps: deps, metrics: m, tracer: deps.Tracer.Tracer("muster/projector"), tables: tables,
		kinds: make(map[string]record.Kind)}
	for _, d := range record.Definitions() {
		p.kinds[d.Topic] = d.Kind
	}
	p.kinds[event.TopicVersionBump] = kindVersionBump
	for range cfg.Workers {
		p.workers = append(p.workers, newWorker(deps.Platforms, deps.Suppressed))
	}
	p.breaker, err = breaker.NewSet(breaker.Config{
		Name: "projector", Failures: cfg.BreakAfter, OpenFor: cfg.BreakFor, KeyMetrics: true,
		// Rejected data means that ClickHouse works.
		IsFailure: func(err error) bool { return !isDataError(err) },
		Logger:    deps.Logger, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	p.consumer, err = bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: cfg.Kafka, Group: cfg.Group, Topics: topics,
		MaxMessages: cfg.MaxMessages, MaxBytes: cfg.MaxBytes, MaxAge: cfg.MaxAge,
		Handle: p.handle, Done: p.recordProgress, RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax,
		Timing: cfg.Timing, Logger: deps.Logger, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	return p, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Run projects until ctx ends. It returns nil after the current batch is finished or given up. Outages of
// Kafka and ClickHouse are retried; an error means an invalid configuration. Run must be called once.
func (p *Projector) Run(ctx context.Context) (err error) {
	defer func() {
		if p.writer == nil {
			return
		}
		if closeErr := p.writer.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("projector: close writer: %w", closeErr))
		}
	}()
	if err := p.deps.Suppressed.WaitLoaded(ctx); err != nil {
		return nil // Canceled before the start.
	}
	if p.writer != nil {
		missing, err := answersMissing(ctx, p.deps.Conn, false)
		p.restored.Store(err != nil || missing)
	}
	if err := p.runAll(ctx); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}

// answersMissing reports whether the table of answers is incomplete, as after an upgrade or in a restored
// backup. Without few it reports whether there are accounts but no answer; with few, whether more than a
// tenth of the accounts have none.
func answersMissing(ctx context.Context, conn driver.Conn, few bool) (missing bool, err error) {
	query := "SELECT (SELECT count() FROM codehost_people) > 0 AND (SELECT count() FROM " + readmodel.AnswersTable +
		") = 0"
	if few {
		query = "SELECT (SELECT uniqExact(user_id) FROM codehost_people) * 0.9 > (SELECT uniqExact(user_id) FROM " +
			readmodel.AnswersTable + ")"
	}
	if err := conn.QueryRow(ctx, query).Scan(&missing); err != nil {
		return false, fmt.Errorf("count answers: %w", err)
	}
	return missing, nil
}

// Check reports readiness: it returns an error if ClickHouse does not respond, inserts are paused, a consumer
// has been outside its group for too long, or answers are missing.
func (p *Projector) Check(ctx context.Context) error {
	if p.breaker.State(breakerKey) == "open" {
		return errors.New("projector: paused, ClickHouse has failed repeatedly")
	}
	names, consumers := p.projections()
	for i, c := range consumers {
		if away := c.NotInGroupFor(); away > p.cfg.AwayAfter {
			return fmt.Errorf("projector: consumer of %s has been outside its consumer group for %s; see the log",
				names[i], away.Round(time.Second))
		}
	}
	if err := p.deps.Conn.Ping(ctx); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	if !p.restored.Load() {
		return nil
	}
	missing, err := answersMissing(ctx, p.deps.Conn, true)
	if err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	if missing {
		return errors.New("projector: answers of accounts are missing; run muster replay answers")
	}
	p.restored.Store(false)
	return nil
}

// projections returns the consumers and the names of what they project. A replay projects records only.
func (p *Projector) projections() (names []string, consumers []*bus.BatchConsumer) {
	if p.usage == nil {
		return []string{"records"}, []*bus.BatchConsumer{p.consumer}
	}
	return []string{"records", "usage", "webhooks", "discovery", "contexts", "answers", "large answers"},
		[]*bus.BatchConsumer{p.consumer, p.usage, p.webhooks, p.discovery, p.contexts, p.answers, p.large}
}

// runAll runs all consumers and the watch for outdated answers. If one ends, it stops the others.
func (p *Projector) runAll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	names, consumers := p.projections()
	ended := make([]error, len(consumers))
	var running sync.WaitGroup
	if p.writer != nil {
		running.Go(func() { p.watchAnswers(ctx) })
	}
	for i, c := range consumers {
		running.Go(func() {
			defer stop()
			if err := c.Run(ctx); err != nil {
				ended[i] = fmt.Errorf("projection of %s: %w", names[i], err)
			}
		})
	}
	running.Wait()
	return errors.Join(ended...)
}
