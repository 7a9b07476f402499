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

// Subdirectories of Config.StateDir.
const (
	versionsDir = "versions"
	runsDir     = "runs"
)

// maxFinishedRuns is how many runs that cannot be resumed are listed, and stoppedRunRetention how
// long stopped runs can be resumed.
const (
	keptRuns    = 200
	keptStopped = 90 * 24 * time.Hour
)

// bindTimeout is how long the end of a run waits for the brokers' end offsets.
const bindTimeout = 5 * time.Second

// state is the persistent state of a run. Its zero value has none and stores none.
type state struct {
	versions *versions.Store
	scratch  *versions.Store // overlay of a dry run
	tmp      string          // directory of overlay
	runs     *runstate.Store
	handle   *runstate.Handle
	topics   func(context.Context) (versions.Topics, error)
	// generation identifies the topics' contents that dedup describes.
	generation string
}

// errTopicsReset is returned if topics lost what the run published.
var errLost = errors.New("the topics were reset during the run; run it again to publish the missing records")

// openState opens the state of a run over files. Unless Config.Restart is set, it resumes a stopped
// run over the same files.
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

// openDedup opens the deduplication store and resets it if the brokers' topics are not those that
// it describes.
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
		deps.Logger.Warn("topics were reset or the machine crashed: all records are published again", "state", cfg.StateDir)
	}
	return store, nil
}

// closeDedup records the topics' end offsets, if the brokers return them in time, and closes the store.
func closeVersions(ctx context.Context, cfg Config, deps Deps, store *versions.Store, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if _, err := store.Bind(ctx, topicsOf(cfg)); err != nil {
		deps.Logger.Warn("end offsets not recorded: after a reboot, all records are published again", "error", err)
	}
	return store.Close()
}

// topicReader returns a function that reads the cluster ID and the end offsets of the topics of
// records and erasures.
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
		// Bounds are ordered by topic and partition.
		for _, b := range bounds {
			t.Ends[b.Topic] = append(t.Ends[b.Topic], b.End)
		}
		return t, nil
	}
}

// openOverlay opens an overlay of the deduplication store for a dry run.
func (s *state) openScratch(cfg Config) (err error) {
	if s.tmp, err = os.MkdirTemp("", "muster-dry-run-"); err != nil {
		return fmt.Errorf("create a temporary directory for a dry run: %w", err)
	}
	dir := filepath.Join(cfg.StateDir, versionsDir)
	if _, err := os.Stat(dir); cfg.StateDir == "" || err != nil {
		// Nothing was published before.
		if s.scratch, err = versions.Open(s.tmp); err == nil {
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

// resume resumes the newest stopped run over the same files, if any. The run restarts from the
// beginning if the brokers do not have what it published.
func (s *state) takeUp(run runstate.Run, deps Deps) error {
	runs, err := s.runs.Unfinished()
	if err != nil {
		deps.Logger.Warn("runs cannot be read", "error", err)
	}
	for _, before := range runs {
		if before.State != runstate.Stopped || !sameTask(before, run) {
			continue
		}
		handle, err := s.runs.Resume(before.ID, s.generation, deps.Now)
		if errors.Is(err, runstate.ErrRunning) || errors.Is(err, runstate.ErrUnknown) {
			// Another process was faster.
			continue
		}
		if err == nil && before.Generation != s.generation {
			deps.Logger.Warn("topics were reset: the run restarts from the beginning", "run", before.ID)
		}
		s.handle = handle
		return err
	}
	return nil
}

// revision returns the mapping revision of a run: that of the resumed run, or a new one.
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

// mappingPath returns the mapping as it can be loaded from any working directory: the absolute path
// of a file, or a name.
func mappingOf(cfg Config) string {
	if _, err := os.Stat(cfg.Map); err == nil {
		if absolute, err := filepath.Abs(cfg.Map); err == nil {
			return absolute
		}
	}
	return cfg.Map
}

// sameTask reports whether two runs process the same files in the same way.
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

// store returns the deduplication store for the publisher, or nil.
func (s *state) known() *versions.Store {
	if s.scratch != nil {
		return s.scratch
	}
	return s.versions
}

// finish records how the run ended and closes everything. It returns [errTopicsReset] if the topics
// lost what the run published, as far as the brokers can tell.
func (s *state) finish(ctx context.Context, deps Deps, sum Summary, outcome error) error {
	var errs []error
	if s.topics != nil {
		// The caller may have stopped the run.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bindTimeout)
		defer cancel()
		if _, err := s.versions.Bind(ctx, s.topics); err != nil {
			deps.Logger.Warn("end offsets not recorded: after a reboot, all records are published again", "error", err)
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
			deps.Logger.Warn("remove old runs", "error", err)
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

// Run is a recorded run of [Files].
type Run = runstate.Run

// Runs returns the runs recorded in a state directory, newest first: all of them, or at most number
// if that is positive.
func Runs(stateDir string, number int) ([]Run, error) {
	store, err := runstate.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return nil, err
	}
	return store.List(number)
}

// RemoveRun removes a run that is not running from a state directory. Its published records remain
// published, and remain deduplicated.
func RemoveRun(stateDir, id string) error {
	store, err := runstate.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return err
	}
	return store.Remove(id)
}

// Resume resumes a stopped run. A prefix of its ID is enough; without an ID it resumes the newest.
// It fails if a file or the mapping has changed: ingest the files again, unchanged records are not
// republished. Otherwise it behaves like [Files].
func Resume(ctx context.Context, cfg Config, deps Deps, id string) (Summary, error) {
	run, err := stopped(cfg.StateDir, id)
	if err != nil {
		return Summary{}, failed("resume", err)
	}
	var changed []error
	var paths []string
	for _, f := range run.Files {
		if f.Absolute == "" {
			changed = append(changed, fmt.Errorf("%s cannot be read twice", f.Path))
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
			changed = append(changed, fmt.Errorf("mapping %s has changed", run.Map))
		}
	}
	if err := errors.Join(changed...); err != nil {
		return Summary{}, failed("resume", fmt.Errorf(
			"run %s cannot be resumed; ingest its files again, unchanged records are not republished: %w", run.ID, err))
	}
	cfg.Restart, cfg.Again, cfg.Map, cfg.Remap = false, run.Again, run.Map, run.Remap
	if cfg.Format, err = ParseFormat(run.Format); err != nil {
		return Summary{}, failed("resume", err)
	}
	kind := run.Kind
	if kind == convert.Foreign {
		// The mapping determines the kinds.
		kind = ""
	}
	return Files(ctx, cfg, deps, kind, paths)
}

// findStopped returns the stopped run with the given ID, or the newest one.
func stopped(stateDir, id string) (Run, error) {
	if stateDir == "" {
		return Run{}, errors.New("no state directory configured")
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
	return Run{}, errors.Join(errors.New("no stopped run"), err)
}
