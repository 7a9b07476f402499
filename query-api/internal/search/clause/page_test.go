package clause_test

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
)

// The documentation says what the code does.
func TestPage(t *testing.T) {
	const path = "../../../../deploy/docs/search-language.md"
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(clause.Page()), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), clause.Page(), "run go test ./internal/search/clause -update")
}
