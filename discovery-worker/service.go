package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"muster/discovery-worker/internal/background"
	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/profile"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// Group is the consumer group of the discovery-worker.
const Group = "muster.discovery-worker.tasks"

// Topics returns the topics that this service consumes.
func Topics() []string {
	return []string{event.TopicDiscoveryTask, event.TopicContextTask}
}

// handlerName is the name of the discovery task handler, in Watermill and in dead letters.
const handlerName = "discovery"

// Config configures a [Service]. Zero fields, except Bus, mean their defaults.
type Config struct {
	// Bus is the Kafka configuration.
	Bus bus.Config
	// MaxInFlight limits the concurrent tasks of one partition. Default 8.
	MaxInFlight int
	// MaxQueries limits the concurrent read-model queries, and is the number of connections that
	// the ClickHouse pool needs. Default: number of processors, at least 2.
	MaxQueries int
	// QueryTimeout limits one query. Default 5 s.
	QueryTimeout time.Duration
	// Margin is the part of a task's time that is reserved for the answer to arrive. Default 500
	// ms.
	Margin time.Duration
	// Providers are the data sources in addition to the read models.
	Providers Providers
	// Timing configures the consumer group. Zero fields mean the defaults of package bus.
	Timing bus.GroupTiming
}

// Validate returns an error if a required field is missing or a limit is negative.
func (c Config) Validate() error {
	if len(c.Bus.Brokers) == 0 {
		return errors.New("discovery-worker: no Kafka brokers configured")
	}
	if c.MaxInFlight < 0 || c.MaxQueries < 0 || c.QueryTimeout < 0 || c.Margin < 0 {
		return errors.New("discovery-worker: max_in_flight, max_queries, query_timeout and margin must not be negative")
	}
	return nil
}

// Deps holds the dependencies of a [Service]. Only ClickHouse is required.
type Deps struct {
	// ClickHouse holds the read models. The service does not close it.
	ClickHouse driver.Conn
	// Suppressed is the suppression list: its people are not found, and as input have no other
	// profiles. Nil means that no person is suppressed.
	Suppressed *suppress.Set
	// Platforms maps profile URLs to accounts. Default identity.Default().
	Platforms *identity.Platforms
	Logger    *slog.Logger
	// Registerer registers the metrics. Nil disables them.
	Registerer prometheus.Registerer
	// Now defaults to time.Now.
	Now func() time.Time
}

// Service handles discovery and context tasks.
type Service struct {
	cfg        Config
	deps       Deps
	finder     *finder.Finder
	profiles   *profile.Builder
	reader     *people.Reader
	inFlight   singleflight.Group
	background background.Group // calls that outlive their tasks
	metrics    *metrics
}

// New returns a service. It does not connect.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.ClickHouse == nil {
		return nil, errors.New("discovery-worker: no ClickHouse connection")
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = 8
	}
	if cfg.Margin == 0 {
		cfg.Margin = 500 * time.Millisecond
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Platforms == nil {
		deps.Platforms = identity.Default()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	scores, err := evidence.Default()
	if err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps}
	if s.metrics, err = newMetrics(deps.Registerer); err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	s.reader = people.NewReader(deps.ClickHouse, deps.Platforms, people.Config{
		MaxQueries: cfg.MaxQueries, QueryTimeout: cfg.QueryTimeout, Suppressed: deps.Suppressed,
	})
	languageModel, err := cfg.Providers.model(deps.Logger, deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	finderProviders, err := cfg.Providers.finderProviders(deps.Platforms, deps.Logger, deps.Registerer, deps.Now,
		languageModel, &s.background)
	if err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	descriptions, err := evidence.Descriptions()
	if err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	s.finder = finder.New(s.reader, scores, deps.Logger, deps.Now).WithDescriptions(descriptions).
		WithPrior(cfg.Providers.Prior).WithProviders(finderProviders)
	if s.profiles, err = newProfileBuilder(languageModel, deps, s.reader, s.finder); err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	return s, nil
}

// Run handles tasks until ctx ends. In-flight tasks are finished first, or returned. It must be
// called once.
func (s *Service) Run(ctx context.Context) (err error) {
	defer s.reader.Close()
	defer s.background.Stop()
	publisher, err := bus.NewPublisher(bus.PublisherConfig{Config: s.cfg.Bus, Linger: time.Millisecond,
		Logger: s.deps.Logger})
	if err != nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	defer func() { err = errors.Join(err, publisher.Close()) }()
	subscriber, err := bus.NewSubscriber(bus.SubscriberConfig{
		Config: s.cfg.Bus, Group: Group, MaxInFlight: s.cfg.MaxInFlight, Timing: s.cfg.Timing, Logger: s.deps.Logger,
	})
	if err != nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second},
		bus.RouterLogger(ctx, s.deps.Logger))
	if err != nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	dead := event.DeadLetterTopic(serviceName, handlerName)
	deadContexts := event.DeadLetterTopic(serviceName, contextHandler)
	err = bus.EnsureTopics(ctx, s.cfg.Bus, []bus.Topic{
		{Name: dead.Name, Partitions: dead.Partitions, Config: dead.Config()},
		{Name: deadContexts.Name, Partitions: deadContexts.Partitions, Config: deadContexts.Config()},
	})
	if mismatch := (*bus.MismatchError)(nil); err != nil && !errors.As(err, &mismatch) {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("discovery-worker: %w", err)
	}
	//nolint:contextcheck // a message has its own context
	router.AddHandler(handlerName, event.TopicDiscoveryTask, subscriber, event.TopicDiscovery,
		nonClosingPublisher{publisher}, s.handleDiscovery).
		AddMiddleware(deadLetters(publisher, dead.Name, handlerName, s.deps.Now), middleware.Recoverer)
	if err := s.addContextHandler(router, publisher); err != nil { //nolint:contextcheck // a message has its own
		return fmt.Errorf("discovery-worker: %w", err)
	}
	if err := router.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	return nil
}

// nonClosingPublisher keeps a router from closing the publisher with the first idle handler, while
// the other one may still be working.
type nonClosingPublisher struct{ message.Publisher }

// Close implements message.Publisher.
func (nonClosingPublisher) Close() error { return nil }

// Ready returns nil if the topics exist and the read models respond.
func (s *Service) Ready(ctx context.Context) error {
	if _, err := bus.EndOffsets(ctx, s.cfg.Bus, Topics()); err != nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	if err := s.deps.ClickHouse.Ping(ctx); err != nil {
		return fmt.Errorf("discovery-worker: ClickHouse is unavailable: %w", err)
	}
	return nil
}
