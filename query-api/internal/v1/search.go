package v1

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/clause"
	"muster/schemas/record"
)

// SearchPeople is POST /v1/person/search.
func (s *Server) SearchPeople(
	ctx context.Context, request api.SearchPeopleRequestObject,
) (api.SearchPeopleResponseObject, error) {
	return s.searchIn(ctx, s.search, request.Body)
}

// SearchCompanies is POST /v1/company/search.
func (s *Server) SearchCompanies(
	ctx context.Context, request api.SearchCompaniesRequestObject,
) (api.SearchCompaniesResponseObject, error) {
	return s.searchIn(ctx, s.companies, request.Body)
}

// searchResponse is the response of a search.
type searchResponse interface {
	api.SearchPeopleResponseObject
	api.SearchCompaniesResponseObject
}

// searchIn answers a search in a collection.
func (s *Server) searchIn(
	ctx context.Context, in *search.Searcher, body *api.SearchRequest,
) (searchResponse, error) {
	call := metering.FromContext(ctx)
	r, err := searchRequest(ctx, in, body)
	if err != nil {
		return nil, err
	}
	prepared, err := in.Prepare(r)
	exchangeOf(ctx).parsed()
	if err != nil {
		return nil, err
	}
	if isTrue(body.DryRun) {
		return estimate(ctx, int64(r.Size))
	}
	if prepared.Aggregates() {
		if err := call.AllowAggregations(ctx); err != nil {
			return nil, err
		}
	}
	if prepared.CountsAddresses() {
		if err := call.AllowAddressCount(ctx); err != nil {
			return nil, err
		}
	}
	held, err := call.Reserve(ctx, int64(r.Size))
	if err != nil {
		return nil, err
	}
	defer held.Release()
	page, err := prepared.Run(ctx)
	if err != nil {
		return nil, err
	}
	x, size := exchangeOf(ctx), len(page.Aggregations)
	for _, r := range page.Results {
		size += len(r)
	}
	if call.Storable() { // a second copy is stored
		size *= 2
	}
	if err := x.take(size); err != nil {
		return nil, err
	}
	used := metering.Used{Units: int64(len(page.Results)), Identifiers: page.Identifiers}
	for _, id := range page.IDs {
		used.Identities = append(used.Identities, string(in.Kind())+" "+id)
	}
	quota, err := held.Commit(ctx, used)
	if err != nil {
		return nil, err
	}
	return pageOf(x, page, quota.Charged)
}

// pageOf returns the response body around encoded results.
func pageOf(x *exchange, page *search.Page, charged int64) (list, error) {
	out := list{exchange: x, head: []byte(`{"total":`), tail: []byte(`],"next_cursor":`)}
	out.head = append(strconv.AppendInt(out.head, page.Total, 10), `,"results":[`...)
	out.items = append(out.items, page.Results...)
	if page.Next == "" {
		out.tail = append(out.tail, "null"...)
	} else {
		var err error
		if out.tail, err = jsontext.AppendQuote(out.tail, page.Next); err != nil {
			return list{}, err
		}
	}
	if page.Aggregations != nil {
		out.tail = append(append(out.tail, `,"aggregations":`...), page.Aggregations...)
	}
	out.tail = append(out.tail, `,"credits_charged":`...)
	out.tail = append(strconv.AppendInt(out.tail, charged, 10), '}')
	return out, nil
}

// searchRequest validates the body of a search or explanation.
func searchRequest(ctx context.Context, in *search.Searcher, body *api.SearchRequest) (search.Request, error) {
	r := search.Request{Query: body.Query, Size: search.DefaultSize}
	if len(body.Query) == 0 || body.Query.Kind() == 'n' {
		return r, invalidf("query is missing: send a query clause, such as {\"match_all\": {}}")
	}
	if body.Sort != nil {
		r.Sort = *body.Sort
	}
	if body.UnderscoreSource != nil {
		r.Source = *body.UnderscoreSource
	}
	switch {
	case body.Aggs != nil && body.Aggregations != nil:
		return r, invalidf("aggs and aggregations are the same: give one of them")
	case body.Aggs != nil:
		r.Aggregations, r.AggregationsName = *body.Aggs, "aggs"
	case body.Aggregations != nil:
		r.Aggregations, r.AggregationsName = *body.Aggregations, "aggregations"
	}
	if body.Collapse != nil {
		r.Collapse = *body.Collapse
	}
	if body.Highlight != nil {
		r.Highlight = *body.Highlight
	}
	r.TrackScores = isTrue(body.TrackScores)
	if body.From != nil {
		if *body.From < 0 || *body.From > search.MaxWindow {
			return r, invalidf("from is %d: it must be from 0 to %d, less the size", *body.From, search.MaxWindow)
		}
		r.From = int(*body.From)
	}
	if body.Cursor != nil {
		if r.Cursor = *body.Cursor; r.Cursor == "" {
			return r, invalidf("cursor is empty: pass next_cursor of the previous response, or omit it for the first " +
				"page")
		}
	}
	if body.Size != nil {
		if *body.Size < 0 || *body.Size > search.MaxSize {
			return r, invalidf("size is %d: it must be from 0 to %d", *body.Size, search.MaxSize)
		}
		r.Size = int(*body.Size)
	}
	switch {
	case r.From+r.Size > search.MaxWindow:
		return r, invalidf("from + size is %d: it must be at most %d; for later results send next_cursor of the "+
			"previous page as cursor", r.From+r.Size, search.MaxWindow)
	case r.From > 0 && r.Cursor != "":
		return r, invalidf("from cannot be used with cursor: omit one of them")
	case len(r.Collapse) > 0 && r.Collapse.Kind() != 'n' && r.Cursor != "":
		return r, invalidf("collapse cannot be used with a cursor: a collapsed search has one page, use from and size")
	}
	if body.MaxCredits != nil {
		if *body.MaxCredits < 0 {
			return r, invalidf("max_credits must not be negative")
		}
		call := metering.FromContext(ctx)
		affordable := int(call.Affordable(int64(r.Size), *body.MaxCredits))
		// An empty page would look like no matches.
		if affordable == 0 && r.Size > 0 {
			return r, invalidf("max_credits is %d: one result costs %d; for the total alone use size 0",
				*body.MaxCredits, call.UnitPrice())
		}
		r.Size = affordable
	}
	var err error
	explain := "POST /v1/person/search/explain"
	if in.Kind() == record.KindNetworkCompany {
		explain = "POST /v1/company/search/explain"
	}
	if r.Timeout, err = checkNoOpFields(body, explain); err != nil {
		return r, err
	}
	r.Organization = exchangeOf(ctx).principal.Organization.ID
	return r, nil
}

// checkNoOpFields accepts fields of Elasticsearch clients that have no effect here (rulings.md, Search), rejects values
// that would have one, and returns the timeout, 0 if there is none. explain is the endpoint that explains searches.
func checkNoOpFields(body *api.SearchRequest, explain string) (time.Duration, error) {
	if v := body.TrackTotalHits; v != nil {
		n, err := strconv.ParseFloat(string(*v), 64)
		if k := v.Kind(); k != 'n' && k != 't' && (k != '0' || err != nil || n < 0) {
			return 0, invalidf("track_total_hits must be true or a number: omit it, total is exact")
		}
	}
	if body.MinScore != nil && *body.MinScore != 0 {
		return 0, invalidf("min_score must be 0 or omitted: the clause function_score has min_score")
	}
	for _, f := range []struct {
		name  string
		value bool
		hint  string
	}{
		{"version", isTrue(body.Version), "documents have no version"},
		{"seq_no_primary_term", isTrue(body.SeqNoPrimaryTerm), "it is not returned"},
		{"explain", isTrue(body.Explain), explain + " shows how a query is understood"},
		{"profile", isTrue(body.Profile), explain + " shows how a query is understood"},
	} {
		if f.value {
			return 0, invalidf("%s must be false or omitted: %s", f.name, f.hint)
		}
	}
	if body.Timeout == nil {
		return 0, nil
	}
	return timeValue("timeout", *body.Timeout)
}

// timeValue parses an Elasticsearch duration, such as 500ms or 2s. As in Elasticsearch, -1 and 0 mean no limit.
func timeValue(name, text string) (time.Duration, error) {
	digits := strings.TrimLeft(strings.ToLower(strings.TrimSpace(text)), "0123456789.")
	number := strings.TrimSpace(text)[:len(strings.TrimSpace(text))-len(digits)]
	unit, ok := map[string]time.Duration{
		"nanos": time.Nanosecond, "micros": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}[digits]
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case text == "-1", err == nil && n == 0 && (ok || digits == ""):
		return 0, nil
	case err != nil || !ok:
		return 0, invalidf("%s is invalid: write a number and a unit, such as 500ms, 2s or 1m", name)
	}
	const longest = time.Hour // effectively no limit
	return max(time.Millisecond, time.Duration(min(n*float64(unit), float64(longest)))), nil
}

// unsupportedFieldHint returns the alternative to a request field of other search APIs; empty for unknown fields.
func unsupportedFieldHint(name string) string {
	if slices.ContainsFunc(clause.Clauses(), func(c clause.Clause) bool { return c.Name == name && c.Refused == "" }) {
		return fmt.Sprintf("put the clause into query: {\"query\": {%q: ...}}", name)
	}
	switch name {
	case "search_after", "after", "scroll", "scroll_id", "scroll_token", "offset", "page", "pit":
		return "send next_cursor of the response as cursor for the next page"
	case "limit", "per_page":
		return "use size"
	case "sql":
		return "sql is not supported: send a query clause as query; muster sql and the ClickHouse port accept SQL"
	case "facets":
		return "use aggs"
	case "suggest":
		return "suggesters are not supported: use fuzziness in a clause to find misspelled words"
	case "post_filter":
		return "put it into the filter of a bool clause in query"
	case "fields", "stored_fields", "docvalue_fields":
		return "use _source to select fields"
	case "rescore", "script_fields", "runtime_mappings":
		return "not supported: use sort or function_score"
	}
	return ""
}

// ExplainSearch is POST /v1/person/search/explain.
func (s *Server) ExplainSearch(
	ctx context.Context, request api.ExplainSearchRequestObject,
) (api.ExplainSearchResponseObject, error) {
	return s.explainIn(ctx, s.search, request.Body)
}

// ExplainCompanySearch is POST /v1/company/search/explain.
func (s *Server) ExplainCompanySearch(
	ctx context.Context, request api.ExplainCompanySearchRequestObject,
) (api.ExplainCompanySearchResponseObject, error) {
	return s.explainIn(ctx, s.companies, request.Body)
}

// explainIn explains a search in a collection.
func (s *Server) explainIn(ctx context.Context, in *search.Searcher, request *api.SearchRequest) (answer, error) {
	r, err := searchRequest(ctx, in, request)
	if err != nil {
		return nil, err
	}
	call := metering.FromContext(ctx)
	if err := call.Once(ctx); err != nil {
		return nil, err
	}
	exchangeOf(ctx).parsed()
	e, err := in.Explain(ctx, r, func(prepared *search.Search) error {
		if prepared.NamesAddresses() {
			return call.AllowAddressCount(ctx)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if e.Transient {
		call.MarkTransient()
	}
	if e.Refused == "" {
		e.MaxCredits = int64(r.Size) * call.Prices().Search
	}
	return encoded(e)
}

// VisitSearchPeopleResponse implements api.SearchPeopleResponseObject.
func (a answer) VisitSearchPeopleResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitSearchPeopleResponse implements api.SearchPeopleResponseObject.
func (l list) VisitSearchPeopleResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitSearchCompaniesResponse implements api.SearchCompaniesResponseObject.
func (a answer) VisitSearchCompaniesResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitSearchCompaniesResponse implements api.SearchCompaniesResponseObject.
func (l list) VisitSearchCompaniesResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitExplainCompanySearchResponse implements api.ExplainCompanySearchResponseObject.
func (a answer) VisitExplainCompanySearchResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitExplainSearchResponse implements api.ExplainSearchResponseObject.
func (a answer) VisitExplainSearchResponse(w http.ResponseWriter) error { return a.write(w) }
