package project

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
)

const (
	defaultMaxMessages = 20_000
	defaultMaxBytes    = 8 << 20
	defaultMaxAge      = 400 * time.Millisecond
	defaultBreakFor    = 2 * time.Second
	defaultBreakAfter  = 5

	// usageMaxBatchAge is the maximum age of a batch of usage events. Readers query balances, not these rows, so
	// latency does not matter; an insert of ten rows costs the engine almost as much as one of hundreds.
	usageMaxBatchAge = 4 * time.Second
	// webhookMaxBatchAge is the maximum age of a batch of attempts. Only operators read them.
	webhookMaxBatchAge = 2 * time.Second
	// batchIdleTimeout is how long a batch of events waits for the next one. Publishers batch usage events for up to a
	// second. A longer gap means that no calls are running, so waiting would only delay readers of the rows.
	batchIdleTimeout = 1500 * time.Millisecond
)

// Config configures projections. Only Kafka is required.
type Config struct {
	Kafka bus.Config
	// Group is the consumer group of records; default the constant of this name. A replay into other tables uses its
	// own.
	Group string
	// A batch is written when it reaches MaxMessages (default 20,000), MaxBytes (default 8 MiB) or MaxAge
	// (default 400 ms). Two batches are rendered at a time; the rows of each take about five times the bytes
	// of its records.
	MaxMessages int
	MaxBytes    int
	MaxAge      time.Duration
	// Workers is the number of goroutines that decode and render; default GOMAXPROCS.
	Workers int
	// BreakFor is how long inserts pause after ClickHouse failed BreakAfter times in a row; defaults 2 s and
	// 5.
	BreakFor   time.Duration
	BreakAfter uint32
	// RetryMin and RetryMax bound the backoff between attempts of a batch; defaults 100 ms and 10 s.
	RetryMin, RetryMax time.Duration
	// TouchDocuments publishes touches of all changed people and companies, for the search index.
	TouchDocuments bool
	// Timing of the consumer groups; zero fields take the bus's defaults.
	Timing bus.GroupTiming
}

// Deps are the dependencies of projections. Conn must pin the insert settings as platform/clickhouse.Open does.
type Deps struct {
	Conn       driver.Conn         // required
	Suppressed *suppress.Set       // people who are not stored; nil: none
	Platforms  *identity.Platforms // default identity.Default()
	// Disclosures opens the disclosures of the ledger; nil: they are not stored.
	Disclosures *event.DisclosureCipher
	Logger      *slog.Logger          // required
	Registerer  prometheus.Registerer // nil: no metrics
	Tracer      trace.TracerProvider  // default: no traces
	Now         func() time.Time      // default time.Now
}

// WithDefaults validates a configuration and returns it with its defaults. It is idempotent.
func WithDefaults(cfg Config, deps Deps) (Config, Deps, error) {
	if deps.Conn == nil {
		return cfg, deps, errors.New("no connection to ClickHouse")
	}
	if deps.Logger == nil {
		return cfg, deps, errors.New("no logger")
	}
	if cfg.MaxMessages < 0 || cfg.MaxBytes < 0 || cfg.MaxAge < 0 || cfg.Workers < 0 || cfg.BreakFor < 0 {
		return cfg, deps, errors.New("negative limit")
	}
	cfg.Group = cmp.Or(cfg.Group, Group)
	cfg.MaxMessages = cmp.Or(cfg.MaxMessages, defaultMaxMessages)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, defaultMaxAge)
	cfg.Workers = cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0))
	cfg.BreakFor = cmp.Or(cfg.BreakFor, defaultBreakFor)
	cfg.BreakAfter = cmp.Or(cfg.BreakAfter, defaultBreakAfter)
	if deps.Platforms == nil {
		deps.Platforms = identity.Default()
	}
	if deps.Tracer == nil {
		deps.Tracer = noop.NewTracerProvider()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return cfg, deps, nil
}

// Tracer returns the projector's tracer, of deps with defaults.
func Tracer(deps Deps) trace.Tracer { return deps.Tracer.Tracer("muster/projector") }

// Consumer returns what the projector's consumers have in common: the brokers, the limits of a batch, the retries and
// the dependencies.
func Consumer(cfg Config, deps Deps) bus.BatchConsumerConfig {
	return bus.BatchConsumerConfig{
		Config: cfg.Kafka, MaxMessages: cfg.MaxMessages, MaxBytes: cfg.MaxBytes, MaxAge: cfg.MaxAge,
		RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax, Timing: cfg.Timing,
		Logger: deps.Logger, Registerer: deps.Registerer,
	}
}
