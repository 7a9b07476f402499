//go:build !opensearch

package queryapi_test

import (
	queryapi "muster/query-api"
	"muster/schemas/record"
)

// useSearchCluster does nothing: searches are executed in memory.
func (f *fixture) useSearchCluster(*queryapi.Deps) { f.syncSearch = func(record.Kind) {} }

// executes reports whether the executor supports a query.
func (*fixture) executes(string) bool { return true }

func closeSearchNode() {}
