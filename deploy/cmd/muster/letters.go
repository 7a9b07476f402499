package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"muster/deploy/erasure"
	"muster/ingest"
	"muster/platform/console"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// filterFlags are the flags that select dead letters or rejected records.
type filterFlags struct {
	kind, handler, code, run, since, until string
	resubmitted                            bool
}

func (f *filterFlags) register(cmd *cobra.Command, dead bool) {
	if dead {
		cmd.Flags().StringVar(&f.handler, "handler", "", "only of this handler: service.handler")
	} else {
		cmd.Flags().StringVar(&f.kind, "kind", "", "only of this kind of record")
		cmd.Flags().StringVar(&f.run, "run-id", "", "only of this run of ingest (a prefix of its ID)")
	}
	cmd.Flags().StringVar(&f.code, "reason", "", "only with this reason code, such as bad_date")
	cmd.Flags().StringVar(&f.since, "since", "", "start time: a date, a timestamp, or a duration ago (24h)")
	cmd.Flags().StringVar(&f.until, "until", "", "end time, exclusive")
	cmd.Flags().BoolVar(&f.resubmitted, "resubmitted", false, "include resubmitted ones")
}

// parseTime parses a date, a timestamp, or a duration before now. An empty text gives the zero time.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	v, err := record.ParseVersion(text)
	if err != nil {
		return time.Time{},
			fmt.Errorf("--%s: invalid time %q: want a date, a timestamp, or a duration such as 24h", flag, text)
	}
	return v.Time(), nil
}

func (f *filterFlags) filter(ids []string) (ingest.DeadLetterFilter, error) {
	now := time.Now()
	since, err := parseTime("since", f.since, now)
	until, err2 := parseTime("until", f.until, now)
	if kinds := rejectedKinds(); f.kind != "" && !slices.Contains(kinds, f.kind) {
		err = errors.Join(err,
			fmt.Errorf("--kind: unknown kind %q; the kinds are %s", f.kind, strings.Join(kinds, ", ")))
	}
	return ingest.DeadLetterFilter{
		IDs: ids, Kind: record.Kind(f.kind), Handler: f.handler, Code: f.code, Run: f.run,
		Since: since, Until: until, Resubmitted: f.resubmitted || len(ids) > 0,
	}, errors.Join(err, err2)
}

// rejectedKinds returns the kinds that a rejected record can have: also those extracted from other records, and
// objects that a mapping could not convert.
func rejectedKinds() []string {
	kinds := []string{string(ingest.SourceObject), string(record.KindErasure)}
	for _, d := range record.Definitions() {
		kinds = append(kinds, string(d.Kind))
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// deadLetterJSON is the JSON form of a dead letter or a rejected record. Lists omit the content.
type deadLetterJSON struct {
	ID          string      `json:"id"`
	At          time.Time   `json:"at"`
	Code        string      `json:"code"`
	Reason      string      `json:"reason"`
	Resubmitted time.Time   `json:"resubmitted,omitzero"`
	Unreadable  string      `json:"unreadable,omitempty"`
	Kind        record.Kind `json:"kind,omitempty"`
	Path        string      `json:"path,omitempty"`
	// Defects has all validation errors if there are several, the one in Reason first.
	Defects []record.FieldError `json:"defects,omitzero"`
	// Mapped reports that Record is the input object of a mapping.
	Mapped  bool          `json:"mapped,omitzero"`
	Source  *event.Source `json:"source,omitempty"`
	Length  int64         `json:"length,omitzero"`
	SHA256  string        `json:"sha256,omitempty"`
	Handler string        `json:"handler,omitempty"`
	Message *messageView  `json:"message,omitempty"`
	// Erased reports that the content is omitted, because it contains data about an erased person.
	Erased   bool           `json:"erased,omitzero"`
	Attempts int            `json:"attempts,omitzero"`
	First    time.Time      `json:"first_failure,omitzero"`
	Last     time.Time      `json:"last_failure,omitzero"`
	Record   jsontext.Value `json:"record,omitempty"`
	// Text is a record that is not JSON, Bytes one that is not valid UTF-8.
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
}

// messageView is the message that became a dead letter.
type messageView struct {
	Topic     string            `json:"topic"`
	Partition int               `json:"partition"`
	Offset    int64             `json:"offset"`
	Key       string            `json:"key,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
}

// withReader calls each for every selected dead letter or rejected record. erased reports whether it contains data
// about an erased person.
func (c *command) withReader(cmd *cobra.Command, cfg ingest.Config, dead bool, filter ingest.DeadLetterFilter,
	each func(l ingest.DeadLetter, erased bool) error) error {
	tel, err := c.telemetry(cmd.Context(), "letters")
	if err != nil {
		return err
	}
	return c.withSuppressed(cmd.Context(), cfg.Bus, tel.Logger, func(ctx context.Context, set *suppress.Set) error {
		return ingest.EachDeadLetter(ctx, cfg, dead, filter,
			func(l ingest.DeadLetter) error { return each(l, erasure.Mentions(set, l.Message.Topic, &l.Message)) })
	})
}

// viewOfErased returns the JSON form of l without its content.
func viewOfErased(l ingest.DeadLetter) deadLetterJSON {
	v := viewOfLetter(l, false)
	v.Erased = true
	return v
}

func viewOfLetter(l ingest.DeadLetter, contents bool) deadLetterJSON {
	v := deadLetterJSON{ID: l.ID(), At: l.At(), Code: l.Code(), Resubmitted: l.Resubmitted}
	if l.Unreadable != nil {
		v.Unreadable = l.Unreadable.Error()
	}
	raw := l.Rejected.Raw
	if l.IsDead() {
		d := l.Dead
		v.Reason, v.Handler, v.Attempts, v.First, v.Last = d.Reason, l.Handler(), d.Attempts, d.FirstFailure,
			d.LastFailure
		v.Message = &messageView{Topic: d.Topic, Partition: d.Partition, Offset: d.Offset}
		raw = l.Message.Value
		if contents {
			v.Message.Key, v.Message.Headers = strings.ToValidUTF8(string(l.Message.Key), "\uFFFD"), map[string]string{}
			for _, h := range l.Message.Headers {
				if !strings.HasPrefix(h.Key, event.HeaderDeadPrefix) {
					v.Message.Headers[h.Key] = strings.ToValidUTF8(string(h.Value), "\uFFFD")
				}
			}
		}
	} else if l.Unreadable == nil {
		r := l.Rejected
		v.Reason, v.Path, v.Kind, v.Source, v.Length, v.SHA256 = r.Reason, r.Path, r.Kind, &r.Source, r.Length, r.SHA256
		v.Defects, v.Mapped = r.Defects, r.Mapped
	} else {
		raw = l.Message.Value
	}
	if !contents {
		return v
	}
	switch {
	case len(raw) == 0:
	case jsontext.Value(raw).IsValid():
		v.Record = raw
	case utf8.Valid(raw):
		v.Text = string(raw)
	default:
		v.Bytes = raw
	}
	return v
}

// place returns the source location of the record, or the topic, partition and offset of the message.
func (v deadLetterJSON) place() string {
	switch {
	case v.Source != nil:
		return v.Source.String()
	case v.Message != nil:
		return fmt.Sprintf("%s/%d@%d", v.Message.Topic, v.Message.Partition, v.Message.Offset)
	}
	return "?"
}

// letterConfig returns the configuration to read dead letters and rejected records with.
func (c *command) letterConfig() (ingest.Config, error) {
	kafka, err := c.kafka()
	return ingest.Config{Bus: kafka, StateDir: c.ingestState()}, err
}

func (c *command) listSubcommand(dead bool, noun string) *cobra.Command {
	var flags filterFlags
	var limit int
	var summary bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List " + noun + " without content, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := flags.filter(nil)
			if err != nil {
				return err
			}
			cfg, err := c.letterConfig()
			if err != nil {
				return err
			}
			if limit < 1 || limit > maxListed {
				return fmt.Errorf("--limit: want 1 to %d; `export` writes all", maxListed)
			}
			if summary {
				return letterSummary(cmd, cfg, dead, filter)
			}
			newest, all, err := ingest.NewestDeadLetters(cmd.Context(), cfg, dead, filter, limit)
			if err != nil {
				return err
			}
			views := []deadLetterJSON{}
			for _, l := range newest {
				views = append(views, viewOfLetter(l, false))
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, views)
			}
			tw := newTable(cmd.OutOrStdout(), "ID\tAT\tKIND\tREASON\tPLACE\tWHAT")
			for _, v := range views {
				what := defectsText(v.Path, v.Reason, v.Defects)
				if !v.Resubmitted.IsZero() {
					what += " (resubmitted " + v.Resubmitted.Format(time.RFC3339) + ")"
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.At.Format(time.RFC3339), string(v.Kind)+v.Handler,
					v.Code, console.Line(v.place()), oneLine(what))
			}
			if err := tw.Flush(); err != nil {
				return err
			}
			if all > int64(len(views)) {
				fmt.Fprintf(cmd.OutOrStdout(), "%d of %d; see --limit and --summary\n", len(views), all)
			}
			return nil
		},
	}
	flags.register(cmd, dead)
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number to list")
	addJSONFlag(cmd)
	cmd.Flags().BoolVar(&summary, "summary", false, "show counts by kind and reason instead")
	return cmd
}

const (
	maxListed = 10_000
	maxWhat   = 160
)

// oneLine joins the lines of s and truncates it to maxWhat characters.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > maxWhat {
		s = string([]rune(s)[:maxWhat-3]) + "..."
	}
	return s
}

type letterCount struct {
	Kind  string `json:"kind"`
	Code  string `json:"code"`
	Count int64  `json:"count"`
}

func letterSummary(cmd *cobra.Command, cfg ingest.Config, dead bool, filter ingest.DeadLetterFilter) error {
	counts := map[[2]string]int64{}
	err := ingest.EachDeadLetter(cmd.Context(), cfg, dead, filter, func(l ingest.DeadLetter) error {
		counts[[2]string{string(l.Rejected.Kind) + l.Handler(), l.Code()}]++
		return nil
	})
	if err != nil {
		return err
	}
	rows := []letterCount{}
	for key, n := range counts {
		rows = append(rows, letterCount{key[0], key[1], n})
	}
	slices.SortFunc(rows, func(a, b letterCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Kind+" "+a.Code, b.Kind+" "+b.Code))
	})
	if wantsJSON(cmd) {
		return printJSON(cmd, rows)
	}
	tw := newTable(cmd.OutOrStdout(), "KIND\tREASON\tCOUNT")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%d\n", r.Kind, r.Code, r.Count)
	}
	return tw.Flush()
}

func (c *command) showSubcommand(dead bool, noun string) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID...",
		Short: "Show " + noun + " with content, as JSON",
		Long: "Shows " + noun +
			" with content, one JSON object each. The content may be personal data. The IDs are those of " +
			"`list`.\nIf the content is about an erased person, it is omitted.",
		Args: cobra.RangeArgs(1, 100),
		RunE: func(cmd *cobra.Command, ids []string) error {
			cfg, err := c.letterConfig()
			if err != nil {
				return err
			}
			found := map[string]bool{}
			filter := ingest.DeadLetterFilter{IDs: ids, Resubmitted: true}
			err = c.withReader(cmd, cfg, dead, filter, func(l ingest.DeadLetter, erased bool) error {
				found[l.ID()] = true
				if erased {
					return printJSON(cmd, viewOfErased(l))
				}
				return printJSON(cmd, viewOfLetter(l, true))
			})
			for _, id := range ids {
				if !found[id] {
					err = errors.Join(err, fmt.Errorf("%s not found", id))
				}
			}
			return err
		},
	}
}

func (c *command) exportSubcommand(dead bool, noun, what string) *cobra.Command {
	var flags filterFlags
	var out string
	var whole bool
	cmd := &cobra.Command{
		Use:   "export [ID...]",
		Short: "Export " + noun + ", one per line",
		Long: `Writes the ` + what + `, one per line, to fix them in a file. They may be personal data: a new file is
readable by its owner only. With --letters each line has the metadata too, as "show" prints it: reason, location, and
the content. Without --letters, content that is not one line of JSON or text is skipped. Content about an erased person
is always skipped. The number of skipped ` + what + ` is printed to standard error.`,
		RunE: func(cmd *cobra.Command, ids []string) (err error) {
			filter, err := flags.filter(ids)
			if err != nil {
				return err
			}
			cfg, err := c.letterConfig()
			if err != nil {
				return err
			}
			to := cmd.OutOrStdout()
			if out != "" {
				file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return fmt.Errorf("export: %w", err)
				}
				defer func() { err = errors.Join(err, file.Close()) }()
				to = file
			}
			w := bufio.NewWriter(to)
			written, left := 0, 0
			err = c.withReader(cmd, cfg, dead, filter, func(l ingest.DeadLetter, erased bool) error {
				line, ok, err := exported(l, whole)
				if err != nil {
					return err
				}
				if !ok || erased {
					left++
					return nil
				}
				written++
				_, err = w.Write(append(line, '\n'))
				return err
			})
			err = errors.Join(err, w.Flush())
			fmt.Fprintf(cmd.ErrOrStderr(), "%d written, %d skipped\n", written, left)
			return err
		},
	}
	flags.register(cmd, dead)
	cmd.Flags().StringVar(&out, "out", "", "output file, which must not exist (default: standard output)")
	cmd.Flags().BoolVar(&whole, "letters", false, "include metadata: reason and location")
	return cmd
}

// exported returns the output line of l. ok is false if l has no content that fits one line.
func exported(l ingest.DeadLetter, whole bool) (line []byte, ok bool, err error) {
	if whole {
		line, err = json.Marshal(viewOfLetter(l, true))
		return line, err == nil, err
	}
	raw := l.Rejected.Raw
	if l.IsDead() {
		raw = l.Message.Value
	} else if int64(len(raw)) != l.Rejected.Length {
		// Truncated, or stored in another rejected record.
		return nil, false, nil
	}
	if value := jsontext.Value(slices.Clone(raw)); bytes.ContainsAny(raw, "\r\n") && value.Compact() == nil {
		raw = value
	}
	return raw, len(raw) > 0 && utf8.Valid(raw) && !bytes.ContainsAny(raw, "\r\n"), nil
}

// resubmitSubcommand adds the flags and the run function of a command that resubmits dead letters or rejected records.
// unselected is the error of a command line that selects none.
func (c *command) resubmitSubcommand(cmd *cobra.Command, dead bool, unselected string,
	resubmit func(context.Context, ingest.Config, ingest.Deps, ingest.DeadLetterFilter) (ingest.Resubmission, error),
) *cobra.Command {
	var flags filterFlags
	var all bool
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if len(ids) == 0 && !all && flags == (filterFlags{}) {
			return errors.New(unselected)
		}
		filter, err := flags.filter(ids)
		if err != nil {
			return err
		}
		cfg, err := c.letterConfig()
		if err != nil {
			return err
		}
		tel, err := c.telemetry(cmd.Context(), cmd.Parent().Name())
		if err != nil {
			return err
		}
		res, err := resubmit(cmd.Context(), cfg, ingest.Deps{Logger: tel.Logger}, filter)
		if res.Run == "" {
			return err
		}
		return errors.Join(err, printResubmission(cmd, res, ids))
	}
	flags.register(cmd, dead)
	cmd.Flags().BoolVar(&all, "all", false, "select all that were not resubmitted")
	return addJSONFlag(cmd)
}

// printResubmission prints the outcome of a resubmission. It returns a partlyError if some of ids were not found, or
// some records were skipped or rejected again.
func printResubmission(cmd *cobra.Command, res ingest.Resubmission, ids []string) error {
	named := slices.Compact(slices.Sorted(slices.Values(ids)))
	missing, skipped, rejected := max(0, int64(len(named))-res.Selected), int64(0), int64(0)
	for _, n := range res.Skipped {
		skipped += n
	}
	for _, k := range res.Kinds {
		rejected += k.Rejected
	}
	err := printResubmitted(cmd, res)
	if err == nil && missing+skipped+rejected > 0 {
		err = partlyError{fmt.Errorf("%d not found, %d not resubmitted, %d records rejected again", missing,
			skipped, rejected)}
	}
	return err
}

func printResubmitted(cmd *cobra.Command, res ingest.Resubmission) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, res)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "run %s: %d selected, %d resubmitted\n", res.Run, res.Selected, res.Resubmitted)
	for _, why := range slices.Sorted(maps.Keys(res.Skipped)) {
		fmt.Fprintf(out, "  %d skipped: %s\n", res.Skipped[why], why)
	}
	if err := printKinds(out, res.Kinds); err != nil {
		return err
	}
	conflicting := int64(0)
	for _, k := range res.Kinds {
		conflicting += k.Conflicting
	}
	if conflicting > 0 && !res.Remap {
		fmt.Fprintf(out, "%d of the stale records have the published version, but other content: "+
			"run the command again with --resubmitted --remap to replace it.\n", conflicting)
	}
	return nil
}

func printKinds(out io.Writer, kinds []ingest.KindCounts) error {
	if len(kinds) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "kind\tread\tmade\tpublished\tseen\tunchanged\tstale\trejected again\t")
	for _, k := range kinds {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k.Kind, k.Read, k.Extracted, k.Published,
			k.VersionOnly, k.Unchanged, k.Stale, k.Rejected)
	}
	return tw.Flush()
}
