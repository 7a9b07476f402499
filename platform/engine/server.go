package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"muster/platform/engine/internal/chdb"
	"muster/platform/engine/internal/facade"
)

// DefaultAnalyst is the user of requests without credentials.
const DefaultAnalyst = "default"

// OwnerAnalyst is the analyst with the service user's password, who may read every database.
const OwnerAnalyst = "analyst"

// ServerConfig says how to serve one data folder. It travels from supervisor to
// child as JSON.
type ServerConfig struct {
	// Dir is the data folder.
	Dir string
	// Addr is the address to listen on; port 0: a free one.
	Addr string
	// AllowRemote permits an address that other machines can reach.
	AllowRemote bool
	// User and Password are the service user's, who may do everything. The
	// password must not be empty.
	User, Password string
	// AnalystPassword is what the user "default" must give; empty: requests
	// without credentials are the analyst's. Analysts can read tables, nothing
	// else.
	AnalystPassword string
	// AnalystDatabases are the databases that the user "default" may read, the first by default; empty: all. Then
	// the user "analyst" with the service user's password reads all, within the same limits.
	AnalystDatabases []string
	// NoAnalyst shuts the analyst out.
	NoAnalyst bool
	// MaxConcurrent bounds the statements that run at a time; 0: 32, or four
	// times the cores if that is more. Further ones wait up to QueueWait; 0: 30 s.
	MaxConcurrent int
	QueueWait     time.Duration
	// AnalystTimeout, AnalystMemory (bytes), AnalystThreads and AnalystRows bound
	// an analyst's query; 0: 60 s, 2 GiB, 2 threads, 10,000,000 rows. The memory is
	// less by default where AnalystQueries of them would have more than half of the
	// engine's, which is nine tenths of the machine's. The time is that of the
	// client's reading, too.
	AnalystTimeout time.Duration
	AnalystMemory  int64
	AnalystThreads int
	AnalystRows    int64
	// AnalystQueries is how many queries of analysts run at a time; 0: 4, or an
	// eighth of MaxConcurrent if that is more. Further ones wait up to QueueWait.
	AnalystQueries int
	// Grace is how long running statements may go on after the stop; 0: 3 s.
	Grace time.Duration
	// EngineArgs are further arguments of the engine, --name=value, such as
	// --mark_cache_size=67108864. Files that they name lie in Dir.
	EngineArgs []string
	// Library is the path of libchdb; empty: EnsureLibrary finds it.
	Library string
}

func (c *ServerConfig) setDefaults() {
	set := func(target *time.Duration, value time.Duration) {
		if *target == 0 {
			*target = value
		}
	}
	set(&c.QueueWait, 30*time.Second)
	set(&c.AnalystTimeout, time.Minute)
	set(&c.Grace, 3*time.Second)
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = max(32, 4*runtime.GOMAXPROCS(0))
	}
	if c.AnalystQueries == 0 {
		c.AnalystQueries = max(4, c.MaxConcurrent/8)
	}
	if c.AnalystThreads == 0 {
		c.AnalystThreads = 2
	}
	if c.AnalystRows == 0 {
		c.AnalystRows = 10_000_000
	}
}

func (c *ServerConfig) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("engine: no data folder is given")
	case c.User == "" || c.Password == "":
		return errors.New("engine: the service user needs a name and a password")
	case c.User == DefaultAnalyst || c.User == OwnerAnalyst:
		return fmt.Errorf("engine: the service user cannot be called %q, which is the analyst", c.User)
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("engine: address %q: %w", c.Addr, err)
	}
	if addr, err := netip.ParseAddr(host); !c.AllowRemote && host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return fmt.Errorf("engine: address %q can be reached from other machines, which has to be allowed explicitly", c.Addr)
	}
	return nil
}

// wantedFiles is how many files the engine's process should be able to have open: three for each
// of its threads, and one for each file of a column that is read or written, together some
// thousands under load.
const wantedFiles = 8192

// warnOfFewFiles tells of a limit that statements may run into. It is the hard one: Go raises the
// soft one to it when a process starts.
func warnOfFewFiles(logger *slog.Logger) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < wantedFiles {
		logger.Warn("engine: this process may have few files open: under load statements fail with \"Too many open files\"; raise its hard limit (ulimit -Hn)",
			"files", limit.Cur, "wanted", wantedFiles)
	}
}

// serve runs the engine in this process and serves until ctx ends. The process
// should end then, and do nothing else: the engine's crashes are its own, and it cannot be
// started a second time in one process. ready, if set, is told the address once
// requests are answered.
func serve(ctx context.Context, cfg ServerConfig, logger *slog.Logger, ready func(addr string)) error {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("engine: data folder: %w", err)
	}
	// A predecessor that is being killed may hold the folder for a moment.
	lockCtx, cancel := context.WithTimeout(ctx, 20*time.Second)
	unlock, err := Lock(lockCtx, cfg.Dir)
	cancel()
	if err != nil {
		return fmt.Errorf("engine: the data folder is in use: %w", err)
	}
	locked := true
	defer func() {
		if locked {
			unlock()
		}
	}()
	if cfg.Library == "" {
		if cfg.Library, err = EnsureLibrary(ctx, LibraryConfig{Logger: logger}); err != nil {
			return err
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("engine: listen: %w", err)
	}
	defer listener.Close()
	if err := closeStdin(); err != nil {
		return err
	}
	warnOfFewFiles(logger)
	library, err := chdb.Open(cfg.Library)
	if err != nil {
		return fmt.Errorf("engine: %w", engineError{err})
	}
	users := []facade.User{{Name: cfg.User, Password: cfg.Password}}
	if !cfg.NoAnalyst {
		users = append(users,
			facade.User{Name: DefaultAnalyst, Password: cfg.AnalystPassword, Analyst: true, Databases: cfg.AnalystDatabases},
			facade.User{Name: OwnerAnalyst, Password: cfg.Password, Analyst: true})
	}
	server, err := facade.New(facade.Config{
		Library: library, Dir: filepath.Join(cfg.Dir, "clickhouse"), Users: users, EngineArgs: cfg.EngineArgs,
		AnalystLimits: facade.Limits{
			MaxExecutionTime: cfg.AnalystTimeout, MaxMemory: cfg.AnalystMemory,
			MaxThreads: cfg.AnalystThreads, MaxResultRows: cfg.AnalystRows,
		},
		AnalystQueries: cfg.AnalystQueries, MaxConcurrent: cfg.MaxConcurrent, QueueWait: cfg.QueueWait, Logger: logger,
	})
	if err != nil {
		return fmt.Errorf("engine: %w", engineError{errors.Join(err, notOpened(filepath.Join(cfg.Dir, "clickhouse")))})
	}
	logger.Info("engine: serving", "addr", listener.Addr().String(), "version", server.Version(), "library", library.Version())
	if ready != nil {
		ready(listener.Addr().String())
	}
	beside, stop := context.WithCancel(ctx)
	var tending sync.WaitGroup
	tending.Go(func() {
		if err := spreadParts(beside, filepath.Join(cfg.Dir, "clickhouse", "store")); err != nil {
			logger.Warn("engine: inserts take longer on this file system than they need to", "error", err)
		}
	})
	err = server.Serve(ctx, listener, cfg.Grace)
	stop()
	tending.Wait()
	if errors.Is(err, facade.ErrUnfinished) {
		logger.Warn("engine: killed statements go on; they end with this process")
		locked = false // the folder is in use until then
		return nil
	}
	if err != nil {
		return fmt.Errorf("engine: serve: %w", err)
	}
	return nil
}
