package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"muster/deploy/status/page"
	"muster/deploy/suppression"
	discovery "muster/discovery-worker"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/service"
	"muster/projector"
	queryapi "muster/query-api"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// surroundings are what a service run alone is built on.
type surroundings struct {
	tel   *service.Telemetry
	kafka bus.Config
	// store is how ClickHouse is reached.
	store clickhouse.Config
	addr  string
	// dataDir holds what a replica must not lose when it is killed.
	dataDir string
	getenv  func(string) string
	secret  *service.RootSecret
	// webhookAllow is --webhook-allow.
	webhookAllow []string
	// searchMemory is --search-memory.
	searchMemory int
	// eraseWithin is --erase-within.
	eraseWithin time.Duration
	// noState is --no-state.
	noState bool
	// erased says who was erased.
	erased *suppression.Follower
}

// runnable is a service that runs alone.
type runnable struct {
	run   func(context.Context) error
	ready service.Check
	close func() error
	// conn is its connection, if it has one: the status page shows what the tables hold.
	conn driver.Conn
	// stateDir is ingest's.
	stateDir string
	// flushUsage is query-api's, on the admin address.
	flushUsage http.HandlerFunc
}

// services are the services that `muster run` knows.
func services() []struct {
	name, about string
	build       func(context.Context, surroundings) (runnable, error)
} {
	return []struct {
		name, about string
		build       func(context.Context, surroundings) (runnable, error)
	}{
		{"projector", "keeps the read models; needs Kafka and ClickHouse", buildProjector},
		{"query-api", "serves /v1 on --addr; needs Kafka and ClickHouse", buildQueryAPI},
		{"ingest", "takes records on --addr; needs Kafka", buildIngest},
		{"discovery-worker", "finds people on other platforms; needs Kafka and ClickHouse", buildDiscovery},
		{"webhook-sender", "delivers webhooks; needs Kafka", buildWebhook},
	}
}

func (c *command) runCommand() *cobra.Command {
	var names, lines []string
	for _, s := range services() {
		names = append(names, s.name)
		lines = append(lines, fmt.Sprintf("  %-17s %s", s.name, s.about))
	}
	var addr, adminAddr string
	var allow, adminHosts []string
	var memory int
	var within time.Duration
	var noState bool
	cmd := &cobra.Command{
		Use:   "run SERVICE",
		Short: "Run one service, as a container does",
		Long: `Runs one service against servers of your own: KAFKA_BROKERS (with KAFKA_TLS and KAFKA_SASL_...) and
CLICKHOUSE_DSN (servers that want certificates: "muster up --help"), with the root secret MUSTER_SECRET_KEY, which is the same for all services and for the commands
beside them ("openssl rand -hex 32" makes one). Any number of replicas of a service may run. Run "muster migrate"
first. KAFKA_SESSION_TIMEOUT, 10s by default, is how long the partitions of a replica that was killed rest before
another has them.

Replicas of query-api share limits and credits through Redis: give all of them the same REDIS_URL, and each a data
folder of its own (--data-dir) that outlives its process. With Sentinels that is
redis://sentinel:26379/0?master_name=NAME&addr=sentinel2:26379&password=... (deploy/docs/accounts.md, "Sentinels").

ingest remembers in its data folder what was pushed, and publishes nothing that is known or older. "muster ingest"
on the same folder shares that; on another one it needs --again where both bring the same people or companies.
Replicas of ingest that have no volume run with --no-state.

Services:
` + strings.Join(lines, "\n"),
		Example: `  export KAFKA_BROKERS=kafka:9092 CLICKHOUSE_DSN=http://clickhouse:8123/muster MUSTER_SECRET_KEY=...
  muster run query-api --addr 0.0.0.0:8080`,
		GroupID:   "run",
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			for _, s := range services() {
				if s.name != args[0] {
					continue
				}
				around, err := c.surroundings(ctx, s.name, addr)
				if err != nil {
					return err
				}
				around.webhookAllow, around.searchMemory, around.eraseWithin, around.noState = allow, memory, within, noState
				unit, err := s.build(ctx, around)
				if err != nil {
					return err
				}
				err = runAlone(ctx, s.name, unit, around, adminAddr, adminHosts)
				logStopped(ctx, around.tel.Logger, err)
				return err
			}
			return fmt.Errorf("there is no service %q; the services are %s", args[0], strings.Join(names, ", "))
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "address to serve on, of query-api and ingest")
	cmd.Flags().BoolVar(&noState, "no-state", false, "of ingest: publish all that is pushed, and remember nothing of it")
	addAllowFlag(cmd.Flags(), &allow)
	addSearchMemoryFlag(cmd.Flags(), &memory)
	addWithinFlag(cmd.Flags(), &within)
	cmd.Flags().StringVar(&adminAddr, "admin-addr", "127.0.0.1:8082", "address of the status page, metrics, health and profiles")
	c.addAdminHostsFlag(cmd.Flags(), &adminHosts)
	return cmd
}

// adminHostsEnv is the default of --admin-hosts.
const adminHostsEnv = "MUSTER_ADMIN_HOSTS"

func (c *command) addAdminHostsFlag(flags *pflag.FlagSet, hosts *[]string) {
	flags.StringSliceVar(hosts, "admin-hosts", nil,
		"names by which the admin address is called, beside localhost and IP addresses; *.DOMAIN for all below it ("+
			adminHostsEnv+")")
}

func (c *command) surroundings(ctx context.Context, name, addr string) (surroundings, error) {
	tel, err := c.telemetry(ctx, name)
	if err != nil {
		return surroundings{}, err
	}
	kafka, err := bus.ConfigFromEnv(c.getenv)
	if err != nil {
		return surroundings{}, err
	}
	if len(kafka.Brokers) == 0 {
		return surroundings{}, errors.New("KAFKA_BROKERS is empty: name the brokers, or run everything with `muster up`")
	}
	kafka.Logger = tel.Logger
	store, err := clickhouse.ConfigFromEnv(c.getenv)
	if err != nil {
		return surroundings{}, err
	}
	store.ClientName, store.Logger = "muster "+name, tel.Logger
	secret, err := c.rootSecret()
	if err != nil {
		return surroundings{}, err
	}
	erased, err := suppression.New(secret, kafka, tel.Logger)
	if err != nil {
		return surroundings{}, err
	}
	return surroundings{
		tel: tel, kafka: kafka, store: store, addr: addr, dataDir: c.dataDir, getenv: c.getenv, secret: secret, erased: erased,
	}, nil
}

// connect opens as many connections to the read models, 0: as many as is usual.
func (s surroundings) connect(ctx context.Context, connections int) (driver.Conn, error) {
	cfg := s.store
	cfg.MaxOpenConns = connections
	return clickhouse.Open(ctx, cfg)
}

// flush sends the spans that are still buffered, in the second that a stop has for it.
func flush(ctx context.Context, tel *service.Telemetry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := tel.Shutdown(ctx); err != nil {
		tel.Logger.WarnContext(ctx, "the last spans were not sent", "error", err)
	}
}

// runAlone runs a service with an admin server beside it.
func runAlone(ctx context.Context, name string, unit runnable, around surroundings, adminAddr string,
	adminHosts []string,
) (err error) {
	defer flush(ctx, around.tel)
	if unit.close != nil {
		defer func() { err = errors.Join(err, unit.close()) }()
	}
	admin, err := service.NewAdmin(ctx, service.AdminConfig{
		Addr: adminAddr, Hosts: adminHosts, Logger: around.tel.Logger, Registry: around.tel.Registry,
	})
	if err != nil {
		return fmt.Errorf("listen on the admin address (another one: --admin-addr): %w", err)
	}
	page.New(page.Source{
		Version: version(), Service: name, Readiness: admin.Readiness, Gatherer: around.tel.Registry, Kafka: around.kafka, ClickHouse: unit.conn,
		StateDir: unit.stateDir, Now: time.Now,
	}).Add(admin)
	if unit.flushUsage != nil {
		admin.Handle("POST "+queryapi.FlushUsagePath, unit.flushUsage)
	}
	// The service runs once the set is there: until then that is what is waited for.
	ready := func(ctx context.Context) error {
		if err := around.erased.Ready(ctx); err != nil {
			return err
		}
		return unit.ready(ctx)
	}
	group := service.NewGroup(service.GroupConfig{Logger: around.tel.Logger})
	err = errors.Join(
		admin.AddCheck(name, ready),
		group.Add(service.Unit{Name: "admin", Run: admin.Run}),
		group.Add(service.Unit{
			Name: "suppression", Run: around.erased.Run, Ready: service.Poll(around.erased.Ready, 200*time.Millisecond), StartTimeout: 10 * time.Minute,
		}),
		group.Add(service.Unit{
			Name: name, Needs: []string{"admin", "suppression"}, Run: unit.run, StartTimeout: 5 * time.Minute,
			Ready: func(ctx context.Context) error {
				err := service.Poll(unit.ready, 200*time.Millisecond)(ctx)
				if err == nil {
					around.tel.Logger.InfoContext(ctx, "ready", "service", name, "admin", admin.URL())
				}
				return err
			},
		}),
	)
	if err != nil {
		return errors.Join(err, admin.Close())
	}
	return group.Run(ctx)
}

func buildProjector(ctx context.Context, s surroundings) (runnable, error) {
	conn, err := s.connect(ctx, 0)
	if err != nil {
		return runnable{}, err
	}
	p, err := projector.New(projector.Config{Kafka: s.kafka}, projector.Deps{
		Conn: conn, Logger: s.tel.Logger, Registerer: s.tel.Registry, Tracer: s.tel.Tracing, Suppressed: s.erased.Set(),
	})
	if err != nil {
		return runnable{}, errors.Join(err, conn.Close())
	}
	eraser, err := projector.NewEraser(projector.EraserConfig{Kafka: s.kafka, Within: s.eraseWithin}, projector.EraserDeps{
		Conn: conn, Suppressed: s.erased.Set(), Logger: s.tel.Logger,
	})
	if err != nil {
		return runnable{}, errors.Join(err, conn.Close())
	}
	run := func(ctx context.Context) error {
		running, ctx := errgroup.WithContext(ctx)
		running.Go(func() error { return p.Run(ctx) })
		running.Go(func() error { return eraser.Run(ctx) })
		running.Go(func() error {
			projector.KeepComplete(ctx, conn, s.tel.Logger)
			return nil
		})
		return running.Wait()
	}
	return runnable{run: run, ready: p.Check, close: conn.Close, conn: conn}, nil
}

func addSearchMemoryFlag(flags *pflag.FlagSet, mebibytes *int) {
	flags.IntVar(mebibytes, "search-memory", queryapi.DefaultSearchMemory,
		"MiB of memory for what search keeps of who has which words, of query-api: 32 bytes for each person are the least, more make fewer searches slow; 0 keeps nothing and ranks by SQL")
}

func buildQueryAPI(ctx context.Context, s surroundings) (runnable, error) {
	allow, err := parseAllow(s.webhookAllow)
	if err != nil {
		return runnable{}, err
	}
	cfg := queryapi.Config{Addr: s.addr, DataDir: filepath.Join(s.dataDir, "query-api"), WebhookAllow: allow, SearchPostings: queryapi.PostingsBytes(s.searchMemory)}.WithDefaults()
	conn, err := s.connect(ctx, cfg.Connections())
	if err != nil {
		return runnable{}, err
	}
	deps := queryapi.Deps{
		ClickHouse: conn, Bus: s.kafka, Secret: s.secret, Logger: s.tel.Logger, Registerer: s.tel.Registry, Tracing: s.tel.Tracing,
		Suppressed: s.erased.Set(),
	}
	closeAll := conn.Close
	if s.getenv(queryapi.RedisEnv) != "" {
		if deps.Redis, err = queryapi.OpenRedis(s.getenv); err != nil {
			return runnable{}, errors.Join(err, conn.Close())
		}
		closeAll = func() error { return errors.Join(deps.Redis.Close(), conn.Close()) }
	}
	api, err := queryapi.New(ctx, cfg, deps)
	if err != nil {
		return runnable{}, errors.Join(err, closeAll())
	}
	return runnable{run: api.Run, ready: api.Ready, close: closeAll, conn: conn, flushUsage: api.FlushUsage}, nil
}

func buildIngest(ctx context.Context, s surroundings) (runnable, error) {
	// Other ways in beside it, with data folders of their own, are likely: it publishes no version alone.
	cfg := ingest.Config{Bus: s.kafka, Addr: s.addr, Token: s.getenv(ingest.OperatorTokenEnv), Whole: true}
	if !s.noState {
		cfg.StateDir = ingest.StateDirOf(s.dataDir)
	}
	i, err := ingest.New(ctx, cfg, ingest.Deps{Logger: s.tel.Logger, Registerer: s.tel.Registry, Suppressed: s.erased.Set()})
	if err != nil {
		return runnable{}, err
	}
	return runnable{run: i.Run, ready: i.Ready, stateDir: ingest.StateDirOf(s.dataDir)}, nil
}

func buildDiscovery(ctx context.Context, s surroundings) (runnable, error) {
	providers, err := discovery.ProvidersFromEnv(s.getenv)
	if err != nil {
		return runnable{}, err
	}
	conn, err := s.connect(ctx, 0)
	if err != nil {
		return runnable{}, err
	}
	w, err := discovery.New(discovery.Config{Bus: s.kafka, Providers: providers}, discovery.Deps{ClickHouse: conn, Logger: s.tel.Logger, Registerer: s.tel.Registry, Suppressed: s.erased.Set()}) //nolint:contextcheck // Close ends its reads, not a context
	if err != nil {
		return runnable{}, errors.Join(err, conn.Close())
	}
	return runnable{run: w.Run, ready: w.Ready, close: conn.Close, conn: conn}, nil
}

func buildWebhook(_ context.Context, s surroundings) (runnable, error) {
	allow, err := parseAllow(s.webhookAllow)
	if err != nil {
		return runnable{}, err
	}
	key, err := s.secret.Key(event.WebhookKeyName, event.WebhookKeySize)
	if err != nil {
		return runnable{}, err
	}
	w, err := webhook.New(webhook.Config{Bus: s.kafka, Key: key, Allow: allow}, webhook.Deps{Logger: s.tel.Logger, Registerer: s.tel.Registry, Suppressed: s.erased.Set()})
	if err != nil {
		return runnable{}, err
	}
	return runnable{run: w.Run, ready: w.Ready}, nil
}
