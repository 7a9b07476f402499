package answers_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/readmodel"
)

// Steps that read the rest of the table would read 80 times the rows below.
func TestWalks_ReadLittleMoreThanTheirRows(t *testing.T) {
	s := projectortest.OpenStore(t)
	const keys, versions = 40_000, 2
	for range versions {
		require.NoError(t, s.Conn.Exec(t.Context(), "INSERT INTO network_people (profile_hash, profile_id, version) "+
			"SELECT xxHash64(profile_id), concat('p', toString(number)) AS profile_id, rand() FROM numbers(?)", keys))
		require.NoError(t, s.Conn.Exec(t.Context(), "INSERT INTO codehost_people (user_id, version) "+
			"SELECT number - 5, rand() FROM numbers(?)", keys))
	}
	const limit = 1000
	selectedRows := func() (n uint64) {
		row := s.Conn.QueryRow(t.Context(), "SELECT value FROM system.events WHERE event = 'SelectedRows'")
		require.NoError(t, row.Scan(&n))
		return n
	}

	began := selectedRows()
	people := make(map[string]bool)
	var after uint64
	for first := true; ; first = false {
		some, last, err := readmodel.PeopleAfter(t.Context(), s.Conn, after, first, limit)
		require.NoError(t, err)
		if len(some) == 0 {
			break
		}
		require.LessOrEqual(t, len(some), limit)
		for _, id := range some {
			require.False(t, people[id], "one step for each person")
			people[id] = true
		}
		after = last
	}
	require.Len(t, people, keys)
	require.Less(t, selectedRows()-began, uint64(10*keys*versions), "rows that are read for people")

	began = selectedRows()
	var accounts []int64
	for last := int64(math.MinInt64); ; last = accounts[len(accounts)-1] {
		some, err := readmodel.AccountsAfter(t.Context(), s.Conn, last, limit)
		require.NoError(t, err)
		if len(some) == 0 {
			break
		}
		require.LessOrEqual(t, len(some), limit)
		accounts = append(accounts, some...)
	}
	require.Len(t, accounts, keys)
	require.True(t, slices.IsSorted(accounts))
	require.Less(t, selectedRows()-began, uint64(10*keys*versions), "rows that are read for accounts")
}
