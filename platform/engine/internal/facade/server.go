package facade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/platform/engine/internal/chdb"
)

// Config configures a Server.
type Config struct {
	Library *chdb.Library
	Dir     string // data directory, for one process at a time
	// EngineArgs are further arguments of the engine, --name=value, such as cache sizes.
	EngineArgs []string
	Users      []User
	// AnalystLimits limit a query of an analyst. Zero fields mean no limit, except MaxMemory, whose default is
	// analystMemory.
	AnalystLimits Limits
	// AnalystQueries is the maximum number of concurrent queries of analysts.
	AnalystQueries int
	MaxConcurrent  int           // maximum number of concurrent statements; further ones wait
	QueueWait      time.Duration // after this wait a statement fails with TOO_MANY_SIMULTANEOUS_QUERIES
	Logger         *slog.Logger
}

// idleThreads is the number of idle threads that the engine retains for each concurrent statement: the number that a
// statement with max_threads 2 uses. Each thread has three files of /proc open. The engine's default is 1,000 threads,
// which would use up a limit of 1,024 open files: after one burst no insert would succeed.
const idleThreads = 4

// Server is the HTTP interface over one engine.
type Server struct {
	cfg      Config
	pool     *pool
	gate     *gate // for analysts, before the pool
	sessions *sessions
	headers  *headerCache
	settings map[string]string // name to default value
	denied   deniedNames
	// deniedRestricted is for users who are restricted to databases.
	deniedRestricted deniedNames
	info             serverInfo
	queryIDs         atomic.Uint64
	boot             string // prefix that makes query IDs unique across restarts
	http             *http.Server

	mu      sync.Mutex
	closing bool
	active  sync.WaitGroup // requests; Add under mu, never after closing
}

type serverInfo struct{ displayName, timezone, version string }

// New starts the engine on the data directory.
func New(cfg Config) (*Server, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("engine data directory: %w", err)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("engine data directory: %w", err)
	}
	threads := strconv.Itoa(idleThreads * cfg.MaxConcurrent)
	args := append([]string{"--path=" + dir, "--max_thread_pool_free_size=" + threads}, cfg.EngineArgs...)
	p, err := newPool(cfg.Library, args, cfg.MaxConcurrent, 2*cfg.MaxConcurrent, cfg.QueueWait)
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	s := &Server{
		cfg: cfg, pool: p, gate: newGate(cfg.AnalystQueries, cfg.QueueWait),
		sessions: newSessions(), headers: newHeaderCache(),
		boot: fmt.Sprintf("%x-%x", time.Now().UnixNano(), os.Getpid()),
	}
	if err := errors.Join(s.loadEngineInfo(), s.createUserDatabases()); err != nil {
		p.close()
		return nil, err
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    maxURISize + 1<<20,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// loadEngineInfo reads settings, functions, version and limits of the engine.
func (s *Server) loadEngineInfo() error {
	rows, err := s.pool.query("SELECT name, default FROM system.settings")
	if err != nil {
		return fmt.Errorf("read the engine's settings: %w", err)
	}
	s.settings = make(map[string]string)
	for line := range strings.Lines(rows) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		s.settings[name] = value
	}
	if rows, err = s.pool.query("SELECT displayName(), timezone(), version()"); err != nil {
		return fmt.Errorf("read the engine's version: %w", err)
	}
	fields := strings.Split(strings.TrimSuffix(rows, "\n"), "\t")
	s.info = serverInfo{displayName: fields[0], timezone: fields[1], version: fields[2]}
	tables, err := s.pool.query("SELECT name FROM system.table_functions")
	if err != nil {
		return fmt.Errorf("read the engine's table functions: %w", err)
	}
	functions, err := s.pool.query("SELECT name FROM system.functions WHERE NOT is_aggregate")
	if err != nil {
		return fmt.Errorf("read the engine's functions: %w", err)
	}
	if s.cfg.AnalystLimits.MaxMemory == 0 {
		value, err := s.pool.query("SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'")
		if err != nil {
			return fmt.Errorf("read the engine's memory limit: %w", err)
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return fmt.Errorf("read the engine's memory limit: %w", err)
		}
		s.cfg.AnalystLimits.MaxMemory = analystMemory(limit, s.cfg.AnalystQueries)
	}
	s.denied = newDeniedNames(strings.Fields(tables), strings.Fields(functions), false)
	s.deniedRestricted = newDeniedNames(strings.Fields(tables), strings.Fields(functions), true)
	return nil
}

// createUserDatabases creates the databases that users are restricted to, so that their statements have a current
// database.
func (s *Server) createUserDatabases() error {
	for _, user := range s.cfg.Users {
		for _, name := range user.Databases {
			if _, err := s.pool.query("CREATE DATABASE IF NOT EXISTS " + quoteIdentifier(name)); err != nil {
				return fmt.Errorf("create the database %s: %w", name, err)
			}
		}
	}
	return nil
}

// Version returns the engine's ClickHouse version.
func (s *Server) Version() string { return s.info.version }

// ErrUnfinished means that killed statements are still running: the engine does not check for cancellation while it
// analyzes a statement, which takes seconds for thousands of clauses. The engine was not stopped; it ends with the
// process.
var ErrUnfinished = errors.New("statements do not stop")

// killTimeout is how long Serve waits for killed statements.
const killTimeout = time.Second

// Serve serves until ctx ends. Then it lets running statements finish within the grace period, kills the others and
// stops the engine. It returns ErrUnfinished if killed statements do not end.
func (s *Server) Serve(ctx context.Context, listener net.Listener, grace time.Duration) error {
	base, cancelBase := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelBase()
	s.http.BaseContext = func(net.Listener) context.Context { return base }
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(listener) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		if s.http.Shutdown(stop) != nil {
			cancelBase() // kills the statements that still run
			s.http.Close()
		}
		cancel()
		err = <-failed
	}
	cancelBase()
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	if !s.waitRequests() {
		return ErrUnfinished
	}
	s.sessions.close()
	s.pool.close()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// waitRequests waits up to killTimeout for running requests and reports whether all have ended.
func (s *Server) waitRequests() bool {
	ended := make(chan struct{})
	go func() { // ends with the requests, or with the process
		s.active.Wait()
		close(ended)
	}()
	timer := time.NewTimer(killTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}
