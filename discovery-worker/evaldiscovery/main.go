// Command evaldiscovery measures discovery on synthetic data. With -fit it also trains the evidence
// model. See deploy/docs/discovery.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/evaluate"
	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/people"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

func main() {
	if code, isChild := enginetest.RunIfChild(); isChild {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "eval-discovery:", err)
		os.Exit(2)
	}
}

type options struct {
	people, questions int
	seeds             []uint64
	fit, calibrate    []uint64
	out, version      string
	store             string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("eval-discovery", flag.ContinueOnError)
	flags.IntVar(&o.people, "people", 6000, "people in each synthetic data set")
	flags.IntVar(&o.questions, "questions", 1500, "questions for each data set")
	seeds := flags.String("seeds", "101,102", "seeds of the data sets to evaluate on")
	fit := flags.String("fit", "", "seeds of data sets to train a model on first")
	calibrate := flags.String("calibrate", "", "seeds of data sets to calibrate the trained model on")
	flags.StringVar(&o.store, "store", "",
		"file to write the results to; go test ./internal/evaluate -update renders the page from it")
	flags.StringVar(&o.out, "out", "", "file to write the trained model to")
	flags.StringVar(&o.version, "version", "", "version of the trained model")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	var err error
	for list, to := range map[*string]*[]uint64{seeds: &o.seeds, fit: &o.fit, calibrate: &o.calibrate} {
		if *to, err = numbers(*list); err != nil {
			return err
		}
	}
	model, err := evidence.Default()
	if err != nil {
		return err
	}
	if len(o.fit) > 0 {
		if len(o.calibrate) == 0 || o.version == "" || o.out == "" {
			return errors.New("-fit requires -calibrate, -version and -out")
		}
		if model, err = o.train(ctx, model, out); err != nil {
			return err
		}
	}
	var all []evaluate.Answer
	for _, seed := range o.seeds {
		answers, err := o.world(ctx, seed, model, out)
		if err != nil {
			return err
		}
		all = append(all, answers...)
	}
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintf(out, "model %s, %d answers\n", model.Version, len(all))
	results := evaluate.Summarize(all)
	results.Model, results.Worlds, results.People, results.Questions = model.Version, o.seeds, o.people, o.questions
	if o.store != "" {
		text, err := json.Marshal(results, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			return fmt.Errorf("store results: %w", err)
		}
		if err := os.WriteFile(o.store, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures for the docs
			return fmt.Errorf("store results: %w", err)
		}
	}
	return results.Report(out)
}

func numbers(list string) ([]uint64, error) {
	var out []uint64
	for _, s := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid seed %q: %w", s, err)
		}
		out = append(out, n)
	}
	return out, nil
}

// train trains the weights on the -fit seeds and the calibration on the -calibrate seeds.
func (o *options) train(ctx context.Context, model *evidence.Model, out io.Writer) (*evidence.Model, error) {
	var groups []evidence.Group
	for _, seed := range o.fit {
		answers, err := o.world(ctx, seed, model, out)
		if err != nil {
			return nil, err
		}
		for i := range answers {
			if len(answers[i].Group.Candidates) > 0 {
				groups = append(groups, answers[i].Group)
			}
		}
	}
	fitted := evidence.Train(groups, o.version)
	var outcomes []evidence.Outcome
	for _, seed := range o.calibrate {
		answers, err := o.world(ctx, seed, fitted, out)
		if err != nil {
			return nil, err
		}
		for i := range answers {
			if a := &answers[i]; a.Top {
				outcomes = append(outcomes, evidence.Outcome{Raw: a.Raw, Right: a.Right()})
			}
		}
	}
	fitted.Calibrate(outcomes)
	text, err := json.Marshal(fitted, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("write model: %w", err)
	}
	if err := os.WriteFile(o.out, append(text, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("write model: %w", err)
	}
	return fitted, nil
}

// world runs discovery on the synthetic data of one seed.
func (o *options) world(ctx context.Context, seed uint64, model *evidence.Model,
	out io.Writer) (answers []evaluate.Answer, err error) {
	began := time.Now()
	engine, err := enginetest.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }() //nolint:contextcheck // it stops after ctx too
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: engine.DSN("default"), MaxOpenConns: 4})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	files, err := readmodel.Migrations()
	if err != nil {
		return nil, err
	}
	migrations, err := clickhouse.LoadMigrations(files, readmodel.Layout{})
	if err != nil {
		return nil, err
	}
	if _, err := clickhouse.Migrate(ctx, conn, migrations, clickhouse.MigrateConfig{}); err != nil {
		return nil, err
	}
	questions, err := evaluate.Load(ctx, conn, o.people, seed, o.questions)
	if err != nil {
		return nil, err
	}
	loaded := time.Since(began)
	//nolint:contextcheck // Close ends its reads, not a context
	reader := people.NewReader(conn, identity.Default(), people.Config{})
	defer reader.Close()
	answers, err = evaluate.Ask(ctx, finder.New(reader, model, slog.New(slog.DiscardHandler), time.Now), questions)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "seed %d: %d people, %d questions, loaded in %.0f s, answered in %.0f s\n", seed, o.people,
		len(questions), loaded.Seconds(), (time.Since(began) - loaded).Seconds())
	return answers, nil
}
