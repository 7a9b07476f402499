package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/ingest"
	queryapi "muster/query-api"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

const (
	// suppressedPeople is how many identifiers the set has (issue: 5,000,000).
	suppressedPeople = 5_000_000
	// erasureRounds is odd, so that there is a middle one.
	erasureRounds = 5
	// erasureCrawl is how many records are ingested in a round.
	erasureCrawl = 60_000
)

// suppressing is a set of so many identifiers of every type, none of which anybody of
// the bench has.
func suppressing(n int) (*suppress.Set, error) {
	set := suppress.NewSet(suppress.NoKey())
	types := suppress.Types()
	for i := range n {
		t := types[i%len(types)]
		value, err := json.Marshal(suppress.Entry{Type: t, Scope: suppress.All, RequestedAt: "2026-01-01", Key: set.Key().ID()})
		if err != nil {
			return nil, fmt.Errorf("fill the suppression set: %w", err)
		}
		if err := set.Apply([]byte(set.Key().Of(t, "nobody-"+strconv.Itoa(i)).String()), value); err != nil {
			return nil, fmt.Errorf("fill the suppression set: %w", err)
		}
	}
	set.Loaded()
	return set, nil
}

// measureErasure compares ingest and the enrich endpoint with themselves when nobody is
// suppressed.
func measureErasure(ctx context.Context, b *bench, out io.Writer) error {
	began := time.Now()
	full, err := suppressing(suppressedPeople)
	if err != nil {
		return err
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	fmt.Fprintf(out, "  a set of %d identifiers: %.1f s to read, %d MB\n", full.Len(), time.Since(began).Seconds(), m.HeapAlloc>>20)
	empty, err := suppressing(0)
	if err != nil {
		return err
	}
	if err := b.ingestBeside(ctx, out, empty, full); err != nil {
		return err
	}
	return b.enrichBeside(ctx, out, empty, full)
}

// slower prints how much more the second of two costs are than the first, round by
// round.
func slower(out io.Writer, what string, without, with []float64) {
	more := make([]float64, len(with))
	for i := range with {
		more[i] = 100 * (with[i]/without[i] - 1)
	}
	best := 100 * (slices.Min(with)/slices.Min(without) - 1)
	slices.Sort(more)
	fmt.Fprintf(out, "  %s: %+.1f%% in the median of %d rounds (%+.1f to %+.1f), %+.1f%% between the best (bar: 5)\n",
		what, more[len(more)/2], len(more), more[0], more[len(more)-1], best)
}

func (b *bench) ingestBeside(ctx context.Context, out io.Writer, empty, full *suppress.Set) (err error) {
	dir, err := os.MkdirTemp(b.dir, "erasure-")
	if err != nil {
		return fmt.Errorf("make room for a crawl: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kafka, stop, err := startBroker(ctx, filepath.Join(dir, "kafka"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	crawl := filepath.Join(dir, "crawl.ndjson")
	if _, err := writeCrawl(crawl, erasureCrawl, firstCrawl); err != nil {
		return err
	}
	var cpu [2][]float64
	for round := range erasureRounds + 1 {
		for i := range 2 {
			which := (i + round) % 2 // each comes second as often
			set := []*suppress.Set{empty, full}[which]
			cfg := ingest.Config{Bus: kafka, StateDir: filepath.Join(dir, fmt.Sprintf("ingest-%d-%d", round, which))}
			c, err := measured(func() error {
				s, err := ingest.Files(ctx, cfg, ingest.Deps{Suppressed: set}, record.KindNetworkPerson, []string{crawl})
				if err == nil && s.Total().Published != erasureCrawl {
					err = fmt.Errorf("counted %+v", s.Total())
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("ingest: %w", err)
			}
			if round > 0 { // the first warms up
				cpu[which] = append(cpu[which], c.cpu.Seconds())
			}
		}
	}
	fmt.Fprintf(out, "  ingest of %d records: CPU %.2f s without, %.2f s with the set (best rounds)\n", erasureCrawl, slices.Min(cpu[0]), slices.Min(cpu[1]))
	slower(out, "ingest, CPU time", cpu[0], cpu[1])
	return nil
}

func (b *bench) enrichBeside(ctx context.Context, out io.Writer, empty, full *suppress.Set) error {
	usernames, err := b.strings(ctx, `SELECT codehost_username FROM codehost_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	q := question{keys: usernames, request: func(ctx context.Context, base, key string) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/person/enrich", strings.NewReader(`{"codehost":"`+key+`"}`))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return req, err
	}}
	const callers = 32
	var cpu, pace [2][]float64
	var runs [2][]measurement
	for round := range erasureRounds {
		for i := range 2 {
			which := (i + round) % 2
			cfg := queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute}
			err := b.servingWith(ctx, cfg, []*suppress.Set{empty, full}[which], func(base string) error {
				var m measurement
				c, err := measured(func() (err error) { m, err = b.ask(ctx, q, base, callers); return err })
				if err != nil {
					return err
				}
				runs[which] = append(runs[which], m)
				cpu[which] = append(cpu[which], c.cpu.Seconds()/float64(m.asked))
				pace[which] = append(pace[which], 1/m.rate())
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for i, name := range []string{"nobody suppressed", "with the set"} {
		slices.SortFunc(runs[i], func(a, b measurement) int { return cmp.Compare(a.rate(), b.rate()) })
		fmt.Fprintf(out, "  POST /v1/person/enrich, %d callers, %-18s %s\n", callers, name, runs[i][len(runs[i])/2])
	}
	slower(out, "enrich, time a call", pace[0], pace[1])
	slower(out, "enrich, CPU time a call, callers included", cpu[0], cpu[1])
	return nil
}
