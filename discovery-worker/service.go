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

	"muster/discovery-worker/internal/detached"
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

// Topics returns the topics of the tasks that are meant for this service.
func Topics() []string {
	return []string{event.TopicDiscoveryTask, event.TopicContextTask}
}

// handlerName names the handler of discovery tasks, for Watermill and for its
// dead letters.
const handlerName = "discovery"

// Config configures a [Service]. The zero value of each field but Bus means its
// default.
type Config struct {
	// Bus says how to reach Kafka.
	Bus bus.Config
	// MaxInFlight is how many tasks of one partition are worked on at a time; the
	// default is 8.
	MaxInFlight int
	// MaxQueries bounds the read-model queries that run at once, and is how many
	// connections the ClickHouse pool needs; the default is the number of
	// processors, at least 2.
	MaxQueries int
	// QueryTimeout bounds one query; the default is 5 s.
	QueryTimeout time.Duration
	// Margin is what is kept of a task's time for its answer to arrive; the default
	// is 500 ms.
	Margin time.Duration
	// Providers are asked beside the read models.
	Providers Providers
	// Timing of the consumer group; zero fields take the bus's defaults.
	Timing bus.GroupTiming
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if len(c.Bus.Brokers) == 0 {
		return errors.New("discovery-worker: no Kafka brokers are configured")
	}
	if c.MaxInFlight < 0 || c.MaxQueries < 0 || c.QueryTimeout < 0 || c.Margin < 0 {
		return errors.New("discovery-worker: max_in_flight, max_queries, query_timeout and margin must not be negative")
	}
	return nil
}

// Deps are what a [Service] uses of its surroundings. ClickHouse is required.
type Deps struct {
	// ClickHouse has the read models. The service does not close it.
	ClickHouse driver.Conn
	// Suppressed says who was erased and is neither an input of which anything is
	// known nor a result; nil: nobody.
	Suppressed *suppress.Set
	// Platforms says which URLs belong to whom; default identity.Default().
	Platforms *identity.Platforms
	Logger    *slog.Logger
	// Registerer receives the metrics; without it there are none.
	Registerer prometheus.Registerer
	// Now defaults to time.Now.
	Now func() time.Time
}

// Service works on tasks of discovery and of context calls.
type Service struct {
	cfg      Config
	deps     Deps
	finder   *finder.Finder
	profiles *profile.Builder
	reader   *people.Reader
	working  singleflight.Group
	detached detached.Group // what goes on when its task is given back
	metrics  *metrics
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
	asked, err := cfg.Providers.model(deps.Logger, deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	outside, err := cfg.Providers.outside(deps.Platforms, deps.Logger, deps.Registerer, deps.Now, asked, &s.detached)
	if err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	s.finder = finder.New(s.reader, scores, deps.Logger, deps.Now).With(outside)
	if s.profiles, err = newProfiles(asked, deps, s.reader, s.finder); err != nil {
		return nil, fmt.Errorf("discovery-worker: %w", err)
	}
	return s, nil
}

// Run works until ctx ends; tasks in hand are finished first, or given back. It is
// called once.
func (s *Service) Run(ctx context.Context) (err error) {
	defer s.reader.Close()
	defer s.detached.End()
	publisher, err := bus.NewPublisher(bus.PublisherConfig{Config: s.cfg.Bus, Linger: time.Millisecond, Logger: s.deps.Logger})
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
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, bus.RouterLogger(s.deps.Logger))
	if err != nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	dead := event.DeadTopic(serviceName, handlerName)
	deadContexts := event.DeadTopic(serviceName, contextHandler)
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
	router.AddHandler(handlerName, event.TopicDiscoveryTask, subscriber, event.TopicDiscovery, shared{publisher}, s.handle).
		AddMiddleware(deadLetters(publisher, dead.Name, handlerName, s.deps.Now), middleware.Recoverer) //nolint:contextcheck // a message has its own
	if err := s.addContexts(router, publisher); err != nil { //nolint:contextcheck // a message has its own
		return fmt.Errorf("discovery-worker: %w", err)
	}
	if err := router.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	return nil
}

// shared is a publisher that a router does not close with the first handler that has
// nothing more to do: the other one may still be at work.
type shared struct{ message.Publisher }

// Close implements message.Publisher.
func (shared) Close() error { return nil }

// Ready is nil when the brokers know the topics and the read models answer.
func (s *Service) Ready(ctx context.Context) error {
	if _, err := bus.EndOffsets(ctx, s.cfg.Bus, Topics()); err != nil {
		return fmt.Errorf("discovery-worker: %w", err)
	}
	if err := s.deps.ClickHouse.Ping(ctx); err != nil {
		return fmt.Errorf("discovery-worker: ClickHouse does not answer: %w", err)
	}
	return nil
}
