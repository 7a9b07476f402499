package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/deploy/instance"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/console"
	"muster/schemas/event"
	"muster/schemas/record"
)

// kafka reaches the brokers of the instance, or those that the environment names.
func (c *command) kafka() (bus.Config, error) {
	cfg, err := bus.ConfigFromEnv(c.getenv)
	if err != nil {
		return cfg, err
	}
	if len(cfg.Brokers) > 0 {
		return cfg, nil
	}
	in, err := instance.Read(c.dataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cfg, err
	}
	if !instance.Alive(in.PID) {
		return cfg, fmt.Errorf("%w at data folder %q: start one with `muster up`, name its folder with --data-dir, or set KAFKA_BROKERS",
			instance.ErrNotRunning, c.dataDir)
	}
	return in.Bus(cfg)
}

// ingestState is the folder of what is kept between runs of ingest.
func (c *command) ingestState() string { return filepath.Join(c.dataDir, "ingest") }

func ingestibleKinds() []string {
	var kinds []string
	for _, d := range record.Definitions() {
		if !d.Internal {
			kinds = append(kinds, string(d.Kind))
		}
	}
	kinds = append(kinds, string(record.KindErasure))
	return kinds
}

func (c *command) ingestCommand() *cobra.Command {
	run := ingestRun{command: c, format: "auto"}
	cfg := &run.cfg
	cmd := &cobra.Command{
		Use:   "ingest KIND FILE... | ingest --map MAPPING FILE... | ingest --resume [RUN]",
		Short: "Stream records in from files, standard input or git repositories",
		Long: `Reads records of one kind from files and publishes them. A FILE is

  a file      JSON values (one a line, pretty-printed, or lists of them) or CSV with a header, plain, gzip or
              zstd; or Parquet. The format is found out from content and name; --format says it otherwise
  a folder    all such files in it and below
  a pattern   'dump/*.ndjson.gz': all files that match
  -           standard input (JSON or CSV)

Several files are read at the same time, each in its own order.

Kinds: ` + strings.Join(ingestibleKinds(), ", ") + `.

CSV: a column's name is the path of its field: profile_id, location.city, skills.0.skill. An empty cell is
no field. Numbers and booleans are read as the kind's JSON Schema asks; a list of strings is separated by ";",
other lists and objects stand in a cell as JSON.

Foreign shapes: with --map MAPPING the objects may be anything, and no KIND is named. A mapping is a jq program
that makes zero or more {"kind": ..., "record": {...}} of each; the shipped ones are listed by
"muster ingest mappings".

A full refresh is the same command again with the newer files. The last version of every record
is remembered in the data folder, so that only what is new is published:
  published  the record was not known, or its content is new
  seen       only its version is new: identity and version are published
  unchanged  it was known, version included
  stale      a newer version was published before, or the same version with other content; how many are of
             the same version is counted apart
  rejected   it does not fit; see "muster rejected"
  dropped    it is of somebody who was erased (or, of foreign objects: nothing was made of it)

A changed mapping or a corrected file makes records of the same version and other content. --remap publishes all of
them: it gives the records of the run a mapping revision, which decides between equal versions.

With --dry-run nothing is published, and two lists are printed beside the counts: the first defects, and the
members that the kind's schema does not have, with the member that may be meant. Such a member is no defect, and
in no search, lookup or view.

A run that was stopped (Ctrl-C, kill -9, brokers away) goes on where it stopped when the same
command is given again, or with --resume; nothing that was acknowledged is sent again. A file that
has changed since (path, size, time or first bytes) begins anew, and so does a command with --again
where the one before it had none. "muster ingest runs" lists the runs.

Exit status: 0 everything was published; 1 some records were rejected; 2 the run could not start,
was interrupted, or could not read an input to its end. Running it again is safe.`,
		Example: `  muster ingest network-person people.ndjson.gz
  muster ingest network-company companies.parquet dump/ 'more/*.csv'
  muster ingest --map codehost-events 2026-01-01-15.json.gz
  muster ingest --map ./mine.jq foreign.ndjson
  muster ingest --map ./mine.jq --remap foreign.ndjson     after mine.jq was changed
  muster ingest network-person people.ndjson --dry-run     what it would do
  zcat dump.gz | muster ingest codehost-person -
  muster ingest --resume                                   the run that was stopped last`,
		GroupID: "data",
		Args: func(cmd *cobra.Command, args []string) error {
			if run.resume {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			if cfg.Map != "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return cobra.MinimumNArgs(2)(cmd, args)
		},
		ValidArgs: ingestibleKinds(),
		RunE:      run.do,
	}
	cmd.Flags().IntVar(&cfg.Workers, "workers", 0, "goroutines that decode (0: one for each CPU)")
	cmd.Flags().IntVar(&cfg.Readers, "readers", 0, "files that are read at the same time (0: one for each CPU, at most 4)")
	cmd.Flags().StringVar(&run.format, "format", run.format, "format of the inputs: auto, ndjson, csv, tsv or parquet")
	cmd.Flags().StringVar(&cfg.Map, "map", "", "mapping that makes records of the objects: a name or a file with a jq program")
	cmd.Flags().BoolVar(&run.resume, "resume", false, "go on with a run that was stopped, the last one if none is named")
	cmd.Flags().BoolVar(&cfg.Restart, "restart", false, "begin anew although a run over the same files was stopped")
	cmd.Flags().BoolVar(&cfg.Again, "again", false, "publish also what is known and not older: for topics that lost something")
	cmd.Flags().BoolVar(&cfg.Remap, "remap", false, "publish also what was published with the same version and other content: after a mapping was changed")
	cmd.Flags().BoolVar(&cfg.DryRun, "dry-run", false, "check the records and the names in them, say what would be done, and publish nothing (no platform is needed)")
	cmd.Flags().BoolVar(&run.asJSON, "json", false, "print the summary as JSON")
	cmd.AddCommand(c.ingestRuns(), c.ingestGit(), c.mappingsCommand())
	return cmd
}

// ingestRun is what the flags of `muster ingest` ask for.
type ingestRun struct {
	*command
	cfg            ingest.Config
	format         string
	resume, asJSON bool
}

func (r *ingestRun) do(cmd *cobra.Command, args []string) error {
	tel, err := r.telemetry(cmd.Context(), "ingest")
	if err != nil {
		return err
	}
	r.cfg.StateDir = r.ingestState()
	deps := ingest.Deps{Logger: tel.Logger, Stdin: r.std.in}
	if file, ok := r.std.err.(*os.File); ok {
		deps.Progress = ingest.NewProgress(file, tel.Logger)
	}
	defects := defectList{max: maxShownDefects}
	if r.cfg.DryRun {
		deps.Rejected = defects.add
	} else if r.cfg.Bus, err = r.kafka(); err != nil {
		return err
	}
	work, err := r.work(cmd, args)
	if err != nil {
		return err
	}
	var summary ingest.Summary
	err = r.publishing(cmd.Context(), r.cfg, deps, tel, func(ctx context.Context, deps ingest.Deps) (err error) {
		summary, err = work(ctx, deps)
		return err
	})
	if summary.Run == "" {
		return err
	}
	err = whyRejected(r.cfg, summary, err)
	if r.asJSON {
		return errors.Join(err, printJSON(cmd, summaryView{summary, summary.Elapsed.Seconds()}))
	}
	fmt.Fprint(cmd.OutOrStdout(), defects.String())
	fmt.Fprint(cmd.OutOrStdout(), summary.String())
	fmt.Fprint(cmd.OutOrStdout(), remapHint(cmd, args, summary))
	switch {
	case r.cfg.DryRun:
		fmt.Fprintln(cmd.OutOrStdout(), "This was a dry run: nothing was published.")
	case !summary.Complete():
		fmt.Fprintf(cmd.OutOrStdout(), "`muster ingest --resume %s` goes on from there.\n", summary.Run)
	}
	return err
}

// work is what flags and arguments ask for: a run that goes on, or a new one.
func (r *ingestRun) work(cmd *cobra.Command, args []string) (func(context.Context, ingest.Deps) (ingest.Summary, error), error) {
	if r.resume {
		if r.cfg.Restart || r.cfg.DryRun || r.cfg.Again || r.cfg.Remap || r.cfg.Map != "" || cmd.Flags().Changed("format") {
			return nil, errors.New("--resume goes with none of --restart, --dry-run, --again, --remap, --map and --format")
		}
		return func(ctx context.Context, deps ingest.Deps) (ingest.Summary, error) {
			return ingest.Resume(ctx, r.cfg, deps, strings.Join(args, ""))
		}, nil
	}
	var kind record.Kind // a mapping says of what kind each record is
	d, isKind := record.Lookup(record.Kind(args[0]))
	isKind = isKind && !d.Internal
	switch {
	case r.cfg.Map == "" && !isKind:
		return nil, fmt.Errorf("%q is no kind of record; the kinds are %s", args[0], strings.Join(ingestibleKinds(), ", "))
	case r.cfg.Map == "":
		kind, args = d.Kind, args[1:]
	case isKind && len(args) > 1:
		return nil, fmt.Errorf("a mapping says of what kind each record is: leave %q out", args[0])
	}
	var err error
	if r.cfg.Format, err = ingest.ParseFormat(r.format); err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	return func(ctx context.Context, deps ingest.Deps) (ingest.Summary, error) {
		return ingest.Files(ctx, r.cfg, deps, kind, args)
	}, nil
}

// rejectedError is that of a run that rejected records, with where their reasons are.
type rejectedError struct {
	*ingest.ExitError
	run string
}

func (e rejectedError) Error() string {
	return fmt.Sprintf("%v; `muster rejected list --run %s` says why", e.ExitError, e.run)
}

// whyRejected adds to the error of a run where the reasons of what it rejected are.
// A dry run keeps none: it has printed them.
func whyRejected(cfg ingest.Config, s ingest.Summary, err error) error {
	var exit *ingest.ExitError
	if cfg.DryRun || !errors.As(err, &exit) || exit.Code != ingest.ExitRejected {
		return err
	}
	return rejectedError{exit, s.Run}
}

// remapHint says what the records are that have the version of what is known and other content, and
// which command replaces that. It is empty if there are none.
func remapHint(cmd *cobra.Command, args []string, s ingest.Summary) string {
	n := s.Total().Conflicting
	switch {
	case n == 0:
		return ""
	case s.Remap:
		return fmt.Sprintf("Of equal versions in the input the first was published; %d others have other content: "+
			"their versions (such as last_updated) should differ.\n", n)
	}
	command := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "dry-run", "json", "resume", "restart", "remap":
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if f.Value.Type() == "bool" {
			command = append(command, "--"+f.Name)
			return
		}
		command = append(command, "--"+f.Name, shellQuoted(value))
	})
	command = append(command, "--remap")
	for _, arg := range args {
		command = append(command, shellQuoted(arg))
	}
	what := strings.Join(command, " ")
	if cmd.Flags().Changed("resume") {
		what = "the command of that run, with --remap"
	}
	return fmt.Sprintf("%d records have the version of what was published before, and other content: that was left as it is.\n"+
		"If the mapping or the file was corrected, this replaces it:\n  %s\n", n, what)
}

// shellQuoted returns an argument as a POSIX shell reads it back.
func shellQuoted(arg string) string {
	if arg != "" && strings.Trim(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+") == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// summaryView is how summaries are printed as JSON.
type summaryView struct {
	ingest.Summary
	ElapsedSeconds float64 `json:"elapsed_seconds"`
}

// maxShownDefects is how many rejected records a dry run prints.
const maxShownDefects = 20

// defectList keeps the first rejected records of a dry run: their places and
// reasons, nothing of their contents.
type defectList struct {
	max   int
	mu    sync.Mutex
	lines []string
	more  int
}

func (d *defectList) add(r event.Rejected) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) >= d.max {
		d.more++
		return
	}
	d.lines = append(d.lines, console.Line(fmt.Sprintf("%s: %s %s: %s", r.Source, r.Kind, r.Code, defectsText(r.Path, r.Reason, r.Defects))))
}

// defectsText returns what is wrong with a record: all defects, or the first one if there is no more.
func defectsText(path, reason string, defects []record.Defect) string {
	if len(defects) == 0 {
		return strings.TrimSpace(path + " " + reason)
	}
	texts := make([]string, len(defects))
	for i, d := range defects {
		texts[i] = strings.TrimSpace(d.Path + " " + d.Reason)
	}
	return strings.Join(texts, "; ")
}

func (d *defectList) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	for _, line := range d.lines {
		fmt.Fprintln(&b, line)
	}
	if d.more > 0 {
		fmt.Fprintf(&b, "and %d more\n", d.more)
	}
	return b.String()
}

// runView is how runs are printed as JSON.
type runView struct {
	ID         string           `json:"id"`
	Kind       record.Kind      `json:"kind"`
	State      string           `json:"state"`
	Error      string           `json:"error,omitempty"`
	Began      time.Time        `json:"began"`
	Ended      time.Time        `json:"ended,omitzero"`
	AgeSeconds int64            `json:"age_seconds"`
	Attempts   int              `json:"attempts"`
	Counts     map[string]int64 `json:"counts"`
	Files      []runFileView    `json:"files"`
}

type runFileView struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Line     int64  `json:"line"`
	Offset   int64  `json:"offset"`
	Complete bool   `json:"complete"`
}

func viewOfRun(r ingest.Run, now time.Time) runView {
	v := runView{
		ID: r.ID, Kind: r.Kind, State: string(r.State), Error: r.Error, Began: r.Began, Ended: r.Ended,
		AgeSeconds: int64(now.Sub(r.Began).Seconds()), Attempts: r.Attempts, Counts: map[string]int64{}, Files: []runFileView{},
	}
	for _, k := range r.Counts {
		v.Counts["read"] += k.Read
		v.Counts["split"] += k.Split
		v.Counts["published"] += k.Published
		v.Counts["seen"] += k.Seen
		v.Counts["unchanged"] += k.Unchanged
		v.Counts["stale"] += k.Stale
		v.Counts["conflicting"] += k.Conflicting
		v.Counts["rejected"] += k.Rejected
		v.Counts["mapped"] += k.Mapped
		v.Counts["dropped"] += k.Dropped
		v.Counts["suppressed"] += k.Suppressed
	}
	for _, f := range r.Files {
		v.Files = append(v.Files, runFileView{f.Path, f.Size, f.Line, f.Offset, f.Complete})
	}
	return v
}

func (c *command) ingestRuns() *cobra.Command {
	var asJSON bool
	var limit int
	var forget string
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs of ingest, the newest first",
		Long: `Lists the runs of ingest with this data folder: what each did, and whether it can be resumed.

States: running (a process works on it), stopped (it can be resumed), done.`,
		Example: `  muster ingest runs
  muster ingest runs --forget 019a4b   a run that will not be resumed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return errors.New("--limit must be at least 1")
			}
			if forget != "" {
				return ingest.RemoveRun(c.ingestState(), forget)
			}
			runs, err := ingest.Runs(c.ingestState(), limit)
			views := []runView{}
			for _, r := range runs {
				views = append(views, viewOfRun(r, time.Now()))
			}
			if asJSON {
				return errors.Join(printJSON(cmd, views), err)
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "RUN\tKIND\tSTATE\tAGE\tFILES\tREAD\tPUBLISHED\tSEEN\tUNCHANGED\tSTALE\tREJECTED")
			for _, v := range views {
				complete := 0
				for _, f := range v.Files {
					if f.Complete {
						complete++
					}
				}
				n := v.Counts
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d/%d\t%d\t%d\t%d\t%d\t%d\t%d\n", v.ID, v.Kind, v.State,
					(time.Duration(v.AgeSeconds) * time.Second).String(), complete, len(v.Files),
					n["read"], n["published"], n["seen"], n["unchanged"], n["stale"], n["rejected"])
			}
			return errors.Join(tw.Flush(), err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with how far each file came")
	cmd.Flags().IntVar(&limit, "limit", 20, "how many runs to list")
	cmd.Flags().StringVar(&forget, "forget", "", "forget a run (the beginning of its id); what it published stays")
	return cmd
}

func (c *command) mappingsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mappings [NAME]",
		Short: "List the mappings that are shipped, or print one as a start for your own",
		Long: `Without a name: the mappings that "muster ingest --map NAME" knows. With a name: the jq program, whose comment says what
becomes of each field.`,
		Example: `  muster ingest mappings
  muster ingest mappings codehost-rest > mine.jq`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			var names []string
			for _, m := range ingest.Mappings() {
				names = append(names, m.Name)
				switch {
				case len(args) == 0:
					fmt.Fprintf(out, "%-16s %s\n", m.Name, m.About())
				case args[0] == m.Name:
					fmt.Fprint(out, m.Source)
					return nil
				}
			}
			if len(args) > 0 {
				return fmt.Errorf("no mapping is called %q; there are %s", args[0], strings.Join(names, ", "))
			}
			return nil
		},
	}
}
