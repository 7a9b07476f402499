package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"muster/deploy/bench/postgres"
	"muster/schemas/identity"
)

const (
	// answerCallers is the number of callers that request all answers.
	answerCallers = 256
	// answerProbes is the number of answers of an earlier run that are compared with current ones.
	answerProbes = 100
)

// keepAnswers requests each of the names from muster once, and stores the answers in the data directory. Answers of an
// earlier run are reused if muster still returns them. It returns the names with an answer; organizations have none.
func (b *bench) keepAnswers(ctx context.Context, out io.Writer, table postgres.Table, q question,
	names []string) ([]string, error) {
	path := b.answersPath(table)
	found, err := b.keptAnswers(ctx, q, path)
	if err != nil {
		return nil, err
	}
	if found == nil {
		began := time.Now()
		if found, err = b.fetchAnswers(ctx, q, path, uniqueNames(names)); err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "  %s: %d names requested in %.0f s\n", table, len(names), time.Since(began).Seconds())
	}
	fmt.Fprintf(out, "  %s: %d of %d names have an answer\n", table, len(found), len(names))
	if len(found) == 0 || len(found)*5 < len(names)*4 {
		return nil, errors.New("too few names have an answer")
	}
	return found, nil
}

func (b *bench) answersPath(table postgres.Table) string {
	return filepath.Join(b.data, string(table)+".zst")
}

// uniqueNames returns the names without those whose key is a duplicate.
func uniqueNames(names []string) (unique []string) {
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if key := identity.NormalizeUsername(n); key != "" && !seen[key] {
			seen[key] = true
			unique = append(unique, n)
		}
	}
	return unique
}

// keptAnswers returns the names in a file of an earlier run, or nil if there is none or muster's answers have changed.
func (b *bench) keptAnswers(ctx context.Context, q question, path string) (names []string, err error) {
	if !exists(path) {
		return nil, nil
	}
	r, err := openAnswers(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	probes := make(map[string][]byte)
	for {
		name, answer, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		names = append(names, name)
		if n := len(names); n&(n-1) == 0 || len(probes) < answerProbes { // the first ones, and a few others
			probes[name] = answer
		}
	}
	client := b.client(1)
	defer client.CloseIdleConnections()
	for name, answer := range probes {
		now, err := b.call(ctx, client, q, b.in.BaseURL, []string{name})
		if err != nil {
			return nil, fmt.Errorf("request an answer again: %w", err)
		}
		if !bytes.Equal(now, answer) {
			return nil, nil
		}
	}
	return names, nil
}

// fetchAnswers writes muster's answers for names to a file, and returns the names with an answer.
func (b *bench) fetchAnswers(ctx context.Context, q question, path string, names []string) (found []string, err error) {
	w, err := createAnswers(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(err == nil)) }()
	client := b.client(answerCallers)
	defer client.CloseIdleConnections()
	type answered struct {
		name string
		body []byte
	}
	todo, done := make(chan string), make(chan answered, answerCallers)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer close(todo)
		for _, n := range names {
			select {
			case todo <- n:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	asking, asked := errgroup.WithContext(ctx)
	for range answerCallers {
		asking.Go(func() error {
			for name := range todo {
				body, err := b.call(asked, client, q, b.in.BaseURL, []string{name})
				if err != nil {
					return fmt.Errorf("request all answers: %w", err)
				}
				select {
				case done <- answered{name, body}:
				case <-asked.Done():
					return context.Cause(asked)
				}
			}
			return nil
		})
	}
	all.Go(func() error {
		defer close(done)
		return asking.Wait()
	})
	all.Go(func() error {
		for a := range done {
			if !namesAll(a.body, []string{a.name}) {
				continue
			}
			if err := w.add(a.name, a.body); err != nil {
				return err
			}
			found = append(found, a.name)
		}
		return nil
	})
	return found, all.Wait()
}

// answersWriter writes a file of answers: one per line, after the name and a tab.
type answersWriter struct {
	path string
	file *os.File
	enc  *zstd.Encoder
}

func createAnswers(path string) (*answersWriter, error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("create the answers file: %w", err)
	}
	enc, err := zstd.NewWriter(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create the answers file: %w", err), file.Close(), os.Remove(file.Name()))
	}
	return &answersWriter{path: path, file: file, enc: enc}, nil
}

func (w *answersWriter) add(name string, answer []byte) error {
	if bytes.ContainsAny([]byte(name), "\t\n") || bytes.IndexByte(answer, '\n') >= 0 {
		return fmt.Errorf("the answer for %q has several lines", name)
	}
	for _, part := range [][]byte{[]byte(name), {'\t'}, answer, {'\n'}} {
		if _, err := w.enc.Write(part); err != nil {
			return fmt.Errorf("write the answers: %w", err)
		}
	}
	return nil
}

// close closes the file. If complete, it keeps it.
func (w *answersWriter) close(complete bool) error {
	err := errors.Join(w.enc.Close(), w.file.Close())
	if complete && err == nil {
		err = os.Rename(w.file.Name(), w.path)
	} else {
		err = errors.Join(err, os.Remove(w.file.Name()))
	}
	if err != nil {
		return fmt.Errorf("write the answers: %w", err)
	}
	return nil
}

// answersReader reads a file of answers.
type answersReader struct {
	file  *os.File
	dec   *zstd.Decoder
	lines *bufio.Reader
}

func openAnswers(path string) (*answersReader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the answers: %w", err)
	}
	dec, err := zstd.NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the answers: %w", err), file.Close())
	}
	return &answersReader{file: file, dec: dec, lines: bufio.NewReaderSize(dec, 1<<20)}, nil
}

// next returns the next name and answer, and io.EOF after the last.
func (r *answersReader) next() (name string, answer []byte, err error) {
	line, err := r.lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return "", nil, io.EOF
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the answers: %w", err)
	}
	before, after, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\t'})
	return string(before), after, nil
}

func (r *answersReader) close() error {
	r.dec.Close()
	return r.file.Close()
}
