package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"muster/deploy/bench/postgres"
	"muster/schemas/identity"
)

// postgresEnv makes this program the minimal API over the PostgreSQL server with the given DSN.
const postgresEnv = "MUSTER_BENCH_POSTGRES"

// postgresConnections is the size of the API's pool.
const postgresConnections = 16

// servePostgres serves the minimal API until standard input is closed.
func servePostgres(ctx context.Context, dsn string, out io.Writer) (err error) {
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s pool_max_conns=%d", dsn, postgresConnections))
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: postgres.Handler(pool), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintln(out, listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, server.Close())
	if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// besidePostgres is a PostgreSQL server with the answers, and the API in a separate process.
type besidePostgres struct {
	cluster *postgres.Cluster
	api     child
	base    string
}

// startPostgres starts PostgreSQL with the stored answers, and the API.
func (b *bench) startPostgres(ctx context.Context, out io.Writer) (_ *besidePostgres, err error) {
	p := &besidePostgres{}
	if p.cluster, err = postgres.Start(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	version, err := postgres.Version(ctx, p.cluster.DSN())
	if err != nil {
		return nil, err
	}
	for _, table := range []postgres.Table{postgres.CodehostAnswers, postgres.NetworkAnswers} {
		began := time.Now()
		loaded, err := b.loadPostgres(ctx, p.cluster.DSN(), table)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "  PostgreSQL %s, %s: %d answers loaded in %.1f s, %.1f MB\n",
			version, table, loaded.Rows, time.Since(began).Seconds(), float64(loaded.Bytes)/1e6)
	}
	if p.api, err = startSelf(ctx, postgresEnv, p.cluster.DSN()); err != nil {
		return nil, fmt.Errorf("start the API over PostgreSQL: %w", err)
	}
	p.base = "http://" + p.api.address
	return p, nil
}

// loadPostgres loads the answers in a file.
func (b *bench) loadPostgres(ctx context.Context, dsn string, table postgres.Table) (l postgres.Loaded, err error) {
	r, err := openAnswers(b.answersPath(table))
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return postgres.Load(ctx, dsn, table, func() (string, []byte, error) {
		name, answer, err := r.next()
		return identity.NormalizeUsername(name), answer, err
	})
}

// cpu returns the processor time of PostgreSQL's processes, the API and this program.
func (p *besidePostgres) cpu() (u usage, err error) {
	if u.engine, err = processTree(p.cluster.PID()); err != nil {
		return usage{}, err
	}
	if u.platform, _, err = process(p.api.pid); err != nil {
		return usage{}, err
	}
	u.bench, _, err = process(os.Getpid())
	return u, err
}

func (p *besidePostgres) close() error {
	var err error
	if p.api.stop != nil {
		err = p.api.stop()
	}
	return errors.Join(err, p.cluster.Close())
}
