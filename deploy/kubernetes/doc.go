// Package kubernetes contains the tests of the Helm chart in the directory muster. They
// render it with Helm's engine for a table of values, decode every object strictly with
// the Kubernetes types, and check references between objects: selectors, ports, secrets,
// network policies, disruption budgets, the servers' configuration.
//
// It is a separate module, outside of the workspace, so that no other module depends on
// Helm and Kubernetes: GOWORK=off go test ./... (make test-kubernetes).
package kubernetes
