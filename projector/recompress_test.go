package projector_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Merges recompress old rows of search_people but not recent ones, so that inserts and early merges are
// cheaper.
func TestSearchPeople_MergesRecompressOldRows(t *testing.T) {
	s := openStore(t)
	codec := func() (name string) {
		t.Helper()
		require.NoError(t, s.conn.Exec(t.Context(), "OPTIMIZE TABLE search_people FINAL"))
		require.NoError(t, s.conn.QueryRow(t.Context(), "SELECT any(default_compression_codec) FROM system.parts "+
			"WHERE database = currentDatabase() AND table = 'search_people' AND active HAVING count() = 1").Scan(&name))
		return name
	}
	recs := worldPeople(t)
	half := len(recs) / 2
	s.insert("young", recs[:half]...)
	s.insert("younger", recs[half:]...)
	rows := s.count("SELECT count() FROM search_people FINAL")
	require.NotZero(t, rows)
	require.Equal(t, "LZ4", codec())

	require.NoError(t, s.conn.Exec(t.Context(), "TRUNCATE TABLE search_people"))
	require.NoError(t, s.conn.Exec(t.Context(), "ALTER TABLE search_people MODIFY COLUMN inserted DateTime "+
		"MATERIALIZED now() - 240"))
	s.insert("rested", recs[:half]...)
	s.insert("as long", recs[half:]...)
	require.Equal(t, "ZSTD(3)", codec())
	require.Equal(t, rows, s.count("SELECT count() FROM search_people FINAL"))
}
