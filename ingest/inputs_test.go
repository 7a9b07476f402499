package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/record"
)

// A directory, a pattern and single files of all formats in one run: each record is published once,
// with its location.
func TestFiles_DetectsFormatsInDirectoriesAndPatterns(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	type person struct {
		ProfileID   string    `parquet:"profile_id"`
		Username    string    `parquet:"username"`
		LastUpdated time.Time `parquet:"last_updated,timestamp"`
		Connections *int64    `parquet:"connections"`
	}
	var columns bytes.Buffer
	w := parquet.NewGenericWriter[person](&columns)
	five := int64(5)
	_, err := w.Write([]person{
		{"q1", "u", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), &five},
		{"", "u", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), nil},
	})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	put("all/a.ndjson", []byte(people(0, 3)))
	put("all/b/c.csv.gz",
		gzipped(t, []byte("profile_id,username,last_updated,connections\nc1,u,2026,7\nc2,u,2026,many\nc3,u\n")))
	put("all/b/d.parquet", columns.Bytes())
	put("all/.hidden/e.ndjson", []byte(people(100, 103)))
	put("all/README", []byte("no records"))
	put("more/1.ndjson", []byte(people(10, 12)))
	put("more/2.ndjson", []byte(people(12, 14)))
	put("odd.txt", []byte("profile_id;username;last_updated\np;u;2026-01-01\n"))
	cfg := config(t)
	var log bytes.Buffer
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{Logger: logger(&log)}, record.KindNetworkPerson,
		[]string{filepath.Join(dir, "all"), filepath.Join(dir, "more", "*.ndjson"), filepath.Join(dir, "odd.txt")})
	requireExit(t, ingest.ExitRejected, err)
	require.Equal(t, ingest.Counts{Read: 13, Published: 10, Rejected: 3}, counts(s, record.KindNetworkPerson))
	require.Contains(t, log.String(), "files=1")
	require.Len(t, s.Files, 6)
	got := values(t, cfg.Bus, record.KindNetworkPerson)
	require.Len(t, got, 10)
	require.Equal(t, `{"profile_id":"c1","username":"u","last_updated":"2026","connections":7}`, got["c1"])
	require.Equal(t, `{"profile_id":"q1","username":"u","last_updated":"2026-01-02T00:00:00Z","connections":5}`,
		got["q1"])
	reasons := map[string]string{}
	for _, l := range rejectedRecords(t, cfg.Bus) {
		at := fmt.Sprintf("%s:%d", filepath.Base(l.Source.File), l.Source.Line)
		reasons[at] = l.Code + " " + l.Path + ": " + l.Reason
	}
	require.Equal(t, map[string]string{
		"c.csv.gz:3":  "wrong_type connections: is a string where an integer is needed",
		"c.csv.gz:4":  "syntax : has 2 fields, the header has 4",
		"d.parquet:2": "missing_identity profile_id: is missing",
	}, reasons)
}

// A named pipe is opened once; waiting for its writer ends with the run. Pipes in directories are skipped.
func TestFiles_NamedPipe(t *testing.T) {
	cfg := withStateDir(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "people.ndjson")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	run := func(ctx context.Context, id string) (s ingest.Summary, err error) {
		cfg.RunID = id
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s, err = ingest.Files(ctx, cfg, ingest.Deps{}, record.KindNetworkPerson, []string{path})
		}()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("run waits for another writer")
		}
		return s, err
	}
	produced := make(chan error, 1)
	go func() { produced <- os.WriteFile(path, []byte(people(0, 20_000)), 0) }()
	s, err := run(t.Context(), "run-1")
	require.NoError(t, err)
	require.NoError(t, <-produced)
	require.Equal(t, int64(20_000), counts(s, record.KindNetworkPerson).Published)

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = run(ctx, "run-2")
	requireExit(t, ingest.ExitFailed, err)
	if f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // a reader is waiting
		require.NoError(t, f.Close())
	}

	require.NoError(t, os.WriteFile(filepath.Join(dir, "more.ndjson"), []byte(people(20_000, 20_001)), 0o600))
	cfg.RunID = "run-3"
	s, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson, []string{dir})
	require.NoError(t, err)
	require.Len(t, s.Files, 1)
}

func TestFiles_AppliesMapping(t *testing.T) {
	cfg := config(t)
	cfg.Mapping = write(t, "m.jq", []byte(`
		if .n > 90 then error("too large: \(.n)") else range(.n) as $i
		| {kind: (if $i == 3 then "network-company" else "network-person" end),
		   record: {profile_id: "\(.id)-\($i)", username: "u", last_updated: "2026", place: "\($line)"}} end`))
	in := `{"id":"a","n":2}` + "\n\n" + `{"id":"b","n":0}` + "\n" + `{"id":"c","n":99}` + "\n" +
		`{"id":"d",` + "\n" + `{"id":"e","n":5}` + "\n"
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, "", []string{write(t, "f", []byte(in))})
	requireExit(t, ingest.ExitRejected, err)
	require.True(t, s.Reconciles(), "%s", s)
	require.Equal(t, ingest.Counts{Read: 5, Mapped: 2, Dropped: 1, Rejected: 2}, counts(s, ingest.SourceObject))
	require.Equal(t, ingest.Counts{Extracted: 6, Published: 6}, counts(s, record.KindNetworkPerson))
	require.Equal(t, ingest.Counts{Extracted: 1, Rejected: 1}, counts(s, record.KindNetworkCompany))
	require.Equal(t, `{"last_updated":"2026","place":"6","profile_id":"e-4","username":"u"}`,
		values(t, cfg.Bus, record.KindNetworkPerson)["e-4"])
	reasons := map[string]string{}
	for _, l := range rejectedRecords(t, cfg.Bus) {
		at := fmt.Sprintf("%s %d@%d", l.Kind, l.Source.Line, l.Source.Offset)
		reasons[at] = l.Code + ": " + l.Reason + " " + string(l.Raw)
	}
	require.Equal(t, map[string]string{
		"foreign 4@35": `mapping: is not mapped: ` + cfg.Mapping + ` failed: error: too large: 99 {"id":"c",` +
			`"n":99}`,
		"foreign 5@53":         `syntax: ends too early, at byte 10 {"id":"d",`,
		"network-company 6@64": `missing_identity: is missing {"id":"e","n":5}`,
	}, reasons)
	require.Contains(t, s.String(), "dropped")

	_, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson,
		[]string{write(t, "f", []byte(in))})
	require.ErrorContains(t, err, `a mapping determines the kind of each record: omit the kind "network-person"`)
	cfg.Mapping = "no-such-mapping"
	_, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, "", []string{write(t, "f", []byte(in))})
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "no such file; built-in mappings: codehost-events")
}
