package search

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/opensearch"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/dsl"
	"muster/query-api/internal/search/latest"
	"muster/query-api/internal/search/planner"
	"muster/schemas/searchindex"
)

// cluster executes searches in OpenSearch.
type cluster struct {
	*opensearch.Client
	alias    string
	renderer dsl.Renderer
	// documents reads the state of the tables that documents are read from.
	documents *latest.Reader[readstore.AsOf]
	denied    sync.Once // logs that it may not be read
}

func newCluster(deps Deps) *cluster {
	if deps.OpenSearch == nil {
		return nil
	}
	documentID := func(id string) string { return searchindex.DocumentID(deps.DocumentKey, id) }
	names := searchindex.Names{Prefix: deps.OpenSearch.Config().Prefix, Collection: deps.Collection.Name}
	return &cluster{
		Client: deps.OpenSearch, alias: names.Alias(),
		renderer: dsl.Renderer{DocumentID: documentID},
	}
}

// cursorOwner distinguishes the cursors of collections, and those of the executors: each has its own sort values.
func (s *Searcher) cursorOwner(organization string) string {
	owner := organization + "\x00" + s.collection.Name
	if s.remote == nil {
		return owner
	}
	return owner + "\x00opensearch"
}

// hitWindow are the matching nested documents of a person: their number, and those that are returned.
type hitWindow struct {
	total int
	hits  []innerHit
	// best is the score of the first of all, if the best are first.
	best float32
}

// innerHit is a nested document, by its position.
type innerHit struct {
	offset int
	score  float32
}

// searchResponse is a response of OpenSearch.
type searchResponse struct {
	TimedOut bool `json:"timed_out"`
	Hits     struct {
		Total struct {
			Value int64 `json:"value"`
		} `json:"total"`
		Hits []searchHit `json:"hits"`
	} `json:"hits"`
	Aggregations map[string]jsontext.Value `json:"aggregations"`
}

type searchHit struct {
	Score  float32          `json:"_score"` // null if it was not computed
	Sort   []jsontext.Value `json:"sort"`
	Fields struct {         // of hits that are ranked by scores alone
		Hash []int64  `json:"row.hash"`
		ID   []string `json:"row.id"`
	} `json:"fields"`
	Matched []string `json:"matched_queries"`
	Inner   map[string]struct {
		Hits struct {
			Total struct {
				Value int `json:"value"`
			} `json:"total"`
			Hits []struct {
				Score  float32 `json:"_score"` // null if it was not computed
				Nested struct {
					Offset int `json:"offset"`
				} `json:"_nested"`
			} `json:"hits"`
		} `json:"hits"`
	} `json:"inner_hits"`
	place planner.Place
}

// executeRemote ranks the people of the page in OpenSearch and reads their documents from the tables. People without a
// row, or who are erased, have no document.
func (s *Search) executeRemote(ctx context.Context) (*ranking, error) {
	s.cursor.Stats, s.cursor.Expansions = nil, nil
	if s.isCounted() {
		return &ranking{}, nil
	}
	var state *latest.Reading[readstore.AsOf]
	if s.request.Size > 0 {
		state = s.searcher.remote.documents.Begin() // is read while OpenSearch searches
	}
	res, err := s.rankRemote(ctx)
	if err != nil {
		return nil, err
	}
	if s.first {
		s.cursor.Total = res.Hits.Total.Value
	}
	r := &ranking{}
	if r.aggregations, err = dsl.Values(s.aggregations, res.Aggregations); err != nil {
		return nil, remoteRequestError(err)
	}
	hits := res.Hits.Hits
	if r.more = len(hits) > s.request.Size; r.more {
		hits = hits[:s.request.Size]
	} else if s.request.From+s.request.Size == MaxWindow {
		r.more = s.cursor.Total > MaxWindow // see remoteRequests
	}
	keys := make([]readstore.DocumentKey, len(hits))
	clauses := innerClauses(s.node)
	for i, hit := range hits {
		r.places = append(r.places, hit.place)
		keys[i] = readstore.DocumentKey{Hash: hit.place.Hash, ID: hit.place.ID}
		windows := make([]hitWindow, len(clauses))
		for k, n := range clauses {
			inner := hit.Inner[n.InnerHits.Name].Hits
			windows[k].total = inner.Total.Value
			if len(inner.Hits) > 0 {
				windows[k].best = inner.Hits[0].Score
			}
			from, to := min(n.InnerHits.From, len(inner.Hits)), min(n.InnerHits.From+n.InnerHits.Size, len(inner.Hits))
			for _, e := range inner.Hits[from:to] {
				windows[k].hits = append(windows[k].hits, innerHit{e.Nested.Offset, e.Score})
			}
		}
		r.windows = append(r.windows, windows)
		matches := make([]bool, len(s.named))
		for k := range matches {
			matches[k] = slices.Contains(hit.Matched, strconv.Itoa(k))
		}
		r.matches = append(r.matches, matches)
	}
	if len(keys) == 0 {
		return r, nil
	}
	as, err := state.Wait(ctx)
	if err != nil { // The documents are read from the tables, whose errors are the caller's.
		as = readstore.AsOf{}
	}
	r.documents, err = s.searcher.deps.Documents(ctx, keys, as)
	return r, err
}

// remoteRequests returns the request for the page and, unless it is nil, the one for what it then lacks: the total and the
// aggregations.
func (s *Search) remoteRequests() (page, count dsl.Object, err error) {
	renderer := s.searcher.remote.renderer
	query, err := renderer.Query(s.node)
	if err != nil {
		return nil, nil, remoteRequestError(err)
	}
	sort, err := renderer.Sort(s.sorts)
	if err != nil {
		return nil, nil, remoteRequestError(err)
	}
	aggregations, err := renderer.Aggregations(s.aggregations)
	if err != nil {
		return nil, nil, remoteRequestError(err)
	}
	query = s.withoutHidden(query)
	whole := dsl.Object{
		"query": query, "size": 0, "_source": false, "track_total_hits": s.first,
		"timeout": strconv.FormatInt(s.searcher.cfg.Timeout.Milliseconds(), 10) + "ms",
	}
	if len(aggregations) > 0 {
		whole["aggs"] = aggregations
	}
	if s.request.Size == 0 {
		return whole, nil, nil
	}
	page = maps.Clone(whole)
	if page["query"], err = s.withNames(query); err != nil {
		return nil, nil, remoteRequestError(err)
	}
	page["sort"] = sort
	// OpenSearch returns no hits beyond the window; the total tells whether there are more.
	page["size"] = min(s.request.Size+1, MaxWindow-s.request.From)
	page["track_scores"] = s.scored()
	if len(innerClauses(s.node)) == 0 {
		page["stored_fields"] = "_none_" // not even _id
	}
	if s.request.From > 0 {
		page["from"] = s.request.From
	}
	if s.collapse != nil {
		page["collapse"] = dsl.Object{"field": searchindex.Field(s.collapse.SearchField, s.collapse.Keyword)}
	}
	if s.first && s.canSkip() {
		count = whole
		delete(page, "aggs")
		page["track_total_hits"] = false
	}
	if !s.first {
		after := []any{}
		for _, k := range s.cursor.After.Keys {
			after = append(after, jsontext.Value(k.Value))
		}
		page["search_after"] = append(after, searchindex.SortableHash(s.cursor.After.Hash), s.cursor.After.ID)
	}
	return page, count, nil
}

// remoteRequestError returns the error of a request that cannot be sent, or whose response is not exact.
func remoteRequestError(err error) error {
	var unsupported *dsl.UnsupportedError
	if errors.As(err, &unsupported) {
		return &TooExpensiveError{unsupported.Reason}
	}
	return err
}

// withoutHidden excludes erased people whose rows are not deleted yet, so that totals do not count them.
func (s *Search) withoutHidden(query dsl.Object) dsl.Object {
	hidden := s.searcher.deps.Hidden()
	if len(hidden) == 0 {
		return query
	}
	hashes := make([]int64, len(hidden))
	for i, h := range hidden {
		hashes[i] = searchindex.SortableHash(h)
	}
	return dsl.Object{"bool": dsl.Object{
		"must": query, "must_not": dsl.Object{"terms": dsl.Object{searchindex.FieldHash: hashes}},
	}}
}

// withNames adds the named clauses to a query, named by their numbers. They do not change what matches, nor scores.
func (s *Search) withNames(query dsl.Object) (dsl.Object, error) {
	if len(s.named) == 0 {
		return query, nil
	}
	clauses := make([]dsl.Object, len(s.named))
	for i, n := range s.named {
		node, err := algebra.Rewrite(n.node, withoutInnerHits)
		if err != nil {
			return nil, err
		}
		filter, err := s.searcher.remote.renderer.Query(node)
		if err != nil {
			return nil, err
		}
		name := strconv.Itoa(i)
		clauses[i] = dsl.Object{"constant_score": dsl.Object{"filter": filter, "boost": 0, "_name": name}}
		if planner.ScoresDecide(node) { // A filter has no boosts, so that min_score would compare other scores.
			clauses[i] = dsl.Object{"function_score": dsl.Object{
				"query": filter, "functions": []dsl.Object{{"weight": 0}}, "boost_mode": "multiply", "_name": name,
			}}
		}
	}
	return dsl.Object{"bool": dsl.Object{"must": query, "should": clauses}}, nil
}

// withoutInnerHits returns a node without inner hits, whose names may occur once in a request.
func withoutInnerHits(n algebra.Node) (algebra.Node, error) {
	if nested, ok := n.(algebra.Nested); ok {
		nested.InnerHits = nil
		return nested, nil
	}
	return n, nil
}

// placeOf returns the place of a hit. The values of sort keys stay as OpenSearch wrote them.
func placeOf(hit searchHit) (planner.Place, error) {
	var p planner.Place
	if f := hit.Fields; len(f.Hash) == 1 && len(f.ID) == 1 {
		score := strconv.FormatFloat(float64(hit.Score), 'g', -1, 32)
		return planner.Place{
			Keys: []planner.Key{{Value: score}}, Hash: searchindex.HashOf(f.Hash[0]), ID: f.ID[0], Score: hit.Score,
		}, nil
	}
	own := len(hit.Sort) - 2
	var sortable int64
	if own < 0 || json.Unmarshal(hit.Sort[own], &sortable) != nil || json.Unmarshal(hit.Sort[own+1], &p.ID) != nil {
		return p, errors.New("search: a hit of OpenSearch has no ID")
	}
	p.Hash, p.Score = searchindex.HashOf(sortable), hit.Score
	for _, v := range hit.Sort[:own] {
		p.Keys = append(p.Keys, planner.Key{Value: string(v)})
	}
	return p, nil
}

// stepRemote is the step that searches in OpenSearch.
const stepRemote = "opensearch"

// sendRemote sends a search. Searches of one session read the same copies of shards, whose scores may differ.
func (s *Search) sendRemote(ctx context.Context, request dsl.Object) (res *searchResponse, err error) {
	ctx, span := s.searcher.deps.Tracer.Start(ctx, "search "+stepRemote, trace.WithSpanKind(trace.SpanKindClient))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "query failed")
		}
		span.End()
	}()
	body, err := json.Marshal(request, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("search: encode request: %w", err)
	}
	remote := s.searcher.remote
	path := "/" + remote.alias + "/_search?search_type=dfs_query_then_fetch&allow_partial_search_results=false" +
		"&request_cache=false&preference=" + hex.EncodeToString(s.cursor.Query)
	for attempt := 1; ; attempt++ {
		res = &searchResponse{}
		// The request is canceled with its context, and with it the search in the cluster.
		err = remote.Do(ctx, http.MethodPost, path, body, res)
		if !opensearch.IsNotFound(err) || attempt > 1 {
			break
		} // A replay has switched the alias and deleted the index.
	}
	switch {
	case err != nil:
		return nil, s.searcher.remoteError(err)
	case res.TimedOut:
		return nil, s.searcher.timeLimitError()
	}
	for i, hit := range res.Hits.Hits {
		if res.Hits.Hits[i].place, err = placeOf(hit); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// remoteError classifies the error of a search in OpenSearch.
func (s *Searcher) remoteError(err error) error {
	var refused *opensearch.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("search: %w", err)
	case opensearch.IsNotFound(err):
		return &Unavailable{Reason: "search is not available yet: its index is being filled; try again later"}
	case !errors.As(err, &refused):
		s.deps.Logger.Error("search: OpenSearch failed", slog.Any("error", err))
		if opensearch.IsTransient(err) {
			return fmt.Errorf("search: %w: %w", readstore.ErrUnavailable, err)
		}
		return fmt.Errorf("search: %w", err)
	case refused.Has("too_many_clauses") || refused.Has("too_many_nested_clauses") || refused.Says("maxClauseCount"):
		return &TooExpensiveError{"the query expands to more clauses than the cluster allows " +
			"(indices.query.bool.max_clause_count): narrow its patterns and fuzzy words"}
	case refused.Says("Missing value for field") || refused.Says("invalid score") ||
		refused.Says("must not produce negative scores"):
		return &TooExpensiveError{invalidScore}
	case refused.Has("too_complex_to_determinize_exception"):
		return &TooExpensiveError{"a pattern of the query is too complex: shorten it"}
	case refused.Has("too_many_buckets_exception"):
		return &TooExpensiveError{aggregation.ErrTooManyBuckets.Error()}
	case refused.Says("Time exceeded"):
		return s.timeLimitError()
	case refused.Has("task_cancelled_exception"):
		return fmt.Errorf("search: %w: %w", context.DeadlineExceeded, err)
	case refused.Status == http.StatusTooManyRequests:
		return &OverloadedError{"the search cluster is overloaded"}
	}
	s.deps.Logger.Error("search: OpenSearch refused a search", slog.Any("error", err))
	if opensearch.IsTransient(err) {
		return fmt.Errorf("search: %w: %w", readstore.ErrUnavailable, err)
	}
	return fmt.Errorf("search: %w", err)
}

// explainRemote returns the requests that a search begins with. OpenSearch does not tell how many documents it would read.
func (s *Search) explainRemote() (*Explanation, error) {
	page, count, err := s.remoteRequests()
	if err != nil {
		return nil, err
	}
	requests := []dsl.Object{page}
	if count != nil {
		requests = []dsl.Object{count, s.withoutTieBreak(page)}
	}
	e := &Explanation{Query: algebra.Describe(s.node)}
	for _, request := range requests {
		body, err := json.Marshal(request, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("search: encode request: %w", err)
		}
		e.Statements = append(e.Statements, Statement{Step: stepRemote, SQL: string(body), Parameters: map[string]string{}})
	}
	return e, nil
}
