package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"muster/platform/service"
)

func main() {
	ctx, release := service.WithSignals(context.Background(), slog.New(slog.NewTextHandler(os.Stderr, nil)), os.Exit)
	defer release()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	seeds := flags.Uint64("seeds", 20, "number of seeds")
	first := flags.Uint64("first", 1, "the first seed")
	muster := flags.String("muster", filepath.Join("bin", "muster"), "the muster program")
	only := flags.String("only", "", "run faults whose name contains this text, instead of drawing them")
	long := flags.Bool("long", false, "make the broker unavailable for 30 s at a time")
	apache := flags.Bool("apache", false,
		"use Apache Kafka, a new broker per seed, instead of the embedded broker (needs Java 17 and Maven); without "+
			"compaction")
	stepped := flags.String("stepped", "", "build a muster binary with jumping clocks to this path, and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *stepped != "" {
		return buildStepped(ctx, *stepped)
	}
	if *muster, err = filepath.Abs(*muster); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "muster-chaos-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	toxics := newToxics()
	s, err := openStore(ctx, *muster, filepath.Join(dir, "engine"), toxics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()

	suite := suite{muster: *muster, dir: dir, store: s, toxics: toxics, long: *long, apache: *apache,
		times: make(map[fault]int), out: out}
	var failed []string
	for seed := *first; seed < *first+*seeds && ctx.Err() == nil; seed++ {
		drawn := draw(seed, *apache)
		if *only != "" {
			drawn = matching(*only, *apache)
		}
		if err := suite.seed(ctx, seed, drawn); err != nil {
			failed = append(failed, fmt.Sprint(seed))
			fmt.Fprintf(out, "seed %d FAILED: %v\n", seed, err)
		}
	}
	fmt.Fprintln(out)
	for _, f := range faults(*apache) {
		fmt.Fprintf(out, "%4d  %s\n", suite.times[f], f)
	}
	if len(failed) > 0 {
		return fmt.Errorf("seeds %s failed; run one again with -first N -seeds 1", strings.Join(failed, ", "))
	}
	return ctx.Err()
}

func matching(name string, apache bool) (out []fault) {
	for _, f := range faults(apache) {
		if strings.Contains(string(f), name) {
			out = append(out, f)
		}
	}
	return out
}

// suite runs seeds against one engine.
type suite struct {
	muster string
	dir    string
	store  *store
	toxics *toxiproxy.ApiServer
	long   bool
	apache bool
	times  map[fault]int // number of occurrences of each fault
	out    io.Writer
}

// seedLimit is the maximum duration of a seed, so that a stalled pipeline fails it.
const seedLimit = 3 * time.Minute

func (s *suite) seed(ctx context.Context, seed uint64, drawn []fault) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, seedLimit, fmt.Errorf("the seed took longer than %s", seedLimit))
	defer cancel()
	began := time.Now()
	r, err := newRig(ctx, seed, s.apache, s.muster, filepath.Join(s.dir, fmt.Sprint("seed-", seed)), s.store, s.toxics)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, r.logs())
		}
		err = errors.Join(err, r.close())
	}()
	// The faults are spread over the pieces; the remaining pieces are fed without faults.
	for i := range r.world.pieces {
		if i >= len(drawn) && !s.long {
			if err := r.feed(ctx, i); err != nil {
				return err
			}
			continue
		}
		if s.long {
			happen := func() error { return nil }
			if i == 0 {
				happen = func() error { return r.takeDown(ctx, r.proxy, 30*time.Second) }
			}
			if err := concurrently(func() error { return r.feed(ctx, i) }, happen); err != nil {
				return err
			}
			continue
		}
		if err := r.runWithFault(ctx, drawn[i], i); err != nil {
			return fmt.Errorf("%s: %w", drawn[i], err)
		}
		s.times[drawn[i]]++
		if err := r.committedIsInserted(ctx); err != nil {
			return fmt.Errorf("after %s: %w", drawn[i], err)
		}
	}
	if err := r.invariants(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "seed %d: %.1f s, %d ingest runs for %d files, %d records in their newest version; %s\n",
		seed, time.Since(began).Seconds(), r.runsSoFar(), len(r.world.pieces), len(r.world.newest), join(drawn))
	return nil
}

func join(list []fault) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = string(f)
	}
	return strings.Join(names, "; ")
}
