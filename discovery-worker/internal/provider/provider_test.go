package provider_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/provider"
)

// scripted is a provider with scripted answers.
type scripted struct {
	calls atomic.Int64
	ask   func(ctx context.Context, q string) (string, error)
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Ask(ctx context.Context, q string) (string, error) {
	s.calls.Add(1)
	return s.ask(ctx, q)
}

func guard(t *testing.T, s *scripted, cfg provider.Config) (*provider.Guarded[string, string], *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := provider.NewMetrics(reg)
	require.NoError(t, err)
	g, err := provider.Guard(s, cfg, func(q string) string { return q }, m, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return g, reg
}

var errDown = errors.New("down")

func TestGuarded_RetryAfterPausesWithoutOpeningBreaker(t *testing.T) {
	s := &scripted{ask: func(context.Context, string) (string, error) {
		return "", &provider.RetryError{After: time.Hour,
			Err: &provider.StatusError{Status: http.StatusTooManyRequests}}
	}}
	g, _ := guard(t, s, provider.Config{Failures: 1})
	_, err := g.Ask(t.Context(), "x")
	require.ErrorContains(t, err, "429")
	_, err = g.Ask(t.Context(), "y")
	require.ErrorIs(t, err, provider.ErrPaused)
	require.EqualValues(t, 1, s.calls.Load())
	require.Equal(t, "closed", g.State())
}

func TestGuarded_CoalescesAndCachesEqualCalls(t *testing.T) {
	release := make(chan struct{})
	s := &scripted{ask: func(_ context.Context, q string) (string, error) { <-release; return q + "!", nil }}
	g, _ := guard(t, s, provider.Config{})
	leaving, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 20 {
		ctx := t.Context()
		if i == 0 {
			ctx = leaving
		}
		all.Go(func() {
			answer, err := g.Ask(ctx, "x")
			if ctx == leaving {
				return
			}
			if err != nil || answer != "x!" {
				t.Errorf("%q, %v", answer, err)
			}
		})
	}
	require.Eventually(t, func() bool { return s.calls.Load() == 1 }, 30*time.Second, time.Millisecond)
	leave() // does not end the call that others wait for
	close(release)
	all.Wait()
	_, err := g.Ask(t.Context(), "x")
	require.NoError(t, err)
	require.EqualValues(t, 1, s.calls.Load())
}

// The response arrives between the cache lookup and the call.
func TestGuarded_ReusesResponseCachedMeanwhile(t *testing.T) {
	s := &scripted{ask: func(_ context.Context, q string) (string, error) { return q + "!", nil }}
	g, _ := guard(t, s, provider.Config{})
	const questions = 3000
	for i := range questions {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := g.Ask(t.Context(), fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	require.EqualValues(t, questions, s.calls.Load())
}

func TestGuarded_LimitsTimeAndConcurrency(t *testing.T) {
	s := &scripted{ask: func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
	g, _ := guard(t, s, provider.Config{Timeout: 30 * time.Millisecond, Concurrent: 1})
	errs := make(chan error, 2)
	for _, q := range []string{"x", "y"} {
		go func() { _, err := g.Ask(t.Context(), q); errs <- err }()
	}
	first, second := <-errs, <-errs
	require.Error(t, first)
	require.Error(t, second)
	require.LessOrEqual(t, s.calls.Load(), int64(2))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := g.Ask(ctx, "z")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A busy provider must not look like a failing one.
func TestGuarded_WaitDoesNotShortenCall(t *testing.T) {
	const timeout = 30 * time.Second
	began, release, deadlines := make(chan struct{}, 1), make(chan struct{}), make(chan time.Time, 1)
	s := &scripted{ask: func(ctx context.Context, q string) (string, error) {
		if q == "first" {
			began <- struct{}{}
			<-release
			return q, nil
		}
		end, _ := ctx.Deadline()
		deadlines <- end
		return q, nil
	}}
	g, _ := guard(t, s, provider.Config{Timeout: timeout, Concurrent: 1})
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { _, _ = g.Ask(t.Context(), "first") })
	<-began
	all.Go(func() { _, _ = g.Ask(t.Context(), "second") })
	// The caller waits now, or finds a free slot.
	<-time.After(50 * time.Millisecond)
	released := time.Now()
	close(release)
	require.GreaterOrEqual(t, (<-deadlines).Sub(released), timeout)
}

func TestGuarded_WaitEndsWithBusyError(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	s := &scripted{ask: func(context.Context, string) (string, error) { close(began); <-release; return "", nil }}
	g, _ := guard(t, s, provider.Config{Timeout: 10 * time.Millisecond, Concurrent: 1, Failures: 1})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(release)
	all.Go(func() { _, _ = g.Ask(t.Context(), "first") })
	<-began
	_, err := g.Ask(t.Context(), "second")
	require.ErrorIs(t, err, provider.ErrBusy)
	require.Equal(t, "closed", g.State())
}

func TestRetryAfter_ParsesSecondsAndDates(t *testing.T) {
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": time.Second, "Sat, 21 Nov 2026 06:01:00 GMT": time.Minute,
		"Sat, 21 Nov 2026 05:00:00 GMT": time.Second, "soon": 0, "": 0, "-3": 0,
	} {
		got, ok := provider.RetryAfter(http.Header{"Retry-After": {value}}, now)
		require.Equal(t, want, got, value)
		require.Equal(t, want > 0, ok, value)
	}
}

func TestGuarded_PanicIsFailure(t *testing.T) {
	s := &scripted{ask: func(context.Context, string) (string, error) { panic("defect") }}
	g, _ := guard(t, s, provider.Config{Failures: 2, OpenFor: time.Minute})
	for range 2 {
		answer, err := g.Ask(t.Context(), "x")
		require.ErrorContains(t, err, "scripted: panic: string")
		require.Empty(t, answer)
	}
	require.Equal(t, "open", g.State(), "a panic counts as a failure")
}
