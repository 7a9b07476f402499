package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// SupervisorConfig configures the child process and its supervision.
type SupervisorConfig struct {
	// Command starts a process that calls RunChild, such as this executable with the argument "engine".
	Command []string
	// Env is added to the child's environment.
	Env []string
	// Server is the child's configuration. Start sets the library; a port 0 becomes a fixed port with the first start.
	Server ServerConfig
	// Logger also receives the child's log, and the engine's standard output and error.
	Logger *slog.Logger
	// StartTimeout limits one start, without the download of the library; 0: 60 s.
	StartTimeout time.Duration
	// StopTimeout is how long Stop waits before it kills the child; 0: the server's grace period and 10 s, in which
	// also a busy machine kills the statements and closes the tables.
	StopTimeout time.Duration
	// MinBackoff and MaxBackoff bound the pause before a restart; 0: 50 ms, 5 s.
	MinBackoff, MaxBackoff time.Duration
	// LibraryProgress is LibraryConfig.Progress.
	LibraryProgress func(stage string, done, total int64)
}

// Process is a supervised engine. Its methods may be called concurrently.
type Process struct {
	cfg    SupervisorConfig
	cancel context.CancelFunc
	done   chan struct{} // closed when the supervisor has ended

	mu      sync.Mutex
	addr    string
	pid     int // 0 while no child serves
	lastErr error
}

// Start starts the engine's child process and returns when it serves. The child is restarted at the same address when
// it dies, until Stop is called or ctx ends. The caller must call Stop in either case, to wait for the end.
func Start(ctx context.Context, cfg SupervisorConfig) (*Process, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("engine: Command is empty")
	}
	cfg.Server.setDefaults()
	if err := cfg.Server.validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault := func(target *time.Duration, value time.Duration) {
		if *target == 0 {
			*target = value
		}
	}
	setDefault(&cfg.StartTimeout, time.Minute)
	setDefault(&cfg.StopTimeout, cfg.Server.Grace+10*time.Second)
	setDefault(&cfg.MinBackoff, 50*time.Millisecond)
	setDefault(&cfg.MaxBackoff, 5*time.Second)
	if err := makeAbsolute(&cfg.Server.Dir, &cfg.Server.Library); err != nil {
		return nil, err
	}
	if filepath.Base(cfg.Command[0]) != cfg.Command[0] { // otherwise it is found in PATH
		cfg.Command = slices.Clone(cfg.Command)
		if err := makeAbsolute(&cfg.Command[0]); err != nil {
			return nil, err
		}
	}
	if cfg.Server.Library == "" {
		path, err := EnsureLibrary(ctx, LibraryConfig{Progress: cfg.LibraryProgress, Logger: cfg.Logger})
		if err != nil {
			return nil, err
		}
		cfg.Server.Library = path
	}
	runCtx, cancel := context.WithCancel(ctx)
	p := &Process{cfg: cfg, cancel: cancel, done: make(chan struct{})}
	child, err := p.spawn(runCtx)
	if err != nil {
		cancel()
		return nil, err
	}
	go p.supervise(runCtx, child)
	return p, nil
}

// makeAbsolute makes nonempty paths absolute: the child has another working directory.
func makeAbsolute(paths ...*string) error {
	for _, path := range paths {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("engine: %s: the working directory does not exist any more: "+
				"change to another one, and start again: %w", *path, err)
		}
		*path = absolute
	}
	return nil
}

// child is a child process.
type child struct {
	cmd      *exec.Cmd
	relay    *relay
	control  io.Closer      // its end tells the child that this process has died
	writeErr error          // of the configuration
	ready    chan readyLine // closed, also without a line
	exit     chan error     // receives once
}

// deniedError is a start failure that the sandbox may have caused: the child was denied access to a file or program.
type deniedError struct{ error }

func (e deniedError) Unwrap() error { return e.error }

// Exit codes if a program cannot be executed, and if the dynamic loader cannot open its libraries.
const (
	notExecuted = 126
	notLoaded   = 127
)

// spawn starts a child and waits until it serves. If the child was denied access to a file, which may be in an uncommon
// location, it is started again without the sandbox.
func (p *Process) spawn(ctx context.Context) (*child, error) {
	c, err := p.spawnOnce(ctx, true)
	denied, ok := errors.AsType[deniedError](err)
	if !ok || ctx.Err() != nil {
		return c, err
	}
	if c, err = p.spawnOnce(ctx, false); err == nil {
		p.cfg.Logger.Warn("engine: started without a sandbox, it failed to start in one", "error", denied)
	}
	return c, err
}

func (p *Process) spawnOnce(ctx context.Context, sandboxed bool) (*child, error) {
	c, err := p.start(ctx, sandboxed)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(p.cfg.StartTimeout)
	defer timer.Stop()
	select {
	case ready, ok := <-c.ready:
		go func() { c.exit <- c.cmd.Wait() }()
		if ok && ready.Error == "" {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.addr, p.pid = ready.Addr, c.cmd.Process.Pid
			p.cfg.Server.Addr = ready.Addr
			c.relay.markServing(ctx)
			return c, nil
		}
		err = c.failure(ctx, ready, <-c.exit, p.cfg.Server.Dir)
		c.control.Close()
		return nil, err
	case <-timer.C:
		err = fmt.Errorf("engine: the child process did not serve within %s", p.cfg.StartTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = c.cmd.Process.Kill() // may have ended
	<-c.ready
	_ = c.cmd.Wait() // returns the signal as an error
	c.control.Close()
	if ctx.Err() != nil {
		return nil, err
	}
	return nil, explainStartError(err, p.cfg.Server.Dir, c.relay.cause(ctx))
}

// start starts a child and sends it its configuration.
func (p *Process) start(ctx context.Context, sandboxed bool) (*child, error) {
	config, err := json.Marshal(p.cfg.Server, jsonv1.FormatDurationAsNano(true))
	if err != nil {
		return nil, fmt.Errorf("engine: encode the child's configuration: %w", err)
	}
	//nolint:noctx // Stop ends it gracefully; a context would kill it
	cmd := exec.Command(p.cfg.Command[0], p.cfg.Command[1:]...)
	cmd.Env = append(childEnvironment(), p.cfg.Env...)
	if err := os.MkdirAll(p.cfg.Server.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("engine: data directory: %w", err)
	}
	// This process's working directory may be removed, and the engine does not start in a removed one.
	cmd.Dir = p.cfg.Server.Dir
	if sandboxed {
		cmd.Env = append(cmd.Env, sandboxVariable(&p.cfg.Server))
	}
	// A separate process group: Ctrl-C in a terminal reaches only the parent, which stops the engine last.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	controlRead, control, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("engine: start the child process: %w", err)
	}
	ready, readyWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("engine: start the child process: %w",
			errors.Join(err, controlRead.Close(), control.Close()))
	}
	relay, output, err := newRelay(ctx, p.cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("engine: start the child process: %w",
			errors.Join(err, controlRead.Close(), control.Close(), ready.Close(), readyWrite.Close()))
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{controlRead, readyWrite} // controlFD, readyFD
	err = cmd.Start()
	controlRead.Close()
	readyWrite.Close()
	output.Close()
	if err != nil {
		<-relay.done
		return nil, fmt.Errorf("engine: start the child process: %w", errors.Join(err, control.Close(), ready.Close()))
	}
	c := &child{
		cmd: cmd, relay: relay, control: control, ready: make(chan readyLine, 1), exit: make(chan error, 1),
	}
	go func() {
		defer close(c.ready)
		defer ready.Close()
		line, err := bufio.NewReader(ready).ReadBytes('\n')
		var report readyLine
		if err == nil && json.Unmarshal(line, &report) == nil {
			c.ready <- report
		}
	}()
	_, c.writeErr = control.Write(append(config, '\n'))
	return c, nil
}

// failure returns why a child ended before it served. exit is the result of Wait.
func (c *child) failure(ctx context.Context, ready readyLine, exit error, dir string) error {
	var err error
	if ready.Error != "" {
		err = errors.New(ready.Error)
	} else {
		err = fmt.Errorf("engine: the child process ended before it served: %w", errors.Join(exit, c.writeErr))
	}
	err = explainStartError(err, dir, c.relay.cause(ctx))
	code := c.cmd.ProcessState.ExitCode()
	if ready.Denied || ready.Error == "" && (code == notExecuted || code == notLoaded) {
		return deniedError{err}
	}
	return err
}

// supervise restarts the child when it dies, until ctx ends.
func (p *Process) supervise(ctx context.Context, c *child) {
	defer close(p.done)
	backoff := p.cfg.MinBackoff
	for {
		started := time.Now()
		var err error
		select {
		case err = <-c.exit:
		case <-ctx.Done():
			p.terminate(c)
			return
		}
		<-c.relay.done
		p.mu.Lock()
		p.pid, p.lastErr = 0, err
		p.mu.Unlock()
		c.control.Close()
		p.cfg.Logger.Error("engine: the child process died, restarting", "error", err)
		if time.Since(started) > time.Minute {
			backoff = p.cfg.MinBackoff
		}
		for {
			timer := time.NewTimer(backoff)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			backoff = min(2*backoff, p.cfg.MaxBackoff)
			next, err := p.spawn(ctx)
			if err == nil {
				c = next
				break
			}
			if ctx.Err() != nil {
				return
			}
			p.cfg.Logger.Error("engine: restart failed, retrying", "error", err)
		}
	}
}

// terminate stops the child gracefully, or kills it after StopTimeout. A kill is not an error: it loses no
// acknowledged INSERT.
func (p *Process) terminate(c *child) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // may have ended
	timer := time.NewTimer(p.cfg.StopTimeout)
	defer timer.Stop()
	var err error
	select {
	case err = <-c.exit:
	case <-timer.C:
		p.cfg.Logger.Warn("engine: the child process did not stop in time, killing it",
			"timeout", p.cfg.StopTimeout)
		_ = c.cmd.Process.Kill() // may have ended
		<-c.exit                 //nolint:errcheck // it says that the child was killed
	}
	<-c.relay.done
	c.control.Close()
	p.mu.Lock()
	p.pid, p.lastErr = 0, err
	p.mu.Unlock()
}

// Stop stops the child gracefully, or kills it after StopTimeout and logs that. It waits for the child's end, or until
// ctx ends. It returns an error if the child failed while it stopped, but not if it was killed.
func (p *Process) Stop(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("engine: stop: %w", ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastErr != nil {
		return fmt.Errorf("engine: the child process ended with an error: %w", p.lastErr)
	}
	return nil
}

// Done returns a channel that is closed when the supervisor has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Addr returns the address of the engine. It is the same after a restart.
func (p *Process) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// DSN returns a clickhouse-go DSN of a database for the service user.
func (p *Process) DSN(database string) string {
	return serviceDSN(p.cfg.Server.User, p.cfg.Server.Password, p.Addr(), database)
}

// PID returns the child's process ID, or 0 if none serves.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}
