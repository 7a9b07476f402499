package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// ErrUnavailable is returned if a task cannot be published because Kafka is unavailable. It is retryable.
var ErrUnavailable = errors.New("discovery unavailable")

// errClosed is returned to waiting callers when the service stops.
var errClosed = fmt.Errorf("%w: service is stopping", ErrUnavailable)

// source is the CloudEvents source of tasks.
const source = "/muster/query-api"

// maxPendingTasks is the maximum number of accounts with a pending task.
const maxPendingTasks = 10_000

// Config configures a [Finder].
type Config struct {
	Bus bus.Config
	// Budget bounds a request, including its task; default event.DiscoveryBudget.
	Budget     time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Finder publishes tasks and waits for results. It is safe for concurrent use; see [Finder.Follow].
type Finder struct {
	cfg       Config
	publisher *bus.Publisher
	asked     *prometheus.CounterVec

	mu     sync.Mutex
	byKey  map[string]*pendingTask // by account or query
	byID   map[string]*pendingTask // by request id
	closed bool
}

// pendingTask is a task without a result yet.
type pendingTask struct {
	id, key  string
	answered chan struct{}
	waiting  int
	result   any // *event.Discovery or *event.Identification
	err      error
	done     bool
}

// New returns a Finder. It does not connect.
func New(cfg Config) (*Finder, error) {
	if cfg.Budget <= 0 {
		cfg.Budget = event.DiscoveryBudget
	}
	publisher, err := bus.NewPublisher(bus.PublisherConfig{
		Config: cfg.Bus, Timeout: cfg.Budget, Linger: time.Millisecond, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	f := &Finder{
		cfg: cfg, publisher: publisher, byKey: make(map[string]*pendingTask), byID: make(map[string]*pendingTask),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_query_api_discoveries_total",
			Help: "Discovery requests by outcome (answered, shared, timeout, client_gone, failed).",
		}, []string{"outcome"}),
	}
	if err := cfg.Registerer.Register(f.asked); err != nil {
		return nil, fmt.Errorf("discovery: register metrics: %w", err)
	}
	return f, nil
}

// Follow starts following results. The follower is ready once it has the end offsets, and must be closed after the last
// request.
func (f *Finder) Follow(ctx context.Context) *bus.Follower {
	return bus.Follow(ctx, f.cfg.Bus, bus.FollowConfig{
		Topics: []string{event.TopicDiscovery}, FromEnd: true, Logger: f.cfg.Logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			f.take(ctx, m)
			return nil
		},
	})
}

// take passes a result to the waiting callers. Most results are for other replicas.
func (f *Finder) take(ctx context.Context, m kafka.Message) {
	e, err := bus.GetEvent(m.Headers)
	if err == nil && e.Type != event.TypeDiscovery && e.Type != event.TypeIdentification {
		return
	}
	f.mu.Lock()
	q := f.byID[e.Subject]
	f.mu.Unlock()
	if err == nil && q == nil {
		return
	}
	var result interface{ Validate() error } = new(event.Discovery)
	if e.Type == event.TypeIdentification {
		result = new(event.Identification)
	}
	if err == nil {
		err = json.Unmarshal(m.Value, result)
	}
	if err == nil {
		err = result.Validate()
	}
	if err != nil {
		f.cfg.Logger.WarnContext(ctx, "discovery: invalid event skipped",
			slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.Any("error", err))
		return
	}
	f.finish(q, result, nil)
}

// finish completes a task, once.
func (f *Finder) finish(q *pendingTask, result any, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.done {
		return
	}
	q.done, q.result, q.err = true, result, err
	delete(f.byID, q.id)
	delete(f.byKey, q.key)
	close(q.answered)
}

// Budget returns the maximum duration of a request.
func (f *Finder) Budget() time.Duration { return f.cfg.Budget }

// Find requests the profiles of the owner of an account. It waits until the budget is used up or ctx ends. If no result
// came in time, it returns nil without an error; the task continues, for the next call. The error may be
// [ErrUnavailable].
func (f *Finder) Find(ctx context.Context, account event.Account) (*event.Discovery, error) {
	key := account.Platform + ":" + identity.NormalizeUsername(account.Username)
	return request[event.Discovery](ctx, f, key, event.DiscoveryTask{Input: account})
}

// Identify requests the people that a query may describe, like [Finder.Find].
func (f *Finder) Identify(ctx context.Context, q event.PersonQuery) (*event.Identification, error) {
	key, err := q.Key()
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return request[event.Identification](ctx, f, key, event.DiscoveryTask{Query: &q})
}

// request publishes a task, unless one with the same key is pending, and waits for its result.
func request[T any](ctx context.Context, f *Finder, key string, task event.DiscoveryTask) (*T, error) {
	now := f.cfg.Now()
	// One percent is reserved for sending the response; the worker reserves more for the transport to this process.
	timeout, cancel := context.WithTimeout(ctx, f.cfg.Budget-f.cfg.Budget/100)
	defer cancel()
	q, first, err := f.join(key)
	if err != nil {
		return nil, err
	}
	defer f.leave(q)
	if first {
		if err := f.publish(timeout, q, task, now); err != nil {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
			f.finish(q, nil, err)
		}
	}
	select {
	case <-q.answered:
	case <-timeout.Done():
		if ctx.Err() != nil {
			f.count("client_gone")
			return nil, fmt.Errorf("discovery: %w", context.Cause(ctx))
		}
		f.count("timeout")
		return nil, nil
	}
	switch {
	case q.err != nil:
		f.count("failed")
		return nil, q.err
	case first:
		f.count("answered")
	default:
		f.count("shared")
	}
	result, ok := q.result.(*T)
	if !ok {
		return nil, fmt.Errorf("discovery: the result of task %s has another type", q.id)
	}
	return result, nil
}

func (f *Finder) count(outcome string) { f.asked.WithLabelValues(outcome).Inc() }

// join returns the pending task of a key, and whether it is new.
func (f *Finder) join(key string) (*pendingTask, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false, errClosed
	}
	if q := f.byKey[key]; q != nil {
		q.waiting++
		return q, false, nil
	}
	if len(f.byKey) >= maxPendingTasks {
		return nil, false, fmt.Errorf("%w: %d tasks are pending", ErrUnavailable, maxPendingTasks)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, false, fmt.Errorf("discovery: %w", err)
	}
	q := &pendingTask{id: id.String(), key: key, answered: make(chan struct{}), waiting: 1}
	f.byKey[key], f.byID[q.id] = q, q
	return q, true, nil
}

// leave removes a pending task without waiting callers.
func (f *Finder) leave(q *pendingTask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q.waiting--
	if q.waiting == 0 && !q.done {
		q.done = true
		delete(f.byID, q.id)
		delete(f.byKey, q.key)
	}
}

func (f *Finder) publish(ctx context.Context, q *pendingTask, task event.DiscoveryTask, now time.Time) error {
	task.RequestID, task.RequestedAt, task.Deadline = q.id, now.UTC(), now.UTC().Add(f.cfg.Budget)
	value, err := json.Marshal(task, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode task: %w", err)
	}
	m := message.NewMessage(q.id, value)
	// Other callers may wait for the task after the first has left.
	publishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.cfg.Budget)
	defer cancel()
	m.SetContext(publishing)
	bus.SetMessageEvent(m, bus.Event{
		ID: q.id, Type: event.TypeDiscoveryTask, Source: source, Subject: q.id, Time: now,
		ContentType: "application/json",
	})
	m.Metadata[bus.MetadataKey] = q.key
	return f.publisher.Publish(event.TopicDiscoveryTask, m) //nolint:contextcheck // the message carries it
}

// PublishFeedback publishes feedback on a match. It returns when the brokers have acknowledged it. The error may be
// [ErrUnavailable].
func (f *Finder) PublishFeedback(ctx context.Context, feedback *event.Feedback) error {
	value, err := json.Marshal(feedback, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode feedback: %w", err)
	}
	m := message.NewMessage(feedback.ID, value)
	m.SetContext(ctx)
	bus.SetMessageEvent(m, bus.Event{
		ID: feedback.ID, Type: event.TypeFeedback, Source: source, Subject: feedback.ID, Time: feedback.At,
		ContentType: "application/json",
	})
	m.Metadata[bus.MetadataKey] = feedback.ID
	if err := f.publisher.Publish(event.TopicFeedback, m); err != nil { //nolint:contextcheck // the message carries it
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Close fails pending tasks and closes the publisher.
func (f *Finder) Close() error {
	f.mu.Lock()
	f.closed = true
	open := make([]*pendingTask, 0, len(f.byID))
	for _, q := range f.byID {
		open = append(open, q)
	}
	f.mu.Unlock()
	for _, q := range open {
		f.finish(q, nil, errClosed)
	}
	if err := f.publisher.Close(); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	return nil
}
