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
	"runtime"
	"slices"
	"strings"
	"time"

	"muster/platform/service"
)

// options are the command-line options.
type options struct {
	parts   []string
	people  int
	seed    uint64
	dir     string
	muster  string
	seconds int
	records int
	rate    int
	limit   time.Duration
	direct  bool
}

// part is a measurement. It prints to out.
type part struct {
	name, about string
	run         func(ctx context.Context, b *bench, out io.Writer) error
	// alone replaces run for a part without a loaded platform.
	alone func(ctx context.Context, o options, out io.Writer) error
}

func parts() []part {
	return []part{
		{name: "enrich",
			about: "person enrichment, the network webset with add-ons and lists of 100, compared with a minimal " +
				"API on PostgreSQL 15", run: measureEnrich},
		{name: "discover",
			about: "POST /v1/person/discover without web search and language model, compared with its bare statements",
			run:   measureDiscover},
		{name: "limits", about: "POST /v1/person/enrich with and without authentication, limits and metering",
			run: measureLimits},
		{name: "erasure",
			about: "ingest and POST /v1/person/enrich with 5,000,000 suppressed identifiers, and with none",
			run:   measureErasure},
		{name: "search",
			about: "POST /v1/person/search: 40 named queries, compared with OpenSearch 2.19 (needs Java 17 and Maven)",
			run:   measureSearch},
		{name: "opensearch",
			about: "the same with OpenSearch as the executor, compared with bare OpenSearch; then from publishing to " +
				"visibility in search, at a tenth of -rate", run: measureOpenSearch},
		{name: "bombs", about: "POST /v1/person/search: normal queries, with and without two maximally expensive ones",
			run: measureBombs},
		{name: "project",
			about: "network people and code-host records from topic to visible row: the projector, ClickHouse's Kafka " +
				"engine, INSERT FORMAT JSONEachRow",
			alone: measureProject},
		{name: "memory",
			about: "resident memory of projector and engine after a tenth of -records small records, and after all",
			alone: measureMemory},
		{name: "freshness", about: "from publishing to visibility in the API, at -rate records per second",
			run: measureFreshness},
		{name: "footprint", about: "start time, resident memory, bytes on disk", run: measureFootprint},
		{name: "webhook",
			about: "deliveries per second, compared with a bare loop of signed posts; one dead endpoint among 100",
			alone: measureWebhook},
		{name: "refresh", about: "file to topic, and a refresh with 2% changes", alone: measureRefresh},
	}
}

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, release := service.WithSignals(context.Background(), logger, os.Exit)
	defer release()
	work := func() error { return run(ctx, os.Args[1:], os.Stdout) }
	if dir := os.Getenv(brokerEnv); dir != "" {
		work = func() error { return serveBroker(ctx, dir, os.Stdout) }
	}
	if dsn := os.Getenv(postgresEnv); dsn != "" {
		work = func() error { return servePostgres(ctx, dsn, os.Stdout) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the bench exceeded its limit of %s", o.limit))
	defer cancel()
	fmt.Fprintf(out, "muster bench: %d people, seed %d, %d cores, %s/%s, %s\n",
		o.people, o.seed, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	var b *bench // created by the first part that needs it
	defer func() {
		if b != nil {
			err = errors.Join(err, b.close())
		}
	}()
	for _, p := range parts() {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		if p.alone == nil && b == nil {
			if b, err = open(ctx, o, out); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "\n== %s: %s\n", p.name, p.about)
		if p.alone != nil {
			err = p.alone(ctx, o, out)
		} else {
			err = p.run(ctx, b, out)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	var names []string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	for _, p := range parts() {
		names = append(names, p.name)
	}
	selected := flags.String("parts", strings.Join(names, ","), "parts to run, comma-separated")
	flags.IntVar(&o.people, "people", 1_000_000, "number of people in the data set")
	flags.Uint64Var(&o.seed, "seed", 1, "random seed of the data set")
	flags.IntVar(&o.records, "records", 5_000_000,
		"records of part memory; part project uses about a hundredth of each group of kinds, at most 50,000")
	flags.StringVar(&o.dir, "dir", "",
		"directory of the data sets (default: muster-bench in the user's cache directory)")
	flags.StringVar(&o.muster, "muster", filepath.Join("bin", "muster"), "path of the muster binary")
	flags.IntVar(&o.rate, "rate", 5000, "records per second of part freshness, at least 250")
	flags.IntVar(&o.seconds, "seconds", 10, "duration of each measurement in seconds")
	flags.BoolVar(&o.direct, "direct", false,
		"insert rows into the tables directly, for parts discover, search and bombs, or enrich, instead of "+
			"publishing records to Kafka")
	flags.DurationVar(&o.limit, "limit", 45*time.Minute, "maximum duration of the whole run")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.parts = strings.FieldsFunc(*selected, func(r rune) bool { return r == ',' || r == ' ' })
	for _, p := range o.parts {
		if !slices.Contains(names, p) {
			return o, fmt.Errorf("unknown part %q; the parts are %s", p, strings.Join(names, ", "))
		}
	}
	if o.direct {
		if _, err := directLoadFor(o.parts); err != nil {
			return o, err
		}
	}
	if o.people < 1 || o.seconds < 1 || o.records < 10 {
		return o, errors.New("invalid options: want -people and -seconds of at least 1, -records of at least 10")
	}
	if o.rate < 250 {
		return o, errors.New("-rate: want at least 250")
	}
	if o.dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("find the user's cache directory (or set -dir): %w", err)
		}
		o.dir = filepath.Join(cache, "muster-bench")
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return o, fmt.Errorf("create the directory of the data sets: %w", err)
	}
	return o, nil
}
