package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"muster/deploy/docs"
	"muster/deploy/erasure"
	"muster/deploy/internal/analyst"
	"muster/deploy/internal/searchcluster"
	"muster/deploy/internal/status/page"
	discovery "muster/discovery-worker"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/opensearch"
	"muster/platform/service"
	"muster/projector"
	erasing "muster/projector/erasure"
	"muster/projector/migrations"
	"muster/projector/project"
	queryapi "muster/query-api"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// environment is what a service that runs alone depends on.
type environment struct {
	tel   *service.Telemetry
	kafka bus.Config
	store clickhouse.Config
	addr  string
	// dataDir holds state that a replica must not lose when it is killed.
	dataDir           string
	getenv            func(string) string
	secret            *service.RootSecret
	webhookAllow      []string      // --webhook-allow
	origins           []string      // --cors-origin
	searchIndexMemory searchMemory  // --search-index-memory
	erasureDeadline   time.Duration // --erasure-deadline
	stateless         bool          // --stateless
	// erased holds the suppression set.
	erased *erasure.Follower
}

// runnable is a service that `muster run` runs.
type runnable struct {
	run   func(context.Context) error
	ready service.Check
	close func() error
	// conn is the ClickHouse connection of the service, or nil. The status page reads table sizes with it.
	conn driver.Conn
	// stateDir is the state directory of ingest, else empty.
	stateDir string
	// flushUsage is the admin handler of query-api that publishes buffered usage, else nil.
	flushUsage http.HandlerFunc
}

// runService is a service that `muster run` can run.
type runService struct {
	name, about string
	build       func(context.Context, environment) (runnable, error)
}

func services() []runService {
	return []runService{
		{"projector", "writes the read models; needs Kafka and ClickHouse", buildProjector},
		{"query-api", "serves /v1 on --addr; needs Kafka and ClickHouse", buildQueryAPI},
		{"ingest", "accepts records on --addr; needs Kafka", buildIngest},
		{"discovery-worker", "finds the profiles of a person on other platforms; needs Kafka and ClickHouse",
			buildDiscovery},
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
	var allow, origins, adminHosts []string
	var memory searchMemory
	var within time.Duration
	var stateless bool
	cmd := &cobra.Command{
		Use:   "run SERVICE",
		Short: "Run one service, as in a container",
		Long: `Runs one service with external servers: KAFKA_BROKERS (with KAFKA_TLS and KAFKA_SASL_...) and
CLICKHOUSE_DSN (client certificates: "muster up --help"). The root secret MUSTER_SECRET_KEY must be the same for all
services and commands ("openssl rand -hex 32" creates one). A service can have any number of replicas. Run "muster
migrate" first. KAFKA_SESSION_TIMEOUT (default 10s) is how long the partitions of a killed replica stay unassigned.

Replicas of query-api share limits and credits through Redis: give all of them the same REDIS_URL, and each its own
persistent data directory (--data-dir). OPENSEARCH_URL lets query-api search in OpenSearch, and the projector maintain
its index (deploy/docs/opensearch.md); set it for both. A URL for Sentinels is
redis://sentinel:26379/0?master_name=NAME&addr=sentinel2:26379&password=... (deploy/docs/accounts.md, "Sentinels").

ingest stores in its data directory which records were pushed, and does not publish unchanged or older ones. "muster
ingest" on the same directory uses the same state; on another one, add --again if both import the same people or
companies. Run replicas of ingest that have no volume with --stateless.

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
				env, err := c.environment(ctx, s.name, addr)
				if err != nil {
					return err
				}
				env.origins = origins
				env.webhookAllow, env.searchIndexMemory, env.erasureDeadline, env.stateless = allow, memory, within, stateless
				unit, err := s.build(ctx, env)
				if err == nil {
					err = runAlone(ctx, s.name, unit, env, adminAddr, adminHosts)
				}
				err = service.IgnoreInterrupt(ctx, err)
				logStopped(ctx, env.tel.Logger, err)
				return err
			}
			return fmt.Errorf("unknown service %q; services: %s", args[0], strings.Join(names, ", "))
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "listen address of query-api and ingest")
	cmd.Flags().BoolVar(&stateless, "stateless", false, "ingest: publish every pushed record, and store no state")
	addAllowFlag(cmd.Flags(), &allow)
	addOriginFlag(cmd.Flags(), &origins)
	addSearchMemoryFlag(cmd.Flags(), &memory)
	addWithinFlag(cmd.Flags(), &within)
	cmd.Flags().StringVar(&adminAddr, "admin-addr", "127.0.0.1:8082",
		"listen address of the status page, metrics, health and profiles")
	c.addAdminHostsFlag(cmd.Flags(), &adminHosts)
	return cmd
}

// adminHostsEnv is the default of --admin-hosts.
const adminHostsEnv = "MUSTER_ADMIN_HOSTS"

func (c *command) addAdminHostsFlag(flags *pflag.FlagSet, hosts *[]string) {
	flags.StringSliceVar(hosts, "admin-hosts", nil,
		"host names of the admin address, in addition to localhost and IP addresses; *.DOMAIN matches all subdomains ("+
			adminHostsEnv+")")
}

func (c *command) environment(ctx context.Context, name, addr string) (environment, error) {
	tel, err := c.telemetry(ctx, name)
	if err != nil {
		return environment{}, err
	}
	kafka, err := bus.ConfigFromEnv(c.getenv)
	if err != nil {
		return environment{}, err
	}
	if len(kafka.Brokers) == 0 {
		return environment{}, errors.New("KAFKA_BROKERS is empty: set the brokers, or run everything with `muster up`")
	}
	kafka.Logger = tel.Logger
	store, err := clickhouse.ConfigFromEnv(c.getenv)
	if err != nil {
		return environment{}, err
	}
	store.ClientName, store.Logger = "muster "+name, tel.Logger
	secret, err := c.rootSecret()
	if err != nil {
		return environment{}, err
	}
	erased, err := erasure.NewFollower(secret, kafka, tel.Logger)
	if err != nil {
		return environment{}, err
	}
	return environment{
		tel: tel, kafka: kafka, store: store, addr: addr, dataDir: c.dataDir, getenv: c.getenv, secret: secret,
		erased: erased,
	}, nil
}

// connect opens a pool of up to connections connections to the read models; 0 means the default.
func (s environment) connect(ctx context.Context, connections int) (driver.Conn, error) {
	cfg := s.store
	cfg.MaxOpenConns = connections
	return clickhouse.Open(ctx, cfg)
}

// flush sends the buffered spans, within a second.
func flush(ctx context.Context, tel *service.Telemetry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := tel.Shutdown(ctx); err != nil {
		tel.Logger.WarnContext(ctx, "telemetry: could not send the last spans", "error", err)
	}
}

// runAlone runs a service and its admin server.
func runAlone(ctx context.Context, name string, unit runnable, env environment, adminAddr string,
	adminHosts []string,
) (err error) {
	defer flush(ctx, env.tel)
	if unit.close != nil {
		defer func() { err = errors.Join(err, unit.close()) }()
	}
	admin, err := service.NewAdmin(ctx, service.AdminConfig{
		Addr: adminAddr, Hosts: adminHosts, Logger: env.tel.Logger, Registry: env.tel.Registry,
	})
	if err != nil {
		return fmt.Errorf("listen on the admin address (change it with --admin-addr): %w", err)
	}
	statusPage := page.New(page.Source{
		Search: env.getenv(opensearch.URLEnv) != "", Version: version(), Service: name,
		Readiness: admin.Readiness, Gatherer: env.tel.Registry, Kafka: env.kafka, ClickHouse: unit.conn,
		StateDir: unit.stateDir, DataDir: env.dataDir, EraseWithin: env.erasureDeadline, Now: time.Now,
	})
	statusPage.Add(admin)
	if unit.flushUsage != nil {
		admin.Handle("POST "+queryapi.FlushUsagePath, unit.flushUsage)
	}
	// The service starts after the suppression set is loaded; until then, report that as the reason.
	ready := func(ctx context.Context) error {
		if err := env.erased.Ready(ctx); err != nil {
			return err
		}
		return unit.ready(ctx)
	}
	group := service.NewGroup(service.GroupConfig{Logger: env.tel.Logger})
	err = errors.Join(
		admin.AddCheck(name, ready),
		group.Add(service.Unit{Name: "admin", Run: admin.Run}),
		group.Add(service.Unit{Name: "status-history", Run: statusPage.Run}),
		group.Add(service.Unit{
			Name: "suppression", Run: env.erased.Run, Ready: service.Poll(env.erased.Ready, 200*time.Millisecond),
			StartTimeout: 10 * time.Minute,
		}),
		group.Add(service.Unit{
			Name: name, Needs: []string{"admin", "suppression"}, Run: unit.run, StartTimeout: 5 * time.Minute,
			Ready: func(ctx context.Context) error {
				err := service.Poll(unit.ready, 200*time.Millisecond)(ctx)
				if err == nil {
					env.tel.Logger.InfoContext(ctx, "ready", "service", name, "admin", admin.URL())
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

func buildProjector(ctx context.Context, s environment) (runnable, error) {
	cluster, err := searchcluster.Open(s.getenv, s.secret)
	if err != nil {
		return runnable{}, err
	}
	conn, err := s.connect(ctx, 0)
	if err != nil {
		return runnable{}, errors.Join(err, cluster.Close())
	}
	closeAll := func() error { return errors.Join(cluster.Close(), conn.Close()) }
	cfg := projector.Config{Config: project.Config{Kafka: s.kafka}, Search: cluster.Index()}
	disclosures, err := erasure.DisclosureCipher(s.secret)
	if err != nil {
		return runnable{}, errors.Join(err, closeAll())
	}
	p, err := projector.New(cfg, project.Deps{
		Conn: conn, Logger: s.tel.Logger, Registerer: s.tel.Registry, Tracer: s.tel.Tracing, Suppressed: s.erased.Set(),
		Disclosures: disclosures,
	})
	if err != nil {
		return runnable{}, errors.Join(err, closeAll())
	}
	eraser, err := erasing.New(erasing.Config{Kafka: s.kafka, Within: s.erasureDeadline},
		erasing.Deps{
			Conn: conn, Suppressed: s.erased.Set(), Logger: s.tel.Logger, Search: cluster.Purger(s.kafka),
		})
	if err != nil {
		return runnable{}, errors.Join(err, closeAll())
	}
	run := func(ctx context.Context) error {
		running, ctx := errgroup.WithContext(ctx)
		running.Go(func() error { return p.Run(ctx) })
		running.Go(func() error { return eraser.Run(ctx) })
		running.Go(func() error {
			migrations.ReconcileNodes(ctx, conn, s.tel.Logger)
			return nil
		})
		return running.Wait()
	}
	return runnable{run: run, ready: p.Check, close: closeAll, conn: conn}, nil
}

// searchMemory is the value of --search-index-memory in MiB.
type searchMemory int

// maxSearchMemory is 1 TiB.
const maxSearchMemory searchMemory = 1 << 20

// String implements pflag.Value.
func (m *searchMemory) String() string { return strconv.Itoa(int(*m)) }

// Type implements pflag.Value.
func (m *searchMemory) Type() string { return "int" }

// Set implements pflag.Value.
func (m *searchMemory) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > int(maxSearchMemory) {
		return fmt.Errorf("%q is not a number of MiB from 1 to %d", text, maxSearchMemory)
	}
	*m = searchMemory(n)
	return nil
}

func (m *searchMemory) bytes() int { return int(*m) << 20 }

func addSearchMemoryFlag(flags *pflag.FlagSet, memory *searchMemory) {
	*memory = queryapi.DefaultSearchMemory
	flags.Var(memory, "search-index-memory",
		"memory for the in-memory search index of query-api, in MiB (min 1, and 32 bytes per profile)")
}

func buildQueryAPI(ctx context.Context, s environment) (runnable, error) {
	allow, err := parseAllow(s.webhookAllow)
	if err != nil {
		return runnable{}, err
	}
	cfg := queryapi.Config{Addr: s.addr, DataDir: filepath.Join(s.dataDir, "query-api"), WebhookAllow: allow,
		Origins: s.origins, Pages: docs.Pages(), SearchPostings: s.searchIndexMemory.bytes()}.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return runnable{}, err
	}
	deps := queryapi.Deps{
		Bus: s.kafka, Secret: s.secret, Logger: s.tel.Logger, Registerer: s.tel.Registry, Tracing: s.tel.Tracing,
		Suppressed: s.erased.Set(),
	}
	if deps.Questions, deps.Analyze, err = analyst.Saved(docs.Pages(), s.store, false, s.getenv); err != nil {
		return runnable{}, err
	}
	cluster, err := searchcluster.Open(s.getenv, s.secret)
	if err != nil {
		return runnable{}, err
	}
	deps.OpenSearch = cluster.Client()
	closeClients := cluster.Close
	if s.getenv(queryapi.RedisEnv) != "" {
		if deps.Redis, err = queryapi.OpenRedis(s.getenv); err != nil {
			return runnable{}, errors.Join(err, closeClients())
		}
		closeClients = func() error { return errors.Join(deps.Redis.Close(), cluster.Close()) }
	}
	// Last, because it waits for the server.
	conn, err := s.connect(ctx, cfg.Connections())
	if err != nil {
		return runnable{}, errors.Join(err, closeClients())
	}
	deps.ClickHouse = conn
	closeAll := func() error { return errors.Join(closeClients(), conn.Close()) }
	api, err := queryapi.New(ctx, cfg, deps)
	if err != nil {
		return runnable{}, errors.Join(err, closeAll())
	}
	return runnable{run: api.Run, ready: api.Ready, close: closeAll, conn: conn, flushUsage: api.FlushUsage}, nil
}

func buildIngest(ctx context.Context, s environment) (runnable, error) {
	// Other ingest paths with their own data directories are likely, so publish whole records, not only new versions.
	cfg := ingest.Config{Bus: s.kafka, Addr: s.addr, Token: s.getenv(ingest.OperatorTokenEnv), FullRecords: true}
	if !s.stateless {
		cfg.StateDir = ingest.StateDirOf(s.dataDir)
	}
	i, err := ingest.New(ctx, cfg,
		ingest.Deps{Logger: s.tel.Logger, Registerer: s.tel.Registry, Suppressed: s.erased.Set()})
	if err != nil {
		return runnable{}, err
	}
	return runnable{run: i.Run, ready: i.Ready, stateDir: ingest.StateDirOf(s.dataDir)}, nil
}

func buildDiscovery(ctx context.Context, s environment) (runnable, error) {
	providers, err := discovery.ProvidersFromEnv(s.getenv)
	if err != nil {
		return runnable{}, err
	}
	conn, err := s.connect(ctx, 0)
	if err != nil {
		return runnable{}, err
	}
	cfg := discovery.Config{Bus: s.kafka, Providers: providers}
	deps := discovery.Deps{
		ClickHouse: conn, Logger: s.tel.Logger, Registerer: s.tel.Registry, Suppressed: s.erased.Set(),
	}
	w, err := discovery.New(cfg, deps) //nolint:contextcheck // Close ends its reads, not a context
	if err != nil {
		return runnable{}, errors.Join(err, conn.Close())
	}
	return runnable{run: w.Run, ready: w.Ready, close: conn.Close, conn: conn}, nil
}

func buildWebhook(_ context.Context, s environment) (runnable, error) {
	allow, err := parseAllow(s.webhookAllow)
	if err != nil {
		return runnable{}, err
	}
	key, err := s.secret.Key(event.WebhookKeyName, event.WebhookKeySize)
	if err != nil {
		return runnable{}, err
	}
	w, err := webhook.New(webhook.Config{Bus: s.kafka, Key: key, Allow: allow},
		webhook.Deps{Logger: s.tel.Logger, Registerer: s.tel.Registry, Suppressed: s.erased.Set()})
	if err != nil {
		return runnable{}, err
	}
	return runnable{run: w.Run, ready: w.Ready}, nil
}
