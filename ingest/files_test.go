package ingest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/ingest/internal/convert"
	"muster/ingest/internal/heaptest"
	"muster/platform/broker"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

func TestFiles_PublishesAllInputs(t *testing.T) {
	ten := people(0, 10)
	tests := map[string]struct {
		content []byte
		read    int64
		blank   int64
		lines   int64
	}{
		"plain":            {content: []byte(ten), read: 10, lines: 10},
		"gzip":             {content: gzipped(t, []byte(ten)), read: 10, lines: 10},
		"zstd":             {content: zstded(t, []byte(ten)), read: 10, lines: 10},
		"no final newline": {content: []byte(strings.TrimSuffix(ten, "\n")), read: 10, lines: 10},
		"CRLF":             {content: []byte(strings.ReplaceAll(ten, "\n", "\r\n")), read: 10, lines: 10},
		"blank lines":      {content: []byte("\n" + ten + " \n\n"), read: 10, blank: 3, lines: 13},
		"empty":            {},
		"empty gzip":       {content: gzipped(t, nil)},
		"byte order mark":  {content: []byte("\xEF\xBB\xBF" + ten), read: 10, lines: 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			path := write(t, "people.data", tt.content)
			s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson, []string{path})
			require.NoError(t, err)
			require.Equal(t, ingest.Counts{Read: tt.read, Published: tt.read}, counts(s, record.KindNetworkPerson))
			require.True(t, s.Reconciles())
			require.False(t, s.Interrupted)
			require.Equal(t, int64(len(tt.content)), s.StoredBytes)
			require.Len(t, s.Files, 1)
			require.True(t, s.Files[0].Complete)
			require.Equal(t, tt.lines, s.Files[0].Lines)
			require.Equal(t, tt.blank, s.Files[0].Blank)
			got := values(t, cfg.Bus, record.KindNetworkPerson)
			require.Len(t, got, int(tt.read))
			for i, line := range strings.Split(strings.TrimSuffix(ten, "\n"), "\n")[:tt.read] {
				require.Equal(t, line, got[fmt.Sprintf("p_%d", i)])
			}
		})
	}
}

// Headers are the same for every retry.
func TestHeaders_IdentifyMessageAndSource(t *testing.T) {
	cfg := config(t)
	now := time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC)
	deps := ingest.Deps{Now: func() time.Time { return now }, Stdin: strings.NewReader(
		"\n" + `{"user_id":7,"last_updated":"2026","codehost_username":"u","repos":[{"id":1,"updated_at":"2025"}]}`)}
	_, err := ingest.Files(t.Context(), cfg, deps, record.KindCodehostPerson, []string{"-"})
	require.NoError(t, err)
	messages := topic(t, cfg.Bus, record.KindCodehostPerson.Topic(), record.KindCodehostRepo.Topic())
	require.Len(t, messages, 2)
	for _, m := range messages {
		e, err := bus.GetEvent(m.Headers)
		require.NoError(t, err)
		want := bus.Event{
			ID:          "2",
			Type:        event.RecordType(record.KindCodehostPerson),
			Source:      "/ingest/run-1/-",
			Time:        now,
			ContentType: "application/json",
		}
		if m.Topic == record.KindCodehostRepo.Topic() {
			want.ID, want.Type = "2/1", event.RecordType(record.KindCodehostRepo)
			require.Equal(t, "7/1", string(m.Key))
		}
		require.Equal(t, want, e)
		place := make(map[string]string)
		for _, h := range m.Headers {
			place[h.Key] = string(h.Value)
		}
		require.Equal(t, "run-1", place[convert.HeaderRun])
		require.Equal(t, "-", place[convert.HeaderFile])
		require.Equal(t, "2", place[convert.HeaderLine])
	}
}

func TestFiles_ExtractsRecords(t *testing.T) {
	cfg := config(t)
	reg := prometheus.NewRegistry()
	line := `{"user_id":7,"last_updated":"2026-05-01","codehost_username":"u",` +
		`"repos":[{"id":1,"updated_at":"2025"},{"id":2},{"id":3,"updated_at":"2024"},"x"],"repos_complete":true,` +
		`"commits":[{"sha":"ab","author_date":"2025-01-01"}],"commits_complete":true}` + "\n"
	path := write(t, "u.ndjson", []byte(line))
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{Registerer: reg}, record.KindCodehostPerson, []string{path})
	requireExit(t, ingest.ExitRejected, err)
	require.True(t, s.Reconciles(), "%s", s)
	require.Equal(
		t,
		ingest.Counts{Read: 1, Extracted: 3, Published: 1, Rejected: 3},
		counts(s, record.KindCodehostPerson),
	)
	require.Equal(t, ingest.Counts{Extracted: 2, Published: 2}, counts(s, record.KindCodehostRepo))
	require.Equal(t, ingest.Counts{Extracted: 1, Published: 1}, counts(s, record.KindCodehostCommit))
	require.Equal(t, ingest.Counts{Extracted: 1, Published: 1}, counts(s, record.KindCodehostList))
	require.Equal(t, map[string]string{"7": `{"user_id":7,"last_updated":"2026-05-01","codehost_username":"u"}`},
		values(t, cfg.Bus, record.KindCodehostPerson))
	require.Contains(t, values(t, cfg.Bus, record.KindCodehostList), "7/commits")

	bad := rejectedRecords(t, cfg.Bus)
	require.Len(t, bad, 3)
	paths := make([]string, 0, 3)
	for i, l := range bad {
		paths = append(paths, l.Path)
		require.Equal(t, int64(1), l.Source.Line)
		require.Equal(t, int64(len(line)-1), l.Length)
		if i == 0 {
			require.Equal(t, line[:len(line)-1], string(l.Raw))
		} else {
			require.Empty(t, l.Raw, "line stored once")
		}
	}
	require.Equal(t, []string{"repos[1].updated_at", "repos[3]", "repos_complete"}, paths)

	// A second run in the same process adds to the same metrics.
	_, err = ingest.Files(t.Context(), cfg, ingest.Deps{Registerer: reg}, record.KindCodehostPerson, []string{path})
	requireExit(t, ingest.ExitRejected, err)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP muster_ingest_blank_lines_total Blank lines skipped.
# TYPE muster_ingest_blank_lines_total counter
muster_ingest_blank_lines_total 0
# HELP muster_ingest_records_total Records by kind and outcome: read, extracted (from others, or by `+
		`a mapping), published, seen (newer version, same content), unchanged, stale, conflicting (same `+
		`version, different content), rejected; source objects: mapped, dropped; suppressed (of erased `+
		`people).
# TYPE muster_ingest_records_total counter
muster_ingest_records_total{kind="codehost-commit",outcome="published"} 2
muster_ingest_records_total{kind="codehost-commit",outcome="extracted"} 2
muster_ingest_records_total{kind="codehost-list",outcome="published"} 2
muster_ingest_records_total{kind="codehost-list",outcome="extracted"} 2
muster_ingest_records_total{kind="codehost-person",outcome="published"} 2
muster_ingest_records_total{kind="codehost-person",outcome="read"} 2
muster_ingest_records_total{kind="codehost-person",outcome="rejected"} 6
muster_ingest_records_total{kind="codehost-person",outcome="extracted"} 6
muster_ingest_records_total{kind="codehost-repo",outcome="published"} 4
muster_ingest_records_total{kind="codehost-repo",outcome="extracted"} 4
`)))
}

func TestFiles_RejectsInvalidRecords(t *testing.T) {
	cfg := config(t)
	long := `{"profile_id":"` + strings.Repeat("x", 3<<20) + `"}`
	lines := []struct {
		text string
		code string
		path string
	}{
		{text: strings.TrimSuffix(people(1, 2), "\n")},
		{text: `{"profile_id":"a","last_updated":"2026","username":"\u00e9` + "\xff\"}", code: record.CodeBadUTF8},
		{text: long, code: record.CodeTooLarge},
		{text: `{"last_updated":"2026","username":"a"}`, code: record.CodeMissingIdentity, path: "profile_id"},
		{text: `{"profile_id":"a","username":"a"}`, code: record.CodeMissingVersion, path: "last_updated"},
		{text: `{"profile_id":"a","last_updated":"2026","username":"a","skills":[{"skill":7}]}`,
			code: record.CodeWrongType, path: "skills[0].skill"},
		{text: `{"profile_id":"a","last_updated":"2026","username":"a","username":"b"}`,
			code: record.CodeDuplicateKey, path: "username"},
		{text: `{"profile_id":`, code: record.CodeSyntax},
		{text: `"a"`, code: record.CodeWrongType},
		{text: "\x00", code: record.CodeNULByte},
		// The path contains a name of nearly the maximum record size.
		{text: `{"` + strings.Repeat("\u00e9", 250_000) + `":1,"` + strings.Repeat("\u00e9", 250_000) + `":1}`,
			code: record.CodeDuplicateKey},
		{text: strings.TrimSuffix(people(2, 3), "\n")},
	}
	var file strings.Builder
	for _, l := range lines {
		file.WriteString(l.text + "\n")
	}
	path := write(t, "odd.ndjson", []byte(file.String()))
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson, []string{path})
	requireExit(t, ingest.ExitRejected, err)
	require.EqualError(t, err, "10 records were rejected")
	require.True(t, s.Reconciles())
	require.Equal(t, ingest.Counts{Read: 12, Published: 2, Rejected: 10}, counts(s, record.KindNetworkPerson))
	require.Len(t, values(t, cfg.Bus, record.KindNetworkPerson), 2)

	byLine := make(map[int64]event.Rejected)
	for _, l := range rejectedRecords(t, cfg.Bus) {
		byLine[l.Source.Line] = l
	}
	require.Len(t, byLine, 10)
	offset := int64(0)
	for i, want := range lines {
		got, rejected := byLine[int64(i+1)]
		require.Equal(t, want.code != "", rejected, "line %d", i+1)
		if rejected {
			sum := sha256.Sum256([]byte(want.text))
			require.Equal(t, want.code, got.Code, "line %d: %s", i+1, got.Reason)
			require.Equal(t, hex.EncodeToString(sum[:]), got.SHA256)
			require.Equal(t, int64(len(want.text)), got.Length)
			require.Equal(t, offset, got.Source.Offset)
			require.Equal(t, path, got.Source.File)
			require.Equal(t, "run-1", got.Source.Run)
			require.Equal(t, record.KindNetworkPerson, got.Kind)
			require.Equal(t, want.text[:min(len(want.text), rawLimit(want.text))], string(got.Raw))
			if want.path != "" {
				require.Equal(t, want.path, got.Path)
			}
		}
		offset += int64(len(want.text)) + 1
	}
}

// rawLimit returns how much is kept of a rejected record (records.md, rule 4).
func rawLimit(text string) int {
	if len(text) > 1<<20 {
		return 64 << 10
	}
	return 1 << 20
}

// Crawlers produce records of nearly the maximum size and very long lists.
func TestFiles_LargeRecords(t *testing.T) {
	cfg := config(t)
	large := `{"profile_id":"large","last_updated":"2026","username":"l","summary":"` +
		strings.Repeat("\u05d0\U0001F600", 150_000) + `"}`
	require.Greater(t, len(large), 900_000)
	limit := `{"profile_id":"limit","last_updated":"2026","username":"l","summary":""}`
	limit = strings.Replace(limit, `"summary":"`, `"summary":"`+strings.Repeat("x", 1<<20-len(limit)), 1)
	require.Len(t, limit, 1<<20)
	var skills strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&skills, `,{"skill":"s%d"}`, i)
	}
	long := `{"profile_id":"long","last_updated":"2026","username":"l","skills":[` + skills.String()[1:] + `]}`
	file := large + "\n" + limit + "\n" + limit + " \n" + long + "\n"
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson,
		[]string{write(t, "f", []byte(file))})
	requireExit(t, ingest.ExitRejected, err) // the blank after a record of 1 MiB makes it too large
	require.Equal(t, ingest.Counts{Read: 4, Published: 3, Rejected: 1}, counts(s, record.KindNetworkPerson))
	require.Equal(t, map[string]string{"large": large, "limit": limit, "long": long},
		values(t, cfg.Bus, record.KindNetworkPerson))

	var repos strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&repos, `,{"id":%d,"updated_at":"2025-01-01","name":"r%d"}`, i, i)
	}
	owner := `{"user_id":7,"last_updated":"2026","codehost_username":"u",` +
		`"repos":[` + repos.String()[1:] + `],"repos_complete":true}`
	s, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindCodehostPerson,
		[]string{write(t, "f", []byte(owner))})
	require.NoError(t, err)
	require.Equal(t, ingest.Counts{Extracted: 10_000, Published: 10_000}, counts(s, record.KindCodehostRepo))
	require.Len(t, values(t, cfg.Bus, record.KindCodehostRepo), 10_000)

	var bad strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&bad, `,{"id":%d}`, i)
	}
	owner = `{"user_id":8,"last_updated":"2026","codehost_username":"u","repos":[` + bad.String()[1:] + `]}`
	s, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindCodehostPerson,
		[]string{write(t, "f", []byte(owner))})
	requireExit(t, ingest.ExitRejected, err)
	require.Equal(t, ingest.Counts{Read: 1, Extracted: 10_000, Published: 1, Rejected: 10_000},
		counts(s, record.KindCodehostPerson))
}

// Order holds within a file and over several files, with any number of goroutines. Versions may be
// stored twice, in the same order, if the broker times out.
func TestFiles_VersionsStayInInputOrder(t *testing.T) {
	const keys, versions = 97, 60
	cfg := config(t)
	cfg.Workers, cfg.Readers = 4, 1
	var files []string
	n := 0
	for f := range 3 {
		var b strings.Builder
		for v := range versions {
			for k := range keys {
				n++
				// Very different sizes, so that decoding takes different times.
				padding := strings.Repeat("x", (k*v)%50*100)
				fmt.Fprintf(&b,
					`{"user_id":%d,"id":1,"updated_at":"2026-01-01","name":"%d %d","description":"%s"}`+"\n", k,
					f*versions+v, n, padding)
			}
		}
		content := []byte(b.String())
		if f == 1 {
			content = zstded(t, content)
		}
		files = append(files, write(t, fmt.Sprintf("repos-%d", f), content))
	}
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindCodehostRepo, files)
	require.NoError(t, err)
	require.Equal(t, ingest.Counts{Read: 3 * keys * versions, Published: 3 * keys * versions},
		counts(s, record.KindCodehostRepo))
	last := make(map[string]int)
	for _, m := range topic(t, cfg.Bus, record.KindCodehostRepo.Topic()) {
		key := string(m.Key)
		_, name, _ := strings.Cut(string(m.Value), `"name":"`)
		text, _, _ := strings.Cut(name, " ")
		version, err := strconv.Atoi(text)
		require.NoError(t, err)
		version++ // from 1: 0 means none
		if version != last[key]+1 {
			require.LessOrEqual(t, version, last[key], "key %s: missing versions", key)
		}
		last[key] = version
	}
	require.Len(t, last, keys)
	for key := range last {
		require.Equal(t, 3*versions, last[key], "key %s", key)
	}
}

// The data before the damage and the other files are published.
func TestFiles_TruncatedFileReportsPosition(t *testing.T) {
	cfg := config(t)
	whole := gzipped(t, []byte(people(0, 20_000)))
	broken := write(t, "broken.gz", whole[:len(whole)/2])
	sound := write(t, "sound", []byte(people(100_000, 100_010)))
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson, []string{broken, sound})
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "broken.gz: decompress gzip after line ")
	require.ErrorContains(t, err, "unexpected EOF")
	require.False(t, s.Interrupted)
	require.True(t, s.Reconciles())
	require.False(t, s.Files[0].Complete)
	require.Error(t, s.Files[0].Err)
	require.Greater(t, s.Files[0].Lines, int64(5_000))
	require.True(t, s.Files[1].Complete)
	require.Equal(t, s.Files[0].Lines+10, counts(s, record.KindNetworkPerson).Published)
	got := values(t, cfg.Bus, record.KindNetworkPerson)
	require.Len(t, got, int(s.Files[0].Lines)+10)
	for i := range s.Files[0].Lines {
		if _, ok := got[fmt.Sprintf("p_%d", i)]; !ok {
			require.Fail(t, "missing record", "p_%d", i)
		}
	}
	require.Contains(t, s.String(),
		fmt.Sprintf("is stored up to line %d (byte %d): ", s.Files[0].Lines, s.Files[0].Bytes))
}

func TestFiles_InvalidArgumentsPublishNothing(t *testing.T) {
	cfg := config(t)
	good := write(t, "good", []byte(people(0, 3)))
	dir := t.TempDir()
	tests := map[string]struct {
		kind  record.Kind
		paths []string
		want  string
	}{
		"absent":          {record.KindNetworkPerson, []string{good, filepath.Join(dir, "absent")}, "no such file"},
		"empty directory": {record.KindNetworkPerson, []string{good, dir}, "no files of a known format"},
		"no match":        {record.KindNetworkPerson, []string{good, dir + "/*.ndjson"}, "no matching file"},
		"nothing":         {record.KindNetworkPerson, nil, "no files given"},
		"no stdin":        {record.KindNetworkPerson, []string{"-"}, "no standard input"},
		"stdin twice":     {record.KindNetworkPerson, []string{"-", "-"}, "more than once"},
		"unknown kind": {
			"network-persons",
			[]string{good},
			`unknown kind "network-persons"; kinds: network-person, `,
		},
		"internal kind": {record.KindCodehostList, []string{good}, "unknown kind"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, tt.kind, tt.paths)
			requireExit(t, ingest.ExitFailed, err)
			require.ErrorContains(t, err, tt.want)
			require.Zero(t, s)
		})
	}
	_, err := ingest.Files(t.Context(), ingest.Config{}, ingest.Deps{}, record.KindNetworkPerson, []string{good})
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "no Kafka brokers")
	_, err = ingest.Files(t.Context(), ingest.Config{Bus: cfg.Bus, Workers: -1}, ingest.Deps{},
		record.KindNetworkPerson, []string{good})
	requireExit(t, ingest.ExitFailed, err)

	_, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkCompany, []string{write(t, "empty", nil)})
	require.NoError(t, err)
	require.Empty(t, values(t, cfg.Bus, record.KindNetworkPerson))
}

func TestFiles_ConnectTimeout(t *testing.T) {
	b, err := broker.Start(t.Context(), broker.Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	addrs := b.Addrs()
	require.NoError(t, b.Close())
	cfg := ingest.Config{Bus: bus.Config{Brokers: addrs}, ConnectTimeout: 300 * time.Millisecond}
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson,
		[]string{write(t, "f", []byte(people(0, 1)))})
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "no response from the Kafka brokers within 300ms")
	require.Zero(t, s)
}

func TestFiles_ReadsStdin(t *testing.T) {
	cfg := config(t)
	path := write(t, "people.gz", gzipped(t, []byte(people(0, 50))))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	other := write(t, "others", []byte(people(50, 60)))
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{Stdin: f}, record.KindNetworkPerson, []string{other, "-"})
	require.NoError(t, err)
	require.Equal(t, int64(60), counts(s, record.KindNetworkPerson).Published)
	require.Equal(t, "-", s.Files[1].Path)
	require.True(t, s.Files[1].Complete)
	require.Len(t, values(t, cfg.Bus, record.KindNetworkPerson), 60)
}

// A bad line takes kilobytes until it is published.
func TestFiles_ManyBadLinesTakeBoundedMemory(t *testing.T) {
	const n = 150_000
	path := write(t, "short.ndjson", bytes.Repeat([]byte("{\n"), n))
	var s ingest.Summary
	var err error
	took := heaptest.Peak(func() {
		s, err = ingest.Files(t.Context(), ingest.Config{DryRun: true}, ingest.Deps{}, record.KindNetworkPerson,
			[]string{path})
	})
	requireExit(t, ingest.ExitRejected, err)
	require.Equal(t, ingest.Counts{Read: n, Rejected: n}, counts(s, record.KindNetworkPerson))
	require.Less(t, took, uint64(64<<20))
}
