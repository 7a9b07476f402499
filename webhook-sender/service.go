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
	"github.com/segmentio/kafka-go"

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

// Topics returns the topics of the tasks that are meant for this service.
func Topics() []string {
	return []string{event.TopicWebhookTask}
}

// DeadTopic is where deliveries go that were given up.
func DeadTopic() event.Topic { return event.DeadTopic(serviceName, handlerName) }

const (
	serviceName = "webhook-sender"
	handlerName = "deliver"
)

// Config configures a [Service]. The zero value of each field but Bus and Key means
// its default.
type Config struct {
	// Bus says how to reach Kafka.
	Bus bus.Config
	// Key is what event.WebhookKeyName derives from the root secret.
	Key []byte
	// Allow are addresses that are called although they are not public, and by plain
	// http too: for development.
	Allow []netip.Prefix
	// Timeout bounds one call; default 15 s.
	Timeout time.Duration
	// PerEndpoint bounds the calls to one endpoint at a time, PerPartition all of one
	// partition; defaults 8 and 256.
	PerEndpoint, PerPartition int
	// An endpoint's breaker opens after BreakerFailures failed calls in a row, for
	// BreakerOpen; defaults 5 and 30 s.
	BreakerFailures uint32
	BreakerOpen     time.Duration
	// Timing of the consumer group; zero fields take the bus's defaults.
	Timing bus.GroupTiming
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	switch {
	case len(c.Bus.Brokers) == 0:
		return errors.New("webhook-sender: no Kafka brokers are configured")
	case len(c.Key) != event.WebhookKeySize:
		return errors.New("webhook-sender: the key of the webhook secrets is missing")
	case c.Timeout < 0 || c.PerEndpoint < 0 || c.PerPartition < 0 || c.BreakerOpen < 0:
		return errors.New("webhook-sender: a limit is negative")
	}
	return nil
}

// Deps are what a [Service] uses of its surroundings. Every field may be left
// out.
type Deps struct {
	// Suppressed says who was erased; nil: nobody. A delivery that tells of them is
	// given up.
	Suppressed *suppress.Set
	Logger     *slog.Logger
	// Registerer receives the metrics; without it there are none.
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Service delivers webhooks. Make it with New, start it with Run, once.
type Service struct {
	cfg       Config
	erased    *suppress.Set
	platforms *identity.Platforms
	logger    *slog.Logger
	now       func() time.Time
	metrics   *metrics
	client    *post.Client
	breakers  *breaker.Set
	secrets   *secrets
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
		cfg.Timing.Drain = defaultDrain
	}
	s := &Service{cfg: cfg, erased: deps.Suppressed, platforms: identity.Default(), logger: deps.Logger, now: deps.Now}
	var err error
	if s.metrics, err = newMetrics(deps.Registerer); err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	if s.breakers, err = breaker.NewSet(breaker.Config{
		Name: "webhook", Failures: cfg.BreakerFailures, OpenFor: cfg.BreakerOpen, Logger: deps.Logger, Registerer: deps.Registerer,
	}); err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	sealer, err := event.NewWebhookSealer(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	s.secrets = newSecrets(sealer, deps.Logger)
	s.client = post.New(post.Config{
		Timeout: cfg.Timeout, Allow: cfg.Allow, UserAgent: "muster-webhooks/1", Now: deps.Now,
	})
	if s.consumer, err = bus.NewPartitionConsumer(bus.PartitionConsumerConfig{
		Config: cfg.Bus, Group: Group, Topic: event.TopicWebhookTask, Own: s.own, Timing: cfg.Timing, Logger: deps.Logger,
	}); err != nil {
		return nil, fmt.Errorf("webhook-sender: %w", err)
	}
	s.events = bus.NewWriter(cfg.Bus, bus.WithWriterLogger(deps.Logger), gathering())
	// A state belongs to the partition of its task, which its key alone does not say.
	s.states = bus.NewWriter(cfg.Bus, bus.WithWriterLogger(deps.Logger), gathering(), func(w *kafka.Writer) { w.Balancer = sameNumber{} })
	return s, nil
}

// gathering has a writer's batches as large as the owner makes them: it gathers itself.
func gathering() bus.WriterOption { return bus.WithBatch(gatherMost/3, 2*time.Millisecond) }

// defaultDrain is how long calls may go on when partitions are given away: well
// below the time that a rebalance waits.
const defaultDrain = 4 * time.Second

// sameNumber puts a message where its WriterData says.
type sameNumber struct{}

// Balance implements kafka.Balancer.
func (sameNumber) Balance(m kafka.Message, _ ...int) int {
	n, _ := m.WriterData.(int)
	return n
}

// Run delivers until ctx ends and returns nil once every call has ended or was
// broken off. Brokers that do not answer are waited for; an error means a
// configuration that cannot work.
func (s *Service) Run(ctx context.Context) (err error) {
	defer func() {
		s.client.Close()
		err = errors.Join(err, s.events.Close(), s.states.Close())
	}()
	if err := s.ensureDeadTopic(ctx); err != nil {
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
		return fmt.Errorf("webhook-sender: read the webhook secrets: %w", err)
	}
	if err := s.consumer.Run(ctx); err != nil {
		return fmt.Errorf("webhook-sender: %w", err)
	}
	return nil
}

func (s *Service) ensureDeadTopic(ctx context.Context) error {
	t := DeadTopic()
	err := bus.EnsureTopics(ctx, s.cfg.Bus, []bus.Topic{{Name: t.Name, Partitions: t.Partitions, Config: t.Config()}})
	var mismatch *bus.MismatchError
	if err != nil && !errors.As(err, &mismatch) {
		return fmt.Errorf("webhook-sender: make the topic of dead letters: %w", err)
	}
	return nil
}

// Ready is nil when the brokers answer and know the service's topics.
func (s *Service) Ready(ctx context.Context) error {
	lag, err := bus.Lag(ctx, s.cfg.Bus, Group, Topics())
	if err != nil {
		return fmt.Errorf("webhook-sender: %w", err)
	}
	if len(lag) == 0 {
		return fmt.Errorf("webhook-sender: the topic %s does not exist yet", event.TopicWebhookTask)
	}
	return nil
}

// newMachine returns the state of a partition, empty.
func (s *Service) newMachine(partition int) *delivery.Machine {
	return delivery.New(delivery.Config{
		Partition: partition, PerEndpoint: s.cfg.PerEndpoint, Running: s.cfg.PerPartition, OpenFor: s.cfg.BreakerOpen, Random: rand.Float64,
	})
}
