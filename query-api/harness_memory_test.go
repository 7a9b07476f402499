//go:build !opensearch

package queryapi_test

import queryapi "muster/query-api"

// useSearchCluster does nothing: searches are executed in memory.
func (f *fixture) useSearchCluster(*queryapi.Deps) { f.syncSearch = func() {} }

func closeSearchNode() {}
