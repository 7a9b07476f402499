// Package alerts contains the tests of alerts.yaml in the parent directory: Prometheus' own
// code parses the rules and evaluates them on synthetic series.
//
// It is a separate module, outside of the workspace, so that no other module depends on
// Prometheus: GOWORK=off go test ./... (make test-alerts).
package alerts
