package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/mapping"
	"muster/ingest/internal/runstate"
	"muster/ingest/internal/source"
	"muster/ingest/internal/versions"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Folders of Config.StateDir.
const (
	versionsDir = "versions"
	runsDir     = "runs"
)

// keptRuns is how many runs are remembered that nobody can go on with, and
// keptStopped how long the others are.
const (
	keptRuns    = 200
	keptStopped = 90 * 24 * time.Hour
)

// bindTimeout bounds how long the brokers are asked, at the end of a run, how far
// their topics go.
const bindTimeout = 5 * time.Second

// state is what a run knows from the disk and leaves there. Its zero value knows
// nothing and leaves nothing.
type state struct {
	versions *versions.Store
	scratch  *versions.Store // of a dry run
	tmp      string          // the folder of scratch
	runs     *runstate.Store
	handle   *runstate.Handle
	topics   func(context.Context) (versions.Topics, error)
	// generation is that of what the brokers have, of which versions speaks.
	generation string
}

// errLost is the error of a run while which topics lost what it published.
var errLost = errors.New("the topics are not those that the run began to publish to; what they lack is published when it is run again")

// openState opens the state of a run over files, which is a new one or, unless
// Config.Restart, one over the same files that was stopped.
func openState(ctx context.Context, cfg Config, deps Deps, in inputs) (s *state, err error) {
	s = new(state)
	if cfg.StateDir == "" && !cfg.DryRun {
		return s, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if cfg.DryRun {
		return s, s.openScratch(cfg)
	}
	if s.versions, err = openVersions(ctx, cfg, deps); err != nil {
		return s, err
	}
	s.topics, s.generation = topicsOf(cfg), s.versions.Generation()
	if s.runs, err = runstate.Open(filepath.Join(cfg.StateDir, runsDir)); err != nil {
		return s, err
	}
	run := runstate.Run{ID: cfg.RunID, Kind: in.kind, Map: mappingOf(cfg), MapSum: in.mapSum, Format: string(cfg.Format), Again: cfg.Again, Remap: cfg.Remap, Generation: s.generation}
	for _, path := range in.paths {
		f := runstate.File{Path: path}
		if path != source.Stdin {
			if f, err = runstate.Identify(path); err != nil {
				return s, err
			}
		}
		run.Files = append(run.Files, f)
	}
	if !cfg.Restart {
		if err = s.takeUp(run, deps); err != nil || s.handle != nil {
			return s, err
		}
	}
	if cfg.Remap {
		if run.Revision, err = s.versions.NextRevision(ctx, deps.Now()); err != nil {
			return s, err
		}
	}
	s.handle, err = s.runs.Begin(run, deps.Now)
	return s, err
}

// openVersions opens what is known of identities and makes sure that it is what
// the brokers have.
func openVersions(ctx context.Context, cfg Config, deps Deps) (*versions.Store, error) {
	store, err := versions.Open(filepath.Join(cfg.StateDir, versionsDir))
	if err != nil {
		return nil, err
	}
	forgotten, err := store.Bind(ctx, topicsOf(cfg))
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if forgotten {
		deps.Logger.Warn("the topics are not those that were published to before, or the machine stopped without warning: every record is published again", "state", cfg.StateDir)
	}
	return store, nil
}

// closeVersions notes how far the topics go, if the brokers say so in time, and closes
// what [openVersions] opened.
func closeVersions(ctx context.Context, cfg Config, deps Deps, store *versions.Store, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if _, err := store.Bind(ctx, topicsOf(cfg)); err != nil {
		deps.Logger.Warn("the end of the topics is not noted: if the machine starts anew before it is, everything is published again", "error", err)
	}
	return store.Close()
}

// topicsOf returns how to ask for the topics that records and erasures are published on.
func topicsOf(cfg Config) func(context.Context) (versions.Topics, error) {
	names := []string{event.TopicSeen, event.TopicErasure, event.TopicErasureRequest}
	for _, d := range record.Definitions() {
		names = append(names, d.Topic)
	}
	return func(ctx context.Context) (versions.Topics, error) {
		cluster, err := bus.ClusterID(ctx, cfg.Bus)
		if err != nil {
			return versions.Topics{}, err
		}
		bounds, err := bus.EndOffsets(ctx, cfg.Bus, names)
		if err != nil {
			return versions.Topics{}, err
		}
		t := versions.Topics{Cluster: cluster, Ends: make(map[string][]int64)}
		for _, b := range bounds { // by topic and partition
			t.Ends[b.Topic] = append(t.Ends[b.Topic], b.End)
		}
		return t, nil
	}
}

// openScratch opens a copy of what is known, to try on.
func (s *state) openScratch(cfg Config) (err error) {
	if s.tmp, err = os.MkdirTemp("", "muster-dry-run-"); err != nil {
		return fmt.Errorf("make room for a dry run: %w", err)
	}
	dir := filepath.Join(cfg.StateDir, versionsDir)
	if _, err := os.Stat(dir); cfg.StateDir == "" || err != nil {
		if s.scratch, err = versions.Open(s.tmp); err == nil { // nothing is known
			s.generation = s.scratch.Generation()
		}
		return err
	}
	if s.versions, err = versions.Open(dir); err != nil {
		return err
	}
	s.generation = s.versions.Generation()
	s.scratch, err = s.versions.Scratch(s.tmp)
	return err
}

// takeUp takes up the newest run over the same files that was stopped, if any. It
// begins again when the brokers do not have what it published.
func (s *state) takeUp(run runstate.Run, deps Deps) error {
	runs, err := s.runs.Unfinished()
	if err != nil {
		deps.Logger.Warn("some runs cannot be read", "error", err)
	}
	for _, before := range runs {
		if before.State != runstate.Stopped || !sameTask(before, run) {
			continue
		}
		handle, err := s.runs.Resume(before.ID, s.generation, deps.Now)
		if errors.Is(err, runstate.ErrRunning) || errors.Is(err, runstate.ErrUnknown) {
			continue // another process was faster
		}
		if err == nil && before.Generation != s.generation {
			deps.Logger.Warn("the topics are not those that the run published to: it begins again", "run", before.ID)
		}
		s.handle = handle
		return err
	}
	return nil
}

// revision returns the mapping revision of a run: that of the run that is taken up, or a new one.
func (s *state) revision(ctx context.Context, cfg Config, deps Deps) (uint32, error) {
	switch known := s.known(); {
	case !cfg.Remap:
		return 0, nil
	case s.handle != nil:
		return s.handle.Run().Revision, nil
	case known != nil && !cfg.DryRun:
		return known.NextRevision(ctx, deps.Now())
	default:
		return versions.RevisionAt(deps.Now()), nil
	}
}

// mappingOf is how a run's mapping is found again, from wherever: by its name, or
// where its file is.
func mappingOf(cfg Config) string {
	if _, err := os.Stat(cfg.Map); err == nil {
		if absolute, err := filepath.Abs(cfg.Map); err == nil {
			return absolute
		}
	}
	return cfg.Map
}

// sameTask tells whether two runs are over the same files in the same way.
func sameTask(a, b runstate.Run) bool {
	if a.Kind != b.Kind || a.Map != b.Map || a.MapSum != "" && a.MapSum != b.MapSum || a.Format != b.Format || a.Again != b.Again ||
		a.Remap != b.Remap || len(a.Files) != len(b.Files) {
		return false
	}
	for i, f := range a.Files {
		if f.Changed(b.Files[i]) != "" {
			return false
		}
	}
	return true
}

// known returns what the publisher looks at.
func (s *state) known() *versions.Store {
	if s.scratch != nil {
		return s.scratch
	}
	return s.versions
}

// finish notes how a run ended and closes everything. The error is [errLost] when
// what the run published is not there any more, as far as that is known.
func (s *state) finish(ctx context.Context, deps Deps, sum Summary, outcome error) error {
	var errs []error
	if s.topics != nil {
		// The run may have been asked to stop.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bindTimeout)
		defer cancel()
		if _, err := s.versions.Bind(ctx, s.topics); err != nil {
			deps.Logger.Warn("the end of the topics is not noted: if the machine starts anew before it is, everything is published again", "error", err)
		} else if s.versions.Generation() != s.generation {
			errs = append(errs, errLost)
		}
	}
	if s.handle != nil {
		end, reason := runstate.Done, ""
		if !sum.Complete() {
			end = runstate.Stopped
		}
		if exit, ok := errors.AsType[*ExitError](outcome); ok && exit.Code == ExitFailed {
			reason = outcome.Error()
		}
		if len(errs) > 0 {
			end, reason = runstate.Stopped, errLost.Error()
		}
		errs = append(errs, s.handle.Finish(end, reason))
		if err := s.runs.Prune(keptRuns, deps.Now().Add(-keptStopped)); err != nil {
			deps.Logger.Warn("old runs cannot be removed", "error", err)
		}
	}
	return errors.Join(append(errs, s.close())...)
}

func (s *state) close() error {
	var errs []error
	if s.scratch != nil {
		errs = append(errs, s.scratch.Close())
	}
	if s.versions != nil {
		errs = append(errs, s.versions.Close())
	}
	if s.tmp != "" {
		errs = append(errs, os.RemoveAll(s.tmp))
	}
	return errors.Join(errs...)
}

// Run is what is known of a run of [Files].
type Run = runstate.Run

// Runs returns the runs that a state folder knows, or a number of them that is above 0, the newest first.
func Runs(stateDir string, number int) ([]Run, error) {
	store, err := runstate.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return nil, err
	}
	return store.List(number)
}

// RemoveRun makes a state folder forget a run that is not being worked on. What it
// published stays published, and known.
func RemoveRun(stateDir, id string) error {
	store, err := runstate.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return err
	}
	return store.Remove(id)
}

// Resume goes on with a run that was stopped, of which the beginning of the id is
// enough; without an id with the newest one. It fails when a file, or the mapping, is not what it
// was: then it is to be ingested anew, and what is known is not published again.
// Otherwise it does what [Files] does.
func Resume(ctx context.Context, cfg Config, deps Deps, id string) (Summary, error) {
	run, err := stopped(cfg.StateDir, id)
	if err != nil {
		return Summary{}, failed("resume", err)
	}
	var changed []error
	var paths []string
	for _, f := range run.Files {
		if f.Absolute == "" {
			changed = append(changed, fmt.Errorf("%s cannot be read again", f.Path))
			continue
		}
		now, err := runstate.Identify(f.Absolute)
		if err != nil {
			changed = append(changed, err)
		} else if how := f.Changed(now); how != "" {
			changed = append(changed, fmt.Errorf("%s %s", f.Path, how))
		}
		paths = append(paths, f.Absolute)
	}
	if run.MapSum != "" {
		if program, err := mapping.Load(run.Map); err != nil {
			changed = append(changed, err)
		} else if program.Sum() != run.MapSum {
			changed = append(changed, fmt.Errorf("the mapping %s has another text", run.Map))
		}
	}
	if err := errors.Join(changed...); err != nil {
		return Summary{}, failed("resume", fmt.Errorf(
			"run %s cannot go on; ingest its files anew, what is known will not be published again: %w", run.ID, err))
	}
	cfg.Restart, cfg.Again, cfg.Map, cfg.Remap = false, run.Again, run.Map, run.Remap
	if cfg.Format, err = ParseFormat(run.Format); err != nil {
		return Summary{}, failed("resume", err)
	}
	kind := run.Kind
	if kind == convert.Foreign {
		kind = "" // the mapping says
	}
	return Files(ctx, cfg, deps, kind, paths)
}

// stopped finds a run to go on with.
func stopped(stateDir, id string) (Run, error) {
	if stateDir == "" {
		return Run{}, errors.New("there is no folder with the state of runs")
	}
	store, err := runstate.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return Run{}, err
	}
	if id != "" {
		run, err := store.Get(id)
		if err == nil && run.State != runstate.Stopped {
			err = fmt.Errorf("run %s is %s", run.ID, run.State)
		}
		return run, err
	}
	runs, err := store.Unfinished()
	for _, run := range runs {
		if run.State == runstate.Stopped {
			return run, nil
		}
	}
	return Run{}, errors.Join(errors.New("no run was stopped"), err)
}
