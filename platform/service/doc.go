// Package service is what every program of the platform needs before it does anything of its own: logs, metrics and
// traces, an admin server, an HTTP server that stops gracefully, a group that starts services in the order of their
// dependencies and stops them in reverse, signals and the root secret.
//
// Contract: nothing here is a global. A [Telemetry] is made once by the program and its parts are passed on as
// values; two programs' worth of services can live in one process (which is what tests and the single binary do).
// Every goroutine started here is waited for by the Run that started it.
//
// The package knows neither records nor persons.
package service
