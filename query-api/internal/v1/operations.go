package v1

import (
	"net/http"

	"muster/query-api/internal/api"
	"muster/schemas/event"
)

// operation is what the checks need to know of an endpoint. A test compares it
// with openapi.yaml.
type operation struct {
	id     string // operationId
	method string
	path   string
	scope  string // of the key; empty: no key needed
	// invalid is the status of wrong input, unavailable that of a store that is away.
	invalid     int
	unavailable int
	// body returns a pointer to decode the request body into; nil: no body.
	body       func() any
	parameters []parameter
}

// parameter is a query parameter.
type parameter struct {
	name     string
	required bool
	hint     string // how to give it, for who leaves it out
}

// operations lists the endpoints.
func operations() []operation {
	const (
		unprocessable = http.StatusUnprocessableEntity
		bad           = http.StatusBadRequest
		internal      = http.StatusInternalServerError
	)
	lists := []parameter{{name: "addons"}, {name: "must_have"}}
	return []operation{
		{
			id: "enrichPerson", method: http.MethodPost, path: "/v1/person/enrich", scope: event.ScopeEnrich,
			invalid: unprocessable, unavailable: internal,
			body: func() any { return new(api.PersonEnrichRequest) },
		},
		{
			id: "enrichCompany", method: http.MethodPost, path: "/v1/company/enrich", scope: event.ScopeEnrich,
			invalid: unprocessable, unavailable: internal,
			body: func() any { return new(api.CompanyEnrichRequest) },
		},
		{
			id: "getNetworkPerson", method: http.MethodGet, path: "/v1/webset/network/person", scope: event.ScopeWebset,
			invalid: bad, unavailable: internal,
			parameters: append([]parameter{{"network", true, "give a username or a profile URL"}}, lists...),
		},
		{
			id: "postNetworkPerson", method: http.MethodPost, path: "/v1/webset/network/person", scope: event.ScopeWebset,
			invalid: bad, unavailable: internal,
			body: func() any { return new(api.NetworkPersonRequest) },
		},
		{
			id: "getCodehostPerson", method: http.MethodGet, path: "/v1/webset/codehost/person", scope: event.ScopeWebset,
			invalid: bad, unavailable: internal,
			parameters: append([]parameter{{"codehost", true, "give a username, a profile URL or a numeric user id"}}, lists...),
		},
		{
			id: "postCodehostPerson", method: http.MethodPost, path: "/v1/webset/codehost/person", scope: event.ScopeWebset,
			invalid: bad, unavailable: internal,
			body: func() any { return new(api.CodehostPersonRequest) },
		},
		{
			id: "getDescription", method: http.MethodGet, path: "/v1/openapi.json",
			invalid: bad, unavailable: http.StatusServiceUnavailable,
		},
	}
}
