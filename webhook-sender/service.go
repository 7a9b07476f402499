package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
	"muster/webhook-sender/internal/delivery"
	"muster/webhook-sender/internal/post"
)

// Group is the consumer group of the webhook-sender.
const Group = "muster.webhook-sender.tasks"

// Topics returns the topics that this service consumes.
func Topics() []string {
	return []string{event.TopicWebhookTask}
}

// DeadLetterTopic returns the dead-letter topic of deliveries.
func DeadLetterTopic() event.Topic { return event.DeadLetterTopic(serviceName, handlerName) }

const (
	serviceName = "webhook-sender"
	handlerName = "deliver"
)

// Config configures a [Service]. Zero fields, except Bus and Key, mean their defaults.
type Config struct {
	// Bus is the Kafka configuration.
	Bus bus.Config
	// Key is derived from the root secret under the name event.WebhookKeyName.
	Key []byte
	// Allow lists non-public address ranges that may be called, also over plain HTTP. For
	// development.
	Allow []netip.Prefix
	// Timeout limits one call. Default 15 s.
	Timeout time.Duration
	// PerEndpoint limits the concurrent calls to one endpoint (default 8), PerPartition those of
	// one partition (default 256).
	PerEndpoint, PerPartition int
	// The breaker of an endpoint opens for BreakerOpen (default 30 s) after BreakerFailures
	// (default 5) consecutive failures.
	BreakerFailures uint32
	BreakerOpen     time.Duration
	// Timing configures the consumer group. Zero fields mean the defaults of package bus.
	Timing bus.GroupTiming
}

// Validate returns an error if a required field is missing or a limit is negative.
func (c Config) Validate() error {
	switch {
	case len(c.Bus.Brokers) == 0:
		return errors.New("webhook-sender: no Kafka brokers configured")
	case len(c.Key) != event.WebhookKeySize:
		return errors.New("webhook-sender: missing key of webhook secrets")
	case c.Timeout < 0 || c.PerEndpoint < 0 || c.PerPartition < 0 || c.BreakerOpen < 0:
		return errors.New("webhook-sender: negative limit: Timeout, PerEndpoint, PerPartition and BreakerOpen must " +
			"not be negative")
	}
	return nil
}

// Deps holds the optional dependencies of a [Service].
type Deps struct {
	// Suppressed is the suppression list. Deliveries about a suppressed person are dead-lettered.
	// Nil means that no person is suppressed.
	Suppressed *suppress.Set
	Logger     *slog.Logger
	// Registerer registers the metrics. Nil disables them.
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Service delivers webhooks. Create it with New and call Run once.
type Service struct {
	cfg       Config
	erased    *suppress.Set
	platforms *identity.Platforms
	logger    *slog.Logger
	now       func() time.Time
	metrics   *metrics
	client    *post.Client
	breakers  *breaker.Set
	secrets   *secretCache
	consumer  *bus.PartitionConsumer
	events    *bus.Writer
	states    *bus.Writer
}

// New returns a service. It does not connect.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if cfg.Timing.Drain == 0 {
		cfg.Timing.Drain = defaultDrainTimeout
	}
	s := &Service{cfg: cfg, erased: deps.Suppressed, platforms: identity.Default(), logger: deps.Logger, now: deps.Now}
	var err error
	if s.metrics, err = newMetrics(deps.Registerer); err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	if s.breakers, err = breaker.NewSet(breaker.Config{
		Name: "webhook", Failures: cfg.BreakerFailures, OpenFor: cfg.BreakerOpen, Logger: deps.Logger,
		Registerer: deps.Registerer,
	}); err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	sealer, err := event.NewWebhookSealer(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	s.secrets = newSecretCache(sealer, deps.Logger)
	s.client = post.New(post.Config{
		Timeout: cfg.Timeout, Allow: cfg.Allow, UserAgent: "muster-webhooks/1", Now: deps.Now,
	})
	if s.consumer, err = bus.NewPartitionConsumer(bus.PartitionConsumerConfig{
		Config: cfg.Bus, Group: Group, Topic: event.TopicWebhookTask, Own: s.runPartition, Timing: cfg.Timing,
		Logger: deps.Logger,
	}); err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	s.events = bus.NewWriter(cfg.Bus, bus.WithWriterLogger(deps.Logger), withBatching())
	// A state record belongs to the partition of its task, which its key does not determine.
	s.states = bus.NewWriter(cfg.Bus, bus.WithWriterLogger(deps.Logger), withBatching(), bus.WithFixedPartition)
	return s, nil
}

// withBatching sizes the writer's batches for those of the worker, which batches itself.
func withBatching() bus.WriterOption { return bus.WithBatch(maxBatchMessages/3, 2*time.Millisecond) }

// defaultDrainTimeout is how long calls may continue after a partition is revoked. It is well below
// the rebalance timeout.
const defaultDrainTimeout = 4 * time.Second

// Run delivers tasks until ctx ends. It returns nil once every call has ended or was canceled. It
// waits for unavailable brokers; an error means an invalid configuration.
func (s *Service) Run(ctx context.Context) (err error) {
	defer func() {
		s.client.Close()
		err = errors.Join(err, s.events.Close(), s.states.Close())
	}()
	if err := s.ensureDeadLetterTopic(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	follower := s.secrets.follow(ctx, s.cfg.Bus, s.logger)
	defer func() { err = errors.Join(err, follower.Close()) }()
	if err := follower.WaitReady(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("webhook-sender: read webhook secrets: %w", err)
	}
	if err := s.consumer.Run(ctx); err != nil {
		return fmt.Errorf("webhook-sender: %w", err)
	}
	return nil
}

func (s *Service) ensureDeadLetterTopic(ctx context.Context) error {
	t := DeadLetterTopic()
	err := bus.EnsureTopics(ctx, s.cfg.Bus, []bus.Topic{{Name: t.Name, Partitions: t.Partitions, Config: t.Config()}})
	var mismatch *bus.MismatchError
	if err != nil && !errors.As(err, &mismatch) {
		return fmt.Errorf("webhook-sender: create dead-letter topic: %w", err)
	}
	return nil
}

// Ready returns nil if the brokers respond and the service's topics exist.
func (s *Service) Ready(ctx context.Context) error {
	lag, err := bus.Lag(ctx, s.cfg.Bus, Group, Topics())
	if err != nil {
		return fmt.Errorf("webhook-sender: %w", err)
	}
	if len(lag) == 0 {
		return fmt.Errorf("webhook-sender: topic %s does not exist yet", event.TopicWebhookTask)
	}
	return nil
}

// newScheduler returns an empty scheduler for a partition.
func (s *Service) newScheduler(partition int) *delivery.Scheduler {
	return delivery.New(delivery.Config{
		Partition: partition, MaxPerEndpoint: s.cfg.PerEndpoint, MaxRunning: s.cfg.PerPartition,
		OpenFor: s.cfg.BreakerOpen, Random: rand.Float64,
	})
}
