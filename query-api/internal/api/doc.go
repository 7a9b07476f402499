// Package api is the HTTP interface of query-api as Go code: request and
// response types and the strict gorilla/mux server. All of it is generated from
// openapi.yaml; change that file and run go generate.
package api

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../../openapi.yaml
