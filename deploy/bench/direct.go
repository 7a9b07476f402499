package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/projector/project"
	"muster/projector/replay"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// Limits of a direct load.
const (
	directBatch   = 30_000 // records per insert, without records extracted from them
	directQueue   = 2      // waiting batches
	directWriters = 2
)

// directLoad has the tables for parts that read only a few.
type directLoad struct {
	name   string // of its directory
	parts  []string
	kinds  []string
	tables readmodel.Names
}

func directLoads() []directLoad {
	return []directLoad{
		{
			name: "direct", parts: []string{"discover"},
			kinds: []string{
				sampledata.NetworkPerson,
				sampledata.CodehostPerson,
				sampledata.MicroblogPerson,
				sampledata.AccountLink,
			},
			tables: readmodel.Names{"lookups": "lookups", "network_people": "network_people",
				"codehost_people": "codehost_people", "microblog_people": "microblog_people"},
		},
		{
			name: "direct-search", parts: []string{"search", "opensearch", "bombs"},
			kinds:  []string{sampledata.NetworkPerson},
			tables: readmodel.Names{"network_people": "network_people", "search_people": "search_people"},
		},
		{
			name: "direct-enrich", parts: []string{"enrich"},
			kinds: sampledata.Kinds(),
			tables: readmodel.Names{
				"lookups": "lookups", "network_people": "network_people", "network_companies": "network_companies",
				"account_links":   "account_links",
				"codehost_people": "codehost_people", "codehost_repos": "codehost_repos",
				"codehost_commits": "codehost_commits", "codehost_lists": "codehost_lists",
			},
		},
	}
}

// directLoadFor returns the load with all tables that the parts read. Part footprint has no tables of its own.
func directLoadFor(parts []string) (directLoad, error) {
	var known []string
	for _, l := range directLoads() {
		if !slices.ContainsFunc(parts,
			func(p string) bool { return p != "footprint" && !slices.Contains(l.parts, p) }) {
			return l, nil
		}
		known = append(known, strings.Join(l.parts, " and "))
	}
	return directLoad{},
		fmt.Errorf("-direct fills only the tables of some parts: add -parts with %s", strings.Join(known, ", or with "))
}

// directSink passes the generated records of one kind on in batches.
type directSink struct {
	ctx     context.Context
	full    chan<- directPart
	batch   []*record.Record // with records extracted from them
	skip    int              // number of records already written
	records int
}

// directPart is the n-th batch. The batches of a data set are always the same.
type directPart struct {
	n       int
	records []*record.Record
}

// Record implements world.Sink.
func (s *directSink) Record(kind string, raw []byte) error {
	s.records++
	if s.records <= s.skip {
		return nil
	}
	rec, err := record.Decode(record.Kind(kind), slices.Clone(raw))
	if err != nil {
		return fmt.Errorf("decode a generated record: %w", err)
	}
	parts, _ := rec.SplitEmbedded() // generated lists are valid
	s.batch = append(append(s.batch, rec), parts...)
	if s.records%directBatch != 0 {
		return nil
	}
	return s.flush()
}

// Truth implements world.Sink.
func (*directSink) Truth([]byte) error { return nil }

func (s *directSink) flush() error {
	select {
	case s.full <- directPart{(s.records - 1) / directBatch, s.batch}:
		s.batch = nil
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// directProgress stores in a file up to where all batches are written.
type directProgress struct {
	path    string
	mu      sync.Mutex
	next    int
	written map[int]bool // later batches
}

func readProgress(path string) (*directProgress, error) {
	p := &directProgress{path: path, written: make(map[int]bool)}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the progress: %w", err)
	}
	if p.next, err = strconv.Atoi(string(raw)); err != nil {
		return nil, fmt.Errorf("read the progress: %w", err)
	}
	return p, nil
}

func (p *directProgress) done(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.written[n] = true; p.written[p.next]; p.next++ {
		delete(p.written, p.next)
	}
	return os.WriteFile(p.path, []byte(strconv.Itoa(p.next)), 0o600)
}

// loadDirect writes the rows that the parts read to the tables. It renders and inserts like the projector, but without
// files and topics. An interrupted run is resumed.
func (b *bench) loadDirect(ctx context.Context, out io.Writer) error {
	done := filepath.Join(b.data, "world-loaded")
	if exists(done) {
		return nil
	}
	load, err := directLoadFor(b.parts)
	if err != nil {
		return err
	}
	began := time.Now()
	invented, err := sampledata.New(ctx, b.world())
	if err != nil {
		return fmt.Errorf("generate the data: %w", err)
	}
	fmt.Fprintf(out, "  data generated in %.0f s\n", time.Since(began).Seconds())
	for _, kind := range load.kinds {
		written := filepath.Join(b.data, kind+".written")
		if exists(written) {
			continue
		}
		began := time.Now()
		records, err := b.loadKind(ctx, invented, kind, load.tables)
		if err != nil {
			return fmt.Errorf("load %s: %w", kind, err)
		}
		fmt.Fprintf(out, "  %-18s %10d records written to the tables in %.0f s\n", kind, records,
			time.Since(began).Seconds())
		if err := os.WriteFile(written, nil, 0o600); err != nil {
			return fmt.Errorf("write the progress: %w", err)
		}
	}
	if slices.Contains(load.kinds, sampledata.CodehostPerson) {
		began := time.Now()
		report, err := replay.Answers(ctx,
			replay.Deps{Deps: project.Deps{Conn: b.conn, Logger: slog.New(slog.DiscardHandler)}})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-18s %10d built in %.0f s\n", "answers", report.Accounts, time.Since(began).Seconds())
	}
	return os.WriteFile(done, nil, 0o600)
}

// loadKind writes the rows of the records of one kind, and returns the number of records that were not written before.
func (b *bench) loadKind(
	ctx context.Context, invented *sampledata.World, kind string, tables readmodel.Names,
) (int, error) {
	progress, err := readProgress(filepath.Join(b.data, kind+".batches"))
	if err != nil {
		return 0, err
	}
	from := progress.next * directBatch
	g, working := errgroup.WithContext(ctx)
	full := make(chan directPart, directQueue)
	sink := &directSink{ctx: working, full: full, skip: from}
	g.Go(func() error {
		defer close(full)
		if err := invented.WriteKinds(working, []string{kind}, sink); err != nil {
			return err
		}
		if len(sink.batch) == 0 {
			return nil
		}
		return sink.flush()
	})
	for range directWriters {
		g.Go(func() error {
			renderer := readmodel.NewRenderer(identity.Default())
			var rows readmodel.Batch
			for part := range full {
				rows.Reset()
				for i, rec := range part.records {
					at := readmodel.Position{Topic: rec.Kind.Topic(), Offset: int64(part.n*directBatch + i)}
					if err := renderer.Rows(&rows, rec, at); err != nil {
						return fmt.Errorf("render: %w", err)
					}
				}
				if _, err := readmodel.InsertInto(working, b.conn, tables, "direct-"+kind+"-"+strconv.Itoa(part.n),
					&rows); err != nil {
					return err
				}
				if err := progress.done(part.n); err != nil {
					return fmt.Errorf("write the progress: %w", err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return sink.records - from, nil
}
