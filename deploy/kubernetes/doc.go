// Package kubernetes holds the tests of the Helm chart in the folder muster:
// it is rendered with Helm's own engine for a table of values, every object is
// decoded strictly by Kubernetes' own types, and what the objects say of each
// other is compared: selectors, ports, secrets, network policies, disruption
// budgets, the servers' configuration.
//
// It is a module of its own, outside of the workspace, so that Helm and
// Kubernetes weigh on no other: GOWORK=off go test ./... (make test-kubernetes).
package kubernetes
