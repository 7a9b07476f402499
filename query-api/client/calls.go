package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// EnrichPerson finds a person by username or email (POST /v1/person/enrich). If there is no match, WebsetsMatched is
// empty and nothing is charged. With Items it finds up to 100 people, and Results has one result for each, in order.
func (c *Client) EnrichPerson(
	ctx context.Context, person PersonEnrichRequest, options ...CallOption,
) (*Response[PersonEnrichResponse], error) {
	return callPost[PersonEnrichResponse](ctx, c, "/v1/person/enrich", person, person.DryRun, options)
}

// EnrichCompany finds a company by slug, ID or URL (POST /v1/company/enrich), or up to 100 with Items.
func (c *Client) EnrichCompany(
	ctx context.Context, company CompanyEnrichRequest, options ...CallOption,
) (*Response[CompanyEnrichResponse], error) {
	return callPost[CompanyEnrichResponse](ctx, c, "/v1/company/enrich", company, company.DryRun, options)
}

// SearchPeople returns one page of a search (POST /v1/person/search). [Client.People] iterates over all pages.
func (c *Client) SearchPeople(
	ctx context.Context, search SearchRequest, options ...CallOption,
) (*Response[SearchResponse], error) {
	return callPost[SearchResponse](ctx, c, "/v1/person/search", search, search.DryRun, options)
}

// SearchPages iterates over the pages of a search, starting at search.Cursor. Size is the page size, and a result is
// charged when its page is fetched. An error ends the iteration.
func (c *Client) SearchPages(ctx context.Context, search SearchRequest) iter.Seq2[*Response[SearchResponse], error] {
	return func(yield func(*Response[SearchResponse], error) bool) {
		for {
			page, err := c.SearchPeople(ctx, search)
			if !yield(page, err) || err != nil {
				return
			}
			// A page of size 0 does not advance.
			if next := page.Value.NextCursor; next == "" || next == search.Cursor {
				return
			}
			search.Cursor = page.Value.NextCursor
		}
	}
}

// People iterates over the results of a search, page by page, like [Client.SearchPages].
func (c *Client) People(ctx context.Context, search SearchRequest) iter.Seq2[EnrichedNetwork, error] {
	return func(yield func(EnrichedNetwork, error) bool) {
		for page, err := range c.SearchPages(ctx, search) {
			if err != nil {
				yield(EnrichedNetwork{}, err)
				return
			}
			for _, person := range page.Value.Results {
				if !yield(person, nil) {
					return
				}
			}
		}
	}
}

// ExplainSearch returns how a search would be executed, or why it would be rejected (POST /v1/person/search/explain).
func (c *Client) ExplainSearch(
	ctx context.Context, search SearchRequest, options ...CallOption,
) (*Response[SearchExplanation], error) {
	return callPost[SearchExplanation](ctx, c, "/v1/person/search/explain", search, false, options)
}

// IdentifyPerson finds the people that a description may be of, most likely first (POST /v1/person/identify). If there
// is no match, Matches is empty and nothing is charged.
func (c *Client) IdentifyPerson(
	ctx context.Context, person PersonIdentifyRequest, options ...CallOption,
) (*Response[PersonIdentifyResponse], error) {
	return callPost[PersonIdentifyResponse](ctx, c, "/v1/person/identify", person, person.DryRun, options)
}

// SubmitFeedback says whether a match is right (POST /v1/feedback). It is free.
func (c *Client) SubmitFeedback(
	ctx context.Context, feedback FeedbackRequest, options ...CallOption,
) (*Response[FeedbackResponse], error) {
	return callPost[FeedbackResponse](ctx, c, "/v1/feedback", feedback, false, options)
}

// DiscoverPerson finds a person's profiles on other platforms (POST /v1/person/discover).
func (c *Client) DiscoverPerson(
	ctx context.Context, person PersonDiscoverRequest, options ...CallOption,
) (*Response[PersonDiscoverResponse], error) {
	return callPost[PersonDiscoverResponse](ctx, c, "/v1/person/discover", person, person.DryRun, options)
}

// ContextResult is the state of a context call.
type ContextResult struct {
	// Profile is nil while the task is in progress.
	Profile *ContextProfile
	// RequestID identifies the call for [Client.GetContext] and in its [Delivery].
	RequestID string
}

// CreateContext creates a structured profile from unstructured data (POST /v1/context). If the profile is not ready in
// time, the result has no Profile if the request has a WebhookURL, and the call returns an [*Error] of status 504 if
// it has none; the task continues.
func (c *Client) CreateContext(
	ctx context.Context, task ContextRequest, options ...CallOption,
) (*Response[ContextResult], error) {
	r, err := newPost("/v1/context", task, options)
	if err != nil {
		return nil, err
	}
	if task.DryRun {
		dry, err := call[jsontext.Value](ctx, c, r, true)
		if err != nil {
			return nil, err
		}
		return &Response[ContextResult]{Metadata: dry.Metadata, DryRun: dry.DryRun}, nil
	}
	return c.callContext(ctx, r)
}

// GetContext returns the result of a context call of the last 24 hours by its RequestID (GET /v1/context/{request_id}).
func (c *Client) GetContext(ctx context.Context, requestID string) (*Response[ContextResult], error) {
	r := newGet("/v1/context/"+url.PathEscape(requestID), nil)
	out, err := c.callContext(ctx, r)
	if err == nil {
		out.Value.RequestID = requestID // instead of that of this response
	}
	return out, err
}

// callContext sends a request whose response is a profile, or 202 without one.
func (c *Client) callContext(ctx context.Context, r *request) (*Response[ContextResult], error) {
	body, err := call[jsontext.Value](ctx, c, r, false)
	if err != nil {
		return nil, err
	}
	out := &Response[ContextResult]{Metadata: body.Metadata}
	if out.Status == http.StatusAccepted {
		var accepted ContextAccepted
		err = json.Unmarshal(body.Value, &accepted)
		out.Value.RequestID = accepted.RequestID
	} else {
		err = json.Unmarshal(body.Value, &out.Value.Profile)
		out.Value.RequestID = out.RequestID
	}
	if err != nil {
		return nil, fmt.Errorf("decode response to %s %s: %w", r.method, r.path, err)
	}
	return out, nil
}

// GetNetworkPerson returns the record of one professional-network person (GET /v1/webset/network/person). If there is
// no match it is empty.
func (c *Client) GetNetworkPerson(ctx context.Context, p GetNetworkPersonParams) (*Response[NetworkPerson], error) {
	query := url.Values{"network": {p.Network}}
	addQuery(query, p.Addons, p.MustHave, p.Fields, p.MaxCredits, p.DryRun)
	return call[NetworkPerson](ctx, c, newGet("/v1/webset/network/person", query), p.DryRun)
}

// PostNetworkPerson returns the records of 1 to 100 professional-network people, in the order of the identifiers, empty
// ones for those without a match (POST /v1/webset/network/person).
func (c *Client) PostNetworkPerson(
	ctx context.Context, people NetworkPersonRequest, options ...CallOption,
) (*Response[[]NetworkPerson], error) {
	return callPost[[]NetworkPerson](ctx, c, "/v1/webset/network/person", people, people.DryRun, options)
}

// GetCodehostPerson returns the record of one code-hosting person (GET /v1/webset/codehost/person). If there is no
// match it is empty.
func (c *Client) GetCodehostPerson(ctx context.Context, p GetCodehostPersonParams) (*Response[CodehostPerson], error) {
	query := url.Values{"codehost": {p.Codehost}}
	addQuery(query, p.Addons, p.MustHave, p.Fields, p.MaxCredits, p.DryRun)
	return call[CodehostPerson](ctx, c, newGet("/v1/webset/codehost/person", query), p.DryRun)
}

// PostCodehostPerson returns the records of 1 to 100 code-hosting people, in the order of the identifiers, empty ones
// for those without a match (POST /v1/webset/codehost/person).
func (c *Client) PostCodehostPerson(
	ctx context.Context, people CodehostPersonRequest, options ...CallOption,
) (*Response[[]CodehostPerson], error) {
	return callPost[[]CodehostPerson](ctx, c, "/v1/webset/codehost/person", people, people.DryRun, options)
}

// addQuery adds the parameters that both websets have.
func addQuery[Addon, Field ~string](
	query url.Values, addons []Addon, mustHave []Field, fields []string, maxCredits int64, dryRun bool,
) {
	if len(addons) > 0 {
		query.Set("addons", join(addons))
	}
	if len(mustHave) > 0 {
		query.Set("must_have", join(mustHave))
	}
	if len(fields) > 0 {
		query.Set("fields", join(fields))
	}
	if maxCredits != 0 {
		query.Set("max_credits", strconv.FormatInt(maxCredits, 10))
	}
	if dryRun {
		query.Set("dry_run", "true")
	}
}

// join returns a list as the value of a parameter.
func join[S ~string](list []S) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, ",")
}

// SearchCompanies returns one page of a search for companies (POST /v1/company/search). [Client.Companies] iterates
// over all pages.
func (c *Client) SearchCompanies(
	ctx context.Context, search SearchRequest, options ...CallOption,
) (*Response[CompanySearchResponse], error) {
	return callPost[CompanySearchResponse](ctx, c, "/v1/company/search", search, search.DryRun, options)
}

// Companies iterates over the results of a search for companies, page by page. Size is the page size, and a result is
// charged when its page is fetched. An error ends the iteration.
func (c *Client) Companies(ctx context.Context, search SearchRequest) iter.Seq2[Company, error] {
	return func(yield func(Company, error) bool) {
		for {
			page, err := c.SearchCompanies(ctx, search)
			if err != nil {
				yield(Company{}, err)
				return
			}
			for _, company := range page.Value.Results {
				if !yield(company, nil) {
					return
				}
			}
			// A page of size 0 does not advance.
			if next := page.Value.NextCursor; next == "" || next == search.Cursor {
				return
			}
			search.Cursor = page.Value.NextCursor
		}
	}
}

// ExplainCompanySearch returns how a search for companies would be executed, or why it would be rejected
// (POST /v1/company/search/explain).
func (c *Client) ExplainCompanySearch(
	ctx context.Context, search SearchRequest, options ...CallOption,
) (*Response[SearchExplanation], error) {
	return callPost[SearchExplanation](ctx, c, "/v1/company/search/explain", search, false, options)
}

// SuggestValues returns the most frequent values of a field of search that begin with a prefix (GET /v1/suggest). A
// size of 0 means the default of 10.
func (c *Client) SuggestValues(ctx context.Context, field, prefix string, size int) (*Response[Suggestions], error) {
	query := url.Values{"field": {field}, "prefix": {prefix}}
	if size != 0 {
		query.Set("size", strconv.Itoa(size))
	}
	return call[Suggestions](ctx, c, newGet("/v1/suggest", query), false)
}

// GetUsage returns the requests and credits used in this month (GET /v1/usage).
func (c *Client) GetUsage(ctx context.Context) (*Response[Usage], error) {
	return call[Usage](ctx, c, newGet("/v1/usage", nil), false)
}

// GetUsageEvent returns the cost of a call, by the RequestID of its response, a few seconds after it
// (GET /v1/usage/{request_id}).
func (c *Client) GetUsageEvent(ctx context.Context, requestID string) (*Response[UsageEvent], error) {
	return call[UsageEvent](ctx, c, newGet("/v1/usage/"+url.PathEscape(requestID), nil), false)
}

// GetOpenAPI returns the OpenAPI description of the API (GET /v1/openapi.json).
func (c *Client) GetOpenAPI(ctx context.Context) (*Response[jsontext.Value], error) {
	return call[jsontext.Value](ctx, c, newGet("/v1/openapi.json", nil), false)
}
