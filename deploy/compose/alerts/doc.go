// Package alerts holds the tests of alerts.yaml, one folder up: Prometheus' own
// code reads the rules and evaluates them over invented series.
//
// It is a module of its own, outside of the workspace, so that Prometheus weighs
// on no other: GOWORK=off go test ./... (make test-alerts).
package alerts
