package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/freeport"
	"muster/projector"
	"muster/schemas/event"
)

const enginePassword = "chaos"

// store is the engine, a process that all seeds share, with the gateway and the proxy in front of it.
type store struct {
	addr    string // of the engine itself
	process *daemon
	gateway *gateway
	proxy   *toxiproxy.Proxy
	admin   driver.Conn // connected to the engine directly
}

func openStore(ctx context.Context, muster, dir string, toxics *toxiproxy.ApiServer) (_ *store, err error) {
	addrs, err := freeport.Addrs(ctx, 1)
	if err != nil {
		return nil, err
	}
	addr := addrs[0]
	engine := program{path: muster, env: environment("MUSTER_ENGINE_PASSWORD=" + enginePassword)}
	s := &store{addr: addr, process: engine.keep(ctx, "engine", "engine", "--data-dir", dir, "--clickhouse-addr", addr)}
	defer func() {
		if err != nil {
			err = errors.Join(err, errors.New(s.process.log()), s.close(ctx))
		}
	}()
	if s.admin, err = clickhouse.Open(ctx,
		clickhouse.Config{DSN: s.dsn(addr, "default"), MaxOpenConns: 2}); err != nil {
		return nil, err
	}
	if err := poll(ctx, time.Minute, "the engine responds",
		func() (bool, error) { return s.admin.Ping(ctx) == nil, nil }); err != nil {
		return nil, err
	}
	if s.gateway, err = newGateway(ctx, addr); err != nil {
		return nil, err
	}
	s.proxy = toxiproxy.NewProxy(toxics, "clickhouse", "127.0.0.1:0", s.gateway.addr)
	return s, errors.Join(s.migrate(ctx, muster), s.proxy.Start())
}

func (s *store) dsn(addr, database string) string {
	return "http://muster:" + enginePassword + "@" + addr + "/" + database
}

func (s *store) close(ctx context.Context) error {
	var errs []error
	if s.proxy != nil {
		s.proxy.Stop()
	}
	if s.gateway != nil {
		errs = append(errs, s.gateway.close(ctx))
	}
	if s.admin != nil {
		errs = append(errs, s.admin.Close())
	}
	return errors.Join(append(errs, s.process.stop())...)
}

// rig is the pipeline of one seed.
type rig struct {
	seed     uint64
	dir      string
	world    world
	store    *store
	database string
	server   kafkaServer
	kafka    bus.Config
	proxy    *toxiproxy.Proxy // in front of the broker
	muster   program          // configured with the proxies

	projectors []*daemon

	mu        sync.Mutex
	ingesting int // process ID of the ingest run, or 0
	runs      int
}

func newRig(ctx context.Context, seed uint64, apache bool, muster, dir string, s *store,
	toxics *toxiproxy.ApiServer) (_ *rig, err error) {
	const people = 150
	r := &rig{seed: seed, dir: dir, world: newWorld(seed, people), store: s, database: fmt.Sprintf("seed_%d", seed)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	// The proxy's address must be known before the broker starts, which advertises it to clients, and the broker's
	// before the proxy starts.
	free, err := freeport.Addrs(ctx, 1)
	if err != nil {
		return nil, err
	}
	upstream := free[0]
	r.proxy = toxiproxy.NewProxy(toxics, "kafka", "127.0.0.1:0", upstream)
	if err := r.proxy.Start(); err != nil {
		return nil, err
	}
	if apache {
		r.server, err = startApache(ctx, upstream, r.proxy.Listen)
	} else {
		r.server, err = startEmbedded(ctx, filepath.Join(dir, "kafka"), upstream, r.proxy.Listen)
	}
	if err != nil {
		return nil, err
	}
	r.kafka = bus.Config{Brokers: []string{r.proxy.Listen}, ClientID: "chaos"}
	var topics []bus.Topic
	for _, t := range event.Topics() {
		topics = append(topics, bus.Topic{Name: t.Name, Partitions: t.Partitions, Replication: 1, Config: t.Config()})
	}
	if err := bus.EnsureTopics(ctx, r.kafka, topics); err != nil {
		return nil, err
	}
	r.muster = program{path: muster, env: environment(
		"KAFKA_BROKERS="+r.proxy.Listen, "KAFKA_SESSION_TIMEOUT=4s",
		"CLICKHOUSE_DSN="+s.dsn(s.proxy.Listen, r.database),
		"MUSTER_SECRET_KEY="+strings.Repeat("chaos", 8))}
	if err := s.tables(ctx, r.database); err != nil {
		return nil, err
	}
	r.startProjector(ctx)
	return r, nil
}

func (r *rig) startProjector(ctx context.Context) {
	name := "projector " + strconv.Itoa(len(r.projectors)+1)
	r.projectors = append(r.projectors, r.muster.keep(ctx, name, "run", "projector", "--admin-addr", "127.0.0.1:0",
		"--data-dir", filepath.Join(r.dir, "projector")))
}

// stopProjectors stops all but the first keep projectors.
func (r *rig) stopProjectors(keep int) error {
	var errs []error
	for _, p := range r.projectors[keep:] {
		errs = append(errs, p.stop())
	}
	r.projectors = r.projectors[:keep]
	return errors.Join(errs...)
}

func (r *rig) killProjectors() {
	for _, p := range r.projectors {
		p.kill()
	}
}

// feed ingests one piece, with as many runs as it takes.
func (r *rig) feed(ctx context.Context, number int) error {
	p := r.world.pieces[number]
	path := filepath.Join(r.dir, fmt.Sprintf("%s-%d.ndjson", p.kind, number))
	if err := os.WriteFile(path, p.lines, 0o600); err != nil {
		return err
	}
	for {
		status, out, err := r.muster.run(ctx, r.ingests, "ingest", string(p.kind), path, "--data-dir",
			filepath.Join(r.dir, "ingest"))
		r.ingests(0)
		switch {
		case err != nil:
			return err
		case status == 0 || status == 1: // 1 if poison was rejected
			return nil
		case !wait(ctx, 200*time.Millisecond):
			return fmt.Errorf("ingest %s: exit status %d: %s: %w", path, status, out, context.Cause(ctx))
		}
	}
}

// ingests stores the process ID of the ingest run.
func (r *rig) ingests(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ingesting = pid
	if pid != 0 {
		r.runs++
	}
}

func (r *rig) ingestPID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ingesting
}

// drained waits until everything that was published is projected.
func (r *rig) drained(ctx context.Context, group string, within time.Duration) error {
	topics := projector.Topics()
	return poll(ctx, within, "everything published is projected", func() (bool, error) {
		lags, err := bus.Lag(ctx, r.kafka, group, topics)
		if err != nil {
			return false, nil //nolint:nilerr // retried until the timeout
		}
		for _, l := range lags {
			if l.Lag > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

func (r *rig) close() error {
	errs := []error{r.stopProjectors(0)}
	if r.server != nil {
		errs = append(errs, r.server.close())
	}
	if r.proxy != nil {
		r.proxy.Stop()
	}
	return errors.Join(errs...)
}

// logs returns the end of the processes' output.
func (r *rig) logs() string {
	var b strings.Builder
	for _, d := range append([]*daemon{r.store.process}, r.projectors...) {
		b.WriteString(d.log())
	}
	return b.String()
}

// poll calls done until it returns true or an error, or the time is up.
func poll(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s: not within %s", what, within))
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if !wait(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// newToxics returns Toxiproxy without its HTTP interface.
func newToxics() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
}
