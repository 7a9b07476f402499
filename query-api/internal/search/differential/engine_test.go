package differential_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/cursor"
	"muster/query-api/internal/search/searchtest"
	"muster/schemas/readmodel"
)

const (
	// maxHits is the number of hits of a result that are compared.
	maxHits = 300
	// waitTimeout limits a search generously, so that a busy machine makes no difference.
	waitTimeout = 5 * time.Minute
	// pageSize is the page size of every tenth query, which is read in pages.
	pageSize = 31
)

// engine is a Searcher under test.
type engine struct {
	searcher *search.Searcher
	paged    bool
}

func newEngine(t *testing.T, conn driver.Conn, now func() time.Time) *engine {
	t.Helper()
	return newEngineWith(t, conn, now, search.Config{Timeout: waitTimeout})
}

func newEngineWith(t *testing.T, conn driver.Conn, now func() time.Time, cfg search.Config) *engine {
	t.Helper()
	return newTracedEngine(t, conn, now, cfg, noop.NewTracerProvider().Tracer(""))
}

func newTracedEngine(t *testing.T, conn driver.Conn, now func() time.Time, cfg search.Config,
	tracer trace.Tracer) *engine {
	t.Helper()
	return newEngineOf(t, cfg, search.Deps{Conn: conn, Tracer: tracer, Now: now})
}

// newEngineOf completes the dependencies.
func newEngineOf(t *testing.T, cfg search.Config, deps search.Deps) *engine {
	t.Helper()
	conn := deps.Conn
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	store, err := readstore.New(ctx, readstore.Config{QueryTimeout: waitTimeout}, readstore.Deps{
		Conn: conn, Logger: logger, Registerer: prometheus.NewRegistry(), Tracer: noop.NewTracerProvider().Tracer(""),
	})
	require.NoError(t, err)
	t.Cleanup(func() { store.Close(); stop() })
	deps.Store, deps.Key, deps.Logger = store, make([]byte, cursor.KeySize), logger
	deps.Hidden = store.Hidden
	if deps.Documents = store.NetworkDocuments; deps.Collection.Name == readmodel.CompaniesCollection().Name {
		deps.Documents = store.CompanyDocuments
	} else {
		deps.Collection = readmodel.PeopleCollection()
	}
	s, err := search.New(cfg, deps)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &engine{searcher: s}
}

// walk returns the total and the IDs of the first pages.
func (e *engine) walk(ctx context.Context, body []byte, size, pages int) (ids []string, err error) {
	r := search.Request{Size: size, Organization: "test"}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	for range pages {
		p, err := e.ask(ctx, r)
		if err != nil {
			return nil, err
		}
		ids = append(ids, fmt.Sprintf("page of %d", p.Total))
		ids = append(ids, p.IDs...)
		if r.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	return ids, nil
}

// readHit reads what a search found, beside the person.
func readHit(result []byte, into *searchtest.Hit) error {
	var in struct {
		Score *float64 `json:"_score"`
		Names []string `json:"matched_queries"`
	}
	err := json.Unmarshal(result, &in)
	into.Score, into.Names = in.Score, in.Names
	return err
}

func (e *engine) ask(ctx context.Context, r search.Request) (*search.Page, error) {
	prepared, err := e.searcher.Prepare(r)
	if err != nil {
		return nil, err
	}
	return prepared.Run(ctx)
}

// read reads the fields of a request.
func read(body []byte, r *search.Request) error {
	var in struct {
		Query        jsontext.Value `json:"query"`
		Sort         jsontext.Value `json:"sort"`
		Aggregations jsontext.Value `json:"aggs"`
	}
	err := json.Unmarshal(body, &in)
	r.Query, r.Sort, r.Aggregations = in.Query, in.Sort, in.Aggregations
	return err
}

// Search returns the first hits, at least maxHits if there are that many.
func (e *engine) Search(ctx context.Context, body []byte) (searchtest.Result, error) {
	r := search.Request{Size: maxHits, Organization: "test"}
	if e.paged {
		r.Size = pageSize
	}
	if err := read(body, &r); err != nil {
		return searchtest.Result{}, err
	}
	var out searchtest.Result
	for {
		p, err := e.ask(ctx, r)
		if err != nil {
			return out, err
		}
		out.Total, out.Aggregations = int(p.Total), p.Aggregations
		for i, id := range p.IDs {
			inner, err := searchtest.InnerOf(p.Results[i])
			if err != nil {
				return out, err
			}
			hit := searchtest.Hit{ID: id, Inner: inner}
			if err := readHit(p.Results[i], &hit); err != nil {
				return out, err
			}
			out.Hits = append(out.Hits, hit)
		}
		if p.Next == "" || len(out.Hits) >= maxHits {
			return out, nil
		}
		r.Cursor = p.Next
	}
}

// allowed returns a function that reports whether a clause or parameter is supported, with aggregations and names of
// clauses if extended is set.
func allowed(extended bool) func(name, parameter string) bool {
	known := map[string]bool{"sort": true, "aggs": extended, "_name": extended}
	for _, c := range clause.Clauses() {
		if c.Refused != "" {
			continue
		}
		known[c.Name] = true
		for _, p := range c.Parameters {
			known[c.Name+"."+p.Name] = true
		}
	}
	for _, name := range strings.Split(os.Getenv("MUSTER_TEST_SEARCH_WITHOUT"), ",") {
		delete(known, name)
	}
	return func(name, parameter string) bool {
		parameter, _, _ = strings.Cut(parameter, ".")
		switch {
		case parameter == "" || name == "sort" || name == "aggs":
			return known[name]
		case parameter == "fields_boost", parameter == "fields_pattern", parameter == "default_fields":
			return known[name+".fields"]
		case name == "function_score" && parameter == "filter":
			return true
		}
		return known[name+"."+parameter]
	}
}

// kind classifies an error as a rejection by muster, a failure or a wrong result.
func kind(err error) string {
	var refused *clause.Error
	if errors.As(err, &refused) {
		return refused.Reason
	}
	what, _, _ := strings.Cut(err.Error(), " ")
	return what
}
