// Package client is the Go client of the muster API.
//
// A [Client] has one method per operation of the API description (openapi.yaml), named after it, with a typed request
// and a [Response]: the decoded body, and what the headers say of cost, rate limit and quota. Responses with a status
// other than 2xx are returned as an [*Error]. The models are generated from the description; absent text is "", an
// absent list nil, and optional numbers, booleans and objects are pointers. Fields of records that the description does
// not name are kept in AdditionalProperties.
//
//   - [Client.People] and [Client.SearchPages] iterate over all results of a search.
//   - [VerifyWebhook] verifies and decodes a webhook delivery.
//
// Calls are retried where that is safe; see [Options]. A call is sent at least once and charged at most once.
//
// The module depends on no other part of muster. It needs github.com/go-json-experiment/json, which keeps fields that
// a type does not name, and the library of Standard Webhooks.
package client

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../openapi.yaml
