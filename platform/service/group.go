package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Unit is one named thing that runs in a [Group].
type Unit struct {
	Name string
	// Needs names the units that must be ready before this one starts. They stop only after it has stopped.
	Needs []string
	// Run does the work until ctx ends, then returns nil or ctx's error. Returning nil before that is an error, except
	// for a Job.
	Run func(ctx context.Context) error
	// Ready blocks until other units may depend on this one; it runs concurrently with Run. If it is nil, the unit is
	// ready as soon as Run has been called or, for a Job, when Run has returned nil. [Poll] makes one from a [Check].
	Ready func(ctx context.Context) error
	// Job marks work that ends by itself, such as a migration. Units that depend on it start after it has ended.
	Job bool
	// StartTimeout limits Ready; the default is 60 s. It does not limit a Job without Ready.
	StartTimeout time.Duration
}

// GroupConfig configures a [Group].
type GroupConfig struct {
	Logger *slog.Logger
	// StopTimeout is the time that all units together have to stop in order; the default is 8 s, twice the stop timeout
	// of a [Server], so that units with a stop timeout of their own finish first. After it the contexts of all
	// remaining units end.
	StopTimeout time.Duration
}

// UnitError is an error of one unit of a [Group].
type UnitError struct {
	Unit string
	Err  error
}

// Error returns the error, prefixed by the unit's name.
func (e *UnitError) Error() string { return e.Unit + ": " + e.Err.Error() }

// Unwrap returns the unit's own error.
func (e *UnitError) Unwrap() error { return e.Err }

// PanicError is a recovered panic. Its stack is meant for the log; Error does not contain it.
type PanicError struct {
	Value any
	Stack []byte
}

// Error describes the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrEndedEarly is the error of a unit that is not a Job and whose Run returned nil before it was stopped.
var ErrEndedEarly = errors.New("exited unexpectedly")

// ErrStopTimeout is part of the error of a unit that did not stop within the group's StopTimeout.
var ErrStopTimeout = errors.New("did not stop in time")

// State is the lifecycle state of a unit of a [Group]:
//
//	waiting -> starting -> ready -> stopping -> stopped
//
// A Job goes from starting or ready to done. A unit whose Run failed is in state failed.
type State string

// The states of a unit.
const (
	StateWaiting  State = "waiting"
	StateStarting State = "starting"
	StateReady    State = "ready"
	StateDone     State = "done"
	StateStopping State = "stopping"
	StateStopped  State = "stopped"
	StateFailed   State = "failed"
)

// UnitState is the name and state of a unit.
type UnitState struct {
	Name  string `json:"name"`
	State State  `json:"state"`
}

// Group runs units in one process. A unit starts when all the units it needs are ready. When the group stops, a unit's
// context ends after all units that need it have stopped. The group stops when Run's context ends or a unit fails; a
// group of Jobs only ends by itself when all are done.
type Group struct {
	cfg   GroupConfig
	units []*member
	names map[string]*member

	mu     sync.Mutex
	failed []error
}

type member struct {
	Unit
	needs      []*member
	dependants []*member

	ctx    context.Context // set by Group.Run; ends when this unit must stop
	cancel context.CancelFunc
	ready  chan struct{} // closed, by readyOnce, when dependants may start
	done   chan struct{} // closed when Run and Ready have returned or will not be called

	readyOnce sync.Once

	mu    sync.Mutex
	state State
}

// NewGroup returns a group without units.
func NewGroup(cfg GroupConfig) *Group {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.StopTimeout = positive(cfg.StopTimeout, 8*time.Second)
	return &Group{cfg: cfg, names: make(map[string]*member)}
}

// Add adds a unit. The units it needs must be added before it, which also rules out cycles. Add must not be called
// after Run.
func (g *Group) Add(u Unit) error {
	if u.Name == "" || u.Run == nil {
		return fmt.Errorf("service group: unit %q: Name and Run are required", u.Name)
	}
	if g.names[u.Name] != nil {
		return fmt.Errorf("service group: duplicate unit %q", u.Name)
	}
	u.StartTimeout = positive(u.StartTimeout, time.Minute)
	m := &member{Unit: u, ready: make(chan struct{}), done: make(chan struct{}), state: StateWaiting}
	for _, name := range u.Needs {
		need := g.names[name]
		if need == nil {
			return fmt.Errorf("service group: unit %q needs unit %q, which must be added first", u.Name, name)
		}
		m.needs = append(m.needs, need)
	}
	for _, need := range m.needs {
		need.dependants = append(need.dependants, m)
	}
	g.names[u.Name] = m
	g.units = append(g.units, m)
	return nil
}

// Run runs all units and returns when all have stopped. The result is nil if every unit ended as expected; otherwise
// it is the first failure, as a [UnitError], joined with the failures during the stop. Run must be called only once.
func (g *Group) Run(ctx context.Context) error {
	stop, stopNow := context.WithCancel(ctx)
	defer stopNow()
	// The units' contexts keep the values of ctx, but end in the order of Needs rather than all at once.
	base, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	for _, m := range g.units {
		m.ctx, m.cancel = context.WithCancel(base)
	}
	var running, stoppers sync.WaitGroup
	for _, m := range g.units {
		running.Go(func() {
			defer close(m.done)
			defer m.cancel()
			if err := g.runUnit(stop, m); err != nil {
				g.fail(m, err)
				stopNow()
			}
		})
		stoppers.Go(func() {
			select {
			case <-stop.Done():
			case <-m.done:
				return
			}
			for _, d := range m.dependants {
				<-d.done
			}
			m.setState(StateStopping)
			m.cancel()
		})
	}
	finished := make(chan struct{})
	go func() { running.Wait(); stoppers.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-stop.Done():
		g.await(finished, abandon)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.failed...)
}

// logStoppingAfter is how long a stop may take before the units it is waiting for are logged.
const logStoppingAfter = time.Second

// await waits for an orderly stop. After StopTimeout it ends all contexts, and after another StopTimeout it gives up on
// the units that are still running.
func (g *Group) await(finished <-chan struct{}, abandon func()) {
	timer := time.NewTimer(g.cfg.StopTimeout)
	defer timer.Stop()
	late := time.NewTimer(min(logStoppingAfter, g.cfg.StopTimeout/2))
	defer late.Stop()
	select {
	case <-finished:
		return
	case <-late.C:
		g.logStopping()
	}
	select {
	case <-finished:
		return
	case <-timer.C:
	}
	for _, m := range g.units {
		if !m.ended() && m.State() == StateStopping {
			g.fail(m, fmt.Errorf("%w (%v)", ErrStopTimeout, g.cfg.StopTimeout))
		}
	}
	abandon()
	timer.Reset(g.cfg.StopTimeout)
	select {
	case <-finished:
	case <-timer.C:
		for _, m := range g.units {
			if !m.ended() {
				g.fail(m, fmt.Errorf("abandoned: %w", ErrStopTimeout))
			}
		}
	}
}

// logStopping logs the units that the stop is waiting for.
func (g *Group) logStopping() {
	var names []string
	for _, m := range g.units {
		if !m.ended() && m.State() == StateStopping {
			names = append(names, m.Name)
		}
	}
	if len(names) > 0 {
		g.cfg.Logger.Info("service: waiting for units to stop", slog.String("units", strings.Join(names, ", ")))
	}
}

// runUnit waits for the units that m needs, runs m and returns its failure.
func (g *Group) runUnit(stop context.Context, m *member) error { //nolint:contextcheck // m.ctx ends after stop
	for _, need := range m.needs {
		select {
		case <-need.ready:
		case <-stop.Done():
			m.setState(StateStopped)
			return nil
		}
	}
	// Both may have been ready: do not start a unit that must stop.
	if stop.Err() != nil {
		m.setState(StateStopped)
		return nil
	}
	m.setState(StateStarting)
	started := time.Now()
	g.cfg.Logger.Debug("starting", "unit", m.Name)

	var readying sync.WaitGroup
	readyCtx, endReady := context.WithCancel(m.ctx)
	defer endReady()
	readyErr := make(chan error, 1)
	switch {
	case m.Ready != nil:
		readying.Go(func() {
			if err := g.awaitReady(readyCtx, m, started); err != nil {
				readyErr <- err
				m.cancel()
			}
		})
	case !m.Job:
		m.setReady()
	}

	err := g.logPanic(m, guard(func() error { return m.Run(m.ctx) }))
	stopped := stop.Err() != nil
	if !m.Job || err != nil {
		// The Ready of a Job that succeeded may still have to verify that its work took effect.
		endReady()
	}
	readying.Wait()
	select {
	// A failed Ready ended the unit; Run's error is only a consequence.
	case e := <-readyErr:
		err = e
	default:
	}
	switch {
	case err != nil && m.ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = nil
	case err == nil && m.Job && !stopped:
		m.setReady()
		m.setState(StateDone)
		g.cfg.Logger.Debug("done", "unit", m.Name, "took", time.Since(started))
		return nil
	case err == nil && !m.Job && !stopped:
		err = ErrEndedEarly
	}
	if err != nil {
		m.setState(StateFailed)
		return err
	}
	m.setState(StateStopped)
	g.cfg.Logger.Debug("stopped", "unit", m.Name)
	return nil
}

func (g *Group) awaitReady(ctx context.Context, m *member, started time.Time) error {
	limited, cancel := context.WithTimeout(ctx, m.StartTimeout)
	defer cancel()
	err := g.logPanic(m, guard(func() error { return m.Ready(limited) }))
	switch {
	case err == nil:
		m.setReady()
		g.cfg.Logger.Debug("ready", "unit", m.Name, "took", time.Since(started))
		return nil
	// Run ended or the group is stopping: not a failure of Ready.
	case ctx.Err() != nil:
		return nil
	case limited.Err() != nil:
		return fmt.Errorf("not ready after %v: %w", m.StartTimeout, err)
	default:
		return fmt.Errorf("not ready: %w", err)
	}
}

// States returns the units' states in the order in which the units were added.
func (g *Group) States() []UnitState {
	out := make([]UnitState, len(g.units))
	for i, m := range g.units {
		out[i] = UnitState{Name: m.Name, State: m.State()}
	}
	return out
}

// Check is a readiness [Check]: it fails while units are neither ready nor done, and names them.
func (g *Group) Check(context.Context) error {
	var missing []string
	for _, s := range g.States() {
		if s.State != StateReady && s.State != StateDone {
			missing = append(missing, fmt.Sprintf("%s is %s", s.Name, s.State))
		}
	}
	if len(missing) > 0 {
		return errors.New(strings.Join(missing, ", "))
	}
	return nil
}

func (g *Group) fail(m *member, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	same := func(e error) bool {
		var u *UnitError
		return errors.As(e, &u) && u.Unit == m.Name && u.Err.Error() == err.Error()
	}
	if !slices.ContainsFunc(g.failed, same) {
		g.failed = append(g.failed, &UnitError{Unit: m.Name, Err: err})
	}
}

// logPanic logs the stack, which is not part of the error's text.
func (g *Group) logPanic(m *member, err error) error {
	var p *PanicError
	if errors.As(err, &p) {
		g.cfg.Logger.Error("panic", "unit", m.Name, "value", fmt.Sprint(p.Value), "stack", string(p.Stack))
	}
	return err
}

// State returns the unit's current state.
func (m *member) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func (m *member) setState(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// The unit never ran, or has already ended.
	if s == StateStopping && m.state != StateReady && m.state != StateStarting {
		return
	}
	m.state = s
}

func (m *member) setReady() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == StateStarting {
		m.state = StateReady
	}
	m.readyOnce.Do(func() { close(m.ready) })
}

func (m *member) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// guard calls f and turns a panic into a [PanicError].
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Poll returns a Ready function that runs check every interval until it passes or ctx ends; the error then includes
// the check's last reason.
func Poll(check Check, interval time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			err := check(ctx)
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-ticker.C:
			}
		}
	}
}
