package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/source"
	"muster/schemas/record"
)

// Files publishes the records in files, of one kind or, with Config.Mapping, those that a mapping
// produces; the kind is then empty. Files are JSON or CSV, plain or compressed with gzip or zstd,
// or Parquet; the format is detected (see Config.Format). A directory is searched recursively for
// files of these formats, a glob pattern is expanded, and the path "-" is standard input.
// Config.Readers files are read concurrently, each in order.
//
// The error is nil or an [*ExitError], whose code is the program's exit status. Rejected records do not stop the
// run. An input that cannot be read to its end does not stop the others. When ctx ends, reading stops, and what
// has been read is published within Config.DrainTimeout. The summary is valid with any error. It is empty if the
// run did not start, for example because a path does not exist.
//
// With Config.StateDir, unchanged records are not published again, and a stopped run over the same
// files is resumed: the summary then covers all of it.
func Files(ctx context.Context, cfg Config, deps Deps, kind record.Kind, paths []string) (Summary, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Summary{}, newExitError("ingest", err)
	}
	deps = deps.withDefaults()
	in, err := newInputs(cfg, deps, kind, paths)
	if err != nil {
		return Summary{}, newExitError("ingest", err)
	}
	var unknown *convert.Unknown
	// Counting unknown fields takes a third of the decoding time, so runs that publish skip it.
	if cfg.DryRun {
		unknown = convert.NewUnknown()
	}
	meters, err := newMetrics(deps.Registerer)
	if err != nil {
		return Summary{}, newExitError("ingest", err)
	}
	if !cfg.DryRun {
		if kind == record.KindErasure && deps.Suppressed == nil {
			return Summary{}, newExitError("ingest", errNoErasures)
		}
		if err := ensureTopics(ctx, cfg, deps.Logger); err != nil {
			return Summary{}, newExitError("ingest", err)
		}
		if err := deps.Suppressed.WaitLoaded(ctx); err != nil {
			return Summary{}, newExitError("ingest", err)
		}
	}
	st, err := openState(ctx, cfg, deps, in)
	if err != nil {
		return Summary{}, newExitError("ingest", err)
	}
	if st.checkpoint != nil {
		cfg.RunID = st.checkpoint.Run().ID
	}
	if cfg.revision, err = st.revision(ctx, cfg, deps); err != nil {
		return Summary{}, newExitError("ingest", errors.Join(err, st.close()))
	}
	r := newRun(ctx, cfg, deps, meters, nil, st.store())
	r.mapper, r.unknown = in.mapper, unknown
	for _, path := range in.paths {
		r.add(path, in.kind, storedSize(deps, path), opener(deps, path, in.options))
	}
	r.restore(st.checkpoint)
	s, outcome := r.finish()
	return s, joinError("ingest", outcome, st.finish(ctx, deps, s, outcome))
}

// checkKind rejects kinds that cannot be submitted from outside.
func checkKind(kind record.Kind) error {
	kinds := record.Kinds()
	if slices.Contains(kinds, kind) {
		return nil
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return fmt.Errorf("unknown kind %q; kinds: %s", kind, strings.Join(names, ", "))
}

// checkPaths reports errors that can be found before anything is published.
func checkPaths(deps Deps, paths []string) error {
	if len(paths) == 0 {
		return errors.New("no files given; \"-\" is standard input")
	}
	var errs []error
	stdin := 0
	for _, path := range paths {
		if path == source.Stdin {
			stdin++
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case info.IsDir():
			errs = append(errs, &fs.PathError{Op: "read", Path: path, Err: errors.New("is a directory")})
		}
	}
	if stdin > 1 {
		errs = append(errs, errors.New("standard input (\"-\") is given more than once"))
	}
	if stdin > 0 && deps.Stdin == nil {
		errs = append(errs, errors.New("no standard input"))
	}
	return errors.Join(errs...)
}

// opener returns a function that opens path at a position.
func opener(
	deps Deps, path string, options source.Options,
) func(context.Context, source.Position) (source.Source, error) {
	return func(ctx context.Context, from source.Position) (source.Source, error) {
		options.From = from
		if path == source.Stdin {
			return source.FromReader(ctx, source.Stdin, deps.Stdin, options)
		}
		return source.Open(ctx, path, options)
	}
}

// storedSize returns the size of an input in bytes, or -1 if it is not known beforehand.
func storedSize(deps Deps, path string) int64 {
	var info os.FileInfo
	var err error
	if path == source.Stdin {
		f, ok := deps.Stdin.(*os.File)
		if !ok {
			return -1
		}
		info, err = f.Stat() // standard input may be a file
	} else {
		info, err = os.Stat(path)
	}
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}
