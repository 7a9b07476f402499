package queryapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/platform/bus"
	"muster/platform/opensearch"
	"muster/platform/service"
	"muster/query-api/internal/account"
	"muster/query-api/internal/bulk"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/discovery"
	"muster/query-api/internal/explore"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/cursor"
	"muster/query-api/internal/search/postings"
	v1 "muster/query-api/internal/v1"
	"muster/query-api/internal/watermark"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/searchindex"
	"muster/schemas/suppress"
)

// Config configures a [Service]. Zero fields take their defaults.
type Config struct {
	// Addr is the host:port to listen on; port 0 selects a free port. Default 127.0.0.1:8080.
	Addr string
	// DataDir is the directory of this replica, for usage events that are not published yet and,
	// without Redis, stored responses of calls with an Idempotency-Key. Required.
	DataDir string
	// RequestTimeout bounds the processing of one request; default 10 s.
	RequestTimeout time.Duration
	// ReadHeaderTimeout, ReadTimeout, WriteTimeout and IdleTimeout are connection timeouts as in
	// [net/http.Server]; defaults 10 s, 30 s, 60 s and 2 min.
	ReadHeaderTimeout time.Duration
	ReadTimeout       time.Duration
	WriteTimeout      time.Duration
	IdleTimeout       time.Duration
	// StopTimeout is how long in-flight requests may take during shutdown; default 4 s.
	StopTimeout time.Duration
	// MaxBodyBytes bounds a request body; default 1 MiB (rulings.md, Errors).
	MaxBodyBytes int64
	// WebhookAllow lists private address ranges that webhooks may use, also over plain HTTP. It
	// must match the configuration of webhook-sender.
	WebhookAllow []netip.Prefix
	// Origins are the origins whose web pages may call the API, such as https://app.example.com; "*" allows every
	// origin. Without any, browsers do not let pages read responses.
	Origins []string
	// ResponseBytes bounds the total memory of responses larger than 4 MiB; default 256 MiB. An
	// organization may hold at most as much as it leaves free.
	ResponseBytes int64
	// ReadGrace and MinReadRate bound how slowly a client may read a response larger than 64 KiB:
	// default 10 s, then 256 KiB per second.
	ReadGrace   time.Duration
	MinReadRate int64
	// DiscoveryBudget bounds a discovery call; default 20 s.
	DiscoveryBudget time.Duration
	// BatchKeys is the maximum number of keys of one batched read-model query; default and maximum
	// 256.
	BatchKeys int
	// BatchQueries is the maximum number of concurrent queries of one kind; default 2.
	BatchQueries int
	// BatchLinger is how long a query waits for more keys under concurrency; default 200 µs,
	// negative for none.
	BatchLinger time.Duration
	// MaxQueries is the maximum number of concurrent read-model queries, and the number of
	// ClickHouse connections they need; default: number of CPUs, at least 2. Raise it for a cluster
	// with many nodes.
	MaxQueries int
	// Pages has further pages of the documentation at /docs; nil means none.
	Pages fs.FS
	// Unmetered disables authentication and metering. It is for benchmarks of their cost and cannot
	// be set from outside the program.
	Unmetered bool
	// redisTimeoutFactor multiplies the Redis timeouts; 0 is 1. Tests set it so that a busy machine does not look
	// like an outage.
	redisTimeoutFactor int
	// WatermarkInterval is how often the time that X-Data-As-Of states is determined; default 5 s.
	WatermarkInterval time.Duration
	// QueryTimeout bounds one read-model query; default 5 s.
	QueryTimeout time.Duration
	// SearchTimeout bounds the execution of a search; default 3 s. SearchDeadline bounds a whole
	// search, including the time in the queue and the first load of index data; default 8 s.
	SearchTimeout, SearchDeadline time.Duration
	// SearchMemory bounds the memory of one search statement, in bytes; default 1 GiB.
	SearchMemory uint64
	// SearchQueries is the maximum number of concurrent searches; default: number of CPUs, at least
	// 2.
	SearchQueries int
	// SearchStatsAge is the maximum age of the statistics used for scoring; default 10 s, negative
	// disables caching. Statistics that are expensive to compute are cached longer.
	SearchStatsAge time.Duration
	// SearchPostings bounds the in-memory search index, in bytes; default 256 MiB.
	SearchPostings int
	// SearchDocuments bounds the cache of recently returned documents, in bytes; default 32 MiB,
	// negative disables it.
	SearchDocuments int
}

// DefaultSearchMemory is the default of Config.SearchPostings in MiB.
const DefaultSearchMemory = postings.DefaultBytes >> 20

// WithDefaults returns c with zero fields set to their defaults.
func (c Config) WithDefaults() Config {
	set(&c.Addr, "127.0.0.1:8080")
	set(&c.RequestTimeout, 10*time.Second)
	set(&c.ReadHeaderTimeout, 10*time.Second)
	set(&c.ReadTimeout, 30*time.Second)
	set(&c.WriteTimeout, time.Minute)
	set(&c.IdleTimeout, 2*time.Minute)
	set(&c.StopTimeout, 4*time.Second)
	set(&c.MaxBodyBytes, 1<<20)
	set(&c.ResponseBytes, 256<<20)
	set(&c.ReadGrace, 10*time.Second)
	set(&c.MinReadRate, 256<<10)
	set(&c.DiscoveryBudget, event.DiscoveryBudget)
	g := c.readstoreConfig().WithDefaults()
	c.BatchKeys, c.BatchQueries, c.BatchLinger = g.MaxKeys, g.InFlight, g.Linger
	c.MaxQueries, c.QueryTimeout = g.MaxQueries, g.QueryTimeout
	f := c.searchConfig().WithDefaults()
	c.SearchTimeout, c.SearchDeadline, c.SearchMemory = f.Timeout, f.Deadline, f.MaxMemory
	c.SearchQueries, c.SearchStatsAge = f.Concurrent, f.StatsAge
	return c
}

// Validate returns an error that lists all invalid fields.
func (c Config) Validate() error {
	var errs []error
	for name, value := range map[string]int64{
		"request_timeout": int64(c.RequestTimeout), "read_header_timeout": int64(c.ReadHeaderTimeout),
		"read_timeout": int64(c.ReadTimeout), "write_timeout": int64(c.WriteTimeout),
		"idle_timeout": int64(c.IdleTimeout),
		"stop_timeout": int64(c.StopTimeout), "max_body_bytes": c.MaxBodyBytes, "answer_bytes": c.ResponseBytes,
		"read_grace": int64(c.ReadGrace), "min_read_rate": c.MinReadRate, "gather_keys": int64(c.BatchKeys),
		"gather_queries": int64(c.BatchQueries), "max_queries": int64(c.MaxQueries),
		"query_timeout": int64(c.QueryTimeout), "discovery_budget": int64(c.DiscoveryBudget),
		"search_postings": int64(c.SearchPostings),
	} {
		if value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative", name))
		}
	}
	if _, err := v1.ParseOrigins(c.Origins); err != nil {
		errs = append(errs, fmt.Errorf("--cors-origin: %w", err))
	}
	return errors.Join(errs...)
}

// Connections returns the number of ClickHouse connections the service needs. A search uses three:
// two reads, and one that lists table parts.
func (c Config) Connections() int {
	c = c.WithDefaults()
	return c.MaxQueries + 3*c.SearchQueries
}

func (c Config) searchConfig() search.Config {
	return search.Config{
		Timeout: c.SearchTimeout, Deadline: c.SearchDeadline, MaxMemory: c.SearchMemory,
		Concurrent: c.SearchQueries, StatsAge: c.SearchStatsAge, IndexBytes: c.SearchPostings,
	}
}

func (c Config) readstoreConfig() readstore.Config {
	return readstore.Config{
		MaxKeys: c.BatchKeys, InFlight: c.BatchQueries, MaxQueries: c.MaxQueries, QueryTimeout: c.QueryTimeout,
		Linger:     c.BatchLinger,
		ShownBytes: c.SearchDocuments,
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Deps holds the dependencies of a [Service].
type Deps struct {
	// ClickHouse needs at least Config.Connections connections. The service does not close it.
	ClickHouse driver.Conn
	// Bus configures the Kafka cluster.
	Bus bus.Config
	// Secret is the root secret, shared by all replicas. Required.
	Secret *service.RootSecret
	// Redis shares rate limits, balances and stored responses between replicas. If nil, there is
	// only one replica, with limits and balances in memory and stored responses in DataDir. The
	// service does not close it.
	Redis redis.UniversalClient
	// OpenSearch executes searches; nil: the in-memory index does. The service does not close it.
	OpenSearch *opensearch.Client
	// Suppressed is the set of erased people; nil if there are none. The caller keeps it up to
	// date. The service is not ready before the set is loaded.
	Suppressed *suppress.Set
	// Platforms parses profile URLs; default identity.Default().
	Platforms *identity.Platforms
	// Questions are the saved questions of analysts at /explore, and Analyze runs their statements as the analysts'
	// read-only user; nil if there are none.
	Questions []Question
	Analyze   func(ctx context.Context, statement, format string, out io.Writer) error
	// Logger, Registerer and Tracing are discarded if nil; Now defaults to time.Now.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Tracing    trace.TracerProvider
	Now        func() time.Time
}

// Question is a saved question of analysts.
type Question = explore.Question

// Chart is how the answer to a Question is drawn.
type Chart = explore.Chart

// Service is the query-api service.
type Service struct {
	cfg       Config
	deps      Deps
	accounts  *account.Directory
	meter     *metering.Meter
	outbox    *ledger.Outbox
	stored    *idempotency.Answers
	kept      *idempotency.Disk // backend of stored; nil with Redis
	rates     *limits.Redis     // nil without Redis
	store     *readstore.Store
	search    *search.Searcher // of people
	companies *search.Searcher
	finder    *discovery.Finder
	contexts  *contexts.CallTracker
	// mark is the watermark of the tables, searchMark that of search.
	mark, searchMark *watermark.Watermark
	bulk             *bulk.Jobs
	settings         *settings
	api              *v1.Server
	server           *service.Server

	follower atomic.Pointer[bus.Follower]
	answered atomic.Bool                  // ClickHouse has answered once
	balanced atomic.Bool                  // the balances are loaded
	answers  atomic.Pointer[bus.Follower] // discovery results
	outcomes atomic.Pointer[bus.Follower] // context results
}

// New builds a service that already listens: connections queue until Run. If Run is not called, the
// caller must call Close.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("query-api: configuration: %w", err)
	}
	if deps.ClickHouse == nil {
		return nil, errors.New("query-api: ClickHouse connection is missing")
	}
	if deps.Secret == nil {
		return nil, errors.New("query-api: root secret is missing")
	}
	cfg = cfg.WithDefaults()
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Registerer == nil {
		deps.Registerer = prometheus.NewRegistry()
	}
	if deps.Tracing == nil {
		deps.Tracing = noop.NewTracerProvider()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Platforms == nil {
		deps.Platforms = identity.Default()
	}
	origins, err := v1.ParseOrigins(cfg.Origins)
	if err != nil {
		return nil, fmt.Errorf("query-api: %w", err)
	}
	description, err := Description()
	if err != nil {
		return nil, fmt.Errorf("query-api: %w", err)
	}
	tracer := deps.Tracing.Tracer("muster/query-api")
	s := &Service{cfg: cfg, deps: deps, accounts: account.NewDirectory()}
	s.store, err = readstore.New(ctx, cfg.readstoreConfig(), readstore.Deps{
		Conn: deps.ClickHouse, Suppressed: deps.Suppressed, Logger: deps.Logger, Registerer: deps.Registerer,
		Tracer: tracer,
	})
	if err != nil {
		return nil, fmt.Errorf("query-api: %w", err)
	}
	s.finder, err = discovery.New(discovery.Config{
		Bus: deps.Bus, Budget: cfg.DiscoveryBudget, Logger: deps.Logger, Registerer: deps.Registerer, Now: deps.Now,
	})
	if err != nil {
		s.store.Close()
		return nil, fmt.Errorf("query-api: %w", err)
	}
	if err := s.openSearch(tracer); err != nil {
		s.store.Close()
		return nil, fmt.Errorf("query-api: %w", err)
	}
	if err := s.openMeter(); err != nil {
		s.store.Close()
		return nil, fmt.Errorf("query-api: %w", err)
	}
	if err := s.openContexts(); err != nil {
		s.store.Close()
		return nil, errors.Join(fmt.Errorf("query-api: %w", err), s.closeMeter())
	}
	s.openWatermarks()
	if err := s.openBulk(); err != nil {
		s.store.Close()
		return nil, errors.Join(fmt.Errorf("query-api: %w", err), s.contexts.Close(), s.closeMeter())
	}
	if s.settings, err = s.newSettings(); err != nil {
		s.store.Close()
		return nil, errors.Join(fmt.Errorf("query-api: %w", err), s.contexts.Close(), s.bulk.Close(), s.closeMeter())
	}
	s.api, err = v1.New(v1.Config{
		UploadDir: filepath.Join(cfg.DataDir, "uploads"),
		Uncounted: cfg.Unmetered, WebhookAllow: cfg.WebhookAllow, RequestTimeout: cfg.RequestTimeout,
		MaxBodyBytes: cfg.MaxBodyBytes, AnswerBytes: cfg.ResponseBytes, ReadGrace: cfg.ReadGrace,
		MinReadRate: cfg.MinReadRate, Origins: origins, Pages: cfg.Pages,
	}, v1.Deps{
		Store: s.store, Search: s.search, Companies: s.companies, Accounts: s.accounts, Meter: s.meter, Platforms: deps.Platforms,
		Description: description,
		Finder:      s.finder, Contexts: s.contexts, AsOf: s.mark.AsOf, SearchAsOf: s.searchMark.AsOf,
		Bulk: s.bulk, Questions: deps.Questions, Analyze: deps.Analyze, Erased: s.isErased,
		Settings: s.settings,
		Logger:   deps.Logger, Registerer: deps.Registerer, Tracer: tracer, Now: deps.Now,
	})
	if err == nil {
		s.server, err = service.NewServer(ctx, service.ServerConfig{
			Addr: cfg.Addr, Handler: s.api, Logger: deps.Logger,
			ReadHeaderTimeout: cfg.ReadHeaderTimeout, ReadTimeout: cfg.ReadTimeout, WriteTimeout: cfg.WriteTimeout,
			IdleTimeout: cfg.IdleTimeout, StopTimeout: cfg.StopTimeout, MaxHeaderBytes: v1.MaxHeaderBytes,
		})
	}
	if err != nil {
		s.store.Close()
		return nil, errors.Join(fmt.Errorf("query-api: %w", err), s.bulk.Close(), s.settings.close(), s.closeMeter())
	}
	return s, nil
}

// openWatermarks creates the watermarks of the read models.
func (s *Service) openWatermarks() {
	tasks := []string{event.TopicAnswerTask}
	cfg := watermark.Config{
		Bus: s.deps.Bus, Groups: []bus.GroupTopics{
			{Group: readmodel.RecordsGroup, Topics: readmodel.RecordTopics()},
			{Group: readmodel.AnswersGroup, Topics: tasks},
		},
		Interval: s.cfg.WatermarkInterval, Logger: s.deps.Logger, Now: s.deps.Now,
	}
	s.mark = watermark.New(cfg)
	cfg.Groups = append(slices.Clone(cfg.Groups), bus.GroupTopics{Group: readmodel.LinkedGroup, Topics: tasks})
	if s.deps.OpenSearch != nil {
		cfg.Groups = append(cfg.Groups, bus.GroupTopics{Group: searchindex.SinkGroup, Topics: tasks})
		cfg.Visible = searchindex.RefreshInterval
	}
	s.searchMark = watermark.New(cfg)
}

// companyIndexShare is the share of the search index's memory that companies get in addition.
const companyIndexShare = 4

// openSearch opens the searchers of people and companies.
func (s *Service) openSearch(tracer trace.Tracer) error {
	key, err := s.deps.Secret.Key(cursor.KeyName, cursor.KeySize)
	if err != nil {
		return err
	}
	documents, err := s.deps.Secret.Key(searchindex.KeyName, searchindex.KeySize)
	if err != nil {
		return err
	}
	cfg, deps := s.cfg.searchConfig().WithDefaults(), search.Deps{
		Collection: readmodel.PeopleCollection(), Documents: s.store.NetworkDocuments, Hidden: s.store.Hidden,
		Conn: s.deps.ClickHouse, Store: s.store, Key: key, Logger: s.deps.Logger, Tracer: tracer, Now: s.deps.Now,
		Registerer: s.deps.Registerer, OpenSearch: s.deps.OpenSearch, DocumentKey: documents,
	}
	if s.search, err = search.New(cfg, deps); err != nil {
		return err
	}
	cfg.IndexBytes /= companyIndexShare
	deps.Collection, deps.Documents = readmodel.CompaniesCollection(), s.store.CompanyDocuments
	deps.Hidden = func() []uint64 { return nil }
	deps.Beside = s.search
	if s.companies, err = search.New(cfg, deps); err != nil {
		s.search.Close()
	}
	return err
}

// openContexts opens the tracker of context calls.
func (s *Service) openContexts() (err error) {
	cfg := contexts.Config{
		Bus: s.deps.Bus, Store: s.store, SingleReplica: s.deps.Redis == nil, Logger: s.deps.Logger,
		Registerer: s.deps.Registerer, Now: s.deps.Now,
	}
	if s.deps.Redis != nil {
		cfg.Abandoned = contexts.NewRedisAbandonedCalls(s.deps.Redis, redisPrefix+"contexts:left:")
	}
	cfg.Erased = func(c *event.Context) bool { return s.deps.Suppressed.Context(s.deps.Platforms, c) }
	if !s.cfg.Unmetered {
		cfg.Settle = func(ctx context.Context, c *event.Context) error { return v1.SettleContext(ctx, s.meter, c) }
	}
	s.contexts, err = contexts.New(cfg)
	return err
}

// openBulk opens the bulk jobs.
func (s *Service) openBulk() error {
	key, err := s.deps.Secret.Key(bulk.KeyName, bulk.KeyBytes)
	if err != nil {
		return err
	}
	cfg := bulk.Config{
		Bus: s.deps.Bus, Conn: s.deps.ClickHouse, Key: key, Suppressed: s.deps.Suppressed, Logger: s.deps.Logger,
		Registerer: s.deps.Registerer, Now: s.deps.Now, AsOf: s.mark.AsOf,
	}
	if !s.cfg.Unmetered {
		cfg.Charge = func(ctx context.Context, job *event.BulkJob, chunk int, answers []*bulk.Answer) error {
			return v1.ChargeBulk(ctx, s.meter, job, chunk, answers, s.deps.Now())
		}
		cfg.Release = func(ctx context.Context, job *event.BulkJob, chunks []int) error {
			return v1.ReleaseBulk(ctx, s.meter, job, chunks)
		}
		cfg.Active = func(organization string) bool {
			o, ok := s.accounts.Organization(organization)
			return ok && o.Active
		}
	}
	s.bulk, err = bulk.New(cfg)
	return err
}

// Run follows the account topic and serves until ctx ends, then finishes in-flight requests. It
// returns the error that stopped it, and nil after an orderly stop.
func (s *Service) Run(ctx context.Context) error {
	defer s.store.Close()
	defer s.closeSearch()
	if err := errors.Join(s.search.WarmUp(), s.companies.WarmUp()); err != nil {
		return err
	}
	// Requests in flight need the accounts after ctx ends.
	follower := s.accounts.Follow(context.WithoutCancel(ctx), s.deps.Bus, s.deps.Logger)
	answers := s.finder.Follow(context.WithoutCancel(ctx))
	s.answers.Store(answers)
	outcomes := s.contexts.Follow(context.WithoutCancel(ctx))
	s.outcomes.Store(outcomes)
	// Stored last: Ready checks it first.
	s.follower.Store(follower)
	ctx, stop := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		<-follower.Done()
		stop(errFollowingEnded)
	})
	// Requests in flight write to the ledger after ctx ends.
	writing, endWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer endWriting()
	written := make(chan error, 1)
	go func() { written <- s.writeLedger(writing) }()
	var counting sync.WaitGroup
	counting.Go(func() { s.meter.Run(writing) })
	watch.Go(func() { s.loadBalances(ctx) })
	watch.Go(func() { s.store.WatchErasures(ctx) })
	watch.Go(func() { s.purgeAnswers(ctx) })
	watch.Go(func() { s.mark.Run(ctx) })
	watch.Go(func() { s.searchMark.Run(ctx) })
	charged := make(chan error, 1)
	go func() { charged <- s.contexts.Run(ctx) }()
	// Jobs need the accounts, to know which organizations are active, and the erasures.
	answered := make(chan error, 1)
	go func() { answered <- s.runBulk(ctx, follower.Ready()) }()
	// Calls waiting for a profile get a response without it during shutdown.
	defer context.AfterFunc(ctx, s.contexts.StopWaiting)()
	err := s.server.Run(ctx)
	if errors.Is(context.Cause(ctx), errFollowingEnded) {
		err = errors.Join(err, errFollowingEnded)
	}
	stop(nil)
	err = errors.Join(err, <-charged, <-answered, s.finder.Close(), answers.Close(), s.contexts.Close(), s.bulk.Close(),
		s.settings.close(), outcomes.Close(), follower.Close())
	watch.Wait()
	endWriting()
	counting.Wait()
	err = errors.Join(err, <-written)
	s.closeRates()
	if s.kept != nil {
		err = errors.Join(err, s.kept.Close())
	}
	if err != nil {
		return fmt.Errorf("query-api: %w", err)
	}
	return nil
}

// runBulk runs bulk jobs until ctx ends, once the accounts and the suppression set are loaded.
func (s *Service) runBulk(ctx context.Context, accounts <-chan struct{}) error {
	select {
	case <-accounts:
	case <-ctx.Done():
		return nil
	}
	if s.deps.Suppressed.WaitLoaded(ctx) != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	return s.bulk.Run(ctx, s.api)
}

// errFollowingEnded stops the service: without the accounts no call can be authenticated.
var errFollowingEnded = errors.New("account follower exited")

func (s *Service) closeSearch() {
	s.companies.Close()
	s.search.Close()
}

// Close releases the resources of New, for a service whose Run is never called.
func (s *Service) Close() error {
	s.closeSearch()
	s.store.Close()
	err := errors.Join(s.server.Close(), s.finder.Close(), s.contexts.Close(), s.bulk.Close(),
		s.settings.close(), s.closeMeter())
	if err != nil {
		return fmt.Errorf("query-api: %w", err)
	}
	return nil
}

// URL returns the listening address as an http URL without a path.
func (s *Service) URL() string { return s.server.URL() }

// Ready is a readiness check: accounts and balances are loaded, and ClickHouse has answered once. A
// later ClickHouse outage does not make the service unready, since it can still respond with
// errors.
func (s *Service) Ready(ctx context.Context) error {
	follower := s.follower.Load()
	if follower == nil {
		return errors.New("not running")
	}
	select {
	case <-follower.Ready():
	default:
		return errors.New("accounts are loading")
	}
	if !s.deps.Suppressed.IsLoaded() {
		return errors.New("suppression set is loading")
	}
	if !s.balanced.Load() {
		return errors.New("balances are loading")
	}
	select {
	case <-s.answers.Load().Ready():
	default:
		return errors.New("discovery result topic is opening")
	}
	select {
	case <-s.outcomes.Load().Ready():
	default:
		return errors.New("context topic is opening")
	}
	if s.answered.Load() {
		return nil
	}
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("ClickHouse unavailable: %w", err)
	}
	s.answered.Store(true)
	return nil
}
