package clause_test

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
)

func TestPage_IsCurrent(t *testing.T) {
	const path = "../../../../deploy/docs/search-language.md"
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(clause.Page()), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), clause.Page(), "run go test ./internal/search/clause -update")
}

func TestClauses_UnsupportedParametersAreRejected(t *testing.T) {
	for _, c := range clause.Clauses() {
		for _, name := range c.Without {
			require.NotContains(t, c.Parameters, clause.Parameter{Name: name}, c.Name)
		}
	}
}
