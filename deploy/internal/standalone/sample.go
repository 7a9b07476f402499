package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"muster/ingest"
	"muster/platform/atomicfile"
	"muster/platform/bus"
	"muster/schemas/record"
	"muster/schemas/sampledata"
	"muster/schemas/suppress"
)

// sampleSeed is fixed, so that all samples of one size are equal.
const sampleSeed = 1

// sampleState is the stored state of a data directory's sample. A partially loaded sample is loaded again: records are
// idempotent.
type sampleState struct {
	People int    `json:"people"`
	Seed   uint64 `json:"seed"`
	Loaded bool   `json:"loaded"`
}

func samplePath(dataDir string) string { return filepath.Join(dataDir, "sample.json") }

// planSample decides which sample a data directory gets, before anything else is written to it.
func planSample(cfg Config) (sampleState, error) {
	var s sampleState
	raw, err := os.ReadFile(samplePath(cfg.DataDir))
	switch {
	case err == nil:
		if err := json.Unmarshal(raw, &s); err != nil {
			return s, fmt.Errorf("read %s: %w", samplePath(cfg.DataDir), err)
		}
		return s, nil
	case !errors.Is(err, fs.ErrNotExist):
		return s, fmt.Errorf("read the sample state of the data directory: %w", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "kafka")); err == nil {
		return sampleState{Loaded: true}, nil // not empty: it was created without a sample
	}
	s = sampleState{People: cfg.Sample, Seed: sampleSeed, Loaded: cfg.Sample == 0}
	return s, s.write(cfg.DataDir)
}

func (s sampleState) write(dataDir string) error {
	err := atomicfile.Write(samplePath(dataDir), func(w io.Writer) error { return json.MarshalWrite(w, s) })
	if err != nil {
		return fmt.Errorf("write the sample state: %w", err)
	}
	return nil
}

// sampleDir is the name prefix of the directories that contain a sample while it is loaded; digits follow. The prefix
// must not collide with directories of the operator, such as samples.
const sampleDir = "muster-sample-"

// forgetSample removes the rest of a sample from a killed start: the files, and their runs of ingest, which cannot be
// resumed.
func forgetSample(dataDir string) error {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return err
	}
	left := func(path string) bool {
		number, ours := strings.CutPrefix(filepath.Base(path), sampleDir)
		_, err := strconv.ParseUint(number, 10, 64)
		return filepath.Dir(path) == dataDir && ours && err == nil
	}
	runs, err := ingest.Runs(ingest.StateDirOf(dataDir), 0)
	for _, r := range runs {
		if len(r.Files) == 1 && left(filepath.Dir(r.Files[0].Absolute)) && r.State == "stopped" {
			err = errors.Join(err, ingest.RemoveRun(ingest.StateDirOf(dataDir), r.ID))
		}
	}
	entries, readErr := os.ReadDir(dataDir)
	err = errors.Join(err, readErr)
	for _, e := range entries {
		if path := filepath.Join(dataDir, e.Name()); e.IsDir() && left(path) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// load generates the sample and ingests it as files.
func (s sampleState) load(ctx context.Context, cfg Config, deps Deps, kafka bus.Config,
	erased *suppress.Set) (err error) {
	if err := forgetSample(cfg.DataDir); err != nil {
		return fmt.Errorf("clean up a partially loaded sample: %w", err)
	}
	dir, err := os.MkdirTemp(cfg.DataDir, sampleDir)
	if err != nil {
		return fmt.Errorf("create the sample directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	deps.Progress.Begin(fmt.Sprintf("Generating %d people", s.People), int64(s.People))
	summary, err := sampledata.WriteFiles(
		ctx,
		dir,
		sampledata.Options{People: s.People, Seed: s.Seed},
		func(done, _ int) {
			deps.Progress.Set(int64(done))
		},
	)
	deps.Progress.End()
	if err != nil {
		return fmt.Errorf("generate the sample: %w", err)
	}

	deps.Progress.Begin("Loading sample data", summary.Bytes)
	defer deps.Progress.End()
	loaded := int64(0)
	for _, kind := range append(sampledata.Kinds(), string(record.KindErasure)) {
		var paths []string
		if kind != string(record.KindErasure) {
			paths = append(paths, filepath.Join(dir, sampledata.FileName(kind)))
		}
		example, err := sampledata.Example(kind)
		if err != nil {
			return fmt.Errorf("load the sample: %w", err)
		}
		if example != nil {
			path := filepath.Join(dir, "example-"+sampledata.FileName(kind))
			if err := os.WriteFile(path, example, 0o600); err != nil {
				return fmt.Errorf("write the sample's examples: %w", err)
			}
			paths = append(paths, path)
		}
		run, err := ingest.Files(ctx, ingest.Config{Bus: kafka, StateDir: ingest.StateDirOf(cfg.DataDir)},
			ingest.Deps{Logger: deps.Telemetry.Logger, Progress: sampleProgress{deps.Progress, loaded},
				Suppressed: erased},
			record.Kind(kind), paths)
		if err != nil {
			return fmt.Errorf("load the sample's records of kind %s: %w", kind, err)
		}
		loaded += run.StoredBytes
	}
	s.Loaded = true
	return s.write(cfg.DataDir)
}

// sampleProgress adds up the progress of the runs of all kinds.
type sampleProgress struct {
	progress Progress
	before   int64
}

func (p sampleProgress) Update(s ingest.Snapshot) { p.progress.Set(p.before + s.StoredBytes) }
func (p sampleProgress) Finish(s ingest.Snapshot) { p.Update(s) }
