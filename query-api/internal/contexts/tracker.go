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

// ErrUnavailable is returned if a call cannot be accepted because Kafka is unavailable. It is
// retryable.
var ErrUnavailable = errors.New("context calls unavailable")

// ErrUncertain is returned if the brokers may have stored the task of a call, but did not acknowledge it.
var ErrUncertain = errors.New("context call acceptance uncertain")

// source is the CloudEvents source of tasks and accepted events.
const source = "/muster/query-api"

const (
	// maxCalls is the maximum number of tracked calls, maxBytes the maximum size of their profiles; others are in the
	// read model.
	maxCalls = 20_000
	maxBytes = 64 << 20
	// grace is the transport time allowed for a result that was ready in time.
	grace = 300 * time.Millisecond
	// settledTimeout is how long a result may take to arrive that is known to be on its topic.
	settledTimeout = 5 * time.Second
	// publishTimeout bounds one publication.
	publishTimeout = 10 * time.Second
)

// Store reads calls from the read model.
type Store interface {
	// Context returns the state of a call of an organization, nil if there is none.
	Context(ctx context.Context, organization, requestID string) (*event.Context, error)
}

// Config configures a [CallTracker]. All fields are required except Settle, Erased, Abandoned and SingleReplica.
type Config struct {
	Bus   bus.Config
	Store Store
	// Settle charges a result, once for each request ID; nil charges nothing.
	Settle func(context.Context, *event.Context) error
	// Erased reports whether a profile is about an erased person; nil means never.
	Erased func(*event.Context) bool
	// Abandoned is shared with other replicas; nil if there are none.
	Abandoned AbandonedCalls
	// SingleReplica states that there is no other replica, so the clients of calls taken by another process are gone.
	SingleReplica bool
	Logger        *slog.Logger
	Registerer    prometheus.Registerer
	Now           func() time.Time
}

// CallTracker accepts calls and tracks their results. It is safe for concurrent use; see [CallTracker.Follow].
type CallTracker struct {
	cfg     Config
	process string
	writer  *bus.Writer
	calls   *prometheus.CounterVec

	handing sync.WaitGroup
	closing context.Context
	close   context.CancelFunc
	// stopping ends before closing: waiting calls are answered without their result.
	stopping    context.Context
	stopWaiting context.CancelFunc

	mu     sync.Mutex
	known  map[string]*call
	idle   list.List // calls that may be evicted, oldest first
	held   list.List // all other calls
	bytes  int
	closed bool
}

// call is a tracked call.
type call struct {
	id       string
	list     *list.List // idle or held
	element  *list.Element
	state    *event.Context
	ours     bool
	answered bool          // the client was answered without the result
	done     chan struct{} // closed with the result; nil if no client waits here
}

// New returns a CallTracker. It does not connect.
func New(cfg Config) (*CallTracker, error) {
	process, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	d := &CallTracker{
		cfg: cfg, process: process.String(), known: make(map[string]*call),
		writer: bus.NewWriter(cfg.Bus, bus.WithWriterLogger(cfg.Logger)),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_query_api_contexts_total",
			Help: "Context calls by outcome (complete, failed, accepted, timeout, client_gone).",
		}, []string{"outcome"}),
	}
	d.closing, d.close = context.WithCancel(context.Background())
	d.stopping, d.stopWaiting = context.WithCancel(d.closing)
	if err := cfg.Registerer.Register(d.calls); err != nil {
		return nil, fmt.Errorf("contexts: register metrics: %w", err)
	}
	return d, nil
}

// Follow starts following the states of calls. The follower is ready once it has the end offsets, and must be closed
// after the last call.
func (d *CallTracker) Follow(ctx context.Context) *bus.Follower {
	return bus.Follow(ctx, d.cfg.Bus, bus.FollowConfig{
		Topics: []string{event.TopicContext}, FromEnd: true, Logger: d.cfg.Logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			c, err := decode(m.Value)
			if err != nil {
				d.cfg.Logger.WarnContext(ctx, "contexts: invalid event skipped",
					slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.Any("error", err))
				return nil
			}
			d.apply(c)
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

// apply applies a state event to the tracked call.
func (d *CallTracker) apply(state *event.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := state.Call.RequestID
	c, _ := d.lookUp(id)
	if c.state != nil && c.state.Status != event.ContextProcessing || state.Status == event.ContextProcessing &&
		c.state != nil {
		return // the first result counts
	}
	c.state = state
	d.bytes += len(state.Profile)
	if state.Status != event.ContextProcessing {
		if c.done != nil {
			close(c.done)
			c.done = nil
		}
		if c.answered {
			d.deliverLate(state)
		}
	}
	d.place(c)
}

// lookUp returns a tracked call, or a new one, which must then be placed. wasKnown reports which. d.mu must be held.
func (d *CallTracker) lookUp(id string) (c *call, wasKnown bool) {
	c, wasKnown = d.known[id]
	if !wasKnown {
		c = &call{id: id}
		d.known[id] = c
	}
	return c, wasKnown
}

// place puts a call into the held list while a client waits for its result here, or its result may have to be delivered
// from here, and else into the idle list. It then evicts calls over the limits. d.mu must be held.
func (d *CallTracker) place(c *call) {
	if d.known[c.id] != c {
		return
	}
	to := &d.idle
	if c.done != nil || c.ours && c.state.Status == event.ContextProcessing {
		to = &d.held
	}
	if c.list != to {
		if c.list != nil {
			c.list.Remove(c.element)
		}
		c.list, c.element = to, to.PushBack(c)
	}
	for len(d.known) > maxCalls || d.bytes > maxBytes {
		oldest := d.oldest()
		if oldest == nil {
			return
		}
		d.drop(oldest)
	}
}

// oldest returns the call to evict first, nil for none: a held call whose result can no longer arrive, because its task
// was not published or has expired, or else an idle call. d.mu must be held.
func (d *CallTracker) oldest() *call {
	if at := d.held.Front(); at != nil {
		if c := at.Value.(*call); c.done == nil &&
			c.state.Call.RequestedAt.Before(d.cfg.Now().Add(-event.ContextRetention)) {
			return c
		}
	}
	if at := d.idle.Front(); at != nil {
		return at.Value.(*call)
	}
	return nil
}

// drop evicts a call. d.mu must be held.
func (d *CallTracker) drop(c *call) {
	if c.state != nil {
		d.bytes -= len(c.state.Profile)
	}
	delete(d.known, c.id)
	c.list.Remove(c.element)
}

// ReportUndelivered reports that a result returned by Ask did not reach the client.
func (d *CallTracker) ReportUndelivered(state *event.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deliverLate(state)
}

// StopWaiting makes waiting calls return without their result, so that in-flight requests of a stopping service end. A
// result that arrives before Close is delivered by this process, a later one by another process.
func (d *CallTracker) StopWaiting() { d.stopWaiting() }

// IsStopping reports whether StopWaiting was called.
func (d *CallTracker) IsStopping() bool { return d.stopping.Err() != nil }

// Close ends waiting calls and pending deliveries.
func (d *CallTracker) Close() error {
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
