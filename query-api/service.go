package queryapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/platform/bus"
	"muster/platform/service"
	"muster/query-api/internal/account"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/discovery"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/cursor"
	"muster/query-api/internal/search/postings"
	v1 "muster/query-api/internal/v1"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// Config is the configuration of a [Service]. Zero fields take their defaults.
type Config struct {
	// Addr is host:port to listen on; port 0 takes a free one. Default 127.0.0.1:8080.
	Addr string
	// DataDir is a folder of this replica alone, for usage events that are not
	// published yet and, without Redis, answers to calls with an Idempotency-Key. Required.
	DataDir string
	// RequestTimeout bounds the work on one request; default 10 s.
	RequestTimeout time.Duration
	// ReadHeaderTimeout, ReadTimeout, WriteTimeout and IdleTimeout are those of
	// a connection; defaults 10 s, 30 s, 60 s and 2 min.
	ReadHeaderTimeout time.Duration
	ReadTimeout       time.Duration
	WriteTimeout      time.Duration
	IdleTimeout       time.Duration
	// StopTimeout is how long requests in flight may take when the service stops; default 4 s.
	StopTimeout time.Duration
	// MaxBodyBytes bounds a request body; default 1 MiB (rulings.md, Errors).
	MaxBodyBytes int64
	// WebhookAllow are addresses that webhooks may go to although they are not public,
	// and by plain http too: what the webhook-sender allows.
	WebhookAllow []netip.Prefix
	// AnswerBytes bounds the memory that answers of more than 4 MiB take together; default 256 MiB. An organization
	// may hold as much of it as it leaves free.
	AnswerBytes int64
	// ReadGrace and MinReadRate bound how slowly a caller may read an answer of more than 64 KiB; default 10 s and then
	// 256 KiB a second.
	ReadGrace   time.Duration
	MinReadRate int64
	// DiscoveryBudget is the time from a discovery call to its answer; default 20 s.
	DiscoveryBudget time.Duration
	// GatherKeys bounds the keys of one read-model query; default and maximum 256.
	GatherKeys int
	// GatherQueries bounds the queries of one kind that run at once; default 2.
	GatherQueries int
	// GatherLinger is how long a query waits for more keys when many callers
	// are about; default 200 µs, negative for none.
	GatherLinger time.Duration
	// MaxQueries bounds all read-model queries that run at once, and is how many
	// connections the ClickHouse pool needs; default: as many as there are
	// processors, at least 2. Raise it for a store of many nodes.
	MaxQueries int
	// Uncounted lets everybody call and counts nothing. It is for measuring what
	// counting costs, and cannot be set from outside the program.
	Uncounted bool
	// redisPatience multiplies how long Redis is waited for; 0 is 1. It is for tests, which
	// do not want a server to be away because their machine is busy.
	redisPatience int
	// QueryTimeout bounds one read-model query; default 5 s.
	QueryTimeout time.Duration
	// SearchTimeout bounds the work that is a search's own, SearchDeadline a search as a whole, with its wait for others and
	// with what is read for the first time; defaults 3 s and 8 s.
	SearchTimeout, SearchDeadline time.Duration
	// SearchMemory bounds the memory of one statement of a search, in bytes; default 1 GiB.
	SearchMemory uint64
	// SearchRows bounds the rows that one statement of a search reads; default 200 million.
	SearchRows uint64
	// SearchQueries bounds the searches that run at once; default: as many as
	// there are processors, at least 2.
	SearchQueries int
	// SearchStatsAge is how old the statistics may be that scores use; default 10 s,
	// negative: never kept. What takes long to count is kept longer.
	SearchStatsAge time.Duration
	// SearchPostings bounds in bytes what is kept in memory of who has which words; default 256 MiB, negative: nothing is.
	SearchPostings int
	// SearchDocuments bounds in bytes what is kept in memory of the documents that searches showed lately; default 32 MiB,
	// negative: nothing is.
	SearchDocuments int
}

// DefaultSearchMemory is the default of SearchPostings in MiB.
const DefaultSearchMemory = postings.DefaultBytes >> 20

// PostingsBytes is SearchPostings of a number of MiB, 0 or less for none.
func PostingsBytes(mebibytes int) int {
	if mebibytes <= 0 {
		return -1
	}
	return mebibytes << 20
}

// WithDefaults fills in the zero fields.
func (c Config) WithDefaults() Config {
	set(&c.Addr, "127.0.0.1:8080")
	set(&c.RequestTimeout, 10*time.Second)
	set(&c.ReadHeaderTimeout, 10*time.Second)
	set(&c.ReadTimeout, 30*time.Second)
	set(&c.WriteTimeout, time.Minute)
	set(&c.IdleTimeout, 2*time.Minute)
	set(&c.StopTimeout, 4*time.Second)
	set(&c.MaxBodyBytes, 1<<20)
	set(&c.AnswerBytes, 256<<20)
	set(&c.ReadGrace, 10*time.Second)
	set(&c.MinReadRate, 256<<10)
	set(&c.DiscoveryBudget, event.DiscoveryBudget)
	g := c.gathering().WithDefaults()
	c.GatherKeys, c.GatherQueries, c.GatherLinger = g.MaxKeys, g.InFlight, g.Linger
	c.MaxQueries, c.QueryTimeout = g.MaxQueries, g.QueryTimeout
	f := c.searching().WithDefaults()
	c.SearchTimeout, c.SearchDeadline, c.SearchMemory, c.SearchRows = f.Timeout, f.Deadline, f.MaxMemory, f.MaxRows
	c.SearchQueries, c.SearchStatsAge = f.Concurrent, f.StatsAge
	return c
}

// Validate says what is wrong with a Config.
func (c Config) Validate() error {
	var errs []error
	for name, value := range map[string]int64{
		"request_timeout": int64(c.RequestTimeout), "read_header_timeout": int64(c.ReadHeaderTimeout),
		"read_timeout": int64(c.ReadTimeout), "write_timeout": int64(c.WriteTimeout), "idle_timeout": int64(c.IdleTimeout),
		"stop_timeout": int64(c.StopTimeout), "max_body_bytes": c.MaxBodyBytes, "answer_bytes": c.AnswerBytes, "read_grace": int64(c.ReadGrace), "min_read_rate": c.MinReadRate, "gather_keys": int64(c.GatherKeys),
		"gather_queries": int64(c.GatherQueries), "max_queries": int64(c.MaxQueries), "query_timeout": int64(c.QueryTimeout), "discovery_budget": int64(c.DiscoveryBudget),
	} {
		if value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative", name))
		}
	}
	return errors.Join(errs...)
}

// Connections is how many connections the ClickHouse pool needs: a search looks for the parts of the tables while it reads two of them.
func (c Config) Connections() int {
	c = c.WithDefaults()
	return c.MaxQueries + 3*c.SearchQueries
}

func (c Config) searching() search.Config {
	return search.Config{
		Timeout: c.SearchTimeout, Deadline: c.SearchDeadline, MaxMemory: c.SearchMemory, MaxRows: c.SearchRows, Concurrent: c.SearchQueries, StatsAge: c.SearchStatsAge,
		Postings: c.SearchPostings,
	}
}

func (c Config) gathering() readstore.Config {
	return readstore.Config{
		MaxKeys: c.GatherKeys, InFlight: c.GatherQueries, MaxQueries: c.MaxQueries, QueryTimeout: c.QueryTimeout, Linger: c.GatherLinger,
		ShownBytes: c.SearchDocuments,
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Deps is what a [Service] works with.
type Deps struct {
	// ClickHouse has at least Config.Connections connections. The service does
	// not close it.
	ClickHouse driver.Conn
	// Bus is where the account topic is.
	Bus bus.Config
	// Secret is the root secret, the same for all replicas. Required.
	Secret *service.RootSecret
	// Redis shares limits, balances and stored answers between replicas; nil for
	// one replica, which keeps them in memory and stored answers in DataDir. The service does not close it.
	Redis redis.UniversalClient
	// Suppressed says who was erased and is not to be shown; nil: nobody. Whoever
	// makes it keeps it up to date; the service is not ready before it is loaded.
	Suppressed *suppress.Set
	// Platforms says which URLs belong to whom; default identity.Default().
	Platforms *identity.Platforms
	// Logger defaults to none, Registerer to one of its own, Tracing to none, Now to time.Now.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Tracing    trace.TracerProvider
	Now        func() time.Time
}

// Service is query-api.
type Service struct {
	cfg      Config
	deps     Deps
	accounts *account.Directory
	meter    *metering.Meter
	outbox   *ledger.Outbox
	stored   *idempotency.Answers
	kept     *idempotency.Disk // what stored is in; nil: Redis
	rates    *limits.Redis     // nil: without Redis
	store    *readstore.Store
	search   *search.Searcher
	finder   *discovery.Finder
	contexts *contexts.Desk
	api      *v1.Server
	server   *service.Server

	follower atomic.Pointer[bus.Follower]
	answered atomic.Bool                  // the store has answered once
	balanced atomic.Bool                  // the balances are there
	answers  atomic.Pointer[bus.Follower] // of discovery
	outcomes atomic.Pointer[bus.Follower] // of context calls
}

// New builds a service that listens already: connections queue until Run.
// Whoever does not call Run must call Close.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("query-api: configuration: %w", err)
	}
	if deps.ClickHouse == nil {
		return nil, errors.New("query-api: no ClickHouse connection")
	}
	if deps.Secret == nil {
		return nil, errors.New("query-api: no root secret")
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
	description, err := Description()
	if err != nil {
		return nil, fmt.Errorf("query-api: %w", err)
	}
	tracer := deps.Tracing.Tracer("muster/query-api")
	s := &Service{cfg: cfg, deps: deps, accounts: account.NewDirectory()}
	s.store, err = readstore.New(ctx, cfg.gathering(), readstore.Deps{
		Conn: deps.ClickHouse, Suppressed: deps.Suppressed, Logger: deps.Logger, Registerer: deps.Registerer, Tracer: tracer,
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
	if s.search, err = s.searcher(tracer); err != nil {
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
	s.api, err = v1.New(v1.Config{Uncounted: cfg.Uncounted, WebhookAllow: cfg.WebhookAllow, RequestTimeout: cfg.RequestTimeout, MaxBodyBytes: cfg.MaxBodyBytes, AnswerBytes: cfg.AnswerBytes, ReadGrace: cfg.ReadGrace, MinReadRate: cfg.MinReadRate}, v1.Deps{
		Store: s.store, Search: s.search, Accounts: s.accounts, Meter: s.meter, Platforms: deps.Platforms, Description: description,
		Finder: s.finder, Contexts: s.contexts,
		Logger: deps.Logger, Registerer: deps.Registerer, Tracer: tracer, Now: deps.Now,
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
		return nil, errors.Join(fmt.Errorf("query-api: %w", err), s.closeMeter())
	}
	return s, nil
}

// searcher makes what answers searches.
func (s *Service) searcher(tracer trace.Tracer) (*search.Searcher, error) {
	key, err := s.deps.Secret.Key(cursor.KeyName, cursor.KeySize)
	if err != nil {
		return nil, err
	}
	return search.New(s.cfg.searching(), search.Deps{
		Conn: s.deps.ClickHouse, Store: s.store, Key: key, Logger: s.deps.Logger, Tracer: tracer, Now: s.deps.Now, Registerer: s.deps.Registerer,
	})
}

// openContexts makes what takes context calls.
func (s *Service) openContexts() (err error) {
	cfg := contexts.Config{
		Bus: s.deps.Bus, Store: s.store, Alone: s.deps.Redis == nil, Logger: s.deps.Logger, Registerer: s.deps.Registerer, Now: s.deps.Now,
	}
	if s.deps.Redis != nil {
		cfg.Left = contexts.NewRedisLeft(s.deps.Redis, redisPrefix+"contexts:left:")
	}
	cfg.Erased = func(c *event.Context) bool {
		_, erased := s.deps.Suppressed.Document(s.deps.Platforms, c.Profile)
		return erased || s.store.Erased(c.Identities)
	}
	if !s.cfg.Uncounted {
		cfg.Settle = func(ctx context.Context, c *event.Context) error { return v1.SettleContext(ctx, s.meter, c) }
	}
	s.contexts, err = contexts.New(cfg)
	return err
}

// Run follows the accounts and serves until ctx ends; requests in flight are
// finished first. It returns what kept it from working, nil after an orderly stop.
func (s *Service) Run(ctx context.Context) error {
	defer s.store.Close()
	defer s.search.Close()
	if err := s.search.Begin(); err != nil {
		return err
	}
	// The accounts are needed for as long as requests are in flight.
	follower := s.accounts.Follow(context.WithoutCancel(ctx), s.deps.Bus, s.deps.Logger)
	answers := s.finder.Follow(context.WithoutCancel(ctx))
	s.answers.Store(answers)
	outcomes := s.contexts.Follow(context.WithoutCancel(ctx))
	s.outcomes.Store(outcomes)
	s.follower.Store(follower) // last: Ready looks at it first
	ctx, stop := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		<-follower.Done()
		stop(errFollowingEnded)
	})
	// The ledger is written for as long as requests are in flight.
	writing, endWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer endWriting()
	written := make(chan error, 1)
	go func() { written <- s.writeLedger(writing) }()
	var counting sync.WaitGroup
	counting.Go(func() { s.meter.Run(writing) })
	watch.Go(func() { s.balance(ctx) })
	watch.Go(func() { s.store.WatchErased(ctx) })
	watch.Go(func() { s.tidyAnswers(ctx) })
	charged := make(chan error, 1)
	go func() { charged <- s.contexts.Run(ctx) }()
	// Calls that wait for a profile are answered without it, in the time that requests in
	// flight have.
	defer context.AfterFunc(ctx, s.contexts.Leave)()
	err := s.server.Run(ctx)
	if errors.Is(context.Cause(ctx), errFollowingEnded) {
		err = errors.Join(err, errFollowingEnded)
	}
	stop(nil)
	err = errors.Join(err, <-charged, s.finder.Close(), answers.Close(), s.contexts.Close(), outcomes.Close(), follower.Close())
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

// errFollowingEnded: without the accounts nobody could be let in or kept out.
var errFollowingEnded = errors.New("following the accounts has ended")

// Close frees what New took, for a service whose Run is never called.
func (s *Service) Close() error {
	s.search.Close()
	s.store.Close()
	if err := errors.Join(s.server.Close(), s.finder.Close(), s.contexts.Close(), s.closeMeter()); err != nil {
		return fmt.Errorf("query-api: %w", err)
	}
	return nil
}

// URL is the address that is listened on, as an http URL without a path.
func (s *Service) URL() string { return s.server.URL() }

// Ready is a readiness check: the accounts are known, the balances are there, and the store has answered
// once. A store that goes away later does not make the service unready, since
// it then answers better than nobody.
func (s *Service) Ready(ctx context.Context) error {
	follower := s.follower.Load()
	if follower == nil {
		return errors.New("not running")
	}
	select {
	case <-follower.Ready():
	default:
		return errors.New("the accounts are being read")
	}
	if !s.deps.Suppressed.IsLoaded() {
		return errors.New("the suppression set is being read")
	}
	if !s.balanced.Load() {
		return errors.New("the balances are being added up")
	}
	select {
	case <-s.answers.Load().Ready():
	default:
		return errors.New("the topic of discovery's results is being opened")
	}
	select {
	case <-s.outcomes.Load().Ready():
	default:
		return errors.New("the topic of context calls is being opened")
	}
	if s.answered.Load() {
		return nil
	}
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	s.answered.Store(true)
	return nil
}
