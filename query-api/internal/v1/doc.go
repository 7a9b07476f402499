// Package v1 serves the /v1 interface over HTTP: routing, the order of checks,
// authentication, strict input, errors, and the endpoints themselves.
//
// Checks come in the order of rulings.md, Errors: 404 and 405, then 413 and 415,
// 401, 403 for an inactive organization, 403 for a lacking scope, then invalid
// input. Every error is {"detail": string}. Nothing in an error, a log line or a
// metric is taken from a record or from the values of a request.
//
// Adding an endpoint: describe it in openapi.yaml, generate, add its operation
// to operations.go and its method in a file of its own.
package v1
