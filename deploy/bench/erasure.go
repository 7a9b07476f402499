package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"muster/ingest"
	queryapi "muster/query-api"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

const (
	// suppressedPeople is the number of identifiers in the set (issue: 5,000,000).
	suppressedPeople = 5_000_000
	// erasureRounds is the number of turns of each server.
	erasureRounds = 15
	// erasureCrawls is the number of turns of each set in ingest. A turn is shorter than a second, and durations
	// vary by a tenth.
	erasureCrawls = 45
	// erasureCrawl is the number of records that a turn ingests.
	erasureCrawl = 40_000
	// erasureSlice is the duration of a turn of a server, in seconds.
	erasureSlice = 4
	// erasureCallers is the number of callers.
	erasureCallers = 32
)

// suppressionSet returns a set of n identifiers of all types, none of which is in the data.
func suppressionSet(n int) (*suppress.Set, error) {
	set := suppress.NewSet(suppress.NoKey())
	types, key := suppress.Types(), set.Key()
	for i := range n {
		t, sum := types[i%len(types)], suppress.Sum("missing-"+strconv.Itoa(i))
		value, err := json.Marshal(suppress.Entry{Type: t, Scope: suppress.All, RequestedAt: "2026-01-01",
			Key: key.ID(), Mark: key.Mark(t, sum)})
		if err != nil {
			return nil, fmt.Errorf("fill the suppression set: %w", err)
		}
		if err := set.Apply([]byte(key.Hash(t, sum).String()), value); err != nil {
			return nil, fmt.Errorf("fill the suppression set: %w", err)
		}
	}
	set.Loaded()
	return set, nil
}

// measureErasure compares ingest and the enrich endpoint with a suppression set and without.
func measureErasure(ctx context.Context, b *bench, out io.Writer) error {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	full, err := suppressionSet(suppressedPeople)
	if err != nil {
		return err
	}
	elapsed := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	fmt.Fprintf(out, "  a set of %d identifiers: created and read in %.1f s, %d MB\n", full.Len(), elapsed.Seconds(),
		(after.HeapAlloc-before.HeapAlloc)>>20)
	empty, err := suppressionSet(0)
	if err != nil {
		return err
	}
	if err := b.compareIngest(ctx, out, empty, full); err != nil {
		return err
	}
	return b.compareEnrich(ctx, out, empty, full)
}

// printSlowdown prints by how much the second of two costs is higher than the first, by turn and in total.
func printSlowdown(out io.Writer, what string, turns [][2]float64) {
	var more []float64
	var sum [2]float64
	best := turns[0]
	for _, t := range turns {
		more = append(more, 100*(t[1]/t[0]-1))
		for i := range t {
			sum[i] += t[i]
			best[i] = min(best[i], t[i])
		}
	}
	e := estimateDifference(more)
	fmt.Fprintf(out,
		"  %-40s %+.1f%% with the set, of %d turns (95 %%: %+.1f to %+.1f); %+.1f%% in sum, %+.1f%% between the "+
			"best (bar: 5)\n",
		what+":", e.shift, e.pairs, e.low, e.high, 100*(sum[1]/sum[0]-1), 100*(best[1]/best[0]-1))
}

func (b *bench) compareIngest(ctx context.Context, out io.Writer, empty, full *suppress.Set) (err error) {
	dir, err := os.MkdirTemp(b.dir, "erasure-")
	if err != nil {
		return fmt.Errorf("create the crawl's directory: %w", err)
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
	var cpu, elapsed [][2]float64
	for round := range erasureCrawls + 1 {
		var c [2]cost
		for i := range c {
			which := (i + round) % 2 // each is second equally often
			set := []*suppress.Set{empty, full}[which]
			cfg := ingest.Config{Bus: kafka, StateDir: filepath.Join(dir, "ingest")}
			c[which], err = measured(func() error {
				s, err := ingest.Files(ctx, cfg, ingest.Deps{Suppressed: set}, record.KindNetworkPerson,
					[]string{crawl})
				if err == nil && s.Total().Published != erasureCrawl {
					err = fmt.Errorf("counted %+v", s.Total())
				}
				return err
			})
			if err = errors.Join(err, os.RemoveAll(cfg.StateDir)); err != nil {
				return fmt.Errorf("ingest: %w", err)
			}
		}
		if round > 0 { // the first one warms up
			cpu = append(cpu, [2]float64{c[0].cpu.Seconds(), c[1].cpu.Seconds()})
			elapsed = append(elapsed, [2]float64{c[0].elapsed.Seconds(), c[1].elapsed.Seconds()})
		}
	}
	for i, name := range setNames() {
		var took, used float64
		for round := range cpu {
			took, used = took+elapsed[round][i], used+cpu[round][i]
		}
		n := float64(erasureCrawl * len(cpu))
		fmt.Fprintf(out, "  ingest of %d records, %-18s %7.0f records/s, CPU %.2f µs per record\n", erasureCrawl, name,
			n/took, 1e6*used/n)
	}
	printSlowdown(out, "ingest, CPU time per record", cpu)
	printSlowdown(out, "ingest, time per record", elapsed)
	return nil
}

// setNames are the names of the two sides.
func setNames() [2]string { return [2]string{"no suppression", "with the set"} }

// alternate measures two servers alternately with a number of callers. It returns the sums of each, and the turns.
func (b *bench) alternate(ctx context.Context, q question, bases [2]string, callers, rounds int) (all [2]measurement,
	turns [][2]measurement, err error) {
	for round := range rounds {
		var now [2]measurement
		turn := *b
		turn.draw = uint64(round) // both servers get the same requests
		for i := range now {
			which := (i + round) % 2 // the second one has warmer caches
			m, err := turn.ask(ctx, q, bases[which], callers)
			if err != nil {
				return all, turns, err
			}
			now[which] = m
			all[which].addTurn(m)
		}
		turns = append(turns, now)
	}
	return all, turns, nil
}

func (b *bench) compareEnrich(ctx context.Context, out io.Writer, empty, full *suppress.Set) error {
	usernames, err := b.strings(ctx, `SELECT codehost_username FROM codehost_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	q := question{keys: usernames, request: accountRequest}
	short := *b
	short.seconds, short.warm = min(b.seconds, erasureSlice), limitsWarm
	cfg := queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute}
	return b.servingWith(ctx, cfg, queryapi.Deps{Suppressed: empty}, func(without string) error {
		return b.servingWith(ctx, cfg, queryapi.Deps{Suppressed: full}, func(with string) error {
			all, turns, err := short.alternate(ctx, q, [2]string{without, with}, erasureCallers, erasureRounds)
			if err != nil {
				return err
			}
			var api, cpu, elapsed [][2]float64
			for _, now := range turns {
				var a, c, e [2]float64
				for i, m := range now {
					a[i] = m.bench.Seconds() / float64(m.asked)
					c[i] = (m.bench + m.engine).Seconds() / float64(m.asked)
					e[i] = 1 / m.rate()
				}
				api, cpu, elapsed = append(api, a), append(cpu, c), append(elapsed, e)
			}
			for i, name := range setNames() {
				fmt.Fprintf(out, "  POST /v1/person/enrich, %d callers, %-18s %s\n", erasureCallers, name, all[i])
				each := func(cpu time.Duration) float64 { return ms(cpu) / float64(all[i].asked) }
				fmt.Fprintf(out, "  %-40s CPU ms per call: engine %.3f, API and callers %.3f (%d calls)\n", "",
					each(all[i].engine), each(all[i].bench), all[i].asked)
			}
			printSlowdown(out, "enrich, CPU time per call", cpu)
			printSlowdown(out, "enrich, CPU time of API and callers", api)
			printSlowdown(out, "enrich, time per call", elapsed)
			return nil
		})
	})
}
