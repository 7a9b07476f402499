package ingest

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"muster/ingest/internal/convert"
	"muster/platform/console"
	"muster/schemas/record"
)

// Counts are the outcomes of the records of one kind.
type Counts struct {
	// Read is the number of records found in the input.
	Read int64 `json:"read"`
	// Extracted is the number of records extracted from other records, or produced by a mapping from
	// source objects. It includes those that were then rejected.
	Extracted int64 `json:"extracted"`
	// Published is the number of records stored on the kind's topic.
	Published int64 `json:"published"`
	// VersionOnly, in JSON seen (records.md, rule 6), is the number of records with a newer version and the same
	// content. The version is stored on the topic of version bumps.
	VersionOnly int64 `json:"seen"`
	// Unchanged and Stale are the numbers of records of the same version and content, and of
	// records older than the last published version. They are not published.
	Unchanged int64 `json:"unchanged"`
	Stale     int64 `json:"stale"`
	// Conflicting is the number of stale records with the same version and different content, as
	// produced by a changed mapping. [Config.Remap] publishes them.
	Conflicting int64 `json:"conflicting"`
	// Rejected is the number of records stored on the topic of rejected records.
	Rejected int64 `json:"rejected"`
	// Mapped and Dropped are the numbers of source objects ([SourceObject]) that the mapping converted
	// to records, and that it skipped.
	Mapped int64 `json:"mapped,omitzero"`
	// Dropped includes the records of erased people; Suppressed is their number.
	Dropped    int64 `json:"dropped,omitzero"`
	Suppressed int64 `json:"suppressed,omitzero"`
	// Unfinished is the number of records that were read or extracted and are not known to be
	// stored. It is zero unless the run was cut short.
	Unfinished int64 `json:"unfinished"`
}

// Reconciles reports whether every record is accounted for (records.md, rule 6).
func (c Counts) Reconciles() bool {
	return c.Read+c.Extracted == c.accounted()+c.Unfinished
}

// accounted returns the number of records with a known outcome.
func (c Counts) accounted() int64 {
	return c.Published + c.VersionOnly + c.Unchanged + c.Stale + c.Rejected + c.Mapped + c.Dropped
}

// countsOf returns the counts of what was read and completed so far.
func countsOf(c convert.Counts) Counts {
	out := Counts{
		Read: c.Read, Extracted: c.Split, Published: c.Published, VersionOnly: c.Seen, Unchanged: c.Unchanged,
		Stale: c.Stale, Conflicting: c.Conflicting, Rejected: c.Rejected,
		Mapped: c.Mapped, Dropped: c.Dropped, Suppressed: c.Suppressed,
	}
	out.Unfinished = c.Read + c.Split - out.accounted()
	return out
}

// SourceObject is the kind under which source objects, the inputs of a mapping, are counted.
const SourceObject = convert.SourceObject

// kindCounts returns the counts of the kinds that occurred, in the order of record.Definitions.
func kindCounts(counts convert.CountsByKind) []KindCounts {
	kinds := []record.Kind{convert.SourceObject}
	for _, d := range record.Definitions() {
		kinds = append(kinds, d.Kind)
	}
	kinds = append(kinds, record.KindErasure)
	var result []KindCounts
	for _, kind := range kinds {
		if c, ok := counts[kind]; ok {
			result = append(result, KindCounts{Kind: kind, Counts: countsOf(c)})
		}
	}
	return result
}

// KindCounts are the counts of one kind.
type KindCounts struct {
	Kind record.Kind `json:"kind"`
	Counts
}

// FileSummary is the progress of a run in one input.
type FileSummary struct {
	// Path is the path as given; "-" is standard input.
	Path string `json:"path"`
	// Lines and Bytes, of the uncompressed input, are the position up to which everything is
	// stored. A run can resume there.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// Blank is the number of blank lines skipped.
	Blank int64 `json:"blank"`
	// Complete reports whether the input was read to its end and all of it is stored.
	Complete bool `json:"complete"`
	// Err is the reason why the input was not read to its end.
	Err error `json:"-"`
}

// UnknownField is a field that is not in the schema of the records' kind.
type UnknownField = convert.UnknownField

// Summary is the result of a run.
type Summary struct {
	// Run is the run ID.
	Run string `json:"run"`
	// Kinds has the kinds that occurred, in the order of record.Definitions.
	Kinds []KindCounts `json:"kinds"`
	// Files has every input, in the given order.
	Files []FileSummary `json:"files"`
	// Unknown has the fields that are not in the records' schemas, the most frequent first. It is
	// set by dry runs over files, and has the first 1,000 found.
	Unknown []UnknownField `json:"unknown,omitzero"`
	// MoreUnknown reports whether there were more, which were not counted.
	MoreUnknown bool `json:"more_unknown,omitzero"`
	// Remap reports whether the run's records carry a mapping revision.
	Remap bool `json:"remap,omitzero"`
	// Unattributed has the commits that a run over git repositories dropped.
	Unattributed Unattributed `json:"unattributed,omitzero"`
	// StoredBytes is the number of bytes read, before decompression.
	StoredBytes int64 `json:"stored_bytes"`
	// Elapsed is the duration of the run.
	Elapsed time.Duration `json:"-"`
	// Interrupted reports whether the run was stopped before its end.
	Interrupted bool `json:"interrupted"`
}

// Total returns the sum over all kinds.
func (s Summary) Total() Counts {
	var t Counts
	for _, k := range s.Kinds {
		t.Read += k.Read
		t.Extracted += k.Extracted
		t.Published += k.Published
		t.VersionOnly += k.VersionOnly
		t.Unchanged += k.Unchanged
		t.Stale += k.Stale
		t.Conflicting += k.Conflicting
		t.Rejected += k.Rejected
		t.Mapped += k.Mapped
		t.Dropped += k.Dropped
		t.Suppressed += k.Suppressed
		t.Unfinished += k.Unfinished
	}
	return t
}

// Complete reports whether every input was read to its end and all of it is stored.
func (s Summary) Complete() bool {
	for _, f := range s.Files {
		if !f.Complete {
			return false
		}
	}
	return true
}

// Reconciles reports whether every record of every kind is accounted for.
func (s Summary) Reconciles() bool {
	for _, k := range s.Kinds {
		if !k.Reconciles() {
			return false
		}
	}
	return true
}

// maxShownUnknown is the maximum number of unknown fields that String lists.
const maxShownUnknown = 20

// String returns the summary as text: a table of the counts, a line for each input that is not
// completely stored, and a table of the unknown fields.
func (s Summary) String() string {
	var b strings.Builder
	var lines, blank int64
	for _, f := range s.Files {
		lines += f.Lines
		blank += f.Blank
	}
	total := s.Total()
	fmt.Fprintf(&b, "run %s: %s in %s of %s", s.Run, plural(lines, "line"), plural(int64(len(s.Files)), "input"),
		formatBytes(s.StoredBytes))
	if blank > 0 {
		fmt.Fprintf(&b, " (%s blank)", groupDigits(blank))
	}
	fmt.Fprintf(&b, ", %s", s.Elapsed.Round(time.Millisecond))
	if seconds := s.Elapsed.Seconds(); seconds > 0 {
		fmt.Fprintf(&b, ", %s records/s", groupDigits(int64(float64(total.accounted())/seconds)))
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := []struct {
		name  string
		count func(Counts) int64
		shown bool
	}{
		{"read", func(c Counts) int64 { return c.Read }, true},
		{"extracted", func(c Counts) int64 { return c.Extracted }, total.Mapped == 0},
		{"produced", func(c Counts) int64 { return c.Extracted }, total.Mapped > 0},
		{"published", func(c Counts) int64 { return c.Published }, true},
		{"seen", func(c Counts) int64 { return c.VersionOnly }, total.VersionOnly > 0},
		{"unchanged", func(c Counts) int64 { return c.Unchanged }, total.Unchanged > 0},
		{"stale", func(c Counts) int64 { return c.Stale }, total.Stale > 0},
		{"(same version)", func(c Counts) int64 { return c.Conflicting }, total.Conflicting > 0},
		{"rejected", func(c Counts) int64 { return c.Rejected }, true},
		{"mapped", func(c Counts) int64 { return c.Mapped }, total.Mapped+total.Dropped > 0},
		{"dropped", func(c Counts) int64 { return c.Dropped }, total.Mapped+total.Dropped > 0},
		{"(erased people)", func(c Counts) int64 { return c.Suppressed }, total.Suppressed > 0},
		{"unfinished", func(c Counts) int64 { return c.Unfinished }, total.Unfinished > 0},
	}
	row := func(name string, c Counts) {
		fmt.Fprintf(w, "%s\t", name)
		for _, column := range columns {
			if column.shown {
				fmt.Fprintf(w, "%s\t", groupDigits(column.count(c)))
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "kind\t")
	for _, column := range columns {
		if column.shown {
			fmt.Fprintf(w, "%s\t", column.name)
		}
	}
	fmt.Fprintln(w)
	for _, k := range s.Kinds {
		row(string(k.Kind), k.Counts)
	}
	if len(s.Kinds) != 1 {
		row("total", total)
	}
	_ = w.Flush() // a strings.Builder does not fail
	for _, f := range s.Files {
		if !f.Complete {
			fmt.Fprintf(&b, "%s is stored up to line %d (byte %d)", f.Path, f.Lines, f.Bytes)
			if f.Err != nil {
				fmt.Fprintf(&b, ": %v", f.Err)
			}
			b.WriteByte('\n')
		}
	}
	s.writeUnknown(&b)
	return b.String()
}

func (s Summary) writeUnknown(b *strings.Builder) {
	if len(s.Unknown) == 0 {
		return
	}
	b.WriteString("fields not in the schema, and so not in searches, lookups and views:\n")
	shown := s.Unknown[:min(len(s.Unknown), maxShownUnknown)]
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	hinted := slices.ContainsFunc(shown, func(u UnknownField) bool { return u.DidYouMean != "" })
	row := func(kind, path, records, example, meant string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", kind, path, records, example)
		if hinted {
			fmt.Fprintf(w, "\t%s", meant)
		}
		fmt.Fprintln(w)
	}
	row("kind", "field", "records", "example", "did you mean")
	for _, u := range shown {
		row(string(u.Kind), console.Line(u.Path), groupDigits(u.Records), console.Line(u.Example), u.DidYouMean)
	}
	_ = w.Flush() // a strings.Builder does not fail
	if more := len(s.Unknown) - len(shown); more > 0 {
		fmt.Fprintf(b, "and %s more, see --json\n", groupDigits(int64(more)))
	}
	if s.MoreUnknown {
		b.WriteString("further unknown fields were not counted\n")
	}
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return groupDigits(n) + " " + noun + "s"
}

// groupDigits formats a number with a comma before every three digits.
func groupDigits(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func formatBytes(n int64) string {
	const step = 1000
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= step {
		value /= step
		unit++
	}
	return fmt.Sprintf("%.1f %cB", value, " kMGTPE"[unit])
}
