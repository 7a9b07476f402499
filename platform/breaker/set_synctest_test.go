package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muster/platform/breaker"
)

var errDown = errors.New("down")

func newSet(t *testing.T, cfg breaker.Config) *breaker.Set {
	t.Helper()
	cfg.Name = "test"
	s, err := breaker.NewSet(cfg)
	require.NoError(t, err)
	return s
}

func fail(context.Context) error    { return errDown }
func succeed(context.Context) error { return nil }

func TestSet_OpensHalfOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := newSet(t, breaker.Config{Failures: 3, OpenFor: 10 * time.Second, Probes: 2})
		for range 3 {
			require.Equal(t, "closed", s.State("a"))
			require.Equal(t, errDown, s.Do(ctx, "a", fail), "the error is returned unchanged")
		}
		require.Equal(t, "open", s.State("a"))
		require.Equal(t, "closed", s.State("b"))
		require.NoError(t, s.Do(ctx, "b", succeed), "keys are independent")

		time.Sleep(4 * time.Second)
		err := s.Do(ctx, "a", func(context.Context) error { t.Error("called"); return nil })
		require.ErrorIs(t, err, breaker.ErrOpen)
		var open *breaker.OpenError
		require.ErrorAs(t, err, &open)
		require.Equal(t, 6*time.Second, open.RetryAfter)
		require.EqualError(t, err, "a: circuit breaker is open for another 6s")

		time.Sleep(6*time.Second + time.Millisecond)
		require.Equal(t, "half-open", s.State("a"))
		require.Equal(t, errDown, s.Do(ctx, "a", fail))
		require.Equal(t, "open", s.State("a"), "a failed probe reopens it")
		time.Sleep(10*time.Second + time.Millisecond)
		require.NoError(t, s.Do(ctx, "a", succeed))
		require.Equal(t, "half-open", s.State("a"), "one of two probes")
		require.NoError(t, s.Do(ctx, "a", succeed))
		require.Equal(t, "closed", s.State("a"))
		require.Equal(t, map[string]string{"a": "closed", "b": "closed"}, s.States())
	})
}

func TestSet_CountsOnlyFailuresOfTheKey(t *testing.T) {
	badRequest := errors.New("400")
	for name, tc := range map[string]struct {
		err    error
		cancel bool
		want   string
	}{
		"failure":                     {err: errDown, want: "open"},
		"timeout":                     {err: context.DeadlineExceeded, want: "open"},
		"not a failure of the key":    {err: badRequest, want: "closed"},
		"open breaker of another set": {err: fmt.Errorf("provider: %w", &breaker.OpenError{Key: "x"}), want: "closed"},
		"caller canceled":             {err: errDown, cancel: true, want: "closed"},
		"canceled without the caller": {err: context.Canceled, want: "open"},
		"call not made":               {err: fmt.Errorf("no secret: %w", breaker.ErrNotTried), want: "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, breaker.Config{
				Failures: 2, IsFailure: func(err error) bool { return !errors.Is(err, badRequest) },
			})
			for range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				got := s.Do(ctx, "a", func(context.Context) error {
					if tc.cancel {
						cancel()
					}
					return tc.err
				})
				require.Equal(t, tc.err, got)
				cancel()
			}
			require.Equal(t, tc.want, s.State("a"))
		})
	}
}

// A call that was not made neither uses up a probe nor resets the consecutive failures.
func TestSet_IgnoresCallsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, breaker.Config{Failures: 2, OpenFor: 10 * time.Second})
		notTried := func(context.Context) error { return breaker.ErrNotTried }
		require.Equal(t, errDown, s.Do(t.Context(), "a", fail))
		require.Equal(t, breaker.ErrNotTried, s.Do(t.Context(), "a", notTried))
		require.Equal(t, errDown, s.Do(t.Context(), "a", fail))
		require.Equal(t, "open", s.State("a"))
		time.Sleep(10*time.Second + time.Millisecond)
		require.Equal(t, breaker.ErrNotTried, s.Do(t.Context(), "a", notTried))
		require.Equal(t, "half-open", s.State("a"))
		require.NoError(t, s.Do(t.Context(), "a", succeed), "a probe is still allowed")
		require.Equal(t, "closed", s.State("a"))
	})
}

func TestSet_CountsPanicAsFailure(t *testing.T) {
	s := newSet(t, breaker.Config{Failures: 1})
	require.PanicsWithValue(t, "oh", func() {
		_ = s.Do(t.Context(), "a", func(context.Context) error { panic("oh") })
	})
	require.Equal(t, "open", s.State("a"))
}

func TestDo_ReturnsResult(t *testing.T) {
	s := newSet(t, breaker.Config{})
	got, err := breaker.Do(t.Context(), s, "a", func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, got)
}

func TestDoWhenClosed_WaitsWhileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, breaker.Config{Failures: 1, OpenFor: 10 * time.Second})
		require.Error(t, s.Do(t.Context(), "a", fail))
		start := time.Now()
		// Only one probe is allowed at a time: the other callers wait for its end instead of failing.
		var wg sync.WaitGroup
		var calls atomic.Int64
		for range 5 {
			wg.Go(func() {
				_, err := breaker.DoWhenClosed(t.Context(), s, "a", func(context.Context) (int, error) {
					calls.Add(1)
					time.Sleep(time.Second)
					return 0, nil
				})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.EqualValues(t, 5, calls.Load())
		// Ten seconds open, one for the probe, one for the other calls together.
		require.InDelta(t, 12, time.Since(start).Seconds(), 0.2)
	})
}

func TestDoWhenClosed_NeitherRepeatsNorHidesTheCall(t *testing.T) {
	s := newSet(t, breaker.Config{})
	inner := fmt.Errorf("provider: %w", &breaker.OpenError{Key: "x"})
	calls := 0
	_, err := breaker.DoWhenClosed(t.Context(), s, "a", func(context.Context) (int, error) {
		calls++
		return 0, inner
	})
	require.Equal(t, inner, err)
	require.Equal(t, 1, calls)
}

func TestSet_WaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, breaker.Config{Failures: 1, OpenFor: 10 * time.Second})
		require.NoError(t, s.Wait(t.Context(), "a"))
		require.Error(t, s.Do(t.Context(), "a", fail))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Wait(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.NoError(t, s.Wait(t.Context(), "a"))
		require.Equal(t, "half-open", s.State("a"))
	})
}

func TestSet_EvictsClosedBreakersFirst(t *testing.T) {
	ctx := t.Context()
	s := newSet(t, breaker.Config{Failures: 1, OpenFor: time.Hour, MaxKeys: 3})
	require.Error(t, s.Do(ctx, "open", fail))
	require.NoError(t, s.Do(ctx, "b", succeed))
	require.NoError(t, s.Do(ctx, "c", succeed))
	require.NoError(t, s.Do(ctx, "d", succeed))
	require.Equal(t, map[string]string{"open": "open", "c": "closed", "d": "closed"}, s.States(),
		"evicts the least recently used closed breaker; the open one stays although it is older")

	require.Error(t, s.Do(ctx, "c", fail))
	require.Error(t, s.Do(ctx, "d", fail))
	require.NoError(t, s.Do(ctx, "e", succeed))
	require.Equal(t, map[string]string{"c": "open", "d": "open", "e": "closed"}, s.States(),
		"evicts the oldest if all are open")

	// The set grows while all breakers are in use, and shrinks when the calls are done.
	inside, proceed := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			_ = s.Do(ctx, fmt.Sprint("busy", i), func(context.Context) error {
				inside <- struct{}{}
				<-proceed
				return nil
			})
		})
	}
	for range 5 {
		<-inside
	}
	require.Len(t, s.States(), 5)
	close(proceed)
	wg.Wait()
	require.Len(t, s.States(), 3)
}

func TestSet_ExportsMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s, err := breaker.NewSet(breaker.Config{
		Name: "providers", Failures: 1, OpenFor: time.Hour, KeyMetrics: true, MaxKeys: 2, Registerer: registry,
	})
	require.NoError(t, err)
	require.Error(t, s.Do(t.Context(), "x", fail))
	require.ErrorIs(t, s.Do(t.Context(), "x", fail), breaker.ErrOpen)
	require.NoError(t, s.Do(t.Context(), "y", succeed))
	require.NoError(t, s.Do(t.Context(), "z", succeed))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP muster_breaker_evicted_total Circuit breakers evicted to limit their number.
# TYPE muster_breaker_evicted_total counter
muster_breaker_evicted_total{set="providers",state="closed"} 1
# HELP muster_breaker_rejections_total Calls that a circuit breaker rejected.
# TYPE muster_breaker_rejections_total counter
muster_breaker_rejections_total{set="providers"} 1
# HELP muster_breaker_state State of a circuit breaker: 0 closed, 1 half-open, 2 open.
# TYPE muster_breaker_state gauge
muster_breaker_state{key="x",set="providers"} 2
muster_breaker_state{key="z",set="providers"} 0
# HELP muster_breaker_transitions_total Changes of state of circuit breakers.
# TYPE muster_breaker_transitions_total counter
muster_breaker_transitions_total{set="providers",to="open"} 1
# HELP muster_breakers Circuit breakers in each state.
# TYPE muster_breakers gauge
muster_breakers{set="providers",state="closed"} 1
muster_breakers{set="providers",state="half-open"} 0
muster_breakers{set="providers",state="open"} 1
`)))
	_, err = breaker.NewSet(breaker.Config{Name: "providers", Registerer: registry})
	require.ErrorContains(t, err, "breaker set providers")
	_, err = breaker.NewSet(breaker.Config{})
	require.ErrorContains(t, err, "no name")
}

func TestSet_IsSafeForConcurrentUse(t *testing.T) {
	s := newSet(t, breaker.Config{Failures: 2, OpenFor: time.Microsecond, MaxKeys: 4})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				err := s.Do(t.Context(), fmt.Sprint("key", (g+i)%9), func(context.Context) error {
					if i%3 == 0 {
						return errDown
					}
					return nil
				})
				if err != nil && !errors.Is(err, errDown) && !errors.Is(err, breaker.ErrOpen) {
					t.Error(err)
				}
				s.States()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, len(s.States()), 4)
}

func TestMayDeadLetter_RejectsErrorsNotCausedByTheMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":        {nil, false},
		"bad message":     {errors.New("cannot decode"), true},
		"breaker open":    {fmt.Errorf("call: %w", &breaker.OpenError{Key: "a"}), false},
		"shutdown":        {fmt.Errorf("call: %w", context.Canceled), false},
		"handler timeout": {context.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, breaker.MayDeadLetter(tc.err)) })
	}
}
