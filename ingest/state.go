package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"muster/ingest/internal/checkpoint"
	"muster/ingest/internal/convert"
	"muster/ingest/internal/dedup"
	"muster/ingest/internal/mapping"
	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Subdirectories of Config.StateDir.
const (
	dedupDir = "versions"
	runsDir  = "runs"
)

// maxFinishedRuns is how many runs that cannot be resumed are listed, and stoppedRunRetention how
// long stopped runs can be resumed.
const (
	maxFinishedRuns     = 200
	stoppedRunRetention = 90 * 24 * time.Hour
)

// bindTimeout is how long the end of a run waits for the brokers' end offsets.
const bindTimeout = 5 * time.Second

// state is the persistent state of a run. Its zero value has none and stores none.
type state struct {
	dedup      *dedup.Store
	overlay    *dedup.Store // overlay of a dry run
	overlayDir string       // directory of overlay
	runs       *checkpoint.Store
	checkpoint *checkpoint.Writer
	topics     func(context.Context) (dedup.Topics, error)
	// generation identifies the topics' contents that dedup describes.
	generation string
}

// errTopicsReset is returned if topics lost what the run published.
var errTopicsReset = errors.New("the topics were reset during the run; run it again to publish the missing records")

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
		return s, s.openOverlay(cfg)
	}
	if s.dedup, err = openDedup(ctx, cfg, deps); err != nil {
		return s, err
	}
	s.topics, s.generation = topicReader(cfg), s.dedup.Generation()
	if s.runs, err = checkpoint.Open(filepath.Join(cfg.StateDir, runsDir)); err != nil {
		return s, err
	}
	run := checkpoint.Run{
		ID:         cfg.RunID,
		Kind:       in.kind,
		Map:        mappingPath(cfg),
		MapSum:     in.mapSum,
		Format:     string(cfg.Format),
		Republish:  cfg.Republish,
		Remap:      cfg.Remap,
		Generation: s.generation,
	}
	for _, path := range in.paths {
		f := checkpoint.File{Path: path}
		if path != source.Stdin {
			if f, err = checkpoint.Identify(path); err != nil {
				return s, err
			}
		}
		run.Files = append(run.Files, f)
	}
	if !cfg.Restart {
		if err = s.resume(run, deps); err != nil || s.checkpoint != nil {
			return s, err
		}
	}
	if cfg.Remap {
		if run.Revision, err = s.dedup.NextRevision(ctx, deps.Now()); err != nil {
			return s, err
		}
	}
	s.checkpoint, err = s.runs.Begin(run, deps.Now)
	return s, err
}

// openDedup opens the deduplication store and resets it if the brokers' topics are not those that
// it describes.
func openDedup(ctx context.Context, cfg Config, deps Deps) (*dedup.Store, error) {
	store, err := dedup.Open(filepath.Join(cfg.StateDir, dedupDir))
	if err != nil {
		return nil, err
	}
	reset, err := store.BindCluster(ctx, topicReader(cfg))
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if reset {
		deps.Logger.Warn("ingest: topics were reset or the machine crashed, all records are published again",
			slog.String("path", cfg.StateDir))
	}
	return store, nil
}

// closeDedup records the topics' end offsets, if the brokers return them in time, and closes the store.
func closeDedup(ctx context.Context, cfg Config, deps Deps, store *dedup.Store, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if _, err := store.BindCluster(ctx, topicReader(cfg)); err != nil {
		deps.Logger.Warn("ingest: end offsets not recorded, all records are published again after a reboot",
			slog.Any("error", err))
	}
	return store.Close()
}

// topicReader returns a function that reads the cluster ID and the end offsets of the topics of
// records and erasures.
func topicReader(cfg Config) func(context.Context) (dedup.Topics, error) {
	names := []string{event.TopicVersionBump, event.TopicErasure, event.TopicErasureRequest}
	for _, d := range record.Definitions() {
		names = append(names, d.Topic)
	}
	return func(ctx context.Context) (dedup.Topics, error) {
		cluster, err := bus.ClusterID(ctx, cfg.Bus)
		if err != nil {
			return dedup.Topics{}, err
		}
		bounds, err := bus.EndOffsets(ctx, cfg.Bus, names)
		if err != nil {
			return dedup.Topics{}, err
		}
		t := dedup.Topics{Cluster: cluster, Ends: make(map[string][]int64)}
		// Bounds are ordered by topic and partition.
		for _, b := range bounds {
			t.Ends[b.Topic] = append(t.Ends[b.Topic], b.End)
		}
		return t, nil
	}
}

// openOverlay opens an overlay of the deduplication store for a dry run.
func (s *state) openOverlay(cfg Config) (err error) {
	if s.overlayDir, err = os.MkdirTemp("", "muster-dry-run-"); err != nil {
		return fmt.Errorf("create a temporary directory for a dry run: %w", err)
	}
	dir := filepath.Join(cfg.StateDir, dedupDir)
	if _, err := os.Stat(dir); cfg.StateDir == "" || err != nil {
		// Nothing was published before.
		if s.overlay, err = dedup.Open(s.overlayDir); err == nil {
			s.generation = s.overlay.Generation()
		}
		return err
	}
	if s.dedup, err = dedup.Open(dir); err != nil {
		return err
	}
	s.generation = s.dedup.Generation()
	s.overlay, err = s.dedup.Overlay(s.overlayDir)
	return err
}

// resume resumes the newest stopped run over the same files, if any. The run restarts from the
// beginning if the brokers do not have what it published.
func (s *state) resume(run checkpoint.Run, deps Deps) error {
	runs, err := s.runs.Unfinished()
	if err != nil {
		deps.Logger.Warn("ingest: runs cannot be read", slog.Any("error", err))
	}
	for _, before := range runs {
		if before.State != checkpoint.Stopped || !sameTask(before, run) {
			continue
		}
		writer, err := s.runs.Resume(before.ID, s.generation, deps.Now)
		if errors.Is(err, checkpoint.ErrRunning) || errors.Is(err, checkpoint.ErrUnknown) {
			// Another process was faster.
			continue
		}
		if err == nil && before.Generation != s.generation {
			deps.Logger.Warn("ingest: topics were reset, the run restarts from the beginning",
				slog.String("run_id", before.ID))
		}
		s.checkpoint = writer
		return err
	}
	return nil
}

// revision returns the mapping revision of a run: that of the resumed run, or a new one.
func (s *state) revision(ctx context.Context, cfg Config, deps Deps) (uint32, error) {
	switch store := s.store(); {
	case !cfg.Remap:
		return 0, nil
	case s.checkpoint != nil:
		return s.checkpoint.Run().Revision, nil
	case store != nil && !cfg.DryRun:
		return store.NextRevision(ctx, deps.Now())
	default:
		return dedup.RevisionAt(deps.Now()), nil
	}
}

// mappingPath returns the mapping as it can be loaded from any working directory: the absolute path
// of a file, or a name.
func mappingPath(cfg Config) string {
	if _, err := os.Stat(cfg.Mapping); err == nil {
		if absolute, err := filepath.Abs(cfg.Mapping); err == nil {
			return absolute
		}
	}
	return cfg.Mapping
}

// sameTask reports whether two runs process the same files in the same way.
func sameTask(a, b checkpoint.Run) bool {
	if a.Kind != b.Kind || a.Map != b.Map || a.MapSum != "" && a.MapSum != b.MapSum || a.Format != b.Format {
		return false
	}
	if a.Republish != b.Republish || a.Remap != b.Remap || len(a.Files) != len(b.Files) {
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
func (s *state) store() *dedup.Store {
	if s.overlay != nil {
		return s.overlay
	}
	return s.dedup
}

// finish records how the run ended and closes everything. It returns [errTopicsReset] if the topics
// lost what the run published, as far as the brokers can tell.
func (s *state) finish(ctx context.Context, deps Deps, sum Summary, outcome error) error {
	var errs []error
	if s.topics != nil {
		// The caller may have stopped the run.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bindTimeout)
		defer cancel()
		if _, err := s.dedup.BindCluster(ctx, s.topics); err != nil {
			deps.Logger.Warn("ingest: end offsets not recorded, all records are published again after a reboot",
				slog.Any("error", err))
		} else if s.dedup.Generation() != s.generation {
			errs = append(errs, errTopicsReset)
		}
	}
	if s.checkpoint != nil {
		end, reason := checkpoint.Done, ""
		if !sum.Complete() {
			end = checkpoint.Stopped
		}
		if exit, ok := errors.AsType[*ExitError](outcome); ok && exit.Code == ExitFailed {
			reason = outcome.Error()
		}
		if len(errs) > 0 {
			end, reason = checkpoint.Stopped, errTopicsReset.Error()
		}
		errs = append(errs, s.checkpoint.Finish(end, reason))
		if err := s.runs.Prune(maxFinishedRuns, deps.Now().Add(-stoppedRunRetention)); err != nil {
			deps.Logger.Warn("ingest: old runs cannot be removed", slog.Any("error", err))
		}
	}
	return errors.Join(append(errs, s.close())...)
}

func (s *state) close() error {
	var errs []error
	if s.overlay != nil {
		errs = append(errs, s.overlay.Close())
	}
	if s.dedup != nil {
		errs = append(errs, s.dedup.Close())
	}
	if s.overlayDir != "" {
		errs = append(errs, os.RemoveAll(s.overlayDir))
	}
	return errors.Join(errs...)
}

// Run is a recorded run of [Files].
type Run = checkpoint.Run

// Runs returns the runs recorded in a state directory, newest first: all of them, or at most number
// if that is positive.
func Runs(stateDir string, number int) ([]Run, error) {
	store, err := checkpoint.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return nil, err
	}
	return store.List(number)
}

// RemoveRun removes a run that is not running from a state directory. Its published records remain
// published, and remain deduplicated.
func RemoveRun(stateDir, id string) error {
	store, err := checkpoint.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return err
	}
	return store.Remove(id)
}

// Resume resumes a stopped run. A prefix of its ID is enough; without an ID it resumes the newest.
// It fails if a file or the mapping has changed: ingest the files again, unchanged records are not
// republished. Otherwise it behaves like [Files].
func Resume(ctx context.Context, cfg Config, deps Deps, id string) (Summary, error) {
	run, err := findStopped(cfg.StateDir, id)
	if err != nil {
		return Summary{}, newExitError("resume", err)
	}
	var changed []error
	var paths []string
	for _, f := range run.Files {
		if f.Absolute == "" {
			changed = append(changed, fmt.Errorf("%s cannot be read twice", f.Path))
			continue
		}
		now, err := checkpoint.Identify(f.Absolute)
		if err != nil {
			changed = append(changed, err)
		} else if difference := f.Changed(now); difference != "" {
			changed = append(changed, fmt.Errorf("%s %s", f.Path, difference))
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
		return Summary{}, newExitError("resume", fmt.Errorf(
			"run %s cannot be resumed; ingest its files again, unchanged records are not republished: %w", run.ID, err))
	}
	cfg.Restart, cfg.Republish, cfg.Mapping, cfg.Remap = false, run.Republish, run.Map, run.Remap
	if cfg.Format, err = ParseFormat(run.Format); err != nil {
		return Summary{}, newExitError("resume", err)
	}
	kind := run.Kind
	if kind == convert.SourceObject {
		// The mapping determines the kinds.
		kind = ""
	}
	return Files(ctx, cfg, deps, kind, paths)
}

// findStopped returns the stopped run with the given ID, or the newest one.
func findStopped(stateDir, id string) (Run, error) {
	if stateDir == "" {
		return Run{}, errors.New("no state directory configured")
	}
	store, err := checkpoint.Open(filepath.Join(stateDir, runsDir))
	if err != nil {
		return Run{}, err
	}
	if id != "" {
		run, err := store.Get(id)
		if err == nil && run.State != checkpoint.Stopped {
			err = fmt.Errorf("run %s is %s", run.ID, run.State)
		}
		return run, err
	}
	runs, err := store.Unfinished()
	for _, run := range runs {
		if run.State == checkpoint.Stopped {
			return run, nil
		}
	}
	return Run{}, errors.Join(errors.New("no stopped run"), err)
}
