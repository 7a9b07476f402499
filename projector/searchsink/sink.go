package searchsink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/opensearch"
	"muster/projector/internal/rejected"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/searchindex"
	"muster/schemas/suppress"
)

// Group is the consumer group of the sink.
const Group = searchindex.SinkGroup

// CodeRefused is the code of a rejected touch whose document OpenSearch refuses.
const CodeRefused = "refused_by_search"

// Config configures a Sink. All fields are required.
type Config struct {
	// Consumer has the brokers, the retries, the logger and the registerer; group, topic, limits and handler are set
	// here.
	Consumer bus.BatchConsumerConfig
	Group    string
	// BreakFor is how long writes pause after OpenSearch failed BreakAfter times in a row.
	BreakFor   time.Duration
	BreakAfter uint32
}

// Deps are the dependencies of a Sink. All fields but Suppressed and Registerer are required.
type Deps struct {
	Client     *opensearch.Client
	Key        []byte // of document IDs, searchindex.KeySize bytes
	Conn       driver.Conn
	Suppressed *suppress.Set // people without documents; nil: none
	Rejected   *rejected.Publisher
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Tracer     trace.Tracer
	Now        func() time.Time
}

// Sink writes documents from touches. Create it with New and start it with Run.
type Sink struct {
	*bus.BatchConsumer

	cfg      Config
	deps     Deps
	layout   *readmodel.Layout // of the tables, once read
	indexers []*indexer        // of each collection
}

// indexer writes the documents of a collection.
type indexer struct {
	*Sink
	collection readmodel.SearchCollection
	writer     *writer

	last       map[int]int64 // offset after the last handled one, by partition
	generation int64         // of the topic; 0: not checked
}

// New returns a Sink. It does not connect.
func New(cfg Config, deps Deps) (*Sink, error) {
	if deps.Client == nil || deps.Conn == nil || len(deps.Key) != searchindex.KeySize {
		return nil, errors.New("search sink: missing client, connection or key")
	}
	w, err := newWriter(deps.Client, cfg, deps.Logger, deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Sink{cfg: cfg, deps: deps}
	for _, collection := range readmodel.SearchCollections() {
		s.indexers = append(s.indexers, &indexer{
			Sink: s, collection: collection, writer: w.of(collection.Name), last: make(map[int]int64),
		})
	}
	c := cfg.Consumer
	c.Group, c.Topics, c.Handle = cfg.Group, []string{event.TopicAnswerTask}, s.handle
	c.MaxAge, c.MaxMessages = maxTouchAge, maxTouches
	if s.BatchConsumer, err = bus.NewBatchConsumer(c); err != nil {
		return nil, err
	}
	return s, nil
}

func newWriter(
	client *opensearch.Client, cfg Config, logger *slog.Logger, reg prometheus.Registerer,
) (*writer, error) {
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	set, err := breaker.NewSet(breaker.Config{
		Name: "search-sink", Failures: cmp.Or(cfg.BreakAfter, 5), OpenFor: cmp.Or(cfg.BreakFor, 2*time.Second),
		KeyMetrics: true, Logger: logger, Registerer: reg, IsFailure: opensearch.IsTransient,
	})
	if err != nil {
		return nil, err
	}
	return &writer{indexes: newIndexes(client, ""), breaker: set, metrics: m}, nil
}

// of returns a writer to the indexes of a collection.
func (w *writer) of(collection string) *writer {
	own := *w
	own.names.Collection = collection
	return &own
}

// Run consumes until ctx ends, and creates and fills the indexes that do not exist.
func (s *Sink) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ensuring sync.WaitGroup
	for _, x := range s.indexers {
		ensuring.Go(func() { x.ensure(ctx) })
	}
	err := s.BatchConsumer.Run(ctx)
	stop()
	ensuring.Wait()
	return err
}

// ensure creates and fills the index if none is live, until it succeeds or ctx ends. Several sinks may do so at once.
func (s *indexer) ensure(ctx context.Context) {
	for {
		err := s.ensureOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "search sink: index not available, will retry",
			slog.String("collection", s.collection.Name), slog.Any("error", redact(err)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(ensureInterval):
		}
	}
}

// initialID is the ID of the index that sinks create.
const initialID = "initial"

func (s *indexer) ensureOnce(ctx context.Context) error {
	all, err := s.writer.list(ctx)
	if err != nil {
		return err
	}
	index := s.writer.names.Index(initialID)
	exists := false
	for _, t := range all {
		if t.live {
			if t.meta.Mapping != searchindex.Fingerprint(&s.collection) {
				s.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "search sink: index has an outdated mapping",
					slog.String("index", t.index), slog.String("hint", "run muster replay search"))
			}
			return nil
		}
		exists = exists || t.index == index
	}
	if !exists {
		_, err := s.writer.create(ctx, &s.collection, initialID, searchindex.Meta{})
		var refused *opensearch.Error
		if err != nil && (!errors.As(err, &refused) || !refused.Has("resource_already_exists_exception")) {
			return err
		}
	}
	fill := filler{collection: &s.collection, writer: s.writer, key: s.deps.Key, conn: s.deps.Conn, suppressed: s.deps.Suppressed}
	n, err := fill.run(ctx, index, nil)
	if err != nil {
		return err
	}
	if all, err = s.writer.list(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(t target) bool { return t.live }) {
		return nil // Another sink or a replay was faster.
	}
	if err := s.writer.promote(ctx, index); err != nil {
		return err
	}
	s.deps.Logger.LogAttrs(ctx, slog.LevelInfo, "search sink: index filled", slog.String("index", index),
		slog.Int64("documents", n))
	return nil
}

// redact returns err without what store errors quote: the statement has hashes of people.
func redact(err error) error {
	if code, ok := clickhouse.CodeOf(err); ok {
		return errors.New("search index: store error " + code.String())
	}
	return err
}

// touch is the newest touch of a person or company in a batch.
type touch struct {
	message *kafka.Message
	version int64 // of the row
	id      string
	bump    bool // event.AnswerTask.Bump, of all touches
}

func (s *Sink) handle(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := s.deps.Tracer.Start(ctx, "index documents", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "failed")
		}
		span.End()
	}()
	for _, x := range s.indexers {
		if touches := read(b, x.collection.Kind); len(touches) > 0 {
			if err := x.index(ctx, b, touches); err != nil {
				return redact(err)
			}
		}
		for _, r := range b.Ranges {
			x.last[r.Partition] = r.Last + 1
		}
	}
	return nil
}

// read returns the newest touch of each identity of a kind in a batch. Invalid touches are published by the builder of
// answers.
func read(b bus.Batch, kind record.Kind) []touch {
	byID := make(map[string]touch)
	for i := range b.Messages {
		m := &b.Messages[i]
		var t event.AnswerTask
		if json.Unmarshal(m.Value, &t) != nil || t.Validate() != nil || t.Kind != kind || t.Linking {
			continue
		}
		last, repeated := byID[t.ID]
		byID[t.ID] = touch{m, max(t.Version, last.version), t.ID, t.Bump && (!repeated || last.bump)}
	}
	out := make([]touch, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out = append(out, byID[id])
	}
	return out
}

// index writes the documents of touched people or companies to all indexes of the collection.
func (s *indexer) index(ctx context.Context, b bus.Batch, touches []touch) error {
	if s.layout == nil {
		layout, err := readmodel.FindLayout(ctx, s.deps.Conn)
		if err != nil {
			return err
		}
		s.layout = &layout
	}
	// Before the rows are read: a scan that fills an index created later reads rows as new as these.
	targets, err := breaker.DoWhenClosed(ctx, s.writer.breaker, breakerKey, s.writer.list)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return errNoIndex
	}
	if err := s.checkGeneration(ctx, b, targets); err != nil {
		return err
	}
	for part := range slices.Chunk(touches, rowsAtOnce) {
		operations, err := s.operations(ctx, part)
		if err != nil {
			return err
		}
		refusals := make(map[int]string)
		for _, t := range targets {
			refused, err := s.writer.write(ctx, t.index, operations)
			if errors.Is(err, errIndexGone) && !t.live {
				continue // A replay was abandoned.
			}
			if err != nil {
				return err
			}
			for _, r := range refused {
				refusals[r.position] = r.kind
			}
		}
		if err := s.reject(ctx, part, refusals); err != nil {
			return err
		}
	}
	return nil
}

// operations returns what is to be done for touches, by the rows that exist now.
func (s *indexer) operations(ctx context.Context, touches []touch) ([]operation, error) {
	rows, err := s.rows(ctx, touches)
	if err != nil {
		return nil, err
	}
	out := make([]operation, len(touches))
	for i, t := range touches {
		o := operation{
			id: searchindex.DocumentID(s.deps.Key, t.id), version: versionOf(s.generation, t.message.Offset), position: i,
		}
		if row := rows[t.id]; row != nil && !row.Deleted && !row.IsErased(s.deps.Suppressed) {
			if o.document, err = row.AppendDocument(nil, o.version, t.message.Partition); err != nil {
				return nil, err
			}
		}
		out[i] = o
	}
	return out, nil
}

// rows reads the rows of touches. On a cluster it reads again those that are older than their touches, from a
// replica that lags behind.
func (s *indexer) rows(ctx context.Context, touches []touch) (map[string]*searchindex.Row, error) {
	ids := make([]string, len(touches))
	for i, t := range touches {
		ids[i] = t.id
	}
	rows, err := searchindex.ReadRows(ctx, s.deps.Conn, &s.collection, ids)
	if err != nil || s.layout.Cluster == "" {
		return rows, err
	}
	for end := s.deps.Now().Add(laggingFor); ; {
		lagging := 0
		for _, t := range touches {
			row := rows[t.id]
			lags := row == nil && !t.bump || row != nil && row.Version < t.version
			if t.version > 0 && lags && !s.erased(t.id) {
				lagging++
			}
		}
		if lagging == 0 {
			return rows, nil
		}
		if s.deps.Now().After(end) { // Such as rows that an erasure deleted.
			s.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "search sink: rows are older than the touched ones",
				slog.String("collection", s.collection.Name), slog.Int("rows", lagging))
			return rows, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lagRetryInterval):
		}
		if rows, err = searchindex.ReadRows(ctx, s.deps.Conn, &s.collection, ids); err != nil {
			return nil, err
		}
	}
}

func (s *indexer) erased(id string) bool {
	if s.collection.Kind != record.KindNetworkPerson {
		return false
	}
	_, erased := s.deps.Suppressed.ID(identity.Network, id)
	return erased
}

// reject publishes the touches whose documents were refused.
func (s *indexer) reject(ctx context.Context, touches []touch, refusals map[int]string) error {
	var list []rejected.Message
	for _, i := range slices.Sorted(maps.Keys(refusals)) {
		list = append(list, rejected.Message{Message: touches[i].message, Kind: "search", Err: &record.ValidationError{
			Kind: s.collection.Kind, Code: CodeRefused, Reason: "is refused by OpenSearch: " + refusals[i],
		}})
	}
	return s.deps.Rejected.Publish(ctx, list)
}

// generationBits is the number of bits of an offset in a version. Aggregations compute versions exactly up to 53 bits:
// that is 8,192 generations.
const generationBits = 40

func versionOf(generation, offset int64) int64 { return generation<<generationBits | offset }

// checkGeneration starts a new generation if the topic has fewer messages, or another number of partitions, than the
// documents were written for: the topic was recreated, or the index is of another installation. It is called with each
// batch, and reads the index for the first one and after offsets went back.
func (s *indexer) checkGeneration(ctx context.Context, b bus.Batch, targets []target) error {
	generation, partitions := int64(0), 0
	for _, t := range targets {
		if t.meta.Generation >= generation {
			generation, partitions = t.meta.Generation, t.meta.Partitions
		}
	}
	known := s.generation > 0 && generation == s.generation
	for _, r := range b.Ranges {
		if last, seen := s.last[r.Partition]; !seen || r.First < last {
			known = false
		}
	}
	if known && !slices.ContainsFunc(targets, func(t target) bool { return t.meta.Generation != generation }) {
		return nil
	}
	ends, err := bus.EndOffsets(ctx, s.cfg.Consumer.Config, []string{event.TopicAnswerTask})
	if err != nil {
		return fmt.Errorf("read the ends of the touches: %w", err)
	}
	newest, err := s.writer.newestVersions(ctx)
	if err != nil {
		return err
	}
	isNew := generation == 0 || partitions != len(ends)
	for _, e := range ends {
		if v := newest[e.Partition]; v>>generationBits == generation && v-generation<<generationBits >= e.End {
			isNew = true
		}
	}
	if isNew {
		generation++
	}
	for _, t := range targets {
		if t.meta.Generation == generation && t.meta.Partitions == len(ends) {
			continue
		}
		t.meta.Generation, t.meta.Partitions = generation, len(ends)
		if err := s.writer.setMeta(ctx, t); err != nil {
			return err
		}
	}
	s.generation = generation
	return nil
}

// newestVersions returns the greatest version of a document by partition of its touch.
func (x indexes) newestVersions(ctx context.Context) (map[int]int64, error) {
	if err := x.refresh(ctx, x.names.Pattern()); err != nil {
		return nil, err
	}
	body := `{"size":0,"aggs":{"partitions":{"terms":{"field":"` + searchindex.FieldPartition +
		`","size":10000},"aggs":{"newest":{"max":{"field":"` + searchindex.FieldVersion + `"}}}}}}`
	var res struct {
		Aggregations struct {
			Partitions struct {
				Buckets []struct {
					Key    int `json:"key"`
					Newest struct {
						Value float64 `json:"value"`
					} `json:"newest"`
				} `json:"buckets"`
			} `json:"partitions"`
		} `json:"aggregations"`
	}
	path := "/" + x.names.Pattern() + "/_search?allow_partial_search_results=false"
	if err := x.client.Do(ctx, http.MethodPost, path, []byte(body), &res); err != nil {
		return nil, fmt.Errorf("read the versions of documents: %w", err)
	}
	out := make(map[int]int64)
	for _, b := range res.Aggregations.Partitions.Buckets {
		out[b.Key] = int64(b.Newest.Value)
	}
	return out, nil
}
