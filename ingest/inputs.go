package ingest

import (
	"errors"
	"fmt"
	"io/fs"
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

// Format is how an input is written.
type Format = source.Format

// ParseFormat reads the name of a format: auto, ndjson, csv, tsv or parquet.
func ParseFormat(name string) (Format, error) { return source.ParseFormat(name) }

// Mapping is a mapping that is shipped.
type Mapping = mapping.Shipped

// Mappings returns the mappings that are shipped.
func Mappings() []Mapping { return mapping.All() }

// inputs is what a run over files is about.
type inputs struct {
	kind    record.Kind
	mapper  convert.Mapper // nil without a mapping
	mapSum  string         // of its text
	paths   []string
	options source.Options
}

// maxForeign is the largest foreign object, in bytes: a page of a dump or a
// document with its graph is larger than any record made of it.
const maxForeign = 16 << 20

// newInputs finds what can be known to fail before anything is published.
func newInputs(cfg Config, deps Deps, kind record.Kind, paths []string) (inputs, error) {
	in := inputs{kind: kind, options: source.Options{
		MaxLine: record.MaxSize, Head: event.MaxRejectedRaw, Kind: kind, Format: cfg.Format,
	}}
	if cfg.Map != "" {
		if kind != "" {
			return in, fmt.Errorf("a mapping says of what kind each record is: leave %q out", kind)
		}
		program, err := mapping.Load(cfg.Map)
		if err != nil {
			return in, err
		}
		in.mapper, in.mapSum, in.kind = program, program.Sum(), convert.Foreign
		in.options.Kind, in.options.MaxLine, in.options.WholeLists = convert.Foreign, maxForeign, program.ReadsLists()
	} else if err := checkKind(kind); err != nil {
		return in, err
	}
	var err error
	if in.paths, err = expand(cfg, deps, paths); err != nil {
		return in, err
	}
	return in, checkPaths(deps, in.paths)
}

// expand replaces folders by the files in them, of the formats that are read, and
// patterns by what they match; both in the order of their names.
func expand(cfg Config, deps Deps, paths []string) ([]string, error) {
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
			found, passed, err := filesIn(cfg, path)
			switch {
			case err != nil:
				errs = append(errs, err)
			case len(found) == 0:
				errs = append(errs, &fs.PathError{Op: "read", Path: path, Err: errors.New("there are no files of a known format in this folder; name them, or --format")})
			}
			if passed > 0 {
				deps.Logger.Warn("files of other formats, and what is no file, are passed over", "folder", path, "files", passed)
			}
			all = append(all, found...)
		case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
			found, err := filepath.Glob(path)
			switch {
			case err != nil:
				errs = append(errs, &fs.PathError{Op: "match", Path: path, Err: err})
			case len(found) == 0:
				errs = append(errs, &fs.PathError{Op: "match", Path: path, Err: errors.New("no file matches")})
			}
			all = append(all, slices.DeleteFunc(found, isFolder)...)
		default:
			all = append(all, path) // checkPaths says what is wrong with it
		}
	}
	return all, errors.Join(errs...)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// filesIn returns the files of a folder and those below it, without hidden ones.
func filesIn(cfg Config, folder string) (found []string, passed int, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(entry.Name(), ".") && path != folder:
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		case cfg.Format == source.FormatAuto && !source.KnownName(path):
			passed++
			return nil
		}
		// A pipe is named by whoever feeds it.
		if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			passed++
			return nil
		}
		found = append(found, path)
		return nil
	})
	return found, passed, err
}
