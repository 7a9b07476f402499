// Package service provides what every program of the platform needs first: logs, metrics and traces, an admin server,
// an HTTP server that stops gracefully, a group that starts services in dependency order and stops them in reverse,
// signal handling and the root secret.
//
// Contract: nothing here is global. A program creates one [Telemetry] and passes its parts on as values; the services
// of two programs can run in one process, as they do in tests and in the single binary. Every goroutine started here
// is waited for by the Run that started it.
//
// The package is independent of records and persons.
package service
