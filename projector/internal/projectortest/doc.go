// Package projectortest has the fixtures of the projector's tests: a migrated database ([Store]), the same with a
// broker and a running projector ([Harness]), a cluster ([OpenCluster]) and records.
package projectortest
