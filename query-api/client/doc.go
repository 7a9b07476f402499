// Package client is the Go client of the muster API: one method per endpoint, with typed requests
// and responses, generated from openapi.yaml (change that file and run go generate). Helpers add
// what most callers need:
//
//   - [New] retries a call after a broken connection, or if the response has Retry-After, with one Idempotency-Key;
//   - [People] iterates over all results of a search;
//   - [VerifyWebhook] verifies and decodes a webhook delivery.
//
// A client is safe for concurrent use. A call is sent at least once and charged at most once.
// Directory example has a program that uses all of it.
package client

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../openapi.yaml
