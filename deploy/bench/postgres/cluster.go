package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	pollInterval = 20 * time.Millisecond
)

// user is the database's superuser. Only the owner of the socket's folder, and root, reach it.
const user = "bench"

// serverSettings differ from Debian's defaults as follows: memory as an administrator would give it, and no care for
// data that is thrown away, which matters to loading alone.
func serverSettings() []string {
	return []string{"shared_buffers=512MB", "fsync=off", "wal_level=minimal", "max_wal_senders=0", "max_wal_size=4GB", "jit=off"}
}

// Cluster is a running PostgreSQL server.
type Cluster struct {
	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start makes a cluster in a temporary folder and returns once it answers. Close must be called.
func Start(ctx context.Context) (_ *Cluster, err error) {
	dir, err := os.MkdirTemp("", "muster-postgres-") // short: a socket's path has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w", err)
	}
	c := &Cluster{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := handOver(dir); err != nil {
		return nil, fmt.Errorf("hand the cluster's folder over: %w", err)
	}
	programs, err := find(ctx, dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initialize := c.command(programs, "initdb", "--pgdata", data, "--username", user, "--auth", "trust", "--encoding", "UTF8",
		"--locale", "C", "--no-sync", "--no-instructions")
	out, err := initialize.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("initdb: %w; as root it runs as an unprivileged user: set TMPDIR to a folder that every user can enter", err)
	}
	if err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := c.serve(ctx, programs, data); err != nil {
		return nil, err
	}
	return c, nil
}

// command runs one of the programs in the cluster's folder: that of this program may be closed to its user.
func (c *Cluster) command(p program, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...) //nolint:noctx // the server outlives the context of its start
	cmd.Dir = c.dir
	cmd.Env = append(slices.Clone(p.env), "LC_ALL=C", "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = childAttributes()
	return cmd
}

// serve starts the server and waits until it answers.
func (c *Cluster) serve(ctx context.Context, p program, data string) error {
	args := []string{"-D", data, "-k", c.dir, "-h", ""}
	for _, s := range serverSettings() {
		args = append(args, "-c", s)
	}
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close()
	cmd := c.command(p, "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says more than its status
		close(exited)
	}()
	c.cmd, c.exited = cmd, exited
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-time.After(pollInterval):
		case <-exited:
			return fmt.Errorf("postgres exited while starting:\n%s", c.readLog())
		case <-ctx.Done():
			return fmt.Errorf("postgres is not ready: %w\n%s", err, c.readLog())
		}
	}
}

// readLog returns the end of the server's log.
func (c *Cluster) readLog() []byte {
	text, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-4096):]
}

// DSN returns how to connect. It holds no password: the folder of the socket is closed to others.
func (c *Cluster) DSN() string { return "host=" + c.dir + " user=" + user + " dbname=postgres" }

// PID returns the postmaster's process id. All other processes of the cluster are its children.
func (c *Cluster) PID() int { return c.cmd.Process.Pid }

// Close stops the server and removes its folder.
func (c *Cluster) Close() error {
	var err error
	if c.cmd != nil {
		err = c.stop()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

func (c *Cluster) stop() error {
	// SIGINT ends sessions and stops in order, SIGQUIT stops at once.
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGQUIT} {
		if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop postgres: %w", err)
		}
		select {
		case <-c.exited:
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return errors.New("stop postgres: timed out")
}

// Table holds answers by the key of a username.
type Table string

// The tables that Handler reads.
const (
	CodehostAnswers Table = "codehost_answers"
	NetworkAnswers  Table = "network_answers"
)

// Loaded is what a table holds.
type Loaded struct {
	Rows  int64
	Bytes int64 // on disk, with its index
}

// Load creates a table and fills it with COPY. next returns one key and answer a call, and io.EOF after the last; Load is
// done with the answer at the next call.
func Load(ctx context.Context, dsn string, table Table, next func() (key string, answer []byte, err error)) (l Loaded, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return l, fmt.Errorf("load %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	source := pgx.CopyFromFunc(func() ([]any, error) {
		key, answer, err := next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return []any{key, answer}, err
	})
	name := pgx.Identifier{string(table)}
	// In one transaction: what fills a table that it made is not logged.
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, "CREATE TABLE "+name.Sanitize()+" (key text, answer jsonb NOT NULL)"); err != nil {
			return err
		}
		if l.Rows, err = tx.CopyFrom(ctx, name, []string{"key", "answer"}, source); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "ALTER TABLE "+name.Sanitize()+" ADD PRIMARY KEY (key)")
		return err
	})
	if err != nil {
		return l, fmt.Errorf("load %s: %w", table, err)
	}
	// Maintenance that the server would do by itself later, while it is measured.
	if _, err := conn.Exec(ctx, "VACUUM (FREEZE, ANALYZE) "+name.Sanitize()); err != nil {
		return l, fmt.Errorf("load %s: %w", table, err)
	}
	err = conn.QueryRow(ctx, "SELECT pg_total_relation_size($1::text::regclass)", string(table)).Scan(&l.Bytes)
	if err != nil {
		return l, fmt.Errorf("load %s: %w", table, err)
	}
	return l, nil
}

// Version returns the server's version.
func Version(ctx context.Context, dsn string) (version string, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return version, err
}
