package service_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/service"
)

// journal records events in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.events, " ")
}

// unit returns a unit that runs until it is stopped and takes one second to become ready and one to stop.
func (j *journal) unit(name string, needs ...string) service.Unit {
	return service.Unit{
		Name: name, Needs: needs,
		Run: func(ctx context.Context) error {
			j.add("+" + name)
			<-ctx.Done()
			time.Sleep(time.Second)
			j.add("-" + name)
			return ctx.Err()
		},
		Ready: func(context.Context) error { time.Sleep(time.Second); j.add("!" + name); return nil },
	}
}

func newGroup(t *testing.T, cfg service.GroupConfig, units ...service.Unit) *service.Group {
	t.Helper()
	g := service.NewGroup(cfg)
	for _, u := range units {
		require.NoError(t, g.Add(u))
	}
	return g
}

func TestGroup_StartsInOrderAndStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := newGroup(t, service.GroupConfig{StopTimeout: 10 * time.Second},
			j.unit("engine"), j.unit("projector", "engine"), j.unit("api", "projector", "engine"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()

		time.Sleep(500 * time.Millisecond)
		require.EqualError(t, g.Check(ctx), "engine is starting, projector is waiting, api is waiting")
		time.Sleep(3 * time.Second)
		require.NoError(t, g.Check(ctx))
		cancel()
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, []service.UnitState{
			{"engine", service.StateReady}, {"projector", service.StateReady}, {"api", service.StateStopping},
		}, g.States())
		require.NoError(t, <-done)
		require.Equal(t, "+engine !engine +projector !projector +api !api -api -projector -engine", j.String())
		require.EqualError(t, g.Check(ctx), "engine is stopped, projector is stopped, api is stopped")
	})
}

func TestGroup_StopsOnFirstErrorAndNamesItsUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		boom, late := errors.New("boom"), errors.New("late")
		g := newGroup(t, service.GroupConfig{}, j.unit("engine"),
			service.Unit{Name: "bad", Needs: []string{"engine"}, Run: func(context.Context) error {
				time.Sleep(time.Second)
				return boom
			}},
			service.Unit{Name: "worse", Run: func(ctx context.Context) error { <-ctx.Done(); return late }})
		err := g.Run(t.Context())
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, late)
		require.EqualError(t, err, "bad: boom\nworse: late")
		var unit *service.UnitError
		require.ErrorAs(t, err, &unit)
		require.Equal(t, "bad", unit.Unit)
		require.Equal(t, "+engine !engine -engine", j.String())
	})
}

func TestGroup_TurnsPanicsIntoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := newGroup(t, service.GroupConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			service.Unit{Name: "bad", Run: func(context.Context) error { panic("oh") }})
		err := g.Run(t.Context())
		require.EqualError(t, err, "bad: panic: oh")
		require.Contains(t, log.String(), "group_synctest_test.go", "the stack is in the log")
	})
}

func TestGroup_EndsAsUnitsEnd(t *testing.T) {
	forever := func(ctx context.Context) error { <-ctx.Done(); return nil }
	nothing := func(context.Context) error { return nil }
	poll := service.Poll(func(context.Context) error { return errors.New("cold") }, time.Second)
	for name, tc := range map[string]struct {
		units []service.Unit
		after time.Duration // time until the caller ends the group; 0: never
		want  string        // "" for nil
		took  time.Duration
	}{
		"no units": {},
		"jobs only": {units: []service.Unit{
			{Name: "a", Job: true, Run: nothing},
			{Name: "b", Job: true, Needs: []string{"a"}, Run: nothing},
		}},
		"job with ready": {
			units: []service.Unit{
				{Name: "a", Job: true, Run: nothing, Ready: nothing},
				{Name: "b", Needs: []string{"a"}, Run: forever},
			},
			after: time.Second, took: time.Second,
		},
		"early end": {
			units: []service.Unit{{Name: "a", Run: nothing}, {Name: "b", Run: forever}},
			want:  "a: exited unexpectedly",
		},
		"never ready": {
			units: []service.Unit{{Name: "a", Run: forever, Ready: poll}},
			want:  "a: not ready after 1m0s: context deadline exceeded\ncold",
			took:  time.Minute,
		},
		"ready fails": {
			units: []service.Unit{
				{Name: "a", Run: forever, Ready: func(context.Context) error { return errors.New("broken") }},
			},
			want: "a: not ready: broken",
		},
		"ready panics": {
			units: []service.Unit{{Name: "a", Run: forever, Ready: func(context.Context) error { panic("x") }}},
			want:  "a: not ready: panic: x",
		},
		"stopped before ready": {
			units: []service.Unit{
				{Name: "a", Run: forever, Ready: forever},
				{Name: "b", Needs: []string{"a"}, Run: forever},
			},
			after: time.Second, took: time.Second,
		},
		"run returns its own cancellation": {
			units: []service.Unit{{Name: "a", Run: func(context.Context) error { return context.Canceled }}},
			want:  "a: context canceled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.after > 0 {
					time.AfterFunc(tc.after, cancel)
				}
				start := time.Now()
				err := newGroup(t, service.GroupConfig{}, tc.units...).Run(ctx)
				if tc.want == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, tc.want)
				}
				require.Equal(t, tc.took, time.Since(start))
			})
		})
	}
}

func TestGroup_RejectsInvalidUnits(t *testing.T) {
	run := func(context.Context) error { return nil }
	g := newGroup(t, service.GroupConfig{}, service.Unit{Name: "a", Run: run})
	require.ErrorContains(t, g.Add(service.Unit{Name: "a", Run: run}), `duplicate unit "a"`)
	require.ErrorContains(t, g.Add(service.Unit{Name: "b", Needs: []string{"c"}, Run: run}), `"b" needs unit "c"`)
	require.ErrorContains(t, g.Add(service.Unit{Name: "b"}), "Name and Run are required")
}

func TestGroup_AbandonsUnresponsiveUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		g := newGroup(t, service.GroupConfig{},
			service.Unit{Name: "base", Run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			service.Unit{Name: "stuck", Needs: []string{"base"}, Run: func(context.Context) error {
				<-release
				return nil
			}})
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		err := g.Run(ctx)
		require.ErrorIs(t, err, service.ErrStopTimeout)
		require.EqualError(t, err, "stuck: did not stop in time (8s)\nstuck: abandoned: did not stop in time")
		require.Equal(t, 17*time.Second, time.Since(start))
		close(release)
		synctest.Wait()
	})
}
