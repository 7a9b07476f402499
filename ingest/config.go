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

// Config configures [Files] and [Service]. The zero value of each field except Bus selects its default.
type Config struct {
	// Bus configures the Kafka connection.
	Bus bus.Config
	// Addr is the host:port that [Service] listens on; port 0 picks a free port. The default is
	// 127.0.0.1:0.
	Addr string
	// Workers is the number of decoding goroutines. The default is one per CPU.
	Workers int
	// Readers is the number of inputs read concurrently; each input is read in order. The default
	// is one per CPU, at most 4.
	Readers int
	// Lanes is the number of concurrent writes to Kafka. Records of one identity share a lane. The
	// default is 8, one per partition of a record topic.
	Lanes int
	// ConnectTimeout is how long a run waits for the brokers before it reads any input. The default
	// is 15 s. Later outages are waited out without limit.
	ConnectTimeout time.Duration
	// DrainTimeout is how long an interrupted run waits for the acknowledgment of what it has read.
	// The default is 3 s.
	DrainTimeout time.Duration
	// StateDir is the directory of the state kept between runs: the last published version of every
	// identity, and the checkpoints of runs. Processes may share it. Without it everything is
	// published, and a stopped run starts from the beginning.
	StateDir string
	// Restart ignores the checkpoint of a stopped run over the same files.
	Restart bool
	// Republish republishes unchanged records too, but not stale ones.
	Republish bool
	// FullRecords publishes complete records even if only the version is new. A version bump is valid only next to
	// content that was published with the same StateDir; set FullRecords if others may have published newer content
	// without it.
	FullRecords bool
	// Remap also replaces records of the same version and different content, as produced by a
	// changed mapping. The records carry a mapping revision greater than those of earlier runs.
	Remap bool
	// revision is the mapping revision of the run's records, 0 without Remap.
	revision uint32
	// DryRun decodes, validates and counts, and publishes nothing. It needs no brokers.
	DryRun bool
	// Mapping is the mapping that converts the input's objects to records: the name of a built-in
	// mapping, or a file. Without it the objects are records.
	Mapping string
	// Format is the format of the inputs. By default it is detected per input.
	Format Format
	// Token authorizes HTTP pushes. If it is empty, all pushes are denied.
	Token string
	// Push limits HTTP pushes.
	Push PushConfig
	// RunID identifies the run in message headers and rejected records. The default is a new UUIDv7.
	RunID string
}

// Deps are the dependencies of [Files] and [Service]. Every field is optional.
type Deps struct {
	// Logger receives events that the counts do not show.
	Logger *slog.Logger
	// Registerer receives the metrics. Without it none are registered.
	Registerer prometheus.Registerer
	// Progress receives the progress of a run of Files.
	Progress Progress
	// Stdin is what the path "-" reads.
	Stdin io.Reader
	// Rejected, if set, is called for every record that a run rejects, from any goroutine.
	Rejected func(event.Rejected)
	// Suppressed is the suppression set: records of erased people are dropped, and erasures are
	// accepted. Without it no record is dropped and erasures are rejected. The caller keeps it
	// current by following event.TopicErasure.
	Suppressed *suppress.Set
	// Erased, if set, is called for every erasure that a run publishes, from any goroutine.
	Erased func(event.Erasure)
	// Now returns the time at which records are received. The default is time.Now.
	Now func() time.Time
}

// Validate returns all invalid settings, joined into one error.
func (c Config) Validate() error {
	var errs []error
	if len(c.Bus.Brokers) == 0 && !c.DryRun {
		errs = append(errs, errors.New("ingest: no Kafka brokers configured"))
	}
	if c.Workers < 0 || c.Readers < 0 || c.Lanes < 0 || c.ConnectTimeout < 0 || c.DrainTimeout < 0 {
		errs = append(errs,
			errors.New("ingest: workers, readers, lanes, connect_timeout and drain_timeout must not be negative"))
	}
	return errors.Join(errs...)
}

// withDefaults validates the configuration and fills in defaults.
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
			return c, fmt.Errorf("create a run ID: %w", err)
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
		d.Progress = noProgress{}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return d
}

// ensureTopics creates missing topics that ingest writes to, within ConnectTimeout. Topics with
// other settings are the operator's choice and only logged.
func ensureTopics(ctx context.Context, cfg Config, logger *slog.Logger) error {
	written := map[string]bool{
		event.TopicRejected:       true,
		event.TopicVersionBump:    true,
		event.TopicErasure:        true,
		event.TopicErasureRequest: true,
	}
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
		fmt.Errorf("no response from the Kafka brokers within %s", cfg.ConnectTimeout))
	defer cancel()
	err := bus.EnsureTopics(ctx, cfg.Bus, topics)
	if different, ok := errors.AsType[*bus.MismatchError](err); ok {
		logger.Warn("ingest: topic settings differ from their definitions", slog.Any("difference", different))
		return nil
	}
	return err
}

// newWriter returns a Kafka writer that logs why it waits for brokers.
func newWriter(cfg Config, deps Deps) *bus.Writer {
	if cfg.Bus.Logger == nil {
		cfg.Bus.Logger = deps.Logger
	}
	return bus.NewWriter(cfg.Bus)
}

// suppressionKey returns the key of the suppression set's hashes, or one whose hashes are never
// stored if there is no set.
func (d Deps) suppressionKey() *suppress.Key {
	if d.Suppressed != nil {
		return d.Suppressed.Key()
	}
	return suppress.NoKey()
}

// errNoErasures rejects erasures if there is no suppression set to enforce them.
var errNoErasures = errors.New("erasures require a suppression set, none is configured")
