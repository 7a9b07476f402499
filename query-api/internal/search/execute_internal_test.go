package search

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
	"muster/schemas/readmodel"
)

// Documents are read from any replica of a cluster, which may be behind the one whose state the snapshot knows.
func TestSearch_CachesDocumentsOfOneServerOnly(t *testing.T) {
	var got readstore.AsOf
	s := &Searcher{deps: Deps{
		Documents: func(_ context.Context, _ []readstore.DocumentKey, as readstore.AsOf) ([]readstore.Document, error) {
			got = as
			return nil, nil
		},
	}}
	search := &Search{searcher: s, request: Request{Size: 10}}
	snapshot := &postings.Snapshot{Documents: "parts", Unseen: true}
	for cluster, want := range map[string]readstore.AsOf{"": {State: "parts", Unseen: true}, "c": {}} {
		s.layout = &readmodel.Layout{Cluster: cluster}
		_, err := search.documents(t.Context(), snapshot, &postings.Answer{Places: []planner.Place{{Hash: 1}}})
		require.NoError(t, err)
		require.Equal(t, want, got, "cluster %q", cluster)
	}
}
