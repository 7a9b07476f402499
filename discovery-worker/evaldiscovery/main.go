// Command evaldiscovery measures discovery on synthetic data. With -fit it also trains the evidence
// model. See deploy/docs/discovery.md.
package main

import (
	"cmp"
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

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/histories"
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
	histories         string
	missing           float64
	authors           *histories.People // of histories
	descriptions      bool
	prior             evidence.Prior
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
	flags.StringVar(&o.histories, "histories", "",
		"directory of git repositories to train on too, or, without -fit, to evaluate on")
	weights := flags.String("model", "", "file of the model to evaluate; default: the embedded one")
	flags.Float64Var(&o.missing, "missing", 1.0/3, "share of the accounts of -histories without a profile")
	flags.Float64Var(&o.prior.Population, "population", evidence.DefaultPopulation,
		"people for each one in the store, who may have the same name; a model is always trained with 1")
	flags.BoolVar(&o.descriptions, "descriptions", false,
		"evaluate, or with -fit train, the model of descriptions; -questions is the number of people described")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	var err error
	for list, to := range map[*string]*[]uint64{seeds: &o.seeds, fit: &o.fit, calibrate: &o.calibrate} {
		if *to, err = numbers(*list); err != nil {
			return err
		}
	}
	if o.histories != "" {
		if o.authors, err = histories.Read(ctx, o.histories); err != nil {
			return err
		}
	}
	model, err := evidence.Default()
	if err != nil {
		return err
	}
	if o.descriptions {
		if model, err = evidence.Descriptions(); err != nil {
			return err
		}
	}
	if *weights != "" {
		if model, err = load(*weights); err != nil {
			return err
		}
	}
	if len(o.fit) > 0 {
		if len(o.calibrate) == 0 || o.version == "" || o.out == "" {
			return errors.New("-fit requires -calibrate, -version and -out")
		}
		train := o.train
		if o.descriptions {
			train = o.trainDescriptions
		}
		// Otherwise the fit would undo the margin of the population.
		population := o.prior.Population
		o.prior.Population = 1
		if model, err = train(ctx, model, out); err != nil {
			return err
		}
		o.prior.Population = population
	}
	if o.descriptions {
		answers, err := o.described(ctx, o.seeds, model, out)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "model %s\n", model.Version)
		return printDescribed(out, answers)
	}
	if o.histories != "" && len(o.fit) == 0 {
		_, outcomes, sizes, err := o.history(ctx, model, o.missing, o.questions, out)
		if err != nil {
			return err
		}
		return histories.Summarize(outcomes, sizes).Print(out)
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
	results.Population = o.prior.Population
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

// load reads a model from a file.
func load(path string) (m *evidence.Model, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return evidence.Load(f)
}

// train trains the weights on the -fit seeds and half of the answers about histories, and the calibration on the
// -calibrate seeds and the other half.
func (o *options) train(ctx context.Context, model *evidence.Model, out io.Writer) (*evidence.Model, error) {
	fit, err := o.groups(ctx, o.fit, model, out)
	if err != nil {
		return nil, err
	}
	calibrate, err := o.groups(ctx, o.calibrate, model, out)
	if err != nil {
		return nil, err
	}
	if o.histories != "" {
		for _, missing := range []float64{1.0 / 3, 2.0 / 3} {
			answers, _, _, err := o.history(ctx, model, missing, 0, out)
			if err != nil {
				return nil, err
			}
			for i := range answers {
				if i%2 == 0 {
					fit = append(fit, answers[i].Group)
				} else {
					calibrate = append(calibrate, answers[i].Group)
				}
			}
		}
	}
	fitted := evidence.Train(fit, o.version)
	fitted.Calibrate(fitted.Outcomes(calibrate))
	return fitted, o.write(fitted)
}

func (o *options) write(model *evidence.Model) error {
	text, err := json.Marshal(model, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("write model: %w", err)
	}
	if err := os.WriteFile(o.out, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write model: %w", err)
	}
	return nil
}

// trainDescriptions trains the weights on the -fit seeds and the calibration on the -calibrate seeds. The data has no
// phone numbers: an equal one weighs as much as an equal address.
func (o *options) trainDescriptions(
	ctx context.Context, model *evidence.Model, out io.Writer,
) (*evidence.Model, error) {
	answers, err := o.described(ctx, o.fit, model, out)
	if err != nil {
		return nil, err
	}
	var groups []evidence.Group
	for _, a := range answers {
		groups = append(groups, a.Groups...)
	}
	fitted := evidence.Train(groups, o.version)
	fitted.Weights[evidence.FieldPhone] = map[string]float64{"same": fitted.Weights[evidence.FieldEmail]["same"]}
	if answers, err = o.described(ctx, o.calibrate, fitted, out); err != nil {
		return nil, err
	}
	var outcomes []evidence.Outcome
	for _, a := range answers {
		outcomes = append(outcomes, a.Raw...)
	}
	fitted.Calibrate(outcomes)
	return fitted, o.write(fitted)
}

// described identifies described people of the synthetic data of seeds.
func (o *options) described(
	ctx context.Context, seeds []uint64, model *evidence.Model, out io.Writer,
) (all []evaluate.DescribedAnswer, err error) {
	pairs, err := evidence.Default()
	if err != nil {
		return nil, err
	}
	for _, seed := range seeds {
		began := time.Now()
		err = withStore(ctx, func(conn driver.Conn) error {
			list, err := evaluate.LoadDescriptions(ctx, conn, o.people, seed, o.questions)
			if err != nil {
				return err
			}
			loaded := time.Since(began)
			//nolint:contextcheck // Close ends its reads, not a context
			reader := people.NewReader(conn, identity.Default(), people.Config{})
			defer reader.Close()
			answers, err := evaluate.AskDescriptions(ctx, o.finder(reader, pairs).WithDescriptions(model), list)
			fmt.Fprintf(out, "seed %d: %d people, %d descriptions, loaded in %.0f s, answered in %.0f s\n", seed,
				o.people,
				len(list), loaded.Seconds(), (time.Since(began) - loaded).Seconds())
			all = append(all, answers...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func printDescribed(out io.Writer, answers []evaluate.DescribedAnswer) error {
	outcomes := make([]histories.GivenOutcome, len(answers))
	for i, a := range answers {
		outcomes[i] = a.Outcome
	}
	return histories.PrintGiven(out, histories.SummarizeGiven(outcomes))
}

func (o *options) groups(ctx context.Context, seeds []uint64, model *evidence.Model,
	out io.Writer) ([]evidence.Group, error) {
	var groups []evidence.Group
	for _, seed := range seeds {
		answers, err := o.world(ctx, seed, model, out)
		if err != nil {
			return nil, err
		}
		for i := range answers {
			groups = append(groups, answers[i].Group)
		}
	}
	return groups, nil
}

// world runs discovery on the synthetic data of one seed.
func (o *options) world(ctx context.Context, seed uint64, model *evidence.Model,
	out io.Writer) (answers []evaluate.Answer, err error) {
	began := time.Now()
	err = withStore(ctx, func(conn driver.Conn) error {
		questions, err := evaluate.Load(ctx, conn, o.people, seed, o.questions)
		if err != nil {
			return err
		}
		loaded := time.Since(began)
		//nolint:contextcheck // Close ends its reads, not a context
		reader := people.NewReader(conn, identity.Default(), people.Config{})
		defer reader.Close()
		answers, err = evaluate.Ask(ctx, o.finder(reader, model), questions)
		fmt.Fprintf(out, "seed %d: %d people, %d questions, loaded in %.0f s, answered in %.0f s\n", seed, o.people,
			len(questions), loaded.Seconds(), (time.Since(began) - loaded).Seconds())
		return err
	})
	return answers, err
}

// historyQuestions is the number of questions of one training set of histories.
const historyQuestions = 3000

// allQuestions is a number of questions that no data set has.
const allQuestions = 1_000_000

// history runs discovery on data from git histories. Without a number of calls it draws them from all accounts alike.
func (o *options) history(ctx context.Context, model *evidence.Model, missing float64, calls int,
	out io.Writer) (answers []evaluate.Answer, outcomes []histories.Outcome, sizes map[histories.Class]int, err error) {
	began := time.Now()
	data, err := o.authors.Build(histories.Options{Seed: 1, Missing: missing, Population: 5,
		Repeated: histories.DefaultRepeated, Calls: cmp.Or(calls, allQuestions)})
	if err != nil {
		return nil, nil, nil, err
	}
	if calls == 0 {
		data.Questions = data.Questions[:min(len(data.Questions), historyQuestions)]
	}
	err = withStore(ctx, func(conn driver.Conn) error {
		if err := evaluate.LoadHistories(ctx, conn, data); err != nil {
			return err
		}
		loaded := time.Since(began)
		//nolint:contextcheck // Close ends its reads, not a context
		reader := people.NewReader(conn, identity.Default(), people.Config{})
		defer reader.Close()
		outcomes, answers, err = evaluate.AskHistories(ctx, o.finder(reader, model), data)
		fmt.Fprintf(out, "%d histories, %.2f of profiles missing: %d accounts, %d profiles, %d questions, "+
			"loaded in %.0f s, answered in %.0f s\n", data.Repositories, missing, data.Accounts, data.Profiles,
			len(data.Questions), loaded.Seconds(), (time.Since(began) - loaded).Seconds())
		return err
	})
	return answers, outcomes, data.Sizes, err
}

func (o *options) finder(reader *people.Reader, model *evidence.Model) *finder.Finder {
	return finder.New(reader, model, slog.New(slog.DiscardHandler), time.Now).WithPrior(o.prior)
}

// withStore passes empty read models in an engine of their own to work.
func withStore(ctx context.Context, work func(driver.Conn) error) (err error) {
	engine, err := enginetest.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }() //nolint:contextcheck // it stops after ctx too
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: engine.DSN("default"), MaxOpenConns: 4})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	files, err := readmodel.Migrations()
	if err != nil {
		return err
	}
	migrations, err := clickhouse.LoadMigrations(files, readmodel.Layout{})
	if err != nil {
		return err
	}
	if _, err := clickhouse.Migrate(ctx, conn, migrations, clickhouse.MigrateConfig{}); err != nil {
		return err
	}
	return work(conn)
}
