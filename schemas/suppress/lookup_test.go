package suppress_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Covers identifiers of one SHA-256 block and longer ones.
func TestSet_FindsIdentifiersOfAnyLength(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.Email, "someone@example.com", suppress.Entry{})
	for n := 1; n <= 200; n++ {
		id := strings.Repeat("p", n)
		_, hit := s.ID(identity.Network, id)
		require.False(t, hit, n)
		put(t, s, suppress.ProfileID, id, suppress.Entry{})
		by, hit := s.ID(identity.Network, id)
		require.True(t, hit, n)
		require.Equal(t, s.Key().Of(suppress.ProfileID, id), by)
	}
}

// Adds more records and identifiers than are looked up together, many of them repeated.
func TestBatch_EqualsSingleLookups(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	for i := range 40 {
		put(t, s, suppress.Email, fmt.Sprintf("e%d@example.com", i), suppress.Entry{})
		put(t, s, suppress.UserID, fmt.Sprint(1000+i), suppress.Entry{})
	}
	long := strings.Repeat("l", 60) + "@example.com"
	put(t, s, suppress.Email, long, suppress.Entry{})
	var records []*record.Record
	var want []bool
	for i := range 700 {
		owner, email := int64(900+i/7), fmt.Sprintf("e%d@example.com", i/3%80)
		if i%50 == 0 {
			email = long
		}
		r, err := record.Decode(record.KindCodehostCommit,
			fmt.Appendf(nil, `{"sha":"ab%d","user_id":%d,"author_email":%q,"author_date":"2026-01-02"}`, i, owner,
				email))
		require.NoError(t, err)
		if i%11 == 0 {
			r = nil
		}
		records = append(records, r)
		want = append(want, r != nil && (owner >= 1000 || email == long || i/3%80 < 40))
	}
	for range 2 { // The batchLookup is reused.
		found := make([]suppress.Found, len(records))
		b := s.Batch()
		for _, r := range records {
			b.Add(r)
		}
		b.Found(found)
		for i, f := range found {
			require.Equal(t, want[i], f.Hit, i)
		}
		slices.Reverse(records)
		slices.Reverse(want)
	}
}

// One suppressed record suffices, and its kind gives the type of the id.
func TestIsAnyNamed_LooksUpIDsByKind(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	require.False(t, s.IsAnyNamed([]string{"network-person p1"}))
	put(t, s, suppress.ProfileID, "p1", suppress.Entry{})
	put(t, s, suppress.UserID, "7", suppress.Entry{})
	for _, hit := range [][]string{{"network-person p1"}, {"codehost-person 7"}, {"company c", "network-person p2",
		"codehost-person 7"}} {
		require.True(t, s.IsAnyNamed(hit), hit)
	}
	for _, miss := range [][]string{nil, {""}, {"p1"}, {"company p1"}, {"network-person 7"}, {"codehost-person p1"},
		{"microblog-person p1"}, {"network-person"}} {
		require.False(t, s.IsAnyNamed(miss), miss)
	}
}
