// Package projectortest has what the tests of the projector's packages share: a migrated database ([Store]), the same
// with a broker and a running projector ([Harness]), a cluster ([OpenCluster]) and records.
package projectortest
