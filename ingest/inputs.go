package ingest

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/mapping"
	"muster/ingest/internal/source"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Format is the format of an input.
type Format = source.Format

// ParseFormat parses the name of a format: auto, ndjson, csv, tsv or parquet.
func ParseFormat(name string) (Format, error) { return source.ParseFormat(name) }

// Mapping is a built-in mapping.
type Mapping = mapping.Shipped

// Mappings returns the built-in mappings.
func Mappings() []Mapping { return mapping.All() }

// inputs are the resolved inputs of a run over files.
type inputs struct {
	kind    record.Kind
	mapper  convert.Mapper // nil without a mapping
	mapSum  string         // checksum of the mapping's source
	paths   []string
	options source.Options
}

// maxSourceObjectBytes is the largest source object. A page of a dump or a document with its graph
// is larger than any record derived from it.
const maxSourceObjectBytes = 16 << 20

// newInputs resolves the inputs and reports errors that can be found before anything is published.
func newInputs(cfg Config, deps Deps, kind record.Kind, paths []string) (inputs, error) {
	in := inputs{kind: kind, options: source.Options{
		MaxLine: record.MaxSize, Head: event.MaxRejectedRaw, Kind: kind, Format: cfg.Format,
	}}
	if cfg.Mapping != "" {
		if kind != "" {
			return in, fmt.Errorf("a mapping determines the kind of each record: omit the kind %q", kind)
		}
		program, err := mapping.Load(cfg.Mapping)
		if err != nil {
			return in, err
		}
		in.mapper, in.mapSum, in.kind = program, program.Sum(), convert.SourceObject
		in.options.Kind, in.options.MaxLine = convert.SourceObject, maxSourceObjectBytes
		in.options.WholeLists = program.ReadsLists()
	} else if err := checkKind(kind); err != nil {
		return in, err
	}
	var err error
	if in.paths, err = expandPaths(cfg, deps, paths); err != nil {
		return in, err
	}
	return in, checkPaths(deps, in.paths)
}

// expandPaths replaces directories by the files in them and patterns by their matches, both in name order.
func expandPaths(cfg Config, deps Deps, paths []string) ([]string, error) {
	var all []string
	var errs []error
	for _, path := range paths {
		if path == source.Stdin {
			all = append(all, path)
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			found, skipped, err := listFiles(cfg, path)
			switch {
			case err != nil:
				errs = append(errs, err)
			case len(found) == 0:
				noFiles := errors.New("no files of a known format in this directory; list the files or set --format")
				errs = append(errs, &fs.PathError{Op: "read", Path: path, Err: noFiles})
			}
			if skipped > 0 {
				deps.Logger.Warn("ingest: skipping files of other formats and special files",
					slog.String("directory", path), slog.Int("files", skipped))
			}
			all = append(all, found...)
		case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
			found, err := filepath.Glob(path)
			switch {
			case err != nil:
				errs = append(errs, &fs.PathError{Op: "match", Path: path, Err: err})
			case len(found) == 0:
				errs = append(errs, &fs.PathError{Op: "match", Path: path, Err: errors.New("no matching file")})
			}
			all = append(all, slices.DeleteFunc(found, isDir)...)
		default:
			// checkPaths reports what is wrong with it.
			all = append(all, path)
		}
	}
	return all, errors.Join(errs...)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// listFiles returns the files below dir without hidden ones, and the number of files skipped.
func listFiles(cfg Config, dir string) (found []string, skipped int, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(entry.Name(), ".") && path != dir:
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		case cfg.Format == source.FormatAuto && !source.KnownName(path):
			skipped++
			return nil
		}
		// Pipes are read only if named: opening one blocks until it has a writer.
		if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			skipped++
			return nil
		}
		found = append(found, path)
		return nil
	})
	return found, skipped, err
}
