package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readyLine is what a child reports once it serves, or why it does not.
type readyLine struct {
	Addr  string `json:"addr,omitempty"`
	Error string `json:"error,omitempty"`
	// Denied: the engine may not open something.
	Denied bool `json:"denied,omitempty"`
}

// reportedError is one that the supervisor was told. It says nothing by itself,
// so that nobody reads it twice.
type reportedError struct{ err error }

func (e reportedError) Error() string { return "" }
func (e reportedError) Unwrap() error { return e.err }

// ExitCode is the exit status of the program.
func (e reportedError) ExitCode() int { return 2 }

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

// The child's files beside the standard ones. Standard input and output are
// not used, because the engine itself may read and write them.
const (
	controlFD = 3 // the parent's end is open as long as the parent lives
	readyFD   = 4
)

// RunChild is the body of the child process that [Start] supervises: it reads
// its ServerConfig as one line of JSON from file descriptor 3, serves, and
// reports its address on file descriptor 4. It ends with ctx, and at the latest
// a second after the parent died: no orphan keeps the data folder.
func RunChild(ctx context.Context, logger *slog.Logger) error {
	confineChild(logger)
	control, ready := os.NewFile(controlFD, "control"), os.NewFile(readyFD, "ready")
	if control == nil || ready == nil {
		return errors.New("engine: this process was not started by a supervisor")
	}
	defer ready.Close()
	input := bufio.NewReader(control)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("engine: read the configuration from the supervisor: %w", err)
	}
	var cfg ServerConfig
	if err := json.Unmarshal(line, &cfg, durations()); err != nil {
		return fmt.Errorf("engine: read the configuration from the supervisor: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// This goroutine ends with the process, which has no other way of learning
	// that its parent died.
	go func() {
		_, _ = io.Copy(io.Discard, input)
		if ctx.Err() != nil {
			return
		}
		cancel(errParentGone)
		time.AfterFunc(time.Second, func() { os.Exit(1) })
	}()
	report := func(line readyLine) error {
		out, err := json.Marshal(line)
		if err == nil {
			_, err = ready.Write(append(out, '\n'))
		}
		return err
	}
	serves := false
	err = serve(ctx, cfg, logger, func(addr string) {
		serves = true
		if err := report(readyLine{Addr: addr}); err != nil {
			cancel(fmt.Errorf("engine: report readiness: %w", err))
		}
	})
	if err != nil && !serves && report(readyLine{Error: err.Error(), Denied: isDenied(err)}) == nil {
		return reportedError{err}
	}
	return err
}

// engineError is a failure of the engine itself to start, which is neither the
// lock's nor the port's.
type engineError struct{ error }

func (e engineError) Unwrap() error { return e.error }

// isDenied reports an engine that may not open something. The C library and the
// engine say so in words only.
func isDenied(err error) bool {
	e, ok := errors.AsType[engineError](err)
	return ok && (errors.Is(e, fs.ErrPermission) || strings.Contains(strings.ToLower(e.Error()), "permission denied"))
}

// notOpened is why a link in an engine's folder cannot be followed, which the
// engine does not tell of: it may lead to where this process may not go.
func notOpened(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission):
			return err
		case err != nil:
			return nil //nolint:nilerr // this is about permissions
		case d.IsDir() && strings.Count(strings.TrimPrefix(path, dir), string(filepath.Separator)) > 2:
			return fs.SkipDir // tables and their parts are the engine's own
		case d.Type()&fs.ModeSymlink != 0:
			if about, err := os.Stat(path); err == nil && (about.IsDir() || about.Mode().IsRegular()) {
				file, err := os.Open(path) //nolint:gosec // nothing is read, and where it leads to is the question
				if errors.Is(err, fs.ErrPermission) {
					return err
				}
				if err == nil {
					return file.Close()
				}
			}
		}
		return nil
	})
}
