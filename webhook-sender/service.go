package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muster/platform/bus"
	"muster/schemas/event"
)

// Group is the consumer group of the webhook-sender. Offsets are committed in it once
// tasks are handled.
const Group = "muster.webhook-sender.tasks"

// Topics returns the topics of the tasks that are meant for this service.
func Topics() []string {
	return []string{event.TopicWebhookTask}
}

// Config configures a [Service]. The zero value of each field but Bus means its
// default.
type Config struct {
	// Bus says how to reach Kafka.
	Bus bus.Config `koanf:"-"`
	// PollInterval is how often the topics are looked at; the default is 10 s.
	PollInterval time.Duration `koanf:"poll_interval"`
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if len(c.Bus.Brokers) == 0 {
		return errors.New("webhook-sender: no Kafka brokers are configured")
	}
	if c.PollInterval < 0 {
		return errors.New("webhook-sender: poll_interval must not be negative")
	}
	return nil
}

// Deps are what a [Service] uses of its surroundings. Every field may be left
// out.
type Deps struct {
	Logger *slog.Logger
	// Registerer receives the metrics; without it there are none.
	Registerer prometheus.Registerer
}

// Service watches its topics of tasks.
type Service struct {
	cfg     Config
	logger  *slog.Logger
	waiting *prometheus.GaugeVec
}

// New returns a service. It does not connect.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.PollInterval == 0 {
		cfg.PollInterval = 10 * time.Second
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{cfg: cfg, logger: deps.Logger, waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "muster_webhook_tasks_waiting",
		Help: "Tasks on a topic that this release leaves there, because it handles no kind of task.",
	}, []string{"topic"})}
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(s.waiting); err != nil {
			return nil, fmt.Errorf("webhook-sender: register metrics: %w", err)
		}
	}
	return s, nil
}

// Run looks at the topics until ctx ends. Brokers that do not answer are waited
// for.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.PollInterval)
	defer ticker.Stop()
	failing, told := false, false
	for {
		waiting, err := s.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			s.logger.WarnContext(ctx, "webhook-sender cannot look at its topics", "error", err)
		case err == nil && waiting > 0 && !told:
			told = true
			s.logger.WarnContext(ctx, "tasks wait that this release does not handle; they stay on their topic", "tasks", waiting)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Ready is nil when the brokers answer and know the service's topics.
func (s *Service) Ready(ctx context.Context) error {
	_, err := s.look(ctx)
	return err
}

// look counts the tasks that wait.
func (s *Service) look(ctx context.Context) (int64, error) {
	lag, err := bus.Lag(ctx, s.cfg.Bus, Group, Topics())
	if err != nil {
		return 0, fmt.Errorf("webhook-sender: %w", err)
	}
	byTopic := make(map[string]int64)
	for _, p := range lag {
		byTopic[p.Topic] += p.Lag
	}
	total := int64(0)
	for _, topic := range Topics() {
		n, exists := byTopic[topic]
		if !exists {
			return 0, fmt.Errorf("webhook-sender: the topic %s does not exist yet", topic)
		}
		s.waiting.WithLabelValues(topic).Set(float64(n))
		total += n
	}
	return total, nil
}
