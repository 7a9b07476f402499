package v1

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/api"
	"muster/schemas/event"
)

// operation describes an endpoint for the checks. A test compares it with openapi.yaml.
type operation struct {
	id     string // operationId
	method string
	path   string
	scope  string // required scope of the key; empty: no key is needed, or with tools, any key
	// invalid is the status for invalid input, unavailable the status during a store outage.
	invalid     int
	unavailable int
	// price returns the price of a unit; nil if the endpoint is free. counted endpoints count towards the monthly
	// request limit. sized is the parameter that makes a call cheaper, for error messages. none reports whether that
	// can make it free. With quota a 200 has X-Quota-* headers.
	price   func(event.Prices) int64
	counted bool
	sized   string
	none    bool
	quota   bool
	// data responses have X-Data-As-Of. searched data is that of the search index.
	data, searched bool
	// queries: the body is a search.
	queries bool
	// upload reports that the body is rows, which are spooled to disk; streams that the response may be of any size.
	upload, streams bool
	// variant, if set, returns the operation whose scope, price and monthly requests apply to a request: for bulk jobs
	// that of their rows, or none while it is not known.
	variant func(*http.Request) operation
	// patient calls may take as long as discovery does, waiting calls as long as the client asks for.
	patient, waiting bool
	// tools calls other operations (MCP).
	tools bool
	// body returns a pointer to decode the request body into; nil: no body.
	body       func() any
	parameters []parameter
}

// parameter is a query parameter.
type parameter struct {
	name     string
	required bool
	hint     string // for the error if it is missing
	boolean  bool
	integer  bool
	list     bool
}

// operations lists the endpoints.
func operations() []operation {
	const (
		unprocessable = http.StatusUnprocessableEntity
		bad           = http.StatusBadRequest
		internal      = http.StatusInternalServerError
	)
	lists := []parameter{
		{name: "addons", list: true}, {name: "must_have", list: true}, {name: "fields", list: true},
		{name: "max_credits", integer: true}, {name: "dry_run", boolean: true},
	}
	webset := func(p event.Prices) int64 { return p.Webset }
	return []operation{
		{
			id: "enrichPerson", method: http.MethodPost, path: "/v1/person/enrich", scope: event.ScopeEnrich,
			data:    true,
			invalid: unprocessable, unavailable: internal,
			body:  func() any { return new(api.PersonEnrichRequest) },
			price: func(p event.Prices) int64 { return p.PersonEnrich }, counted: true, sized: "items",
		},
		{
			id: "searchPeople", method: http.MethodPost, path: "/v1/person/search", scope: event.ScopeSearch,
			data: true, searched: true,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
			body: func() any { return new(api.SearchRequest) }, queries: true,
			price: func(p event.Prices) int64 { return p.Search }, sized: "size", none: true, quota: true,
		},
		{
			id: "explainSearch", method: http.MethodPost, path: "/v1/person/search/explain", scope: event.ScopeSearch,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
			body: func() any { return new(api.SearchRequest) }, queries: true,
		},
		{
			id: "searchCompanies", method: http.MethodPost, path: "/v1/company/search", scope: event.ScopeSearch,
			data: true, searched: true,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
			body: func() any { return new(api.SearchRequest) }, queries: true,
			price: func(p event.Prices) int64 { return p.Search }, sized: "size", none: true, quota: true,
		},
		{
			id: "explainCompanySearch", method: http.MethodPost, path: "/v1/company/search/explain",
			scope:   event.ScopeSearch,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
			body: func() any { return new(api.SearchRequest) }, queries: true,
		},
		{
			id: "enrichCompany", method: http.MethodPost, path: "/v1/company/enrich", scope: event.ScopeEnrich,
			data:    true,
			invalid: unprocessable, unavailable: internal,
			body:  func() any { return new(api.CompanyEnrichRequest) },
			price: func(p event.Prices) int64 { return p.CompanyEnrich }, counted: true, sized: "items",
		},
		{
			id: "discoverPerson", method: http.MethodPost, path: "/v1/person/discover", scope: event.ScopeDiscover,
			data:    true,
			invalid: bad, unavailable: http.StatusServiceUnavailable, patient: true,
			body:  func() any { return new(api.PersonDiscoverRequest) },
			price: func(p event.Prices) int64 { return p.Discover },
		},
		{
			id: "identifyPerson", method: http.MethodPost, path: "/v1/person/identify", scope: event.ScopeDiscover,
			data:    true,
			invalid: bad, unavailable: http.StatusServiceUnavailable, patient: true,
			body:  func() any { return new(api.PersonIdentifyRequest) },
			price: func(p event.Prices) int64 { return p.Discover },
		},
		{
			id: "submitFeedback", method: http.MethodPost, path: "/v1/feedback", scope: event.ScopeDiscover,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
			body: func() any { return new(api.FeedbackRequest) },
		},
		{
			id: "createContext", method: http.MethodPost, path: ContextPath, scope: event.ScopeContext,
			invalid: bad, unavailable: http.StatusServiceUnavailable, waiting: true,
			body:  func() any { return new(api.ContextRequest) },
			price: func(p event.Prices) int64 { return p.Context },
		},
		{
			id: "getContext", method: http.MethodGet, path: ContextPath + "/{request_id}", scope: event.ScopeContext,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
		},
		{
			id: "getNetworkPerson", method: http.MethodGet, path: "/v1/webset/network/person", scope: event.ScopeWebset,
			data:    true,
			invalid: bad, unavailable: internal,
			parameters: append([]parameter{
				{name: "network", required: true, hint: "give a username or a profile URL"},
			}, lists...), price: webset,
		},
		{
			id: "postNetworkPerson", method: http.MethodPost, path: "/v1/webset/network/person",
			data:    true,
			scope:   event.ScopeWebset,
			invalid: bad, unavailable: internal,
			body: func() any { return new(api.NetworkPersonRequest) }, price: webset, sized: "the list of identifiers",
		},
		{
			id: "getCodehostPerson", method: http.MethodGet, path: "/v1/webset/codehost/person",
			data:    true,
			scope:   event.ScopeWebset,
			invalid: bad, unavailable: internal,
			parameters: append([]parameter{
				{name: "codehost", required: true, hint: "give a username, a profile URL or a numeric user id"},
			}, lists...), price: webset,
		},
		{
			id: "postCodehostPerson", method: http.MethodPost, path: "/v1/webset/codehost/person",
			data:    true,
			scope:   event.ScopeWebset,
			invalid: bad, unavailable: internal,
			body: func() any { return new(api.CodehostPersonRequest) }, price: webset, sized: "the list of identifiers",
		},
		{
			id: "suggestValues", method: http.MethodGet, path: "/v1/suggest", scope: event.ScopeSearch,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
			parameters: []parameter{
				{name: "field", required: true, hint: "give one with whole values, such as experience.title.keyword"},
				{name: "prefix"}, {name: "size", integer: true},
			},
		},
		{
			id: "getUsage", method: http.MethodGet, path: "/v1/usage", scope: event.ScopeUsage,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
		},
		{
			id: "getUsageEvent", method: http.MethodGet, path: "/v1/usage/{request_id}", scope: event.ScopeUsage,
			invalid: bad, unavailable: http.StatusServiceUnavailable,
		},
		{
			id: "submitBulk", method: http.MethodPost, path: BulkPath, scope: anyScope,
			invalid: bad, unavailable: http.StatusServiceUnavailable, upload: true, variant: bulkVariant,
			parameters: []parameter{
				{name: "operation", required: true, hint: "give one of " + strings.Join(event.BulkOperations(), ", ")},
				{name: "fields", list: true}, {name: "webhook_url"}, {name: "max_credits", integer: true},
				{name: "dry_run", boolean: true},
			},
			price: func(event.Prices) int64 { return 0 }, sized: "the rows",
		},
		{
			id: "getBulk", method: http.MethodGet, path: BulkPath + "/{job_id}", scope: anyScope,
			invalid: bad, unavailable: http.StatusServiceUnavailable, variant: anyVariant,
		},
		{
			id: "getBulkResults", method: http.MethodGet, path: BulkPath + "/{job_id}/results", scope: anyScope,
			invalid: bad, unavailable: http.StatusServiceUnavailable, variant: anyVariant, streams: true,
		},
		settings("getWebhook", http.MethodGet, "/v1/webhook", nil),
		settings("setWebhook", http.MethodPut, "/v1/webhook", func() any { return new(api.WebhookRequest) }),
		settings("deleteWebhook", http.MethodDelete, "/v1/webhook", nil),
		settings("rotateWebhookSecret", http.MethodPost, "/v1/webhook/secret/rotate",
			func() any { return new(api.RotateWebhookSecretRequest) }),
		settings("testWebhook", http.MethodPost, "/v1/webhook/test", nil),
		settings("listWebhookDeliveries", http.MethodGet, "/v1/webhook/deliveries", nil,
			parameter{name: "status"}, parameter{name: "limit", integer: true}, parameter{name: "cursor"}),
		settings("getWebhookDelivery", http.MethodGet, "/v1/webhook/deliveries/{delivery_id}", nil),
		settings("resendWebhookDelivery", http.MethodPost, "/v1/webhook/deliveries/{delivery_id}/resend", nil),
		settings("rotateKey", http.MethodPost, "/v1/keys/{key_id}/rotate",
			func() any { return new(api.RotateKeyRequest) }),
		{
			id: "callMCP", method: http.MethodPost, path: MCPPath,
			invalid: bad, unavailable: http.StatusServiceUnavailable, patient: true, waiting: true, tools: true,
			body: func() any { return new(map[string]jsontext.Value) },
		},
		{
			id: "getOpenAPI", method: http.MethodGet, path: "/v1/openapi.json",
			invalid: bad, unavailable: http.StatusServiceUnavailable,
		},
	}
}

// settings returns an operation on the caller's own settings.
func settings(id, method, path string, body func() any, parameters ...parameter) operation {
	return operation{
		id: id, method: method, path: path, scope: event.ScopeManage,
		invalid: http.StatusBadRequest, unavailable: http.StatusServiceUnavailable, body: body, parameters: parameters,
	}
}

// anyScope marks operations that need a key with the scope of their job's operation.
const anyScope = "any"

// anyVariant is the variant of operations whose scope is known after the job is read.
func anyVariant(*http.Request) operation { return operation{} }

// costs returns the operation whose scope, price and monthly requests apply to a request.
func (op *operation) costs(r *http.Request) operation {
	if op.variant != nil {
		return op.variant(r)
	}
	return *op
}

// isPublic reports whether the operation needs no key.
func (op *operation) isPublic() bool { return op.scope == "" && !op.tools }

// matches reports whether a path is one of the operation's.
func (op *operation) matches(path string) bool {
	want, got := strings.Split(op.path, "/"), strings.Split(path, "/")
	return len(want) == len(got) && !slices.ContainsFunc(want, func(segment string) bool {
		given := got[0]
		got = got[1:]
		return given != segment && (given == "" || !strings.HasPrefix(segment, "{"))
	})
}
