package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxRelayedLine is the maximum length of a logged line, in bytes.
	maxRelayedLine = 16 << 10
	// maxHeldLines is the maximum number of lines held until the child serves or ends.
	maxHeldLines = 50
)

// relay logs what a child writes to its standard output and error: records of the child's own log, which is JSON, and
// the output of the engine's library.
//
// Output of the library before the child serves is held: it may be the cause if the child fails to start.
type relay struct {
	logger *slog.Logger
	done   chan struct{} // closed when the child has closed its output

	mu      sync.Mutex
	serving bool
	held    []string
}

// newRelay returns a relay and the file for the child's output, which the caller closes after the child has started.
// The log uses the values of ctx; the relay does not end with ctx.
func newRelay(ctx context.Context, logger *slog.Logger) (*relay, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	r := &relay{logger: logger, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer read.Close()
		r.copy(ctx, read)
	}()
	return r, write, nil
}

func (r *relay) copy(ctx context.Context, from io.Reader) {
	lines := bufio.NewReaderSize(from, maxRelayedLine)
	for {
		line, err := lines.ReadSlice('\n')
		r.line(ctx, line)
		for errors.Is(err, bufio.ErrBufferFull) { // skip the rest of the line
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func (r *relay) line(ctx context.Context, line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || r.logRecord(ctx, line) {
		return
	}
	text := ansiColor.ReplaceAllString(strings.ToValidUTF8(string(line), "\ufffd"), "")
	if isHarmless(text) {
		return
	}
	r.mu.Lock()
	hold := !r.serving && len(r.held) < maxHeldLines
	if hold {
		r.held = append(r.held, text)
	}
	r.mu.Unlock()
	if !hold {
		r.logText(ctx, text)
	}
}

// markServing logs the held lines and ends holding.
func (r *relay) markServing(ctx context.Context) {
	r.mu.Lock()
	held := r.held
	r.serving, r.held = true, nil
	r.mu.Unlock()
	for _, text := range held {
		r.logText(ctx, text)
	}
}

// cause returns the last line that the engine wrote before the child ended without serving, or the line of an
// exception. It is empty if there is no output. The other lines are logged.
func (r *relay) cause(ctx context.Context) string {
	<-r.done
	r.mu.Lock()
	held := r.held
	r.held = nil
	r.mu.Unlock()
	if len(held) == 0 {
		return ""
	}
	at := len(held) - 1
	if i := slices.IndexFunc(held, isException); i >= 0 {
		at = i
	}
	for i, text := range held {
		if i != at {
			r.logText(ctx, text)
		}
	}
	return held[at]
}

func isException(text string) bool { return strings.Contains(text, "DB::Exception") }

// isHarmless reports whether a line is irrelevant to operators.
func isHarmless(text string) bool {
	// The engine logs this at the end of each thread of this program that has called it.
	return strings.Contains(text, "ThreadStatus: current_thread contains invalid address")
}

var (
	ansiColor = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	// engineLine matches a line of ClickHouse's log: time, thread, query ID, <level>, text.
	engineLine = regexp.MustCompile(`^(?:[\d.]+ [\d:.]+ )?(?:\[ ?\d+ ?\] )?(?:\{[^}]*\} )?<(\w+)> (.*)$`)
)

func (r *relay) logText(ctx context.Context, text string) {
	level := slog.LevelWarn
	if m := engineLine.FindStringSubmatch(text); m != nil {
		text = m[2]
		switch m[1] {
		case "Fatal", "Critical", "Error":
			level = slog.LevelError
		case "Notice", "Information":
			level = slog.LevelInfo
		case "Debug", "Trace", "Test":
			level = slog.LevelDebug
		}
	} else if isException(text) || strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
		level = slog.LevelError
	}
	r.logger.LogAttrs(ctx, level, "engine: output", slog.String("text", text))
}

// logRecord logs a record of the child's own log. It returns false if the line is not one.
func (r *relay) logRecord(ctx context.Context, line []byte) bool {
	if line[0] != '{' {
		return false
	}
	record, err := parseRecord(line)
	if err != nil {
		return false
	}
	if r.logger.Enabled(ctx, record.Level) {
		_ = r.logger.Handler().Handle(ctx, record) // errors are ignored, as in slog
	}
	return true
}

// parseRecord parses the output of slog's JSON handler. The attributes are sorted by name.
func parseRecord(line []byte) (slog.Record, error) {
	var parsed struct {
		Time  time.Time                 `json:"time"`
		Level *slog.Level               `json:"level"`
		Text  *string                   `json:"msg"`
		Attrs map[string]jsontext.Value `json:",embed"`
	}
	if err := json.Unmarshal(line, &parsed); err != nil {
		return slog.Record{}, err
	}
	if parsed.Level == nil || parsed.Text == nil {
		return slog.Record{}, errors.New("not a log record: level or msg is missing")
	}
	record := slog.NewRecord(parsed.Time, *parsed.Level, *parsed.Text, 0)
	for _, name := range slices.Sorted(maps.Keys(parsed.Attrs)) {
		record.AddAttrs(attrOf(name, parsed.Attrs[name]))
	}
	return record, nil
}

func attrOf(key string, value jsontext.Value) slog.Attr {
	switch value.Kind() {
	case '"':
		var text string
		if json.Unmarshal(value, &text) == nil {
			return slog.String(key, text)
		}
	case '0':
		var n int64
		if json.Unmarshal(value, &n) == nil {
			return slog.Int64(key, n)
		}
	case 't', 'f':
		return slog.Bool(key, value.Kind() == 't')
	}
	return slog.String(key, string(value))
}
