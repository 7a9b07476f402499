package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is the muster release binary.
type program struct {
	path string
	env  []string
}

// environment returns this process's environment without variables that configure muster.
func environment(further ...string) []string {
	var out []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "KAFKA_") || strings.HasPrefix(v, "CLICKHOUSE_") || strings.HasPrefix(v, "OTEL_") ||
			strings.HasPrefix(v, "MUSTER_") && !strings.HasPrefix(v, "MUSTER_LIBCHDB") {
			continue
		}
		out = append(out, v)
	}
	return append(out, further...)
}

func (p program) command(ctx context.Context, args ...string) (*exec.Cmd, *tail) {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// run runs a command until it exits, and returns its exit status.
func (p program) run(ctx context.Context, started func(pid int), args ...string) (status int, output string,
	err error) {
	cmd, out := p.command(ctx, args...)
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	if started != nil {
		started(cmd.Process.Pid)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), out.String(), err
}

// daemon is a process that is restarted whenever it exits, as by a supervisor.
type daemon struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	pid    int
	starts int
	out    *tail
	err    error
}

// keep runs a command, with restarts, until stop is called.
func (p program) keep(ctx context.Context, name string, args ...string) *daemon {
	ctx, cancel := context.WithCancel(ctx)
	d := &daemon{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		for ctx.Err() == nil {
			cmd, out := p.command(ctx, args...)
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = 10 * time.Second
			if err := cmd.Start(); err != nil {
				d.mu.Lock()
				d.err = fmt.Errorf("start %s: %w", name, err)
				d.mu.Unlock()
				return
			}
			d.mu.Lock()
			d.pid, d.out = cmd.Process.Pid, out
			d.starts++
			d.mu.Unlock()
			_ = cmd.Wait() // restarted, whatever the exit status
			wait(ctx, 100*time.Millisecond)
		}
	}()
	return d
}

// kill kills the current process with SIGKILL, after its child processes, such as the engine.
func (d *daemon) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pid != 0 {
		for _, child := range children(d.pid) {
			_ = syscall.Kill(child, syscall.SIGKILL) // may have exited
		}
		_ = syscall.Kill(d.pid, syscall.SIGKILL) // may have exited
	}
}

// children returns the running child processes of a process.
func children(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // a valid pattern
	var out []int
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has exited
		}
		for _, field := range strings.Fields(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

func (d *daemon) stop() error {
	d.cancel()
	<-d.done
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// log returns the end of the current process's output.
func (d *daemon) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out == nil {
		return ""
	}
	return fmt.Sprintf("-- %s, %d starts:\n%s", d.name, d.starts, d.out.String())
}

// tail stores the end of a process's output.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - maxTail; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// wait sleeps, and reports whether the whole time passed.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
