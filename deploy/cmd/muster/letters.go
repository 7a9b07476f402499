package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"muster/deploy/receipt"
	"muster/ingest"
	"muster/platform/console"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// letterFlags are the flags that choose letters.
type letterFlags struct {
	kind, handler, code, run, since, until string
	resubmitted                            bool
}

func (f *letterFlags) register(cmd *cobra.Command, dead bool) {
	if dead {
		cmd.Flags().StringVar(&f.handler, "handler", "", "those of one handler: service.handler")
	} else {
		cmd.Flags().StringVar(&f.kind, "kind", "", "those of one kind of record")
		cmd.Flags().StringVar(&f.run, "run", "", "those of one run of ingest (the beginning of its id)")
	}
	cmd.Flags().StringVar(&f.code, "reason", "", "those with one reason: its code, such as bad_date")
	cmd.Flags().StringVar(&f.since, "since", "", "from this time on: a date, a timestamp, or how long ago (24h)")
	cmd.Flags().StringVar(&f.until, "until", "", "before this time")
	cmd.Flags().BoolVar(&f.resubmitted, "resubmitted", false, "also those that were resubmitted")
}

// moment reads a date, a timestamp, or how long ago.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	v, err := record.ParseVersion(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("--%s: %q is neither a date, nor a timestamp, nor a duration such as 24h", flag, text)
	}
	return v.Time(), nil
}

func (f *letterFlags) filter(ids []string) (ingest.LetterFilter, error) {
	now := time.Now()
	since, err := moment("since", f.since, now)
	until, err2 := moment("until", f.until, now)
	if kinds := letterKinds(); f.kind != "" && !slices.Contains(kinds, f.kind) {
		err = errors.Join(err, fmt.Errorf("--kind: no kind of record is called %q; there are %s", f.kind, strings.Join(kinds, ", ")))
	}
	return ingest.LetterFilter{
		IDs: ids, Kind: record.Kind(f.kind), Handler: f.handler, Code: f.code, Run: f.run,
		Since: since, Until: until, Resubmitted: f.resubmitted || len(ids) > 0,
	}, errors.Join(err, err2)
}

// letterKinds are the kinds that a rejected record can be of: also those that are
// split off others, and objects of which a mapping should have made records.
func letterKinds() []string {
	kinds := []string{string(ingest.Foreign), string(record.KindErasure)}
	for _, d := range record.Definitions() {
		kinds = append(kinds, string(d.Kind))
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// letterView is how letters are printed as JSON. Those that are listed have no
// contents.
type letterView struct {
	ID          string      `json:"id"`
	At          time.Time   `json:"at"`
	Code        string      `json:"code"`
	Reason      string      `json:"reason"`
	Resubmitted time.Time   `json:"resubmitted,omitzero"`
	Unreadable  string      `json:"unreadable,omitempty"`
	Kind        record.Kind `json:"kind,omitempty"`
	Path        string      `json:"path,omitempty"`
	// Defects has all defects, the one above first, of a record that has several.
	Defects []record.Defect `json:"defects,omitzero"`
	// Mapped says that Record is the object that a mapping read.
	Mapped  bool          `json:"mapped,omitzero"`
	Source  *event.Source `json:"source,omitempty"`
	Length  int64         `json:"length,omitzero"`
	SHA256  string        `json:"sha256,omitempty"`
	Handler string        `json:"handler,omitempty"`
	Message *messageView  `json:"message,omitempty"`
	// Erased says that the contents are hidden: they tell of somebody who was erased.
	Erased   bool           `json:"erased,omitzero"`
	Attempts int            `json:"attempts,omitzero"`
	First    time.Time      `json:"first_failure,omitzero"`
	Last     time.Time      `json:"last_failure,omitzero"`
	Record   jsontext.Value `json:"record,omitempty"`
	// Text is a record that is no JSON, Bytes one that is not even text.
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
}

// messageView is the message that a dead letter was made of.
type messageView struct {
	Topic     string            `json:"topic"`
	Partition int               `json:"partition"`
	Offset    int64             `json:"offset"`
	Key       string            `json:"key,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
}

// withLetters hands over letters with whether they tell of somebody who was erased.
func (c *command) withLetters(cmd *cobra.Command, cfg ingest.Config, dead bool, filter ingest.LetterFilter, each func(l ingest.Letter, erased bool) error) error {
	tel, err := c.telemetry(cmd.Context(), "letters")
	if err != nil {
		return err
	}
	return c.withSuppressed(cmd.Context(), cfg.Bus, tel, func(ctx context.Context, set *suppress.Set) error {
		return ingest.EachLetter(ctx, cfg, dead, filter, func(l ingest.Letter) error { return each(l, receipt.Tells(set, l.Message.Topic, &l.Message)) })
	})
}

// viewOfErased is a letter whose contents are hidden.
func viewOfErased(l ingest.Letter) letterView {
	v := viewOfLetter(l, false)
	v.Erased = true
	return v
}

func viewOfLetter(l ingest.Letter, contents bool) letterView {
	v := letterView{ID: l.ID(), At: l.At(), Code: l.Code(), Resubmitted: l.Resubmitted}
	if l.Unreadable != nil {
		v.Unreadable = l.Unreadable.Error()
	}
	raw := l.Rejected.Raw
	if l.IsDead() {
		d := l.Dead
		v.Reason, v.Handler, v.Attempts, v.First, v.Last = d.Reason, l.Handler(), d.Attempts, d.FirstFailure, d.LastFailure
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

// place is where a letter's record came from, for people.
func (v letterView) place() string {
	switch {
	case v.Source != nil:
		return v.Source.String()
	case v.Message != nil:
		return fmt.Sprintf("%s/%d@%d", v.Message.Topic, v.Message.Partition, v.Message.Offset)
	}
	return "?"
}

// letterConfig is what the commands about letters work with.
func (c *command) letterConfig() (ingest.Config, error) {
	kafka, err := c.kafka()
	return ingest.Config{Bus: kafka, StateDir: c.ingestState()}, err
}

func (c *command) lettersList(dead bool, noun string) *cobra.Command {
	var flags letterFlags
	var limit int
	var asJSON, summary bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List " + noun + ", the newest first, without their contents",
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
				return fmt.Errorf("--limit is 1 to %d; `export` writes them all", maxListed)
			}
			if summary {
				return letterSummary(cmd, cfg, dead, filter, asJSON)
			}
			newest, all, err := ingest.NewestLetters(cmd.Context(), cfg, dead, filter, limit)
			if err != nil {
				return err
			}
			views := []letterView{}
			for _, l := range newest {
				views = append(views, viewOfLetter(l, false))
			}
			if asJSON {
				return printJSON(cmd, views)
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "ID\tAT\tKIND\tREASON\tPLACE\tWHAT")
			for _, v := range views {
				what := defectsText(v.Path, v.Reason, v.Defects)
				if !v.Resubmitted.IsZero() {
					what += " (resubmitted " + v.Resubmitted.Format(time.RFC3339) + ")"
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.At.Format(time.RFC3339), string(v.Kind)+v.Handler, v.Code, console.Line(v.place()), oneLine(what))
			}
			if err := tw.Flush(); err != nil {
				return err
			}
			if all > int64(len(views)) {
				fmt.Fprintf(cmd.OutOrStdout(), "%d of %d; --limit shows more, --summary counts them\n", len(views), all)
			}
			return nil
		},
	}
	flags.register(cmd, dead)
	cmd.Flags().IntVar(&limit, "limit", 50, "how many to list")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&summary, "summary", false, "count them by kind and reason instead")
	return cmd
}

const (
	maxListed = 10_000
	maxWhat   = 160
)

// oneLine bounds what a list says of a letter.
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

func letterSummary(cmd *cobra.Command, cfg ingest.Config, dead bool, filter ingest.LetterFilter, asJSON bool) error {
	counts := map[[2]string]int64{}
	err := ingest.EachLetter(cmd.Context(), cfg, dead, filter, func(l ingest.Letter) error {
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
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return strings.Compare(a.Kind+" "+a.Code, b.Kind+" "+b.Code)
	})
	if asJSON {
		return printJSON(cmd, rows)
	}
	tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "KIND\tREASON\tCOUNT")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%d\n", r.Kind, r.Code, r.Count)
	}
	return tw.Flush()
}

func (c *command) lettersShow(dead bool, noun string) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID...",
		Short: "Show " + noun + " with their contents, as JSON",
		Long:  "Shows " + noun + " with their contents, which may be personal data, one JSON object each. The IDs are those of `list`.\nThe contents of those that tell of somebody who was erased are left out.",
		Args:  cobra.RangeArgs(1, 100),
		RunE: func(cmd *cobra.Command, ids []string) error {
			cfg, err := c.letterConfig()
			if err != nil {
				return err
			}
			found := map[string]bool{}
			filter := ingest.LetterFilter{IDs: ids, Resubmitted: true}
			err = c.withLetters(cmd, cfg, dead, filter, func(l ingest.Letter, erased bool) error {
				found[l.ID()] = true
				if erased {
					return printJSON(cmd, viewOfErased(l))
				}
				return printJSON(cmd, viewOfLetter(l, true))
			})
			for _, id := range ids {
				if !found[id] {
					err = errors.Join(err, fmt.Errorf("there is no %s", id))
				}
			}
			return err
		},
	}
}

func (c *command) lettersExport(dead bool, noun, what string) *cobra.Command {
	var flags letterFlags
	var out string
	var whole bool
	cmd := &cobra.Command{
		Use:   "export [ID...]",
		Short: "Write " + noun + " out, one a line",
		Long: `Writes the ` + what + `, one a line, to mend them elsewhere. They may be personal data: a file
that is made is readable by its owner only. With --letters each line is the whole letter, as "show"
prints it: reason, place, and the ` + what + `. What is not one line of JSON or text is left out
without --letters, and so is what tells of somebody who was erased; it is counted on standard error.`,
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
			err = c.withLetters(cmd, cfg, dead, filter, func(l ingest.Letter, erased bool) error {
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
			fmt.Fprintf(cmd.ErrOrStderr(), "%d written, %d left out\n", written, left)
			return err
		},
	}
	flags.register(cmd, dead)
	cmd.Flags().StringVar(&out, "out", "", "file to write, which must not exist (default: standard output)")
	cmd.Flags().BoolVar(&whole, "letters", false, "whole letters, with reason and place")
	return cmd
}

// exported is the line that a letter is written as, if it is one.
func exported(l ingest.Letter, whole bool) (line []byte, ok bool, err error) {
	if whole {
		line, err = json.Marshal(viewOfLetter(l, true))
		return line, err == nil, err
	}
	raw := l.Rejected.Raw
	if l.IsDead() {
		raw = l.Message.Value
	} else if int64(len(raw)) != l.Rejected.Length {
		return nil, false, nil // the beginning of one, or held by another letter
	}
	if value := jsontext.Value(slices.Clone(raw)); bytes.ContainsAny(raw, "\r\n") && value.Compact() == nil {
		raw = value // it stood on several lines
	}
	return raw, len(raw) > 0 && utf8.Valid(raw) && !bytes.ContainsAny(raw, "\r\n"), nil
}

// printResubmission says what became of letters, and fails when some of those that were meant, by their IDs or otherwise,
// were not given back, or rejected again.
func printResubmission(cmd *cobra.Command, res ingest.Resubmission, ids []string, asJSON bool) error {
	named := slices.Compact(slices.Sorted(slices.Values(ids)))
	missing, skipped, rejected := max(0, int64(len(named))-res.Letters), int64(0), int64(0)
	for _, n := range res.Skipped {
		skipped += n
	}
	for _, k := range res.Kinds {
		rejected += k.Rejected
	}
	err := printResubmitted(cmd, res, asJSON)
	if err == nil && missing+skipped+rejected > 0 {
		err = partlyError{fmt.Errorf("%d letters are not there, %d were not resubmitted, %d records were rejected again", missing, skipped, rejected)}
	}
	return err
}

func printResubmitted(cmd *cobra.Command, res ingest.Resubmission, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, res)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "run %s: %d letters, %d resubmitted\n", res.Run, res.Letters, res.Resubmitted)
	for _, why := range sortedKeys(res.Skipped) {
		fmt.Fprintf(out, "  %d not: %s\n", res.Skipped[why], why)
	}
	if err := printKinds(out, res.Kinds); err != nil {
		return err
	}
	conflicting := int64(0)
	for _, k := range res.Kinds {
		conflicting += k.Conflicting
	}
	if conflicting > 0 && !res.Remap {
		fmt.Fprintf(out, "%d of the stale records have the version of what was published before, and other content: "+
			"run the command again with --resubmitted --remap to replace that.\n", conflicting)
	}
	return nil
}

func sortedKeys(m map[string]int64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func printKinds(out io.Writer, kinds []ingest.KindCounts) error {
	if len(kinds) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "kind\tread\tmade\tpublished\tseen\tunchanged\tstale\trejected again\t")
	for _, k := range kinds {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k.Kind, k.Read, k.Split, k.Published, k.Seen, k.Unchanged, k.Stale, k.Rejected)
	}
	return tw.Flush()
}
