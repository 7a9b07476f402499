package contexts

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// ErrUnavailable is the error of a call that could not be accepted: the brokers
// cannot be reached. It may pass.
var ErrUnavailable = errors.New("context calls cannot be accepted at present")

// ErrUnsure is the error of a call of which it is not known whether it was accepted: the
// brokers may have its task, and did not say so.
var ErrUnsure = errors.New("it is not known whether the context call was accepted")

// source is the CloudEvents source of tasks and of what is said of them here.
const source = "/muster/query-api"

const (
	// maxCalls bounds the calls that are remembered, maxBytes the profiles among
	// them; the read model has the others.
	maxCalls = 20_000
	maxBytes = 64 << 20
	// grace is how long an outcome that was ready in time may take to arrive.
	grace = 300 * time.Millisecond
	// settledPatience is how long one may take that is known to be on its topic.
	settledPatience = 5 * time.Second
	// publishTimeout bounds one publication.
	publishTimeout = 10 * time.Second
)

// Store keeps what is no longer remembered.
type Store interface {
	// Context returns how far a call of an organization is; nil when it has none.
	Context(ctx context.Context, organization, requestID string) (*event.Context, error)
}

// Config configures a [Desk]. All fields are required but Settle, Erased, Left and
// Alone.
type Config struct {
	Bus   bus.Config
	Store Store
	// Settle charges an outcome, once for each request id; nil charges nothing.
	Settle func(context.Context, *event.Context) error
	// Erased says that a profile tells of somebody who was erased since; nil: nobody
	// was.
	Erased func(*event.Context) bool
	// Left is shared with other replicas; nil: there is none.
	Left Left
	// Alone says that there is no other replica: an outcome whose caller was another
	// process's is one whose caller is gone.
	Alone      bool
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Desk takes calls. It is safe for concurrent use; see [Desk.Follow].
type Desk struct {
	cfg     Config
	process string
	writer  *bus.Writer
	calls   *prometheus.CounterVec

	handing sync.WaitGroup
	closing context.Context
	close   context.CancelFunc
	// leaving ends before closing: nobody is waited for any more.
	leaving context.Context
	leave   context.CancelFunc

	mu     sync.Mutex
	known  map[string]*call
	idle   list.List // of known, those that may be forgotten, oldest first
	held   list.List // of known, the others
	bytes  int
	closed bool
}

// call is one that this process knows of.
type call struct {
	id       string
	in       *list.List // idle or held
	at       *list.Element
	state    *event.Context
	ours     bool
	answered bool          // its caller was answered without the outcome
	done     chan struct{} // closes with the outcome; nil when nobody here waits
}

// New returns a desk. It does not connect.
func New(cfg Config) (*Desk, error) {
	process, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	d := &Desk{
		cfg: cfg, process: process.String(), known: make(map[string]*call),
		writer: bus.NewWriter(cfg.Bus, bus.WithWriterLogger(cfg.Logger)),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_query_api_contexts_total",
			Help: "Context calls by how they were answered (complete, failed, accepted for a webhook, late, left by the caller).",
		}, []string{"outcome"}),
	}
	d.closing, d.close = context.WithCancel(context.Background())
	d.leaving, d.leave = context.WithCancel(d.closing)
	if err := cfg.Registerer.Register(d.calls); err != nil {
		return nil, fmt.Errorf("contexts: register metrics: %w", err)
	}
	return d, nil
}

// Follow begins to read how far calls are; the follower is ready once the end
// offsets are taken, and must be closed after the last call.
func (d *Desk) Follow(ctx context.Context) *bus.Follower {
	return bus.Follow(ctx, d.cfg.Bus, bus.FollowConfig{
		Topics: []string{event.TopicContext}, FromEnd: true, Logger: d.cfg.Logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			c, err := decode(m.Value)
			if err != nil {
				d.cfg.Logger.WarnContext(ctx, "context event skipped", slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.Any("error", err))
				return nil
			}
			d.take(c)
			return nil
		},
	})
}

func decode(value []byte) (*event.Context, error) {
	var c event.Context
	if err := json.Unmarshal(value, &c); err != nil {
		return nil, err
	}
	return &c, c.Validate()
}

// take remembers how far a call is.
func (d *Desk) take(state *event.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := state.Call.RequestID
	c, _ := d.of(id)
	if c.state != nil && c.state.Status != event.ContextProcessing || state.Status == event.ContextProcessing && c.state != nil {
		return // the first outcome counts
	}
	c.state = state
	d.bytes += len(state.Profile)
	if state.Status != event.ContextProcessing {
		if c.done != nil {
			close(c.done)
			c.done = nil
		}
		if c.answered {
			d.handOver(state)
		}
	}
	d.place(c)
}

// of returns a call, and whether it was known again or is a new one, which is to be placed;
// d.mu is held.
func (d *Desk) of(id string) (c *call, again bool) {
	c, again = d.known[id]
	if !again {
		c = &call{id: id}
		d.known[id] = c
	}
	return c, again
}

// place holds a call while somebody here waits for its outcome, or that may have to be
// handed over, as of one that was taken here, and makes room; d.mu is held.
func (d *Desk) place(c *call) {
	if d.known[c.id] != c {
		return
	}
	to := &d.idle
	if c.done != nil || c.ours && c.state.Status == event.ContextProcessing {
		to = &d.held
	}
	if c.in != to {
		if c.in != nil {
			c.in.Remove(c.at)
		}
		c.in, c.at = to, to.PushBack(c)
	}
	for len(d.known) > maxCalls || d.bytes > maxBytes {
		oldest := d.oldest()
		if oldest == nil {
			return
		}
		d.drop(oldest)
	}
}

// oldest returns the call to forget first, nil for none: one whose outcome never comes, since
// its task was not published or has expired, or one that is not held. d.mu is held.
func (d *Desk) oldest() *call {
	if at := d.held.Front(); at != nil {
		if c := at.Value.(*call); c.done == nil && c.state.Call.RequestedAt.Before(d.cfg.Now().Add(-event.ContextKept)) {
			return c
		}
	}
	if at := d.idle.Front(); at != nil {
		return at.Value.(*call)
	}
	return nil
}

// drop forgets a call; d.mu is held.
func (d *Desk) drop(c *call) {
	if c.state != nil {
		d.bytes -= len(c.state.Profile)
	}
	delete(d.known, c.id)
	c.in.Remove(c.at)
}

// Lost says that an outcome that Ask returned did not reach its caller.
func (d *Desk) Lost(state *event.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handOver(state)
}

// Leave ends the waiting: calls are answered without their outcome, which is handed over
// if it comes before Close, and by another process if it comes later. It is for a service
// that stops, whose requests in flight must end.
func (d *Desk) Leave() { d.leave() }

// Left says that calls are answered without their outcome because of Leave.
func (d *Desk) Left() bool { return d.leaving.Err() != nil }

// Close ends the waiting and what is handed over.
func (d *Desk) Close() error {
	d.mu.Lock()
	d.closed = true
	d.close()
	d.mu.Unlock()
	d.handing.Wait()
	if err := d.writer.Close(); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}
