package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/deploy/docs"
	"muster/deploy/erasure"
	"muster/deploy/internal/analyst"
	"muster/deploy/internal/backup"
	"muster/deploy/internal/instance"
	"muster/deploy/internal/searchcluster"
	"muster/deploy/internal/status"
	"muster/deploy/internal/status/page"
	discovery "muster/discovery-worker"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/service"
	"muster/projector"
	erasing "muster/projector/erasure"
	"muster/projector/migrations"
	"muster/projector/project"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
	webhook "muster/webhook-sender"
)

// Run runs the platform until ctx ends or a part of it fails permanently. It returns nil after an orderly stop,
// even before all services are ready.
func Run(ctx context.Context, cfg Config, deps Deps) (err error) {
	if err := errors.Join(cfg.Validate(), checkEnvironment(deps.Getenv)); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	release, err := instance.Lock(cfg.DataDir)
	if err != nil {
		return err
	}
	defer release()
	if _, err := backup.Finish(cfg.DataDir, time.Now()); err != nil {
		return err
	}
	if err := cfg.checkAddresses(ctx, deps.Getenv); err != nil {
		return err
	}
	sample, err := planSample(cfg)
	if err != nil {
		return err
	}
	secret, err := rootSecret(cfg, deps)
	if err != nil {
		return err
	}

	var kafka kafkaBackend
	var clickHouse clickHouseBackend
	starting, startingCtx := errgroup.WithContext(ctx)
	starting.Go(func() (err error) { kafka, err = openKafka(startingCtx, cfg, deps, secret); return err })
	starting.Go(func() (err error) { clickHouse, err = openClickHouse(startingCtx, cfg, deps, secret); return err })
	startErr := starting.Wait()
	defer func() {
		for _, stop := range []func() error{clickHouse.close, kafka.close} {
			if stop != nil {
				err = errors.Join(err, stop())
			}
		}
	}()
	if startErr != nil {
		return service.IgnoreInterrupt(ctx, startErr)
	}
	running, end := kafka.while(ctx)
	defer end()
	err = service.IgnoreInterrupt(ctx, runServices(running, cfg, deps, secret, kafka, clickHouse, sample))
	if kafka.err() != nil {
		return nil // close returns the error of the broker
	}
	return err
}

// rootSecret creates a root secret for a new data directory. A used one without its secret is an error: with a new one,
// cursors, webhook secrets and erased people would no longer be recognized.
func rootSecret(cfg Config, deps Deps) (*service.RootSecret, error) {
	secret, err := service.LoadRootSecret(deps.Getenv, cfg.DataDir)
	if !errors.Is(err, service.ErrNoRootSecret) {
		return secret, err
	}
	for _, name := range []string{"kafka", instance.FileName} {
		if _, statErr := os.Stat(filepath.Join(cfg.DataDir, name)); !errors.Is(statErr, fs.ErrNotExist) {
			return nil,
				fmt.Errorf("the data directory %s has data, but no root secret: %w", cfg.DataDir,
					errors.Join(err, statErr))
		}
	}
	return service.EnsureRootSecret(deps.Getenv, cfg.DataDir)
}

// migrate applies pending migrations, without a timeout, and reports whether it created all tables.
func migrate(ctx context.Context, cfg clickhouse.Config, deps Deps) (made bool, err error) {
	cfg.ReadTimeout = clickhouse.MigrationTimeout
	conn, err := openConnection(ctx, cfg, "muster migrate", 2, deps)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	all, err := migrations.All(readmodel.Layout{})
	if err != nil {
		return false, err
	}
	applied, err := migrations.Apply(ctx, conn, readmodel.Layout{},
		clickhouse.MigrateConfig{Logger: deps.Telemetry.Logger})
	return len(applied) == len(all), err
}

// resetProjections projects all read models again from the beginning of their topics, if they were projected before.
// Otherwise newly created tables would stay empty.
func resetProjections(ctx context.Context, kafka bus.Config, logger *slog.Logger) error {
	groups := append(status.EventConsumers(), status.Consumer{Group: projector.Group, Topics: projector.Topics()})
	for _, g := range groups {
		rewound, err := bus.Rewind(ctx, kafka, g.Group, g.Topics)
		if err != nil {
			return fmt.Errorf("reset the projection offsets for new tables: %w", err)
		}
		if rewound {
			logger.LogAttrs(ctx, slog.LevelWarn, "clickhouse: tables are new, projecting topics from the beginning",
				slog.String("group", g.Group))
		}
	}
	return nil
}

// runServices runs the services on started backends.
func runServices(ctx context.Context, cfg Config, deps Deps, secret *service.RootSecret, backend kafkaBackend,
	clickHouse clickHouseBackend, sample sampleState) (err error) {
	kafka := backend.config
	logger, registry := deps.Telemetry.Logger, deps.Telemetry.Registry

	if err := EnsureTopics(ctx, kafka, 0, logger); err != nil {
		return err
	}
	made, err := migrate(ctx, clickHouse.config, deps)
	// An external ClickHouse may have other projectors.
	if err == nil && made && clickHouse.down != nil {
		err = resetProjections(ctx, kafka, logger)
	}
	if err != nil {
		return err
	}
	writing, err := openConnection(ctx, clickHouse.config, "muster projector", 8, deps)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writing.Close()) }()
	apiConfig := queryapi.Config{Addr: cfg.APIAddr, DataDir: filepath.Join(cfg.DataDir, "query-api"),
		WebhookAllow: cfg.WebhookAllow, Origins: cfg.Origins, Pages: docs.Pages(),
		SearchPostings: cfg.SearchPostings}.WithDefaults()
	reading, err := openConnection(ctx, clickHouse.config, "muster query-api", apiConfig.Connections(), deps)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reading.Close()) }()
	finding, err := openConnection(ctx, clickHouse.config, "muster discovery-worker", 4, deps)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, finding.Close()) }()

	erased, err := erasure.NewFollower(secret, kafka, logger)
	if err != nil {
		return err
	}
	cluster, err := searchcluster.Open(deps.Getenv, secret)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	in := describe(cfg, backend, clickHouse)
	in.OpenSearch = searchVariables(deps.Getenv)
	applied, err := prepareAccounts(ctx, cfg, kafka, deps, sample, &in)
	if err != nil {
		return errors.Join(err, deps.Applied(applied))
	}
	if err := deps.Applied(applied); err != nil {
		return err
	}

	apiDeps := queryapi.Deps{
		ClickHouse: reading, Bus: kafka, Secret: secret, Logger: logger, Registerer: registry,
		Tracing:    deps.Telemetry.Tracing,
		Suppressed: erased.Set(), OpenSearch: cluster.Client(),
	}
	apiDeps.Questions, apiDeps.Analyze, err = analyst.Saved(docs.Pages(), clickHouse.config, clickHouse.down != nil,
		deps.Getenv)
	if err != nil {
		return err
	}
	if deps.Getenv(queryapi.RedisEnv) != "" {
		if apiDeps.Redis, err = queryapi.OpenRedis(deps.Getenv); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, apiDeps.Redis.Close()) }()
	}

	// Listeners are closed by their Run, or here if none runs.
	var idle []io.Closer
	defer func() {
		for _, c := range slices.Backward(idle) {
			err = errors.Join(err, c.Close())
		}
	}()
	admin, err := service.NewAdmin(ctx,
		service.AdminConfig{Addr: cfg.AdminAddr, Hosts: cfg.AdminHosts, Logger: logger, Registry: registry})
	if err != nil {
		return fmt.Errorf("start the admin server: %w", err)
	}
	idle = append(idle, admin)
	api, err := queryapi.New(ctx, apiConfig, apiDeps)
	if err != nil {
		return fmt.Errorf("start query-api: %w", err)
	}
	idle = append(idle, api)
	projectorConfig := projector.Config{Config: project.Config{Kafka: kafka}, Search: cluster.Index()}
	disclosures, err := erasure.DisclosureCipher(secret)
	if err != nil {
		return err
	}
	projection, err := projector.New(projectorConfig, project.Deps{
		Conn: writing, Logger: logger, Registerer: registry, Tracer: deps.Telemetry.Tracing, Suppressed: erased.Set(),
		Disclosures: disclosures,
	})
	if err != nil {
		return err
	}
	eraser, err := erasing.New(erasing.Config{Kafka: kafka, Within: cfg.EraseWithin},
		erasing.Deps{
			Conn: writing, Suppressed: erased.Set(), Compact: backend.compact, Logger: logger,
			Search: cluster.Purger(kafka),
		})
	if err != nil {
		return err
	}
	records, err := ingest.New(ctx, ingest.Config{
		Bus: kafka, Addr: cfg.IngestAddr, Token: in.OperatorToken, StateDir: ingest.StateDirOf(cfg.DataDir),
	}, ingest.Deps{Logger: logger, Registerer: registry, Suppressed: erased.Set()})
	if err != nil {
		return fmt.Errorf("start ingest: %w", err)
	}
	idle = append(idle, records)
	providers, err := discovery.ProvidersFromEnv(deps.Getenv)
	if err != nil {
		return err
	}
	finderDeps := discovery.Deps{
		ClickHouse: finding, Logger: logger, Registerer: registry, Suppressed: erased.Set(),
	}
	//nolint:contextcheck // Close ends its reads, not a context
	finder, err := discovery.New(discovery.Config{Bus: kafka, Providers: providers}, finderDeps)
	if err != nil {
		return err
	}
	webhookKey, err := secret.Key(event.WebhookKeyName, event.WebhookKeySize)
	if err != nil {
		return err
	}
	if err := developmentSecret(ctx, kafka, deps, webhookKey); err != nil {
		return err
	}
	sender, err := webhook.New(webhook.Config{Bus: kafka, Key: webhookKey, Allow: cfg.WebhookAllow},
		webhook.Deps{Logger: logger, Registerer: registry, Suppressed: erased.Set()})
	if err != nil {
		return err
	}
	in.BaseURL, in.AdminURL, in.IngestURL = api.URL(), admin.URL(), records.URL()

	damage := &damageWatch{conn: writing, logger: logger}
	group := service.NewGroup(service.GroupConfig{Logger: logger})
	source := status.Source{
		AdminURL: in.AdminURL, Kafka: kafka, Group: projector.Group, Topics: projector.Topics(), ClickHouse: writing,
		Others: status.AnswersConsumers(), Search: cluster.Client(),
	}
	statusPage := page.New(page.Source{
		Version: deps.Version, Readiness: admin.Readiness, Gatherer: registry, Kafka: kafka,
		ClickHouse: writing, StateDir: ingest.StateDirOf(cfg.DataDir), DataDir: cfg.DataDir,
		EraseWithin: cfg.EraseWithin, Now: time.Now, Search: cluster != nil,
	})
	statusPage.Add(admin)
	admin.Handle("POST "+queryapi.FlushUsagePath, http.HandlerFunc(api.FlushUsage))
	const ready = 100 * time.Millisecond
	for _, u := range []service.Unit{
		{Name: "admin", Run: admin.Run},
		{Name: "status-history", Run: statusPage.Run},
		{Name: "clickhouse", Run: clickHouse.waitUntilDown},
		{Name: "tables", Run: damage.Run},
		{Name: "retention", Run: func(ctx context.Context) error { return backend.runRetention(ctx, logger) }},
		// No service starts before the suppression set is loaded.
		{Name: "suppression", Run: erased.Run, Ready: service.Poll(erased.Ready, ready),
			StartTimeout: 10 * time.Minute},
		{Name: "projector", Needs: []string{"clickhouse", "suppression"}, Run: projection.Run,
			Ready: service.Poll(projection.Check, ready)},
		{Name: "eraser", Needs: []string{"projector"}, Run: eraser.Run},
		{Name: "query-api", Needs: []string{"clickhouse", "suppression"}, Run: api.Run,
			Ready: service.Poll(api.Ready, ready)},
		{Name: "ingest", Needs: []string{"suppression"}, Run: records.Run, Ready: service.Poll(records.Ready, ready)},
		{Name: "discovery-worker", Needs: []string{"clickhouse", "suppression"}, Run: finder.Run,
			Ready: service.Poll(finder.Ready, ready)},
		{Name: "webhook-sender", Needs: []string{"suppression"}, Run: sender.Run,
			Ready: service.Poll(sender.Ready, ready)},
		{
			Name: "welcome", Needs: []string{"admin", "projector", "query-api", "ingest", "discovery-worker"},
			Job: true,
			Run: func(ctx context.Context) error {
				return welcome(ctx, cfg, deps, backend, in, source, sample, erased.Set())
			},
		},
	} {
		if err := group.Add(u); err != nil {
			return err
		}
	}
	for name, check := range map[string]service.Check{
		"projector": projection.Check, "query-api": api.Ready, "ingest": records.Ready,
		"discovery-worker": finder.Ready, "webhook-sender": sender.Ready, status.StartupCheck: group.Check,
		"tables": damage.Check,
	} {
		if err := admin.AddCheck(name, check); err != nil {
			return err
		}
	}
	idle = nil
	return group.Run(ctx)
}

// describe returns an instance description, with the values to keep from an earlier run.
func describe(cfg Config, kafka kafkaBackend, clickHouse clickHouseBackend) instance.Instance {
	earlier, _ := instance.Read(cfg.DataDir) // a missing or damaged one is replaced
	return instance.Instance{
		APIKey: earlier.APIKey, OperatorToken: operatorToken(earlier.OperatorToken),
		Kafka: strings.Join(kafka.config.Brokers, ","), KafkaUser: kafka.user, KafkaPassword: kafka.password,
		ClickHouseURL: clickHouse.config.DSN, PID: os.Getpid(),
	}
}

// searchVariables returns the variables of the search cluster, which other commands need.
func searchVariables(getenv func(string) string) map[string]string {
	out := make(map[string]string)
	for _, name := range searchcluster.Variables() {
		if value := getenv(name); value != "" {
			out[name] = value
		}
	}
	return out
}

// waitUntilDown returns nil when ctx ends, or an error when the engine has exited for good.
func (b clickHouseBackend) waitUntilDown(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.down:
		return errors.New("the embedded ClickHouse engine exited")
	}
}

// welcome writes the instance file once all services are ready, loads the sample, and prints the startup summary.
func welcome(ctx context.Context, cfg Config, deps Deps, kafka kafkaBackend, in instance.Instance, source status.Source,
	sample sampleState, erased *suppress.Set) error {
	if err := instance.Write(cfg.DataDir, in); err != nil {
		return err
	}
	if !sample.Loaded {
		if err := sample.load(ctx, cfg, deps, source.Kafka, erased); err != nil {
			return err
		}
		if err := showVisible(ctx, deps, source); err != nil {
			return err
		}
	}
	if cfg.Compact && kafka.compact != nil {
		if err := showVisible(ctx, deps, source); err != nil {
			return err
		}
		deps.Progress.Begin("Compacting the log of the embedded broker", -1)
		err := kafka.compact(ctx)
		deps.Progress.End()
		if err != nil {
			return err
		}
	}
	w := StartupSummary{Instance: in, DataDir: cfg.DataDir}
	if err := w.findExamples(ctx, source.ClickHouse); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// It serves all the same: the key may have other scopes, or smaller limits.
		w.Untried = true
		deps.Telemetry.Logger.WarnContext(ctx, "standalone: no example found for the startup summary", "error", err)
	}
	deps.Started(w)
	return nil
}

func showVisible(ctx context.Context, deps Deps, source status.Source) error {
	total := int64(-1)
	err := status.Wait(ctx, source, func(missing int64) {
		if total < 0 {
			total = missing
			deps.Progress.Begin("Projecting", total)
		}
		deps.Progress.Set(total - missing)
	})
	if total >= 0 {
		deps.Progress.End()
	}
	return err
}

// withoutUser returns the scheme and host of a DSN.
func withoutUser(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
