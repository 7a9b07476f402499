// Package v1 serves the /v1 API over HTTP: routing, order of checks, authentication, strict input
// validation, errors, and the endpoints.
//
// Checks run in the order of rulings.md, Errors: 404 and 405, then 413 and 415, 401, 403 for an
// inactive organization, 403 for a missing scope, then invalid input. Every error is {"detail":
// string}. Errors, log lines and metrics never contain data of records or values of a request.
//
// To add an endpoint, describe it in openapi.yaml, generate the code, add its operation to
// operations.go, and add its method in a new file.
package v1
