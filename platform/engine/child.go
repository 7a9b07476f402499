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
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// readyLine is what a child reports when it serves or fails to start.
type readyLine struct {
	Addr  string `json:"addr,omitempty"`
	Error string `json:"error,omitempty"`
	// Denied: the engine was denied access to a file.
	Denied bool `json:"denied,omitempty"`
}

// reportedError is an error that was reported to the supervisor. Its text is empty, so that it is not logged twice.
type reportedError struct{ err error }

func (e reportedError) Error() string { return "" }
func (e reportedError) Unwrap() error { return e.err }

// ExitCode returns the exit code of the program.
func (e reportedError) ExitCode() int { return 2 }

// errParentGone is the cancellation cause of a child whose parent has died.
var errParentGone = errors.New("engine: the parent process is gone")

// The child's file descriptors. Standard input and output are not used, because the engine may read and write them.
const (
	controlFD = 3 // the parent's end is open while the parent is alive
	readyFD   = 4
)

// RunChild is the main function of the child process that [Start] supervises. It reads its ServerConfig as one line of
// JSON from file descriptor 3, serves, and reports its address on file descriptor 4. It ends with ctx, or at most a
// second after the parent has died, so that no orphan locks the data directory.
func RunChild(ctx context.Context, logger *slog.Logger) error {
	sandboxChild(logger)
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
	if err := json.Unmarshal(line, &cfg, jsonv1.FormatDurationAsNano(true)); err != nil {
		return fmt.Errorf("engine: read the configuration from the supervisor: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// This goroutine detects that the parent has died. It ends with the process.
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
	serving := false
	err = serve(ctx, cfg, logger, func(addr string) {
		serving = true
		if err := report(readyLine{Addr: addr}); err != nil {
			cancel(fmt.Errorf("engine: report readiness: %w", err))
		}
	})
	if err != nil && !serving && report(readyLine{Error: err.Error(), Denied: isDenied(err)}) == nil {
		return reportedError{err}
	}
	return err
}

// engineError is a failure of the engine to start, as opposed to the lock or the listener.
type engineError struct{ error }

func (e engineError) Unwrap() error { return e.error }

// isDenied reports whether the engine was denied access to a file. The C library and the engine report that only as
// text.
func isDenied(err error) bool {
	e, ok := errors.AsType[engineError](err)
	return ok && (errors.Is(e, fs.ErrPermission) ||
		strings.Contains(strings.ToLower(e.Error()), "permission denied"))
}

// findDeniedLink returns a permission error for a symbolic link in the engine's directory whose target may not be
// opened. The engine does not report that.
func findDeniedLink(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission):
			return err
		case err != nil:
			return nil //nolint:nilerr // only permission errors matter
		case d.IsDir() && strings.Count(strings.TrimPrefix(path, dir), string(filepath.Separator)) > 2:
			return fs.SkipDir // the engine's own files: tables and parts
		case d.Type()&fs.ModeSymlink != 0:
			if about, err := os.Stat(path); err == nil && (about.IsDir() || about.Mode().IsRegular()) {
				file, err := os.Open(path) //nolint:gosec // only tests access; nothing is read
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
