// Package client is the Go client of the muster API: one method an endpoint,
// with typed requests and responses. All of it is generated from openapi.yaml;
// change that file and run go generate.
//
// A client is safe for concurrent use. It sends each call once: it neither
// retries nor waits for Retry-After.
package client

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../openapi.yaml
