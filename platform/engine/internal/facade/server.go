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

// Config says how to serve.
type Config struct {
	Library *chdb.Library
	Dir     string // the data folder; one process at a time
	// EngineArgs are further arguments of the engine, --name=value, such as
	// the sizes of its caches.
	EngineArgs []string
	Users      []User
	// AnalystLimits bound each analyst's query; zero fields: no limit, but of
	// memory, of which 0 is what memoryOfAnalyst says.
	AnalystLimits Limits
	// AnalystQueries is how many of the MaxConcurrent statements may be analysts'.
	AnalystQueries int
	MaxConcurrent  int           // statements at a time; further ones wait
	QueueWait      time.Duration // how long they wait before TOO_MANY_SIMULTANEOUS_QUERIES
	Logger         *slog.Logger
}

// idleThreads is how many threads the engine keeps for each statement that may run, which is what
// statements of two threads take. Each has three files of /proc open for as long as it lives. By
// itself the engine keeps 1,000, and with them, where 1,024 files may be open, all that it may
// open: after one burst nothing could be inserted any more.
const idleThreads = 4

// Server is the HTTP interface over one engine.
type Server struct {
	cfg      Config
	pool     *pool
	gate     *gate // before the pool, for analysts
	sessions *sessions
	headers  *headerCache
	settings map[string]string // name to default value
	denied   deniedNames
	// deniedKept is for users who are kept to databases.
	deniedKept deniedNames
	info       serverInfo
	queryIDs   atomic.Uint64
	boot       string // makes query ids unique over restarts
	http       *http.Server

	mu      sync.Mutex
	closing bool
	active  sync.WaitGroup // requests; Add under mu, never after closing
}

type serverInfo struct{ displayName, timezone, version string }

// New starts the engine on the data folder.
func New(cfg Config) (*Server, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("engine data folder: %w", err)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("engine data folder: %w", err)
	}
	args := append([]string{"--path=" + dir, "--max_thread_pool_free_size=" + strconv.Itoa(idleThreads*cfg.MaxConcurrent)}, cfg.EngineArgs...)
	p, err := newPool(cfg.Library, args, cfg.MaxConcurrent, 2*cfg.MaxConcurrent, cfg.QueueWait)
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	s := &Server{
		cfg: cfg, pool: p, gate: newGate(cfg.AnalystQueries, cfg.QueueWait), sessions: newSessions(), headers: newHeaderCache(),
		boot: fmt.Sprintf("%x-%x", time.Now().UnixNano(), os.Getpid()),
	}
	if err := errors.Join(s.learn(), s.createHomes()); err != nil {
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

// learn asks the engine what it knows.
func (s *Server) learn() error {
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
			return fmt.Errorf("read the engine's limit of memory: %w", err)
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return fmt.Errorf("read the engine's limit of memory: %w", err)
		}
		s.cfg.AnalystLimits.MaxMemory = memoryOfAnalyst(limit, s.cfg.AnalystQueries)
	}
	s.denied = newDeniedNames(strings.Fields(tables), strings.Fields(functions), false)
	s.deniedKept = newDeniedNames(strings.Fields(tables), strings.Fields(functions), true)
	return nil
}

// createHomes makes the databases that users are kept to, so that their statements have one to run in.
func (s *Server) createHomes() error {
	for _, user := range s.cfg.Users {
		for _, name := range user.Databases {
			if _, err := s.pool.query("CREATE DATABASE IF NOT EXISTS " + quoteIdentifier(name)); err != nil {
				return fmt.Errorf("create the database %s: %w", name, err)
			}
		}
	}
	return nil
}

// Version is the engine's ClickHouse version.
func (s *Server) Version() string { return s.info.version }

// ErrUnfinished says that statements go on although they were killed: the engine
// does not look while it analyses a statement, which takes it seconds for one of
// thousands of clauses. It was not stopped, and ends with the process.
var ErrUnfinished = errors.New("statements do not stop")

// killed is how long statements may go on after they were killed.
const killed = time.Second

// Serve answers requests until ctx ends, then lets running statements finish
// for the grace period, kills the rest and stops the engine, or returns
// ErrUnfinished.
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
			cancelBase() // kills what still runs
			s.http.Close()
		}
		cancel()
		err = <-failed
	}
	cancelBase()
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	if !s.finished() {
		return ErrUnfinished
	}
	s.sessions.close()
	s.pool.close()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// finished waits for the requests that are under way, and says whether all ended.
func (s *Server) finished() bool {
	ended := make(chan struct{})
	go func() { // ends with them, or with the process
		s.active.Wait()
		close(ended)
	}()
	timer := time.NewTimer(killed)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}
