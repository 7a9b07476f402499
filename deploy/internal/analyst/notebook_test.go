package analyst

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCells_SplitsStatements(t *testing.T) {
	require.Equal(t, []Cell{{Statement: "SELECT 1"}, {Statement: "SELECT ';',\n 2"}, {Statement: "SELECT 3"}},
		Cells("a.sql", "SELECT 1;\n\nSELECT ';',\n 2;\n;\nSELECT 3\n"))
	require.Equal(t, []Cell{{Title: "One", Statement: "SELECT 1", Note: "text"},
		{Title: "Two", Statement: "-- # no heading\nSELECT 2"}}, Cells("a.md",
		"# Page\n\n## One\n\ntext\n\n```sql\nSELECT 1;\n```\n\n```sh\n# not this\nSELECT 9\n```\n\n## "+
			"Two\n```sql\n-- # no heading\nSELECT 2\n```\n"))
	require.Empty(t, Cells("a.sql", " \n"))
}
