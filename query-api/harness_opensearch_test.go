//go:build opensearch

package queryapi_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/query-api/opensearchtest"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/searchindex"
)

// searchNode is the OpenSearch node of all tests of the package, once one needs it.
var searchNode struct {
	sync.Mutex
	*opensearchtest.Node
}

func startSearchNode() (*opensearchtest.Node, error) {
	searchNode.Lock()
	defer searchNode.Unlock()
	var err error
	if searchNode.Node == nil {
		searchNode.Node, err = opensearchtest.Start(context.Background(), opensearchtest.Options{})
	}
	return searchNode.Node, err
}

// useSearchCluster lets the service search in OpenSearch, whose index syncSearch writes.
func (f *fixture) useSearchCluster(deps *queryapi.Deps) {
	f.t.Helper()
	node, err := startSearchNode()
	require.NoError(f.t, err)
	// The addresses of the brokers are unlike those of other tests.
	prefix := "t" + strings.NewReplacer(":", "-", ",", "-").Replace(strings.Join(f.bus.Brokers, ",")) + "-"
	key, err := deps.Secret.Key(searchindex.KeyName, searchindex.KeySize)
	require.NoError(f.t, err)
	ctx := context.WithoutCancel(f.t.Context())
	syncs := make(map[record.Kind]func(context.Context) error)
	for _, of := range readmodel.SearchCollections() {
		c, err := opensearchtest.OpenCollection(f.t.Context(), of, node.URL(), prefix, key, f.conn)
		require.NoError(f.t, err)
		f.t.Cleanup(func() { require.NoError(f.t, c.Close(ctx)) })
		deps.OpenSearch, syncs[of.Kind] = c.Client(), c.Sync
	}
	f.syncSearch = func(kind record.Kind) {
		if sync := syncs[kind]; sync != nil {
			require.NoError(f.t, sync(ctx))
		}
	}
}

// executes reports whether the executor supports a query.
func (*fixture) executes(query string) bool { return !strings.Contains(query, "combined_fields") }

func closeSearchNode() {
	if searchNode.Node == nil {
		return
	}
	if err := searchNode.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
