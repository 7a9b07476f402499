package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRelay_LogsLinesAtTheirLevel(t *testing.T) {
	const long = maxRelayedLine + 100
	for _, c := range []struct{ line, want string }{
		{`{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"few files","files":7,"ok":true,"of":"x","list":[1]}`,
			`time=2026-01-02T03:04:05.000Z level=WARN msg="few files" files=7 list=[1] of=x ok=true`},
		{`{"level":"DEBUG","msg":"quiet"}`, ""},
		{`{"no":"record"}`, `level=WARN msg="engine: output" text="{\"no\":\"record\"}"`},
		{`{"level":"INFO","msg":"cut`, `level=WARN msg="engine: output" text="{\"level\":\"INFO\",\"msg\":\"cut"`},
		{
			"2026.01.02 03:04:05.678901 [ 42 ] {a-b} <Error> MergeTree: broken",
			`level=ERROR msg="engine: output" text="MergeTree: broken"`,
		},
		{"<Fatal> Application: it crashed", `level=ERROR msg="engine: output" text="Application: it crashed"`},
		{"\x1b[31m<Warning>\x1b[0m Disk: nearly full", `level=WARN msg="engine: output" text="Disk: nearly full"`},
		{"<Information> Application: ready", `level=INFO msg="engine: output" text="Application: ready"`},
		{"<Trace> Application: detail", ""},
		{"<Fatal> ThreadStatus: current_thread contains invalid address", ""},
		{
			"Code: 62. DB::Exception: Empty query",
			`level=ERROR msg="engine: output" text="Code: 62. DB::Exception: Empty query"`,
		},
		{"panic: oh", `level=ERROR msg="engine: output" text="panic: oh"`},
		{"goroutine 1 [running]:", `level=WARN msg="engine: output" text="goroutine 1 [running]:"`},
		{strings.Repeat("x", long), `level=WARN msg="engine: output" text=` + strings.Repeat("x", maxRelayedLine)},
		{"not \xff UTF-8", "level=WARN msg=\"engine: output\" text=\"not \ufffd UTF-8\""},
		{"  ", ""},
	} {
		var log bytes.Buffer
		r := &relay{logger: slog.New(slog.NewTextHandler(&log, nil)), serving: true}
		r.copy(t.Context(), strings.NewReader(c.line+"\n"))
		got := strings.TrimSpace(log.String())
		if !strings.HasPrefix(c.want, "time=") {
			if _, after, ok := strings.Cut(got, " "); ok {
				got = after // the time
			}
		}
		require.Equal(t, c.want, got, "%.80q", c.line)
	}
}

func TestRelay_ReturnsCauseOfFailedStart(t *testing.T) {
	newHeld := func(lines string) (*relay, *bytes.Buffer) {
		var log bytes.Buffer
		r := &relay{logger: slog.New(slog.NewTextHandler(&log, nil)), done: make(chan struct{})}
		r.copy(t.Context(), strings.NewReader(lines))
		close(r.done)
		return r, &log
	}
	r, log := newHeld("first\nCode: 62. DB::Exception: it\nlast\n")
	require.Empty(t, log)
	require.Equal(t, "Code: 62. DB::Exception: it", r.cause(t.Context()))
	require.Contains(t, log.String(), "first")
	require.Contains(t, log.String(), "last")
	require.NotContains(t, log.String(), "DB::Exception", "it is in the error")

	r, log = newHeld("first\nlast\n")
	r.markServing(t.Context())
	require.Equal(t, 2, strings.Count(log.String(), "\n"))
	require.Empty(t, r.cause(t.Context()))

	r, log = newHeld(strings.Repeat("line\n", maxHeldLines+3))
	require.Equal(t, 3, strings.Count(log.String(), "\n"))
	require.Equal(t, "line", r.cause(t.Context()))
}

func TestExplainStartError_NamesFile(t *testing.T) {
	for cause, want := range map[string]string{
		"Code: 62. DB::Exception: Empty query: Cannot parse definition from metadata file " +
			"store/ec7/ec7a/network_people.sql. (SYNTAX_ERROR)": "the definition of network_people cannot be read " +
			"from /data/clickhouse/store/ec7/ec7a/network_people.sql (",
		"Code: 62. DB::Exception: Syntax error (in file " +
			"/data/clickhouse/metadata/muster.sql): failed": "the definition of muster cannot be read from " +
			"/data/clickhouse/metadata/muster.sql (",
		"Code: 210. DB::Exception: something else": "start: Code: 210. DB::Exception: something else",
		"": "start",
	} {
		require.ErrorContains(t, explainStartError(errStart{}, "/data", cause), want)
	}
}

type errStart struct{}

func (errStart) Error() string { return "start" }
