package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"muster/deploy/internal/instance"
	"muster/discovery-worker/histories"
	"muster/platform/console"
	"muster/query-api/client"
	"muster/schemas/identity"
	"muster/schemas/record"
)

func (c *command) evalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "eval",
		Short:   "Measure the accuracy of a running instance",
		GroupID: "data",
	}
	cmd.AddCommand(c.evalDiscovery())
	return cmd
}

// discoveryEvaluation holds the flags of `muster eval discovery`.
type discoveryEvaluation struct {
	*command
	histories.Options
	dir     string
	hosts   []string
	callers int
	loaded  bool
}

func (c *command) evalDiscovery() *cobra.Command {
	e := discoveryEvaluation{command: c}
	cmd := &cobra.Command{
		Use:   "discovery --histories DIR",
		Short: "Measure discovery on the authors of local git repositories",
		Long: `Builds accounts, profiles and the ground truth from the repositories in a directory, pushes them to a
running instance, calls POST /v1/person/discover for the accounts, and POST /v1/person/identify for descriptions of the
authors and of synthetic people. It needs the git program, and a separate instance without web search and language
model:

  muster up --no-sample --data-dir /tmp/evaluation

Accounts come from the no-reply addresses with ID and username in the commits; profiles from the other names and
addresses of the same authors, by .mailmap, address and account ID. deploy/docs/discovery-evaluation.md describes what
is drawn at random, and the measured figures.

The report has no name, handle or address. The wrong answers are printed to a terminal only. The data is about real
people: delete the data directory afterwards.

Exit status: 0 the report was printed; 2 the data could not be built or loaded, or a call failed.`,
		Example: `  muster eval discovery --histories ~/src --data-dir /tmp/evaluation
  muster eval discovery --histories ~/src --data-dir /tmp/evaluation --loaded --callers 1`,
		Args: cobra.NoArgs,
		RunE: e.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&e.dir, "histories", "", "directory of git repositories, bare or not (required)")
	flags.Float64Var(&e.Missing, "missing", 1.0/3, "share of the accounts whose profile is left out")
	flags.Float64Var(&e.Population, "population", 5, "profiles for each account; further ones have resampled names")
	flags.Float64Var(&e.Repeated, "repeated", histories.DefaultRepeated,
		"share of the further profiles with the whole name of an author")
	flags.IntVar(&e.Calls, "calls", 2000, "maximum number of calls, drawn evenly from the classes")
	flags.Uint64Var(&e.Seed, "seed", 1, "random seed")
	flags.IntVar(&e.callers, "callers", 2, "concurrent calls")
	flags.StringSliceVar(&e.hosts, "noreply-host", nil,
		"additional code host whose no-reply addresses are recognized (git.example)")
	flags.BoolVar(&e.loaded, "loaded", false, "the instance has the data of an earlier run with the same flags")
	if err := cmd.MarkFlagRequired("histories"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (e *discoveryEvaluation) run(cmd *cobra.Command, _ []string) error {
	ctx := cmd.Context()
	if e.callers < 1 || e.callers > 64 {
		return fmt.Errorf("--callers: invalid value %d: want 1 to 64", e.callers)
	}
	tel, err := e.telemetry(ctx, "eval")
	if err != nil {
		return err
	}
	in, err := instance.Find(e.dataDir, e.getenv)
	if err != nil {
		return err
	}
	if in.APIKey == "" || in.IngestURL == "" {
		return errors.New("eval discovery: an instance of `muster up` is required: set --data-dir")
	}
	people, err := histories.Read(ctx, e.dir, e.hosts...)
	if err != nil {
		return err
	}
	data, err := people.Build(e.Options)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%d repositories: %d accounts, %d profiles, %d calls; "+
		"%d authors with several accounts left out\n\n", data.Repositories, data.Accounts, data.Profiles,
		len(data.Questions), data.Ambiguous)
	progress := newBar(e.std.err, tel.Logger)
	if !e.loaded {
		if err := e.load(ctx, in, data, progress); err != nil {
			return err
		}
	}
	outcomes, err := e.ask(ctx, in, data.Questions, progress)
	if err != nil {
		return err
	}
	if err := histories.Summarize(outcomes, data.Sizes).Print(out); err != nil {
		return err
	}
	if console.IsTerminal(e.std.out) {
		printWrong(out, outcomes)
	}
	given, err := e.identify(ctx, in, data.Descriptions, progress)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\nidentified by what was given:")
	if err := histories.PrintGiven(out, histories.SummarizeGiven(given)); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", histories.FormatLatency(histories.LatencyOfGiven(given)))
	return nil
}

// identify calls identify for the descriptions.
func (e *discoveryEvaluation) identify(ctx context.Context, in instance.Instance, list []histories.Description,
	progress *bar) ([]histories.GivenOutcome, error) {
	outcomes := make([]histories.GivenOutcome, len(list))
	err := e.callAll(ctx, in, "Identifying people", len(list), progress,
		func(ctx context.Context, api *client.Client, i int) error {
			d := list[i]
			all, began := 0.0, time.Now()
			response, err := api.IdentifyPerson(ctx, client.PersonIdentifyRequest{
				Name: d.Query.Name, Company: d.Query.Company, Location: d.Query.Location, Title: d.Query.Title,
				Email: d.Query.Email, EmailHash: d.Query.EmailHash, MinConfidence: &all,
			})
			if err != nil {
				return err
			}
			if err := complete(response.Metadata); err != nil {
				return err
			}
			outcomes[i] = histories.GivenOutcome{Given: d.Given, Exists: d.Username != "", Took: time.Since(began)}
			for _, m := range response.Value.Matches {
				outcomes[i].Matches = append(outcomes[i].Matches,
					d.Score(m.Confidence, m.CodehostUsername, m.NetworkUsername))
			}
			return nil
		})
	return outcomes, err
}

// complete returns an error if a stage of a response is missing.
func complete(m client.Metadata) error {
	if len(m.Degraded) > 0 {
		return fmt.Errorf("the stages %s did not respond", strings.Join(m.Degraded, ", "))
	}
	return nil
}

// printWrong lists the wrong answers. They name real people, so the output must be a terminal.
func printWrong(out io.Writer, outcomes []histories.Outcome) {
	fmt.Fprintln(out, "\nwrong answers:")
	for _, o := range outcomes {
		if o.Found != "" && !o.Right() {
			fmt.Fprintf(out, "%.3f  %-30s %s -> %s\n", o.Confidence, o.Class, o.Username, o.Found)
		}
	}
}

// pushSize is the number of records of one push.
const pushSize = 2000

// load pushes the records to an instance without people, and waits until they are in the read models.
func (e *discoveryEvaluation) load(ctx context.Context, in instance.Instance, data *histories.Data,
	progress *bar) error {
	want, err := e.stored(ctx)
	if err != nil {
		return err
	}
	if want > 0 {
		return errors.New("eval discovery: the instance has records already: start one without sample and with an " +
			"empty data directory (muster up --no-sample --data-dir DIR), or pass --loaded")
	}
	byKind := make(map[record.Kind][]histories.Record)
	for _, r := range data.Records {
		byKind[r.Kind] = append(byKind[r.Kind], r)
	}
	progress.Begin("Pushing records", int64(len(data.Records)))
	defer progress.End()
	done := 0
	for _, kind := range []record.Kind{record.KindCodehostCommit, record.KindCodehostPerson, record.KindNetworkPerson} {
		list := byKind[kind]
		for len(list) > 0 {
			n := min(pushSize, len(list))
			if err := push(ctx, in, kind, list[:n]); err != nil {
				return err
			}
			list, done = list[n:], done+n
			progress.Set(int64(done))
		}
	}
	return e.awaitStored(ctx, uint64(len(data.Records)))
}

// push sends records of a kind to the ingest service. It retries while the service is busy.
func push(ctx context.Context, in instance.Instance, kind record.Kind, list []histories.Record) error {
	var body bytes.Buffer
	for _, r := range list {
		body.Write(r.JSON)
		body.WriteByte('\n')
	}
	for attempt := 0; ; attempt++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost,
			strings.TrimSuffix(in.IngestURL, "/")+"/ingest/v1/"+string(kind), bytes.NewReader(body.Bytes()))
		if err != nil {
			return fmt.Errorf("push records: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+in.OperatorToken)
		req.Header.Set("Content-Type", "application/x-ndjson")
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("push records: %w", err)
		}
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // it may quote records
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return fmt.Errorf("push records: %w", err)
		}
		switch busy := response.StatusCode == http.StatusTooManyRequests ||
			response.StatusCode == http.StatusServiceUnavailable; {
		case response.StatusCode == http.StatusOK:
			return nil
		case !busy || attempt == 10:
			return fmt.Errorf("push records: the ingest service answered %s to %d records of the kind %s",
				response.Status, len(list), kind)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("push records: %w", context.Cause(ctx))
		}
	}
}

// stored returns the number of records of the evaluation's kinds in the read models.
func (e *discoveryEvaluation) stored(ctx context.Context) (n uint64, err error) {
	err = e.withReadModels(ctx, func(conn driver.Conn) error {
		return conn.QueryRow(ctx, `SELECT (SELECT count() FROM codehost_people FINAL)
    + (SELECT count() FROM codehost_commits FINAL) + (SELECT count() FROM network_people FINAL)`).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count records: %w", err)
	}
	return n, nil
}

// loadTimeout is how long the projector may write nothing before the evaluation gives up.
const loadTimeout = 2 * time.Minute

func (e *discoveryEvaluation) awaitStored(ctx context.Context, want uint64) error {
	last, changed := uint64(0), time.Now()
	for {
		n, err := e.stored(ctx)
		switch {
		case err != nil:
			return err
		case n >= want:
			return nil
		case n != last:
			last, changed = n, time.Now()
		case time.Since(changed) > loadTimeout:
			return fmt.Errorf("eval discovery: %d of %d records were projected: see muster status", n, want)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the projector: %w", context.Cause(ctx))
		}
	}
}

// ask calls discovery for the questions.
func (e *discoveryEvaluation) ask(ctx context.Context, in instance.Instance, questions []histories.Question,
	progress *bar) ([]histories.Outcome, error) {
	outcomes := make([]histories.Outcome, len(questions))
	err := e.callAll(ctx, in, "Calling discovery", len(questions), progress,
		func(ctx context.Context, api *client.Client, i int) error {
			q := questions[i]
			began, uncached := time.Now(), 0
			response, err := api.DiscoverPerson(ctx,
				client.PersonDiscoverRequest{Codehost: q.Username, MaxAgeDays: &uncached})
			if err != nil {
				return err
			}
			if err := complete(response.Metadata); err != nil {
				return err
			}
			outcomes[i] = histories.Outcome{Question: q, Took: time.Since(began)}
			for _, s := range response.Value.Socials {
				if string(s.Platform) == identity.Network {
					outcomes[i].Found, outcomes[i].Confidence = s.Username, s.Confidence
				}
			}
			return nil
		})
	return outcomes, err
}

// callAll makes n calls, several at once.
func (e *discoveryEvaluation) callAll(ctx context.Context, in instance.Instance, label string, n int, progress *bar,
	call func(ctx context.Context, api *client.Client, i int) error) error {
	api, err := client.New(in.BaseURL, in.APIKey, client.Options{})
	if err != nil {
		return fmt.Errorf("eval discovery: %w", err)
	}
	progress.Begin(label, int64(n))
	defer progress.End()
	var mu sync.Mutex // for progress
	done := 0
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(e.callers)
	for i := range n {
		calls.Go(func() error {
			if err := call(ctx, api, i); err != nil {
				return fmt.Errorf("eval discovery: call %d: %w", i+1, err)
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			progress.Set(int64(done))
			return nil
		})
	}
	return calls.Wait()
}
