package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Config configures [Files] and [Service]. The zero value of each field but Bus
// means its default.
type Config struct {
	// Bus says how to reach Kafka.
	Bus bus.Config
	// Addr is the host:port that the [Service] listens on; port 0 takes a free
	// one. The default is 127.0.0.1:0.
	Addr string
	// Workers is the number of goroutines that decode; the default is one for
	// each CPU.
	Workers int
	// Readers is the number of inputs that are read beside one another; each is
	// read in its own order. The default is one for each CPU, at most 4.
	Readers int
	// Lanes is the number of writes to Kafka that may be in flight. Records of
	// one identity share a lane. The default is 8, one for each partition of a
	// topic of records.
	Lanes int
	// ConnectTimeout bounds how long a run waits for the brokers before it has
	// read anything. The default is 15 s. Later outages are waited out.
	ConnectTimeout time.Duration
	// DrainTimeout bounds how long an interrupted run waits for the
	// acknowledgement of what it has read. The default is 3 s.
	DrainTimeout time.Duration
	// StateDir is the folder of what is kept between runs: the last version of
	// every identity, and how far each run came. It may be shared by processes.
	// Without it everything is published, and a run that is stopped begins anew.
	StateDir string
	// Restart begins anew although a run over the same files was stopped.
	Restart bool
	// Again publishes also what is known, except what is older than that.
	Again bool
	// Whole publishes records whole of which only the version is new. A version alone counts
	// beside the content that was published with StateDir: it is for ways in beside which
	// others may have published newer content, without it.
	Whole bool
	// Remap publishes records also in place of those that were published with the same version
	// and other content, as a changed mapping makes them: they carry a mapping revision that
	// is greater than those of earlier runs.
	Remap bool
	// revision is the mapping revision of the run's records, 0 without Remap.
	revision uint32
	// DryRun decodes, checks and counts, and publishes nothing. No brokers are
	// needed.
	DryRun bool
	// Map is the mapping that makes records of the input's objects: the name of
	// one that is shipped, or a file. Without it the objects are records.
	Map string
	// Format is that of the inputs; by default each input's is found out.
	Format Format
	// Token authorizes HTTP push. Without one nobody is.
	Token string
	// Push bounds what is pushed over HTTP.
	Push PushConfig
	// RunID names the run in the headers of its messages and in rejected
	// records. The default is a new UUIDv7.
	RunID string
}

// Deps are what [Files] and [Service] use of their surroundings. Every field may
// be left out.
type Deps struct {
	// Logger receives what an operator should know and the numbers do not say.
	Logger *slog.Logger
	// Registerer receives the metrics; without it there are none.
	Registerer prometheus.Registerer
	// Progress is told how a run of Files stands.
	Progress Progress
	// Stdin is what the path "-" reads.
	Stdin io.Reader
	// Rejected, if set, is told of every record that a run rejects, from any
	// goroutine.
	Rejected func(event.Rejected)
	// Suppressed says who was erased: their records are dropped, and erasures are
	// taken. Without it nobody was, and erasures are refused. Whoever makes it
	// follows event.TopicErasure.
	Suppressed *suppress.Set
	// Erased, if set, is told of every erasure that a run publishes, from any
	// goroutine.
	Erased func(event.Erasure)
	// Now tells the time that records are received at; time.Now by default.
	Now func() time.Time
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if len(c.Bus.Brokers) == 0 && !c.DryRun {
		errs = append(errs, errors.New("ingest: no Kafka brokers are configured"))
	}
	if c.Workers < 0 || c.Readers < 0 || c.Lanes < 0 || c.ConnectTimeout < 0 || c.DrainTimeout < 0 {
		errs = append(errs, errors.New("ingest: workers, readers, lanes, connect_timeout and drain_timeout must not be negative"))
	}
	return errors.Join(errs...)
}

// withDefaults validates the configuration and fills it in.
func (c Config) withDefaults() (Config, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Readers == 0 {
		c.Readers = min(runtime.GOMAXPROCS(0), 4)
	}
	if c.Lanes == 0 {
		c.Lanes = 8
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 15 * time.Second
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 3 * time.Second
	}
	c.Push = c.Push.withDefaults()
	if c.RunID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return c, fmt.Errorf("make a run id: %w", err)
		}
		c.RunID = id.String()
	}
	return c, nil
}

func (d Deps) withDefaults() Deps {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Progress == nil {
		d.Progress = silent{}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return d
}

// ensureTopics makes sure that everything ingest writes to exists, within the
// time to connect. Topics that exist with other settings are an operator's
// choice and only reported.
func ensureTopics(ctx context.Context, cfg Config, logger *slog.Logger) error {
	written := map[string]bool{event.TopicRejected: true, event.TopicSeen: true, event.TopicErasure: true, event.TopicErasureRequest: true}
	for _, d := range record.Definitions() {
		written[d.Topic] = true
	}
	var topics []bus.Topic
	for _, t := range event.Topics() {
		if written[t.Name] {
			topics = append(topics, bus.Topic{Name: t.Name, Partitions: t.Partitions, Config: t.Config()})
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.ConnectTimeout,
		fmt.Errorf("the Kafka brokers did not answer within %s", cfg.ConnectTimeout))
	defer cancel()
	err := bus.EnsureTopics(ctx, cfg.Bus, topics)
	if different, ok := errors.AsType[*bus.MismatchError](err); ok {
		logger.Warn("Kafka topics differ from what muster would create", "difference", different)
		return nil
	}
	return err
}

// newWriter writes to Kafka; the log is told why the brokers are waited for.
func newWriter(cfg Config, deps Deps) *bus.Writer {
	if cfg.Bus.Logger == nil {
		cfg.Bus.Logger = deps.Logger
	}
	return bus.NewWriter(cfg.Bus)
}

// suppressionKey is the key of the suppression set's hashes; without a set, one
// whose hashes go nowhere.
func (d Deps) suppressionKey() *suppress.Key {
	if d.Suppressed != nil {
		return d.Suppressed.Key()
	}
	return suppress.NoKey()
}

// errNoErasures refuses erasures where nobody could be recognized afterwards.
var errNoErasures = errors.New("erasures need the suppression set, and there is none")
