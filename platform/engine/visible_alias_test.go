package engine_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The JDBC driver qualifies columns with system.tables although the table has an alias. The alias must not become the
// name of a database that the user may not read.
func TestAnalyst_QualifiedColumnsMatchAliasedSystemTables(t *testing.T) {
	k := startRestricted(t)
	status, body := k.ask("", "SELECT t.name FROM system.tables t JOIN system.databases d "+
		"ON system.tables.database = system.databases.name WHERE d.name = 'views'")
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "people\n", body)
	for _, statement := range []string{
		"SELECT '" + hidden + "' IN system.tables.people FROM system.tables AS secrets",
		"SELECT '" + hidden + "' IN system.tables.people FROM system.tables AS `secrets`",
		"SELECT '" + hidden + "' IN system.tables.people FROM system.tables AS \"secrets.people\"",
		"SELECT 'people' IN system.tables.tables FROM system.tables AS system",
	} {
		status, body := k.ask("", statement)
		require.Equal(t, http.StatusForbidden, status, "%s: %s", statement, body)
	}
}
