package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"muster/platform/bus"
	"muster/platform/opensearch"
	"muster/projector/answers"
	"muster/projector/internal/rejected"
	"muster/projector/linked"
	"muster/projector/project"
	"muster/projector/recount"
	"muster/projector/searchsink"
)

// Consumer groups of the projector.
const (
	Group             = project.Group
	UsageGroup        = project.UsageGroup
	WebhookGroup      = project.WebhookGroup
	DiscoveryGroup    = project.DiscoveryGroup
	ContextGroup      = project.ContextGroup
	FeedbackGroup     = project.FeedbackGroup
	SearchGroup       = searchsink.Group
	AnswersGroup      = answers.Group
	LargeAnswersGroup = answers.LargeGroup
	LinkedGroup       = linked.Group
)

// Topics returns the topics that Group consumes.
func Topics() []string { return project.Topics() }

const (
	// defaultLargeAge allows the build of an account with 100,000 rows, which takes seconds, once in its own time.
	defaultLargeAge = 10 * time.Second
	// minOutsideGroup is longer than a rebalance, during which a consumer is outside its group.
	minOutsideGroup = time.Minute
)

// Config configures a Projector. Only Kafka is required.
type Config struct {
	project.Config
	// LargeAge is the minimum interval between builds of the answer of an account with thousands of rows;
	// default 10 s.
	LargeAge time.Duration
	// MaxOutsideGroup is how long a consumer may be outside its group before Check returns an error; default one
	// minute or three session timeouts of the group, whichever is longer.
	MaxOutsideGroup time.Duration
	// Search is the search index in OpenSearch that is maintained; nil: none.
	Search *SearchIndex
}

// SearchIndex is a search index in OpenSearch.
type SearchIndex struct {
	Client *opensearch.Client
	Key    []byte // of document IDs: searchindex.KeyName, searchindex.KeySize
}

// Projector writes the read models. Create it with New and start it with Run.
type Projector struct {
	cfg         Config
	deps        project.Deps
	records     *project.Records
	projections []project.Projection // all consumers
	answers     answers.Config
	answersDeps answers.Deps
	linked      linked.Config
	linkedDeps  linked.Deps
	sink        *searchsink.Sink // nil without a search index
	writer      *bus.Writer
	restored    atomic.Bool // some accounts had no answers at the start
}

// New returns a Projector. It validates the configuration and does not connect.
func New(cfg Config, deps project.Deps) (*Projector, error) {
	p, err := newProjector(cfg, deps)
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	return p, nil
}

func newProjector(cfg Config, deps project.Deps) (_ *Projector, err error) {
	if cfg.LargeAge < 0 {
		return nil, errors.New("negative limit")
	}
	if cfg.Config, deps, err = project.WithDefaults(cfg.Config, deps); err != nil {
		return nil, err
	}
	cfg.TouchDocuments = cfg.TouchDocuments || cfg.Search != nil
	cfg.LargeAge = cmp.Or(cfg.LargeAge, defaultLargeAge)
	cfg.MaxOutsideGroup = cmp.Or(cfg.MaxOutsideGroup, max(minOutsideGroup, 3*cfg.Kafka.Session))
	p := &Projector{cfg: cfg, deps: deps}
	p.writer = bus.NewWriter(cfg.Kafka, bus.WithWriterLogger(deps.Logger), bus.WithFixedPartition)
	rejects, err := rejected.NewPublisher(p.writer, deps.Logger, deps.Now, deps.Registerer)
	if err != nil {
		return nil, err
	}
	if p.records, err = project.NewRecords(cfg.Config, deps, p.writer, rejects); err != nil {
		return nil, err
	}
	events, err := project.NewEvents(cfg.Config, deps, p.writer, rejects)
	if err != nil {
		return nil, err
	}
	p.answers = answers.Config{
		Consumer: project.Consumer(cfg.Config, deps), Group: answers.Group, LargeGroup: answers.LargeGroup,
		LargeAge: cfg.LargeAge,
	}
	if cfg.Group != Group { // It writes to its own database.
		p.answers.Group, p.answers.LargeGroup = cfg.Group+".answers", cfg.Group+".large-answers"
	}
	p.answersDeps = answers.Deps{
		Conn: deps.Conn, Suppressed: deps.Suppressed, Writer: p.writer, Rejected: rejects, Logger: deps.Logger,
		Tracer: project.Tracer(deps), Now: deps.Now,
	}
	p.linked = linked.Config{
		Consumer: p.answers.Consumer, Group: linked.Group, TouchDocuments: cfg.Search != nil,
	}
	if cfg.Group != Group {
		p.linked.Group = cfg.Group + ".linked-accounts"
	}
	p.linkedDeps = linked.Deps{
		Refresher: linked.Refresher{Conn: deps.Conn, Suppressed: deps.Suppressed, Now: deps.Now},
		Writer:    p.writer, Logger: deps.Logger, Tracer: project.Tracer(deps),
	}
	refreshed, err := linked.NewConsumer(p.linked, p.linkedDeps)
	if err != nil {
		return nil, fmt.Errorf("linked accounts: %w", err)
	}
	built, err := answers.NewConsumer(p.answers, p.answersDeps)
	if err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	large, err := answers.NewLargeConsumer(p.answers, p.answersDeps)
	if err != nil {
		return nil, fmt.Errorf("large answers: %w", err)
	}
	p.projections = append([]project.Projection{{Name: "records", BatchConsumer: p.records.BatchConsumer}}, events...)
	p.projections = append(p.projections, project.Projection{Name: "answers", BatchConsumer: built},
		project.Projection{Name: "large answers", BatchConsumer: large},
		project.Projection{Name: "linked accounts", BatchConsumer: refreshed})
	if cfg.Search != nil {
		if err := p.addSink(rejects); err != nil {
			return nil, fmt.Errorf("search: %w", err)
		}
	}
	return p, nil
}

// addSink adds the consumer that maintains the search index.
func (p *Projector) addSink(rejects *rejected.Publisher) (err error) {
	cfg := searchsink.Config{
		Consumer: project.Consumer(p.cfg.Config, p.deps), Group: searchsink.Group,
		BreakFor: p.cfg.BreakFor, BreakAfter: p.cfg.BreakAfter,
	}
	if p.cfg.Group != Group {
		cfg.Group = p.cfg.Group + ".search"
	}
	p.sink, err = searchsink.New(cfg, searchsink.Deps{
		Client: p.cfg.Search.Client, Key: p.cfg.Search.Key, Conn: p.deps.Conn, Suppressed: p.deps.Suppressed,
		Rejected: rejects, Logger: p.deps.Logger, Registerer: p.deps.Registerer, Tracer: project.Tracer(p.deps),
		Now: p.deps.Now,
	})
	return err
}

// Run projects until ctx ends. It returns nil after the current batch is finished or given up. Outages of
// Kafka and ClickHouse are retried; an error means an invalid configuration. Run must be called once.
func (p *Projector) Run(ctx context.Context) (err error) {
	defer func() {
		if closeErr := p.writer.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("projector: close writer: %w", closeErr))
		}
	}()
	if err := p.deps.Suppressed.WaitLoaded(ctx); err != nil {
		return nil // Canceled before the start.
	}
	none, err := answers.HasNone(ctx, p.deps.Conn)
	p.restored.Store(err != nil || none)
	if err := p.runAll(ctx); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}

// runAll runs all consumers and the watch for outdated answers. If one ends, it stops the others.
func (p *Projector) runAll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make([]error, len(p.projections))
	var sinkEnded error
	var running sync.WaitGroup
	running.Go(func() { answers.Watch(ctx, p.answers, p.answersDeps) })
	running.Go(func() { linked.Watch(ctx, p.linked, p.linkedDeps) })
	if p.cfg.Group == Group { // Others write to their own database.
		running.Go(func() { recount.Watch(ctx, p.deps.Conn, p.deps.Logger) })
	}
	if p.sink != nil {
		running.Go(func() {
			defer stop()
			if err := p.sink.Run(ctx); err != nil {
				sinkEnded = fmt.Errorf("search sink: %w", err)
			}
		})
	}
	for i, c := range p.projections {
		running.Go(func() {
			defer stop()
			if err := c.Run(ctx); err != nil {
				ended[i] = fmt.Errorf("projection of %s: %w", c.Name, err)
			}
		})
	}
	running.Wait()
	return errors.Join(append(ended, sinkEnded)...)
}

// Check reports readiness: it returns an error if ClickHouse does not respond, inserts are paused, a consumer
// has been outside its group for too long, or answers are missing.
func (p *Projector) Check(ctx context.Context) error {
	if p.records.IsPaused() {
		return errors.New("projector: paused, ClickHouse has failed repeatedly")
	}
	for _, c := range p.projections {
		if away := c.NotInGroupFor(); away > p.cfg.MaxOutsideGroup {
			return fmt.Errorf("projector: consumer of %s has been outside its consumer group for %s; see the log",
				c.Name, away.Round(time.Second))
		}
	}
	if p.sink != nil {
		if away := p.sink.NotInGroupFor(); away > p.cfg.MaxOutsideGroup {
			return fmt.Errorf("projector: consumer of the search index has been outside its consumer group for %s; see the log",
				away.Round(time.Second))
		}
	}
	if err := p.deps.Conn.Ping(ctx); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	if !p.restored.Load() {
		return nil
	}
	missing, err := answers.IsIncomplete(ctx, p.deps.Conn)
	if err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	if missing {
		return errors.New("projector: answers of accounts are missing; run muster replay answers")
	}
	p.restored.Store(false)
	return nil
}
