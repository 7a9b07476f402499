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

// user is the database superuser. Only the owner of the socket directory, and root, can connect.
const user = "bench"

// serverSettings returns the settings that differ from Debian's defaults: the memory that an administrator would
// configure, and no durability, since the data is temporary; that only speeds up loading.
func serverSettings() []string {
	return []string{"shared_buffers=512MB", "fsync=off", "wal_level=minimal", "max_wal_senders=0",
		"max_wal_size=4GB", "jit=off"}
}

// Cluster is a running PostgreSQL server.
type Cluster struct {
	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start creates a cluster in a temporary directory and waits until it is ready. The caller must call Close.
func Start(ctx context.Context) (_ *Cluster, err error) {
	dir, err := os.MkdirTemp("", "muster-postgres-") // short: a socket's path has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("create the cluster's directory: %w", err)
	}
	c := &Cluster{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := handOver(dir); err != nil {
		return nil, fmt.Errorf("change the owner of the cluster's directory: %w", err)
	}
	programs, err := find(ctx, dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initialize := c.command(programs, "initdb", "--pgdata", data, "--username", user, "--auth", "trust",
		"--encoding", "UTF8",
		"--locale", "C", "--no-sync", "--no-instructions")
	out, err := initialize.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		return nil,
			fmt.Errorf(
				"initdb: %w; root runs it as an unprivileged user: set TMPDIR to a directory that every user can enter",
				err)
	}
	if err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := c.serve(ctx, programs, data); err != nil {
		return nil, err
	}
	return c, nil
}

// command runs a program in the cluster's directory: its user may have no access to the working directory.
func (c *Cluster) command(p program, name string, args ...string) *exec.Cmd {
	//nolint:noctx // the server outlives the context of its start
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = append(slices.Clone(p.env), "LC_ALL=C", "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = childAttributes()
	return cmd
}

// serve starts the server and waits until it is ready.
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
		_ = cmd.Wait() // the log is more specific than the status
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

// DSN returns the connection string. It has no password: other users cannot enter the socket directory.
func (c *Cluster) DSN() string { return "host=" + c.dir + " user=" + user + " dbname=postgres" }

// PID returns the process ID of the postmaster. All other processes of the cluster are its children.
func (c *Cluster) PID() int { return c.cmd.Process.Pid }

// Close stops the server and removes its directory.
func (c *Cluster) Close() error {
	var err error
	if c.cmd != nil {
		err = c.stop()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

func (c *Cluster) stop() error {
	// SIGINT ends sessions and stops in order, SIGQUIT stops immediately.
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

// Table is the name of a table of answers by username key.
type Table string

// The tables that Handler reads.
const (
	CodehostAnswers Table = "codehost_answers"
	NetworkAnswers  Table = "network_answers"
)

// Loaded is the content of a table.
type Loaded struct {
	Rows  int64
	Bytes int64 // on disk, including the index
}

// Load creates a table and fills it with COPY. next returns one key and answer per call, and io.EOF after the last;
// Load does not use the answer after the next call.
func Load(ctx context.Context, dsn string, table Table, next func() (key string, answer []byte, err error)) (l Loaded,
	err error) {
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
	// In one transaction: the content of a table created in it is not logged.
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
	// Maintenance that the server would otherwise run during the measurements.
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
		return "", fmt.Errorf("read the PostgreSQL version: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return version, err
}
