package readstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/batchload"
	ch "muster/platform/clickhouse"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// ErrUnavailable is returned if a query failed or timed out, or the store is closing. It is retryable.
var ErrUnavailable = batchload.ErrUnavailable

// Config configures the batching of lookups. Zero fields take their defaults.
type Config struct {
	// MaxKeys is the maximum number of keys of one query; default and maximum readmodel.MaxKeys.
	MaxKeys int
	// InFlight is the maximum number of concurrent queries of one kind; default 2.
	InFlight int
	// MaxQueries is the maximum number of concurrent queries, and of connections they need; default: number of CPUs, at
	// least 2. More queries are smaller but not faster on the same CPUs: raise it for a cluster with many nodes.
	MaxQueries int
	// QueryTimeout bounds one query; default 5 s.
	QueryTimeout time.Duration
	// Linger is how long a query waits for more keys under concurrency; default 200 µs, negative for none.
	Linger time.Duration
	// ShownBytes bounds the cache of documents recently returned by searches; default 32 MiB, negative disables it.
	ShownBytes int
}

// WithDefaults returns c with zero fields set to their defaults.
func (c Config) WithDefaults() Config {
	if c.MaxKeys <= 0 || c.MaxKeys > readmodel.MaxKeys {
		c.MaxKeys = readmodel.MaxKeys
	}
	if c.InFlight <= 0 {
		c.InFlight = 2
	}
	if c.MaxQueries <= 0 {
		c.MaxQueries = max(2, runtime.GOMAXPROCS(0))
	}
	if c.QueryTimeout <= 0 {
		c.QueryTimeout = 5 * time.Second
	}
	if c.ShownBytes == 0 {
		c.ShownBytes = 32 << 20
	}
	if c.Linger == 0 {
		c.Linger = 200 * time.Microsecond
	}
	return c
}

// Deps holds the dependencies of a [Store]. All fields except Suppressed are required.
type Deps struct {
	Conn driver.Conn
	// Suppressed is the set of erased people; nil if there are none.
	Suppressed *suppress.Set
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Tracer     trace.Tracer
}

// Store reads the read models. It is safe for concurrent use.
type Store struct {
	conn       driver.Conn
	suppressed *suppress.Set
	logger     *slog.Logger
	tracer     trace.Tracer

	lookups     *batchload.Loader[uint64, []readmodel.LookupRow]
	network     *batchload.Loader[uint64, []*readmodel.NetworkPersonRow]
	codehost    *batchload.Loader[int64, *readmodel.AnswerRow]
	seen        *batchload.Loader[uint64, []readmodel.VersionBumpRow]
	microblog   *batchload.Loader[uint64, []*readmodel.ProfileRow]
	companies   *batchload.Loader[uint64, []*readmodel.CompanyRow]
	headcounts  *batchload.Loader[uint64, []*readmodel.HeadcountRow]
	discoveries *batchload.Loader[uint64, []*readmodel.DiscoveryRow]
	discovered  *batchload.Loader[uint64, []discoveredStatement]
	contexts    *batchload.Loader[uint64, []*readmodel.ContextRow]

	documents documentCache

	queryTimeout time.Duration

	hidden atomic.Pointer[[]uint64]

	layoutKnown, exactHints atomic.Bool // exactHints: the tables are known to be those of a single server

	closers []func()
}

// New returns a Store. It opens no connections. The caller must call Close.
func New(ctx context.Context, cfg Config, deps Deps) (*Store, error) {
	cfg = cfg.WithDefaults()
	metrics, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Store{
		documents: documentCache{max: cfg.ShownBytes}, queryTimeout: cfg.QueryTimeout,
		conn: deps.Conn, suppressed: deps.Suppressed, logger: deps.Logger, tracer: deps.Tracer,
	}
	b := builder{cfg: cfg, store: s, metrics: metrics, permits: make(chan struct{}, cfg.MaxQueries)}

	s.lookups = gatherFetched(ctx, b, "lookups",
		func(ctx context.Context, keys []uint64) (map[uint64][]readmodel.LookupRow, error) {
			s.findLayout(ctx)
			return readmodel.ReadLookups(func(query string, scan func(driver.Rows) error) error {
				return s.query(ctx, "lookups", query, readmodel.FormatKeys(keys), len(keys), scan)
			})
		})
	s.network = gatherRows(ctx, b, "network_people", readmodel.NetworkPeopleQuery(),
		func(found map[uint64][]*readmodel.NetworkPersonRow, r *readmodel.NetworkPersonRow) {
			found[r.ProfileHash] = append(found[r.ProfileHash], r)
		}, readmodel.NewestNetworkPeople)
	s.codehost = gatherRows(ctx, b, readmodel.AnswersTable, readmodel.AnswersQuery(),
		func(found map[int64]*readmodel.AnswerRow, r *readmodel.AnswerRow) {
			if other := found[r.UserID]; other == nil || r.Newer(other) {
				found[r.UserID] = r
			}
		}, nil)
	s.seen = gatherRows(ctx, b, "seen_versions", readmodel.VersionBumpsQuery(),
		func(found map[uint64][]readmodel.VersionBumpRow, r *readmodel.VersionBumpRow) {
			found[r.KeyHash] = append(found[r.KeyHash], *r)
		}, nil)
	s.companies = gatherRows(ctx, b, "network_companies", readmodel.CompaniesQuery(),
		func(found map[uint64][]*readmodel.CompanyRow, r *readmodel.CompanyRow) {
			found[r.CompanyHash] = append(found[r.CompanyHash], r)
		}, readmodel.NewestCompanies)
	s.headcounts = gatherRows(ctx, b, readmodel.HeadcountTable, readmodel.HeadcountsQuery(),
		func(found map[uint64][]*readmodel.HeadcountRow, r *readmodel.HeadcountRow) {
			found[r.CompanyHash] = append(found[r.CompanyHash], r)
		}, nil)
	s.discoveries = gatherRows(ctx, b, readmodel.DiscoveryTable, readmodel.DiscoveriesQuery(),
		func(found map[uint64][]*readmodel.DiscoveryRow, r *readmodel.DiscoveryRow) {
			found[r.InputHash] = append(found[r.InputHash], r)
		}, nil)
	s.discovered = gatherFetched(ctx, b, readmodel.DiscoveredTable, s.readDiscovered)
	s.microblog = gatherFetched(ctx, b, microblogTable, s.microblogHolders)
	s.contexts = gatherRows(ctx, b, readmodel.ContextTable, readmodel.ContextsQuery(),
		func(found map[uint64][]*readmodel.ContextRow, r *readmodel.ContextRow) {
			found[r.RequestHash] = append(found[r.RequestHash], r)
		}, nil)
	return s, nil
}

// findLayout finds out once whether the tables are those of a single server.
func (s *Store) findLayout(ctx context.Context) {
	if s.layoutKnown.Load() {
		return
	}
	layout, err := readmodel.FindLayout(ctx, s.conn)
	if err != nil {
		return // Hints are not used until then.
	}
	s.exactHints.Store(layout.Cluster == "")
	s.layoutKnown.Store(true)
}

// Close fails pending reads and waits for running queries.
func (s *Store) Close() {
	for _, c := range s.closers {
		c()
	}
}

// Ping checks the connection to ClickHouse.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("%w: ping: %w", ErrUnavailable, err)
	}
	return nil
}

// builder creates batch loaders with common permits and metrics.
type builder struct {
	cfg     Config
	store   *Store
	metrics *metrics
	permits chan struct{}
}

// row is a scan target of readmodel.
type row[T any] interface {
	*T
	ScanDest() []any
}

// gatherRows returns a batch loader for a query of readmodel. add adds one row to the result. finish, if not nil,
// converts the collected rows of a key to its value.
func gatherRows[K int64 | uint64, V, T any, R row[T]](
	ctx context.Context, b builder, table, query string, add func(map[K]V, R), finish func(V) V,
) *batchload.Loader[K, V] {
	return gatherFetched(ctx, b, table, func(ctx context.Context, keys []K) (map[K]V, error) {
		found := make(map[K]V, len(keys))
		err := b.store.query(ctx, table, query, readmodel.FormatKeys(keys), len(keys), func(rows driver.Rows) error {
			r := R(new(T))
			if err := rows.Scan(r.ScanDest()...); err != nil {
				return err
			}
			add(found, r)
			return nil
		})
		if finish != nil && err == nil {
			for k, v := range found {
				found[k] = finish(v)
			}
		}
		return found, err
	})
}

// gatherFetched returns a batch loader for fetch.
func gatherFetched[K int64 | uint64, V any](
	ctx context.Context, b builder, table string, fetch func(context.Context, []K) (map[K]V, error),
) *batchload.Loader[K, V] {
	g := batchload.New(ctx, batchload.Config[K, V]{
		Name: table, MaxKeys: b.cfg.MaxKeys, InFlight: b.cfg.InFlight, Timeout: b.cfg.QueryTimeout,
		Linger:  b.cfg.Linger,
		Permits: b.permits, Fetch: fetch,
		Observe: func(keys int, took time.Duration, err error) { b.observe(table, keys, took, err) },
	})
	b.store.closers = append(b.store.closers, g.Close)
	return g
}

// query runs a query of readmodel and calls scan at each row.
func (s *Store) query(ctx context.Context, table, query, keys string, n int, scan func(driver.Rows) error) (err error) {
	ctx, span := s.tracer.Start(ctx, "read "+table, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "clickhouse"), attribute.String("db.collection.name", table),
		attribute.Int("db.operation.batch.size", n)))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "query failed")
		}
		span.End()
	}()
	ctx = clickhouse.Context(ctx,
		clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterKeys: keys}),
		// A second thread does not help reads of a few rows. Small responses are cheaper if they are sent at once.
		clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1, "wait_end_of_query": 1}))
	return ch.ReadRows(ctx, s.conn, query, scan)
}

// observe records one query. Failed queries are logged only here, because many callers wait for one query.
func (b builder) observe(table string, keys int, took time.Duration, err error) {
	b.metrics.keys.WithLabelValues(table).Observe(float64(keys))
	result := "ok"
	switch {
	case errors.Is(err, batchload.ErrClosed), errors.Is(err, context.Canceled):
		result = "canceled"
	case err != nil:
		result = "error"
		b.store.logger.Error("readstore: query failed", slog.String("table", table), slog.Int("keys", keys),
			slog.Duration("took", took), slog.Any("error", err))
	}
	b.metrics.seconds.WithLabelValues(table, result).Observe(took.Seconds())
}

type metrics struct {
	keys    *prometheus.HistogramVec
	seconds *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		keys: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "muster_query_api_batch_keys",
			Help:    "Keys of one read-model query, batched from concurrent requests.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}, []string{"table"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "muster_query_api_read_duration_seconds",
			Help:    "Duration of read-model queries by table and result (ok, error, canceled).",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"table", "result"}),
	}
	for _, c := range []prometheus.Collector{m.keys, m.seconds} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register read metrics: %w", err)
		}
	}
	return m, nil
}

// isNetworkErased and isCodehostErased report whether a row belongs to an erased person. Such rows do not exist for
// readers, even while they are still stored.
func (s *Store) isNetworkErased(r *readmodel.NetworkPersonRow) bool {
	_, erased := s.suppressed.Subject(suppress.Subject{
		Platform: identity.Network, ID: r.ProfileID, Username: r.UsernameKey, Emails: r.EmailKeys,
	})
	return erased
}

func (s *Store) isCodehostErased(r *readmodel.AnswerRow) bool {
	_, erased := s.suppressed.Subject(suppress.Subject{
		Platform: identity.Codehost, ID: strconv.FormatInt(r.UserID, 10), Username: r.UsernameKey, Emails: r.EmailKeys,
	})
	return erased
}

// withoutErasedAuthors returns an account without the commits of erased authors, which may be stored until its answer
// is rebuilt.
func (s *Store) withoutErasedAuthors(r *readmodel.AnswerRow) *readmodel.AnswerRow {
	if !s.suppressed.HasEmails() && !s.suppressed.HasDrop() {
		return r
	}
	return r.WithoutSuppressed(s.suppressed.Author)
}
