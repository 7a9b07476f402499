package breaker

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// Config configures a [Set]. Only Name is required.
type Config struct {
	// Name is the label "set" of the metrics.
	Name string
	// Failures is the number of consecutive failures that open the breaker; the default is 5.
	Failures uint32
	// OpenFor is how long an open breaker rejects calls before it allows probes; the default is 30 s.
	OpenFor time.Duration
	// Probes is how many calls a half-open breaker allows, all of which must succeed to close it; the default is 1.
	Probes uint32
	// MaxKeys limits the number of breakers; the default is 10,000. See [Set].
	MaxKeys int
	// IsFailure reports whether an error counts as a failure of the key; other errors count as successes. The default
	// is all errors. ErrOpen of another breaker, ErrNotTried and the end of the caller's own context are ignored.
	IsFailure func(error) bool
	// KeyMetrics adds a gauge with the state of each key. Keys must be few and must not be personal data.
	KeyMetrics bool
	Logger     *slog.Logger
	// Registerer receives the metrics; nil registers none.
	Registerer prometheus.Registerer
}

// ErrOpen is matched by the error of a call that a breaker rejected, and which was therefore not made.
var ErrOpen = errors.New("circuit breaker is open")

// ErrNotTried is returned by a function that could not make its call: it counts neither as a success nor as a failure.
var ErrNotTried = errors.New("the call was not made")

// OpenError is the rejection of a call by a breaker. It matches [ErrOpen].
type OpenError struct {
	Key string
	// RetryAfter is how long the breaker will presumably keep rejecting calls.
	RetryAfter time.Duration
}

// Error describes the key and the remaining time.
func (e *OpenError) Error() string {
	return fmt.Sprintf("%s: %v for another %v", e.Key, ErrOpen, e.RetryAfter.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrOpen) true.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// Set is a bounded set of breakers, which are created on the first use of their keys. If a new key exceeds MaxKeys, the
// set evicts a closed breaker without calls in flight from the 64 least recently used ones; a closed breaker holds
// little state, only its consecutive failures. If there is none, it evicts the least recently used breaker without
// calls or waiters, which costs some extra attempts at a failing key. If all are in use, the set grows.
type Set struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   *list.List               // most recently used first
}

type entry struct {
	key      string
	breaker  *gobreaker.CircuitBreaker[struct{}]
	inUse    int // calls and waiters; guarded by Set.mu
	mu       sync.Mutex
	openedAt time.Time     // guarded by mu
	changed  chan struct{} // guarded by mu; closed on the next state change
}

// NewSet returns an empty set. Registering its metrics twice is an error.
func NewSet(cfg Config) (*Set, error) {
	if cfg.Name == "" {
		return nil, errors.New("breaker set: no name")
	}
	if cfg.Failures == 0 {
		cfg.Failures = 5
	}
	if cfg.OpenFor <= 0 {
		cfg.OpenFor = 30 * time.Second
	}
	if cfg.Probes == 0 {
		cfg.Probes = 1
	}
	if cfg.MaxKeys <= 0 {
		cfg.MaxKeys = 10_000
	}
	if cfg.IsFailure == nil {
		cfg.IsFailure = func(error) bool { return true }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{cfg: cfg, entries: make(map[string]*list.Element), order: list.New()}
	s.metrics = newMetrics(s)
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(s.metrics); err != nil {
			return nil, fmt.Errorf("breaker set %s: %w", cfg.Name, err)
		}
	}
	return s, nil
}

// Do calls f if the key's breaker allows it and returns f's error unchanged; otherwise it returns an [OpenError].
func (s *Set) Do(ctx context.Context, key string, f func(context.Context) error) error {
	e := s.acquire(key)
	defer s.release(e)
	return s.call(ctx, e, f)
}

// Do is like [Set.Do] for a function with a result.
func Do[T any](ctx context.Context, s *Set, key string, f func(context.Context) (T, error)) (T, error) {
	var result T
	err := s.Do(ctx, key, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}

// DoWhenClosed is like [Do] but waits while the breaker is open. f is called at most once. An error that wraps ctx's
// cause and [ErrOpen] means that ctx ended first and f was not called.
func DoWhenClosed[T any](ctx context.Context, s *Set, key string, f func(context.Context) (T, error)) (T, error) {
	e := s.acquire(key)
	defer s.release(e)
	for {
		var result T
		called := false
		err := s.call(ctx, e, func(ctx context.Context) (err error) {
			called = true
			result, err = f(ctx)
			return err
		})
		if called || !errors.Is(err, ErrOpen) {
			return result, err
		}
		if err := s.wait(ctx, e); err != nil {
			return result, err
		}
	}
}

// Wait blocks until the key's breaker may allow a call. Another caller may be faster, in which case Do still rejects
// the call. An error wraps ctx's cause and [ErrOpen].
func (s *Set) Wait(ctx context.Context, key string) error {
	e := s.acquire(key)
	defer s.release(e)
	if e.breaker.State() != gobreaker.StateOpen {
		return nil
	}
	return s.wait(ctx, e)
}

// State returns the state of the key's breaker: "closed", "half-open" or "open". The state of an unused key is closed.
func (s *Set) State(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el, ok := s.entries[key]; ok {
		return el.Value.(*entry).breaker.State().String()
	}
	return gobreaker.StateClosed.String()
}

// States returns the state of every key in the set.
func (s *Set) States() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]string, len(s.entries))
	for key, el := range s.entries {
		out[key] = el.Value.(*entry).breaker.State().String()
	}
	return out
}

// ignoredError wraps an error that counts neither as a success nor as a failure.
type ignoredError struct{ error }

func (s *Set) call(ctx context.Context, e *entry, f func(context.Context) error) error {
	called := false
	_, err := e.breaker.Execute(func() (struct{}, error) {
		called = true
		err := f(ctx)
		if err != nil &&
			(errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, ErrOpen) || errors.Is(err, ErrNotTried)) {
			err = ignoredError{err}
		}
		return struct{}{}, err
	})
	if !called {
		s.metrics.refused.Inc()
		return &OpenError{Key: e.key, RetryAfter: s.retryAfter(e)}
	}
	if ignored, ok := err.(ignoredError); ok { //nolint:errorlint // created above, never wrapped
		return ignored.error
	}
	return err
}

// probePoll is how often a waiter checks again while other callers probe: a finished probe need not change the state.
const probePoll = 100 * time.Millisecond

// retryAfter returns the rest of the open time, or a short time in the half-open state.
func (s *Set) retryAfter(e *entry) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(time.Until(e.openedAt.Add(s.cfg.OpenFor)), min(probePoll, s.cfg.OpenFor))
}

// wait waits for a state change or the end of the open time.
func (s *Set) wait(ctx context.Context, e *entry) error {
	e.mu.Lock()
	changed := e.changed
	e.mu.Unlock()
	// gobreaker leaves the open state only strictly after the open time.
	timer := time.NewTimer(s.retryAfter(e) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		rejection := &OpenError{Key: e.key, RetryAfter: s.retryAfter(e)}
		return fmt.Errorf("wait for breaker: %w (%w)", context.Cause(ctx), rejection)
	}
}

func (s *Set) acquire(key string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el, ok := s.entries[key]; ok {
		s.order.MoveToFront(el)
		e := el.Value.(*entry)
		e.inUse++
		return e
	}
	if len(s.entries) >= s.cfg.MaxKeys {
		s.evict()
	}
	e := &entry{key: key, inUse: 1, changed: make(chan struct{})}
	e.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: key, MaxRequests: s.cfg.Probes, Timeout: s.cfg.OpenFor,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= s.cfg.Failures },
		IsSuccessful: func(err error) bool { return err == nil || !s.cfg.IsFailure(err) },
		IsExcluded: func(err error) bool {
			_, ok := err.(ignoredError) //nolint:errorlint // never wrapped
			return ok
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { s.changed(e, from, to) },
	})
	s.entries[key] = s.order.PushFront(e)
	return e
}

func (s *Set) release(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.inUse--
	// The set may have grown while all breakers were in use.
	for len(s.entries) > s.cfg.MaxKeys && s.evict() {
	}
}

// evictionSample is how many of the least recently used breakers are searched for a closed one.
const evictionSample = 64

// evict removes one breaker, as described in the comment of Set. s.mu must be held.
func (s *Set) evict() bool {
	var victim *list.Element
	seen := 0
	for el := s.order.Back(); el != nil && (seen < evictionSample || victim == nil); el = el.Prev() {
		seen++
		e := el.Value.(*entry)
		if e.inUse > 0 {
			continue
		}
		if e.breaker.State() == gobreaker.StateClosed {
			victim = el
			break
		}
		if victim == nil {
			victim = el
		}
	}
	if victim == nil {
		return false
	}
	e := victim.Value.(*entry)
	s.metrics.evicted.WithLabelValues(e.breaker.State().String()).Inc()
	s.order.Remove(victim)
	delete(s.entries, e.key)
	return true
}

// changed is called by gobreaker with its lock held, so it must not call methods of the breaker.
func (s *Set) changed(e *entry, from, to gobreaker.State) {
	e.mu.Lock()
	if to == gobreaker.StateOpen {
		e.openedAt = time.Now()
	}
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	s.metrics.transitions.WithLabelValues(to.String()).Inc()
	if s.cfg.KeyMetrics {
		s.cfg.Logger.Warn("circuit breaker changed state",
			"set", s.cfg.Name, "key", e.key, "from", from.String(), "to", to.String())
	} else {
		// The key may be a customer's address.
		s.cfg.Logger.Info("circuit breaker changed state",
			"set", s.cfg.Name, "from", from.String(), "to", to.String())
	}
}

// MayDeadLetter reports whether an error can be caused by the message. It is false for [ErrOpen] and for a canceled
// context: those messages are valid and must be redelivered. Use it as the filter of Watermill's PoisonQueueWithFilter,
// combined with the errors that the handler knows to be transient; without a filter, a poison queue drains valid
// messages from a topic while a breaker is open.
func MayDeadLetter(err error) bool {
	return err != nil && !errors.Is(err, ErrOpen) && !errors.Is(err, context.Canceled)
}
