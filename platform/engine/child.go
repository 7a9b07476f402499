package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readyLine is what a child writes to its standard output once it serves.
type readyLine struct {
	Addr string `json:"addr"`
}

// durations has time.Duration travel as text ("1.5s"), for which the JSON
// library has no form of its own.
func durations() json.Options {
	return json.JoinOptions(
		json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, d time.Duration) error {
			return e.WriteToken(jsontext.String(d.String()))
		})),
		json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *time.Duration) error {
			tok, err := d.ReadToken()
			if err != nil {
				return err
			}
			*v, err = time.ParseDuration(tok.String())
			return err
		})),
	)
}

// errParentGone ends a child whose parent died.
var errParentGone = errors.New("engine: the parent process is gone")

// RunChild is the body of the child process that [Start] supervises: it reads
// its ServerConfig as one line of JSON from stdin, serves, and reports its
// address on stdout. It ends with ctx, and at the latest a second after stdin
// ends, which is when the parent died: no orphan keeps the data folder.
func RunChild(ctx context.Context, stdin io.Reader, stdout io.Writer, logger *slog.Logger) error {
	input := bufio.NewReader(stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("engine: read the configuration from standard input: %w", err)
	}
	var cfg ServerConfig
	if err := json.Unmarshal(line, &cfg, durations()); err != nil {
		return fmt.Errorf("engine: read the configuration from standard input: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// This goroutine ends with the process: a blocked read of standard input
	// cannot be interrupted.
	go func() {
		_, _ = io.Copy(io.Discard, input)
		if ctx.Err() != nil {
			return
		}
		cancel(errParentGone)
		time.AfterFunc(time.Second, func() { os.Exit(1) })
	}()
	return Serve(ctx, cfg, logger, func(addr string) {
		out, err := json.Marshal(readyLine{Addr: addr})
		if err == nil {
			_, err = stdout.Write(append(out, '\n'))
		}
		if err != nil {
			cancel(fmt.Errorf("engine: report readiness: %w", err))
		}
	})
}
