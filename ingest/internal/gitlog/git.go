package gitlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Limits of the git program.
const (
	// idleTimeout is how long git may print nothing. A file of the repository may be a pipe without a writer.
	idleTimeout = 10 * time.Minute
	// allocLimit is the maximum size of a single allocation of git, and so of every object that it reads.
	allocLimit = "256m"
	// maxStderr is how many bytes of git's messages are kept.
	maxStderr = 2 << 10
	// waitDelay is how long a killed git may keep its pipes open.
	waitDelay = 5 * time.Second
)

var errIdle = errors.New("git timed out without output")

// gitDir runs git in one repository. Repositories may be hostile: git uses no configuration but the repository's
// own, no network, no helpers (not even for missing objects of a partial clone), and no hooks.
type gitDir struct {
	path string // the ".git" directory or file, or a bare repository
	idle time.Duration
}

// environment returns the environment of git. It omits the caller's GIT_ variables, which could
// select another repository.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	return append(env,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "GIT_ALLOC_LIMIT="+allocLimit, "LC_ALL=C",
	)
}

// command returns a git command with limited standard error. The explicit --git-dir keeps git from
// searching parent directories.
func (g gitDir) command(ctx context.Context, args ...string) (*exec.Cmd, *limitedBuffer, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, nil, errors.New("git is not installed: install it (Debian: apt-get install git), or add it to PATH")
	}
	args = append([]string{
		"--git-dir=" + g.path,
		"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c", "core.commitGraph=false",
		"-c", "core.deltaBaseCacheLimit=32m",
	}, args...)
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // git, in a directory given by the operator
	stderr := &limitedBuffer{}
	// No working tree is needed, and the one that the repository configures must not matter.
	cmd.Env = append(environment(), "GIT_WORK_TREE="+g.path)
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = string(os.PathSeparator), stderr, waitDelay
	return cmd, stderr, nil
}

// limitedBuffer stores the first maxStderr bytes written to it.
type limitedBuffer struct{ bytes.Buffer }

// Write implements io.Writer. It never fails.
func (h *limitedBuffer) Write(p []byte) (int, error) {
	if left := maxStderr - h.Len(); left > 0 {
		h.Buffer.Write(p[:min(left, len(p))])
	}
	return len(p), nil
}

// stream is the output of a git command, or of a pipeline of two.
type stream struct {
	out      io.Reader
	idle     *time.Timer
	limit    time.Duration
	ctx      context.Context
	cancel   context.CancelCauseFunc
	commands []*exec.Cmd
	stderr   []*limitedBuffer
}

// start runs a command, or a pipeline of two. input is the standard input of the first.
func (g gitDir) start(ctx context.Context, input string, commands ...[]string) (_ *stream, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{limit: g.idle, ctx: ctx, cancel: cancel}
	s.idle = time.AfterFunc(g.idle, func() { s.cancel(errIdle) })
	defer func() {
		if err != nil {
			// The first error is returned.
			_ = s.close()
		}
	}()
	var in io.Reader = strings.NewReader(input)
	var pipes []*os.File
	defer func() {
		for _, f := range pipes {
			err = errors.Join(err, f.Close())
		}
	}()
	for i, args := range commands {
		cmd, stderr, err := g.command(ctx, args...)
		if err != nil {
			return nil, err
		}
		cmd.Stdin = in
		if i == len(commands)-1 {
			s.out, err = cmd.StdoutPipe()
		} else {
			var read, write *os.File
			if read, write, err = os.Pipe(); err == nil {
				cmd.Stdout, in, pipes = write, read, append(pipes, read, write)
			}
		}
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, fmt.Errorf("start git: %w", err)
		}
		s.commands, s.stderr = append(s.commands, cmd), append(s.stderr, stderr)
	}
	return s, nil
}

// Read implements io.Reader. The idle timeout applies only during reads.
func (s *stream) Read(p []byte) (int, error) {
	s.idle.Reset(s.limit)
	n, err := s.out.Read(p)
	s.idle.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read from git: %w", err)
	}
	return n, err
}

// wait waits for the commands, whose output must have been read to its end, and returns their error.
func (s *stream) wait() error {
	s.idle.Reset(s.limit)
	var failed error
	for i, cmd := range s.commands {
		err := cmd.Wait()
		text := strings.TrimSpace(s.stderr[i].String())
		// A command without messages only lost its reader.
		if err != nil && (failed == nil || text != "") {
			failed = &gitError{text, err}
		}
	}
	s.commands = nil
	if cause := context.Cause(s.ctx); cause != nil {
		failed = cause
	}
	return errors.Join(failed, s.close())
}

// close kills the commands and waits for them.
func (s *stream) close() error {
	s.idle.Stop()
	s.cancel(context.Canceled)
	for _, cmd := range s.commands {
		_ = cmd.Wait() // killed
	}
	s.commands = nil
	return nil
}

// output returns the output of a command, at most limit bytes.
func (g gitDir) output(ctx context.Context, limit int64, input string, args ...string) ([]byte, error) {
	s, err := g.start(ctx, input, args)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(s, limit+1))
	if int64(len(out)) > limit {
		return nil, errors.Join(fmt.Errorf("output of git %s exceeds %d MiB", args[0], limit>>20), s.close())
	}
	if err := errors.Join(s.wait(), err); err != nil {
		return nil, err
	}
	return out, nil
}

// gitError is a failed git command.
type gitError struct {
	stderr string
	err    error
}

// Error returns git's messages on one line, and a hint for repairing the repository.
func (e *gitError) Error() string {
	text := strings.Join(strings.FieldsFunc(e.stderr, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if text == "" {
		text = "git: " + e.err.Error()
	}
	if fix := remedy(e.stderr); fix != "" {
		text += ": " + fix
	}
	return text
}

// Unwrap returns the exit error.
func (e *gitError) Unwrap() error { return e.err }

// status returns the exit status of git, or -1 if it did not exit by itself.
func status(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// remedy returns how to repair the repository, based on git's messages, or "".
func remedy(stderr string) string {
	const (
		restore = "the clone borrows objects from a missing directory (--shared, --reference): restore the " +
			"directory and run `git repack -a -d` in the clone, or clone again without these options"
		refetch = "the partial clone lacks objects: run `git fetch --refetch --no-filter` in it, or clone again " +
			"without --filter"
		upgrade = "this version of git is too old for the repository: install a newer one"
		large   = "the repository has an object of more than 256 MiB where a commit, a tag or a tree is expected"
		check   = "objects are missing or damaged: `git fsck --full` lists them; clone the repository again"
		repair  = "repair the file, or clone the repository again"
	)
	for _, r := range []struct{ message, fix string }{
		{"objects/info/alternates", restore}, {"alternate object path", restore},
		{"lazy fetching disabled", refetch}, {"promisor remote", refetch},
		{"unknown repository extension", upgrade}, {"unknown repository version", upgrade},
		{"Expected git repo version", upgrade},
		{"over limit", large},
		{"bad object", check}, {"missing object", check}, {"missing blob", check}, {"Could not read", check},
		{"corrupt", check}, {"unable to", check},
		{"bad config", repair},
	} {
		if strings.Contains(stderr, r.message) {
			return r.fix
		}
	}
	return ""
}
