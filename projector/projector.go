package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/platform/bus"
	"muster/schemas/identity"
	"muster/schemas/record"
)

// Group is the projector's consumer group.
const Group = "muster.projector.records"

// Topics are the topics that the projector consumes.
func Topics() []string {
	definitions := record.Definitions()
	topics := make([]string, len(definitions))
	for i, d := range definitions {
		topics[i] = d.Topic
	}
	return topics
}

// Config configures a Projector. Only Kafka is required.
type Config struct {
	Kafka bus.Config
	// Group defaults to the constant of this name. A replay into other tables
	// takes another.
	Group string
	// A batch is written when it has MaxMessages (default 20,000) or MaxBytes
	// (default 8 MiB) or is MaxAge old (default 200 ms). Rendered rows take
	// about five times the bytes of their records, in memory, twice.
	MaxMessages int
	MaxBytes    int
	MaxAge      time.Duration
	// Workers decode and render in parallel; default: the processors.
	Workers int
	// RetryMin and RetryMax bound the pause before a batch is tried again;
	// defaults 100 ms and 10 s.
	RetryMin, RetryMax time.Duration
	// Timing of the consumer group; zero fields take the bus's defaults.
	Timing bus.GroupTiming
}

// Deps are what a Projector works with. Conn must pin the insert settings as
// platform/clickhouse's Open does.
type Deps struct {
	Conn       driver.Conn           // required
	Platforms  *identity.Platforms   // default identity.Default()
	Logger     *slog.Logger          // required
	Registerer prometheus.Registerer // nil: no metrics
	Tracer     trace.TracerProvider  // default: no traces
	Now        func() time.Time      // default time.Now
}

// Projector writes the read models. Make it with New, start it with Run.
type Projector struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	tracer   trace.Tracer
	consumer *bus.BatchConsumer
	writer   *kafka.Writer
	workers  []*worker
	kinds    map[string]record.Kind // by topic
}

// New checks the configuration. It connects to nothing.
func New(cfg Config, deps Deps) (*Projector, error) {
	if deps.Conn == nil {
		return nil, errors.New("projector: no connection to ClickHouse")
	}
	if deps.Logger == nil {
		return nil, errors.New("projector: no logger")
	}
	if cfg.MaxMessages < 0 || cfg.MaxBytes < 0 || cfg.MaxAge < 0 || cfg.Workers < 0 {
		return nil, errors.New("projector: negative limit")
	}
	setDefault(&cfg.Group, Group)
	setDefault(&cfg.MaxMessages, 20_000)
	setDefault(&cfg.MaxBytes, 8<<20)
	setDefault(&cfg.MaxAge, 200*time.Millisecond)
	setDefault(&cfg.Workers, runtime.GOMAXPROCS(0))
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
	p := &Projector{cfg: cfg, deps: deps, metrics: m, tracer: deps.Tracer.Tracer("muster/projector"), kinds: make(map[string]record.Kind)}
	for _, d := range record.Definitions() {
		p.kinds[d.Topic] = d.Kind
	}
	for range cfg.Workers {
		p.workers = append(p.workers, newWorker(deps.Platforms))
	}
	p.consumer, err = bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: cfg.Kafka, Group: cfg.Group, Topics: Topics(),
		MaxMessages: cfg.MaxMessages, MaxBytes: cfg.MaxBytes, MaxAge: cfg.MaxAge,
		Handle: p.handle, RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax,
		Timing: cfg.Timing, Logger: deps.Logger, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	p.writer = bus.NewWriter(cfg.Kafka, bus.WithWriterLogger(deps.Logger))
	return p, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Run projects until ctx ends and returns nil once the batch in hand is
// finished or given back. Outages of Kafka and of ClickHouse are waited out;
// an error means a configuration that cannot work. A Projector runs once.
func (p *Projector) Run(ctx context.Context) (err error) {
	defer func() {
		if closeErr := p.writer.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("projector: close writer: %w", closeErr))
		}
	}()
	if err := p.consumer.Run(ctx); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}

// Check says whether ClickHouse answers, for readiness.
func (p *Projector) Check(ctx context.Context) error {
	if err := p.deps.Conn.Ping(ctx); err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	return nil
}

// Lag is how far the projector is behind, by partition. All zero means that
// every record published before the call is in the read models.
func Lag(ctx context.Context, cfg bus.Config) ([]bus.PartitionLag, error) {
	lag, err := bus.Lag(ctx, cfg, Group, Topics())
	if err != nil {
		return nil, fmt.Errorf("projector lag: %w", err)
	}
	return lag, nil
}
