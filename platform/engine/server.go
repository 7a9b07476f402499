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

// OwnerAnalyst is the analyst with the service user's password. It may read every database.
const OwnerAnalyst = "analyst"

// ServerConfig configures the server of a data directory. The supervisor sends it to the child as JSON.
type ServerConfig struct {
	// Dir is the data directory.
	Dir string
	// Addr is the address to listen on; port 0 selects a free port.
	Addr string
	// AllowRemote permits an address that other machines can reach.
	AllowRemote bool
	// User and Password are the credentials of the service user, who has all rights. The password must not be empty.
	User, Password string
	// AnalystPassword is the password of the user "default"; empty: requests without credentials are the analyst's.
	// Analysts can only read tables.
	AnalystPassword string
	// AnalystDatabases are the databases that the user "default" may read; the first one is the default database.
	// Empty: all. The user "analyst" with the service user's password may read all databases, within the same limits.
	AnalystDatabases []string
	// NoAnalyst disables analysts.
	NoAnalyst bool
	// MaxConcurrent is the maximum number of concurrent statements; 0: 32, or four times the number of cores if that is
	// more. Further ones wait up to QueueWait; 0: 30 s.
	MaxConcurrent int
	QueueWait     time.Duration
	// AnalystTimeout, AnalystMemory (bytes), AnalystThreads and AnalystRows limit a query of an analyst; 0: 60 s, 2
	// GiB, 2 threads, 10,000,000 rows. The default memory is lower if AnalystQueries of them would exceed half of the
	// engine's limit, which is 90% of the machine's memory. The timeout includes the time in which the client reads
	// the result.
	AnalystTimeout time.Duration
	AnalystMemory  int64
	AnalystThreads int
	AnalystRows    int64
	// AnalystQueries is the maximum number of concurrent queries of analysts; 0: 4, or an eighth of MaxConcurrent if
	// that is more. Further ones wait up to QueueWait.
	AnalystQueries int
	// Grace is how long running statements may continue after the stop; 0: 3 s.
	Grace time.Duration
	// EngineArgs are further arguments of the engine, --name=value, such as --mark_cache_size=67108864. Files that they
	// name must be in Dir.
	EngineArgs []string
	// Library is the path of libchdb; empty: the result of EnsureLibrary.
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
		return errors.New("engine: data directory is missing")
	case c.User == "" || c.Password == "":
		return errors.New("engine: the service user requires a name and a password")
	case c.User == DefaultAnalyst || c.User == OwnerAnalyst:
		return fmt.Errorf("engine: %q is reserved for analysts, choose another name for the service user", c.User)
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("engine: address %q: %w", c.Addr, err)
	}
	addr, err := netip.ParseAddr(host)
	if !c.AllowRemote && host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return fmt.Errorf("engine: address %q is reachable from other machines, which must be allowed explicitly",
			c.Addr)
	}
	return nil
}

// wantedFiles is the recommended limit of open files of the engine's process: three for each thread, and one for each
// column file that is read or written, together some thousands under load.
const wantedFiles = 8192

// warnFileLimit logs a warning if the limit of open files is low. That is the hard limit: Go raises the soft limit to
// it when a process starts.
func warnFileLimit(logger *slog.Logger) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < wantedFiles {
		logger.Warn("engine: low limit of open files, under load statements may fail with \"Too many open files\"; "+
			"raise the hard limit (ulimit -Hn)", "files", limit.Cur, "wanted", wantedFiles)
	}
}

// serve runs the engine in this process and serves until ctx ends. The process must end then: the engine cannot be
// started a second time in one process. It should not do anything else, since a crash of the engine ends it. ready, if
// set, is called with the address once requests are served.
func serve(ctx context.Context, cfg ServerConfig, logger *slog.Logger, ready func(addr string)) error {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("engine: data directory: %w", err)
	}
	// A predecessor that is being killed may hold the lock briefly.
	lockCtx, cancel := context.WithTimeout(ctx, 20*time.Second)
	unlock, err := Lock(lockCtx, cfg.Dir)
	cancel()
	if err != nil {
		return fmt.Errorf("engine: the data directory is in use: %w", err)
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
	warnFileLimit(logger)
	library, err := chdb.Open(cfg.Library)
	if err != nil {
		return fmt.Errorf("engine: %w", engineError{err})
	}
	users := []facade.User{{Name: cfg.User, Password: cfg.Password}}
	if !cfg.NoAnalyst {
		def := facade.User{
			Name: DefaultAnalyst, Password: cfg.AnalystPassword, Analyst: true, Databases: cfg.AnalystDatabases,
		}
		users = append(users, def, facade.User{Name: OwnerAnalyst, Password: cfg.Password, Analyst: true})
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
		denied := findDeniedLink(filepath.Join(cfg.Dir, "clickhouse"))
		return fmt.Errorf("engine: %w", engineError{errors.Join(err, denied)})
	}
	logger.Info("engine: serving",
		"addr", listener.Addr().String(), "version", server.Version(), "library", library.Version())
	if ready != nil {
		ready(listener.Addr().String())
	}
	background, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := setTopdirFlags(background, filepath.Join(cfg.Dir, "clickhouse", "store")); err != nil {
			logger.Warn("engine: cannot set the ext4 topdir flag, inserts may be slow", "error", err)
		}
	})
	err = server.Serve(ctx, listener, cfg.Grace)
	stop()
	wg.Wait()
	if errors.Is(err, facade.ErrUnfinished) {
		logger.Warn("engine: killed statements are still running, they end with this process")
		locked = false // the directory is in use until then
		return nil
	}
	if err != nil {
		return fmt.Errorf("engine: serve: %w", err)
	}
	return nil
}
