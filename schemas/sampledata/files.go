package sampledata

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// TruthFile is the name of the truth file that [WriteFiles] writes.
const TruthFile = "truth.ndjson"

// FileName is the name of the file with the records of a kind.
func FileName(kind string) string { return kind + ".ndjson" }

// WriteFiles generates a world into dir, which is created if missing: one NDJSON file per kind and TruthFile.
// Files get their final names only after all of them are complete and on disk. After an error or cancellation
// there are no new files, and files of an earlier run are unchanged.
func WriteFiles(ctx context.Context, dir string, o Options, progress func(done, total int)) (sum Summary, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return Summary{}, fmt.Errorf("create the sample data directory: %w", err)
	}
	s := &fileSink{files: map[string]*outFile{}, sum: Summary{People: o.People, Records: map[string]int{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.discard())
		}
	}()
	for _, kind := range Kinds() {
		if err := s.create(dir, kind, FileName(kind)); err != nil {
			return Summary{}, err
		}
	}
	if err := s.create(dir, "", TruthFile); err != nil {
		return Summary{}, err
	}
	if err := Generate(ctx, o, s, progress); err != nil {
		return Summary{}, err
	}
	if err := s.finish(); err != nil {
		return Summary{}, err
	}
	return s.sum, nil
}

type outFile struct {
	f    *os.File
	buf  *bufio.Writer
	path string
}

type fileSink struct {
	files map[string]*outFile // by kind; "" is the truth
	sum   Summary
}

func (s *fileSink) create(dir, kind, name string) error {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	s.files[kind] = &outFile{f: f, buf: bufio.NewWriterSize(f, 1<<20), path: filepath.Join(dir, name)}
	return nil
}

func (s *fileSink) line(kind string, json []byte) error {
	o := s.files[kind]
	if _, err := o.buf.Write(json); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	if err := o.buf.WriteByte('\n'); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	return nil
}

func (s *fileSink) Record(kind string, json []byte) error {
	s.sum.Records[kind]++
	s.sum.Bytes += int64(len(json)) + 1
	return s.line(kind, json)
}

func (s *fileSink) Truth(json []byte) error {
	s.sum.Truth++
	return s.line("", json)
}

func (s *fileSink) finish() error {
	for _, o := range s.files {
		if err := errors.Join(o.buf.Flush(), o.f.Chmod(0o644), o.f.Sync(), o.f.Close()); err != nil {
			return fmt.Errorf("close %s: %w", o.path, err)
		}
	}
	for kind, o := range s.files {
		if err := os.Rename(o.f.Name(), o.path); err != nil {
			return fmt.Errorf("rename %s: %w", o.path, err)
		}
		delete(s.files, kind)
	}
	return nil
}

// discard removes temporary files.
func (s *fileSink) discard() error {
	var errs []error
	for _, o := range s.files {
		if err := o.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
		if err := os.Remove(o.f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
