// Package client is the Go client of the muster API: one method an endpoint,
// with typed requests and responses, generated from openapi.yaml (change that
// file and run go generate), and around it what every caller needs:
//
//   - [New] sends a call again after a broken connection or when the answer
//     carries Retry-After, under one Idempotency-Key;
//   - [People] walks through all results of a search;
//   - [VerifyWebhook] checks what a webhook delivers.
//
// A client is safe for concurrent use. A call is sent at least once, and charged
// at most once. Folder example has a program that uses all of it.
package client

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../openapi.yaml
