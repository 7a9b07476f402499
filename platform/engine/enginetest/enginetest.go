// Package enginetest provides an engine for the tests of a package.
//
//	func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }
//
// The test binary runs itself a second time as the engine's process. The engine starts with the first call of DSN or
// Addr, in a temporary directory on a free port, is shared by the package's tests, and is removed at the end.
//
// With MUSTER_TEST_CLICKHOUSE=env the tests use the server of CLICKHOUSE_DSN instead. They create databases with random
// names there, and drop them at the end. Tests that kill the engine or inspect its process fail then.
package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/platform/engine"
)

// User and Password are the credentials of the service user.
const (
	User     = "muster"
	Password = "secret"
)

const childEnv = "MUSTER_ENGINETEST_CHILD"

// Main runs the package's tests, or the engine if this process was started as its child. It returns the exit code.
func Main(m *testing.M) int {
	if code, isChild := RunIfChild(); isChild {
		return code
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "enginetest:", err)
		if code == 0 {
			code = 1
		}
	}
	return code
}

// RunIfChild runs the engine if this process was started as its child. Programs other than tests call it first in main,
// before Start.
func RunIfChild() (code int, isChild bool) {
	if os.Getenv(childEnv) == "" {
		return 0, false
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := engine.RunChild(ctx, logger); err != nil {
		logger.Error("enginetest: child", "error", err)
		return 1, true
	}
	return 0, true
}

// Engine is a running engine in a temporary directory, or an external server.
type Engine struct {
	*engine.Process // nil: external
	dir             string
	external        url.URL

	mu      sync.Mutex
	created []string // databases on an external server
}

// DSN returns a clickhouse-go DSN of a database.
func (e *Engine) DSN(database string) string {
	if e.Process != nil {
		return e.Process.DSN(database)
	}
	return e.external.JoinPath(database).String()
}

// openExternal returns the server selected by the environment, or nil.
func openExternal(getenv func(string) string) (*Engine, error) {
	switch v := getenv("MUSTER_TEST_CLICKHOUSE"); v {
	case "":
		return nil, nil
	case "env":
	default:
		return nil, fmt.Errorf("enginetest: MUSTER_TEST_CLICKHOUSE is %q, expected env or an empty value", v)
	}
	dsn, err := url.Parse(getenv("CLICKHOUSE_DSN"))
	if err != nil || dsn.Scheme != "http" && dsn.Scheme != "https" || dsn.Host == "" {
		return nil, errors.New("enginetest: MUSTER_TEST_CLICKHOUSE=env, " +
			"but CLICKHOUSE_DSN is not http(s)://USER:PASSWORD@HOST:PORT")
	}
	external := url.URL{Scheme: dsn.Scheme, User: dsn.User, Host: dsn.Host, Path: "/", RawQuery: dsn.RawQuery}
	return &Engine{external: external}, nil
}

// Option changes the engine's configuration.
type Option func(*engine.SupervisorConfig)

// Start starts an engine in a temporary directory, for programs other than tests and for tests that need a separate
// one. The program must call RunIfChild first.
func Start(ctx context.Context, options ...Option) (*Engine, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("enginetest: %w", err)
	}
	dir, err := os.MkdirTemp("", "muster-engine-*")
	if err != nil {
		return nil, fmt.Errorf("enginetest: %w", err)
	}
	cfg := engine.SupervisorConfig{
		Command: []string{exe},
		Env:     []string{childEnv + "=1"},
		Server: engine.ServerConfig{
			Dir: dir, Addr: "127.0.0.1:0", User: User, Password: Password, Grace: time.Second,
		},
		// On a busy machine it takes long to close the databases of a hundred tests.
		StopTimeout: time.Minute,
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	for _, option := range options {
		option(&cfg)
	}
	p, err := engine.Start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("enginetest: %w", joinCleanup(err, dir))
	}
	return &Engine{Process: p, dir: dir}, nil
}

func joinCleanup(err error, dir string) error {
	if rmErr := os.RemoveAll(dir); rmErr != nil {
		return fmt.Errorf("%w; %w", err, rmErr)
	}
	return err
}

// Close stops the engine and removes its directory. On an external server it drops the databases.
func (e *Engine) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	if e.Process == nil {
		var err error
		for _, name := range e.created {
			_, dropErr := e.run(ctx, "DROP DATABASE IF EXISTS "+name+" SYNC")
			err = errors.Join(err, dropErr)
		}
		return err
	}
	stopErr := e.Stop(ctx)
	if err := os.RemoveAll(e.dir); err != nil {
		return fmt.Errorf("enginetest: %w", err)
	}
	return stopErr
}

// FreshDatabase creates a database and returns its clickhouse-go DSN.
func (e *Engine) FreshDatabase(ctx context.Context) (string, error) {
	name, err := e.create(ctx)
	return e.DSN(name), err
}

func (e *Engine) create(ctx context.Context) (string, error) {
	name := "t_" + strings.ToLower(rand.Text()[:12])
	if _, err := e.run(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.created = append(e.created, name)
	return name, nil
}

// sharedEngine is the engine of a test binary. It is global, because the tests of a package share nothing else.
type sharedEngine struct {
	mu     sync.Mutex
	engine *Engine
	err    error

	migrated template
}

var shared sharedEngine

func (s *sharedEngine) get() (*Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil && s.err == nil {
		if s.engine, s.err = openExternal(os.Getenv); s.engine == nil && s.err == nil {
			s.engine, s.err = Start(context.Background())
		}
	}
	return s.engine, s.err
}

func (s *sharedEngine) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		return nil
	}
	return s.engine.Close()
}

// Get returns the package's engine.
func Get(tb testing.TB) *Engine {
	tb.Helper()
	if os.Getenv(childEnv) != "" {
		tb.Fatal("enginetest: the package's TestMain does not call enginetest.Main")
	}
	e, err := shared.get()
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// DSN returns a clickhouse-go DSN of a new database of the package's engine.
func DSN(tb testing.TB) string {
	tb.Helper()
	dsn, err := Get(tb).FreshDatabase(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return dsn
}

// Addr returns the host and port of the package's engine.
func Addr(tb testing.TB) string {
	tb.Helper()
	e := Get(tb)
	if e.Process == nil {
		return e.external.Host
	}
	return e.Addr()
}

// Kill kills the package's engine (SIGKILL) and waits until it serves again.
func Kill(tb testing.TB) {
	tb.Helper()
	e := Get(tb)
	if e.Process == nil {
		tb.Fatal("enginetest: cannot kill an external server")
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	if err := e.Kill(ctx); err != nil {
		tb.Fatal(err)
	}
}

// Kill kills the engine (SIGKILL) and waits until it serves again, in a new process.
func (e *Engine) Kill(ctx context.Context) error {
	killed := e.PID()
	if killed == 0 {
		return errors.New("enginetest: the engine is not running")
	}
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		return fmt.Errorf("enginetest: kill: %w", err)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if pid := e.PID(); pid != 0 && pid != killed {
			return nil
		}
		select {
		case <-ticker.C:
		case <-e.Done():
			return errors.New("enginetest: the engine has stopped")
		case <-ctx.Done():
			return fmt.Errorf("enginetest: wait for the restart: %w", ctx.Err())
		}
	}
}
