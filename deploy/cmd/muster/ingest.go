package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/deploy/internal/instance"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/console"
	"muster/schemas/event"
	"muster/schemas/record"
)

// kafka returns the brokers of KAFKA_BROKERS, else those of the running instance.
func (c *command) kafka() (bus.Config, error) {
	cfg, err := bus.ConfigFromEnv(c.getenv)
	if err != nil {
		return cfg, err
	}
	if len(cfg.Brokers) > 0 {
		return cfg, nil
	}
	in, err := instance.Running(c.dataDir)
	if errors.Is(err, instance.ErrNotRunning) {
		err = fmt.Errorf("%w, set --data-dir to another directory, or set KAFKA_BROKERS", err)
	}
	if err != nil {
		return cfg, err
	}
	return in.Bus(cfg)
}

// ingestState returns the directory of the state that ingest keeps between runs.
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
		Short: "Ingest records from files, standard input or git",
		Long: `Reads records of one kind from files and publishes them. A FILE is

  a file       JSON values (one per line, pretty-printed, or arrays of them) or CSV with a header, plain, gzip or
               zstd; or Parquet. The format is detected from content and name; --format overrides it
  a directory  all such files in it, recursively
  a pattern    'dump/*.ndjson.gz': all files that match
  -            standard input (JSON or CSV)

Files are read in parallel, each in its own order.

Kinds: ` + strings.Join(ingestibleKinds(), ", ") + `.

CSV: a column's name is the path of its field: profile_id, location.city, skills.0.skill. An empty cell means that the
field is absent. Numbers and booleans are parsed as the kind's JSON Schema requires; arrays of strings are separated by
";", other arrays and objects are JSON in a cell.

Custom formats: with --map MAPPING the input can be any objects, and KIND is omitted. A mapping is a jq program
that creates zero or more {"kind": ..., "record": {...}} from each object; for the built-in ones see
"muster ingest mappings".

For a full refresh, run the same command with newer files. The newest version of every record is stored in the data
directory, so that only changes are published:
  published  the record is new, or its content has changed
  seen       only its version is newer: identity and version are published
  unchanged  same version and content as published before
  stale      a newer version was published before, or the same version with other content; the latter are also
             counted separately
  rejected   invalid; see "muster rejected"
  dropped    about an erased person (or, with --map: the mapping created no record)

After a change of the mapping or a correction of a file, records have the same version and other content. --remap
publishes them: it gives the records of the run a mapping revision, which decides between equal versions.

With --dry-run nothing is published, and two lists are printed in addition to the counts: the first validation errors,
and the fields that the kind's schema does not have, each with a suggestion. An unknown field is not an error, but it
is not in searches, lookups or views.

A stopped run (Ctrl-C, kill -9, unavailable brokers) resumes when the same command is run again, or with --resume;
acknowledged records are not sent again. A file that has changed since (path, size, time or first bytes) is read from
the beginning, and so are all files if --again is added. "muster ingest runs" lists the runs.

Exit status: 0 everything was published; 1 some records were rejected; 2 the run could not start,
was interrupted, or could not read an input completely. It is safe to run it again.`,
		Example: `  muster ingest network-person people.ndjson.gz
  muster ingest network-company companies.parquet dump/ 'more/*.csv'
  muster ingest --map codehost-events 2026-01-01-15.json.gz
  muster ingest --map ./mine.jq foreign.ndjson
  muster ingest --map ./mine.jq --remap foreign.ndjson     after mine.jq was changed
  muster ingest network-person people.ndjson --dry-run     report what it would do
  zcat dump.gz | muster ingest codehost-person -
  muster ingest --resume                                   resume the last stopped run`,
		GroupID: "data",
		Args: func(cmd *cobra.Command, args []string) error {
			if run.resume {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			if cfg.Mapping != "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return cobra.MinimumNArgs(2)(cmd, args)
		},
		ValidArgs: ingestibleKinds(),
		RunE:      run.do,
	}
	cmd.Flags().IntVar(&cfg.Workers, "workers", 0, "number of decoding goroutines (default: one per CPU)")
	cmd.Flags().IntVar(&cfg.Readers, "readers", 0, "number of files read in parallel (default: one per CPU, at most 4)")
	cmd.Flags().StringVar(&run.format, "format", run.format, "format of the inputs: auto, ndjson, csv, tsv or parquet")
	cmd.Flags().StringVar(&cfg.Mapping, "map", "",
		"mapping to convert the objects with: a name or a file with a jq program")
	cmd.Flags().BoolVar(&run.resume, "resume", false, "resume a stopped run, by default the last one")
	cmd.Flags().BoolVar(&cfg.Restart, "restart", false,
		"start from scratch instead of resuming a run over the same files")
	cmd.Flags().BoolVar(&cfg.Republish, "again", false, "republish unchanged records, for topics that lost data")
	cmd.Flags().BoolVar(&cfg.Remap, "remap", false,
		"also publish records of the same version with other content, after a mapping was changed")
	cmd.Flags().BoolVar(&cfg.DryRun, "dry-run", false,
		"validate the records and their field names, and publish nothing (needs no running instance)")
	cmd.Flags().Bool("json", false, "print the summary as JSON")
	cmd.AddCommand(c.ingestRuns(), c.ingestGit(), c.mappingsCommand())
	return cmd
}

// ingestRun holds the flags of `muster ingest`.
type ingestRun struct {
	*command
	cfg    ingest.Config
	format string
	resume bool
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
	err = r.withPublisher(cmd.Context(), r.cfg, deps, func(ctx context.Context, deps ingest.Deps) (err error) {
		summary, err = work(ctx, deps)
		return err
	})
	if summary.Run == "" {
		return err
	}
	err = explainRejections(r.cfg, summary, err)
	if wantsJSON(cmd) {
		return errors.Join(err, printJSON(cmd, summaryView{summary, summary.Elapsed.Seconds()}))
	}
	fmt.Fprint(cmd.OutOrStdout(), defects.String())
	fmt.Fprint(cmd.OutOrStdout(), summary.String())
	fmt.Fprint(cmd.OutOrStdout(), remapHint(cmd, args, summary))
	switch {
	case r.cfg.DryRun:
		fmt.Fprintln(cmd.OutOrStdout(), "This was a dry run: nothing was published.")
	case !summary.Complete():
		fmt.Fprintf(cmd.OutOrStdout(), "To resume, run `muster ingest --resume %s`.\n", summary.Run)
	}
	return err
}

// work returns the function that the flags and arguments select: resume a run, or start a new one.
func (r *ingestRun) work(cmd *cobra.Command,
	args []string) (func(context.Context, ingest.Deps) (ingest.Summary, error), error) {
	if r.resume {
		if r.cfg.Restart || r.cfg.DryRun || r.cfg.Republish || r.cfg.Remap || r.cfg.Mapping != "" ||
			cmd.Flags().Changed("format") {
			return nil,
				errors.New("--resume cannot be combined with --restart, --dry-run, --again, --remap, --map or --format")
		}
		return func(ctx context.Context, deps ingest.Deps) (ingest.Summary, error) {
			return ingest.Resume(ctx, r.cfg, deps, strings.Join(args, ""))
		}, nil
	}
	// Empty with a mapping, which sets the kind of each record.
	var kind record.Kind
	d, isKind := record.Lookup(record.Kind(args[0]))
	isKind = isKind && !d.Internal
	switch {
	case r.cfg.Mapping == "" && !isKind:
		return nil, fmt.Errorf("unknown kind %q; the kinds are %s", args[0], strings.Join(ingestibleKinds(), ", "))
	case r.cfg.Mapping == "":
		kind, args = d.Kind, args[1:]
	case isKind && len(args) > 1:
		return nil, fmt.Errorf("the mapping sets the kind of each record: omit %q", args[0])
	}
	var err error
	if r.cfg.Format, err = ingest.ParseFormat(r.format); err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	return func(ctx context.Context, deps ingest.Deps) (ingest.Summary, error) {
		return ingest.Files(ctx, r.cfg, deps, kind, args)
	}, nil
}

// rejectedError is the error of a run that rejected records. Its message names the command that lists them.
type rejectedError struct {
	*ingest.ExitError
	run string
}

func (e rejectedError) Error() string {
	return fmt.Sprintf("%v; see `muster rejected list --run-id %s`", e.ExitError, e.run)
}

// explainRejections adds the command that lists the rejected records to the error of a run. A dry run has printed them.
func explainRejections(cfg ingest.Config, s ingest.Summary, err error) error {
	var exit *ingest.ExitError
	if cfg.DryRun || !errors.As(err, &exit) || exit.Code != ingest.ExitRejected {
		return err
	}
	return rejectedError{exit, s.Run}
}

// remapHint describes the records with a published version but other content, and the command that replaces the
// published content. It is empty if there are none.
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
	return fmt.Sprintf("%d records have a published version, but other content: the published content was kept.\n"+
		"If the mapping or the file was corrected, replace it with:\n  %s\n", n, what)
}

// shellQuoted quotes an argument for a POSIX shell.
func shellQuoted(arg string) string {
	if arg != "" &&
		strings.Trim(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+") == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// summaryView is the JSON form of a summary.
type summaryView struct {
	ingest.Summary
	ElapsedSeconds float64 `json:"elapsed_seconds"`
}

// maxShownDefects is the maximum number of rejected records that a dry run prints.
const maxShownDefects = 20

// defectList collects the locations and reasons of the first rejected records of a dry run, without content. It is
// safe for concurrent use.
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
	d.lines = append(d.lines,
		console.Line(fmt.Sprintf("%s: %s %s: %s", r.Source, r.Kind, r.Code, defectsText(r.Path, r.Reason, r.Defects))))
}

// defectsText joins the validation errors of a record. Without defects it returns path and reason.
func defectsText(path, reason string, defects []record.FieldError) string {
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

// runView is the JSON form of a run.
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
		AgeSeconds: int64(now.Sub(r.Began).Seconds()), Attempts: r.Attempts, Counts: map[string]int64{},
		Files: []runFileView{},
	}
	for _, k := range r.Counts {
		v.Counts["read"] += k.Read
		v.Counts["extracted"] += k.Split
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
	var limit int
	var forget string
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List runs of ingest, newest first",
		Long: `Lists the runs of ingest in this data directory: their counts, and whether they can be resumed.

States: running (a process works on it), stopped (it can be resumed), done.`,
		Example: `  muster ingest runs
  muster ingest runs --delete 019a4b   delete a run that will not be resumed`,
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
			if wantsJSON(cmd) {
				return errors.Join(printJSON(cmd, views), err)
			}
			tw := newTable(
				cmd.OutOrStdout(), "RUN\tKIND\tSTATE\tAGE\tFILES\tREAD\tPUBLISHED\tSEEN\tUNCHANGED\tSTALE\tREJECTED",
			)
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
	cmd.Flags().Bool("json", false, "print JSON, with the progress of each file")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of runs to list")
	cmd.Flags().StringVar(&forget, "delete", "", "ID prefix of a run to delete; its published records stay")
	return cmd
}

func (c *command) mappingsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mappings [NAME]",
		Short: "List the built-in mappings, or print one as a template",
		Long: `Without a name, lists the mappings for "muster ingest --map NAME". With a name, prints the jq program,
whose comments describe the target of each field.`,
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
				return fmt.Errorf("unknown mapping %q; the mappings are %s", args[0], strings.Join(names, ", "))
			}
			return nil
		},
	}
}
