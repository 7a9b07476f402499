package ingest_test

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestSummary_String(t *testing.T) {
	golden(t, "summary-complete.golden", ingest.Summary{
		Run: "r1", StoredBytes: 123_456_789, Elapsed: 12345 * time.Millisecond,
		Kinds: []ingest.KindCounts{
			{Kind: record.KindCodehostPerson,
				Counts: ingest.Counts{Read: 1_000_000, Extracted: 3, Published: 999_998, Rejected: 5}},
			{Kind: record.KindCodehostRepo, Counts: ingest.Counts{Extracted: 42, Published: 42}},
		},
		Files: []ingest.FileSummary{
			{Path: "a.ndjson.gz", Lines: 600_000, Bytes: 1, Complete: true},
			{Path: "b.ndjson.gz", Lines: 400_007, Blank: 7, Bytes: 1, Complete: true},
		},
	}.String())
	golden(t, "summary-cut-short.golden", ingest.Summary{
		Run: "r2", StoredBytes: 999, Elapsed: time.Second, Interrupted: true,
		Kinds: []ingest.KindCounts{
			{Kind: record.KindNetworkPerson, Counts: ingest.Counts{Read: 12, Published: 9, Rejected: 1, Unfinished: 2}},
		},
		Files: []ingest.FileSummary{
			{Path: "broken.gz", Lines: 10, Bytes: 4321, Err: errors.New("broken.gz: decompress gzip: unexpected EOF")},
			{Path: "never.gz"},
		},
	}.String())
	golden(t, "summary-unknown.golden", ingest.Summary{
		Run: "r4", Files: []ingest.FileSummary{{Path: "p.ndjson", Lines: 2000, Complete: true}},
		Kinds: []ingest.KindCounts{
			{Kind: record.KindNetworkPerson, Counts: ingest.Counts{Read: 2000, Published: 2000}},
		},
		Unknown: []ingest.UnknownField{
			{Kind: record.KindNetworkPerson, Path: "experience[].company_name", Records: 1204, Example: "p.ndjson:1"},
			{Kind: record.KindNetworkPerson, Path: "a\nb\tc", Records: 2, Example: "p.ndjson:17"},
		},
	}.String())
	golden(t, "summary-empty.golden",
		ingest.Summary{Run: "r3", Files: []ingest.FileSummary{{Path: "-", Complete: true}}}.String())
}

func TestSummary_ReconcilesPerKind(t *testing.T) {
	s := ingest.Summary{Kinds: []ingest.KindCounts{
		{Counts: ingest.Counts{Read: 3, Extracted: 2, Published: 3, Rejected: 1, Unfinished: 1}}, {},
	}}
	require.True(t, s.Reconciles())
	// A surplus of one kind does not compensate for a deficit of another.
	s.Kinds[0].Read++
	s.Kinds[1].Published++
	require.False(t, s.Reconciles())
	require.Equal(t, int64(4), s.Total().Read)
}

func TestLog_ReportsProgressAtInterval(t *testing.T) {
	var out bytes.Buffer
	l := ingest.NewLog(
		slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
		5*time.Second,
	)
	s := ingest.Snapshot{File: "f", StoredSize: 1000, Elapsed: 4 * time.Second}
	l.Update(s)
	s.Elapsed, s.StoredBytes, s.Read, s.Published, s.Rejected = 5*time.Second, 250, 600, 490, 10
	l.Update(s)
	s.Elapsed = 9 * time.Second
	l.Update(s)
	s.Elapsed, s.Published, s.Stalled, s.StoredSize = 10*time.Second, 500, 4*time.Second, -1
	l.Update(s)
	l.Finish(s)
	golden(t, "progress-log.golden", out.String())
}

func TestBar_ShowsProgress(t *testing.T) {
	var out bytes.Buffer
	b := ingest.NewBar(&out)
	s := ingest.Snapshot{File: "dir/people.ndjson.gz", StoredSize: 2000}
	b.Update(s)
	s.Elapsed, s.StoredBytes, s.Read, s.Published, s.Rejected = 10*time.Second, 1000, 12_345, 12_000, 10
	b.Update(s)
	s.Elapsed, s.StoredBytes, s.Stalled = 11*time.Second, 3000, 5*time.Second // the file has grown
	b.Finish(s)
	frames := strings.Split(out.String(), "\r")
	last := frames[len(frames)-1]
	require.Contains(t, last, "people.ndjson.gz 12,345 records")
	require.Contains(t, last, "/s, 10 rejected, waiting for Kafka 5s")
	require.Contains(t, last, "100%")
	require.NotContains(t, out.String(), "dir/")
	require.True(t, strings.HasSuffix(out.String(), "\n"))

	// Without a known size there is no percentage and no failure.
	out.Reset()
	b = ingest.NewBar(&out)
	b.Update(ingest.Snapshot{File: "-", StoredSize: -1})
	b.Finish(ingest.Snapshot{File: "-", StoredSize: -1, StoredBytes: 5000, Read: 7})
	require.Contains(t, out.String(), "standard input 7 records")

	// A name with a line break stays on one line.
	out.Reset()
	ingest.NewBar(&out).Update(ingest.Snapshot{File: "a\n\tb\x1b.ndjson", StoredSize: 10})
	require.Contains(t, out.String(), `a\u000a\u0009b\u001b.ndjson 0 records`)

	// Terminals get a bar, files get log lines.
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer f.Close()
	require.IsType(t, &ingest.Log{}, ingest.NewProgress(f, slog.New(slog.DiscardHandler)))
}

func TestExitError_CodeAndReason(t *testing.T) {
	cause := errors.New("cause")
	err := &ingest.ExitError{Code: ingest.ExitFailed, Err: cause}
	require.ErrorIs(t, err, cause)
	require.Equal(t, "cause", err.Error())
	require.Equal(t, 2, err.ExitCode())
}
