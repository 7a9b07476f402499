package differential_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search"
)

func TestSearch_RejectsOrCutsTooManyTerms(t *testing.T) {
	muster := newEngine(t, store(t, 600), time.Now)
	for _, query := range []string{
		`{"prefix":{"experience.description.keyword":{"value":"","rewrite":"REWRITE"}}}`,
		`{"wildcard":{"experience.description.keyword":{"value":"*","rewrite":"REWRITE"}}}`,
		`{"regexp":{"experience.description.keyword":{"value":"~(engineer)","rewrite":"REWRITE"}}}`,
	} {
		ask := func(rewrite string) (int, error) {
			r, err := muster.Search(t.Context(), []byte(`{"query":`+strings.ReplaceAll(query, "REWRITE", rewrite)+`}`))
			return r.Total, err
		}
		_, err := ask("scoring_boolean")
		var tooExpensive *search.TooExpensiveError
		require.ErrorAs(t, err, &tooExpensive, query)
		require.ErrorContains(t, err, "more than 1024 terms", query)
		few, err := ask("top_terms_100")
		require.NoError(t, err)
		all, err := ask("constant_score")
		require.NoError(t, err)
		require.Positive(t, few)
		require.LessOrEqual(t, few, all)
	}

	var tooExpensive *search.TooExpensiveError
	_, err := muster.Search(t.Context(),
		[]byte(`{"query":{"simple_query_string":{"query":"`+strings.Repeat("a~2 | ", 300)+`b"}}}`))
	require.ErrorAs(t, err, &tooExpensive)
	require.ErrorContains(t, err, "pairs of a word and a field", "more than a statement can read")
}
