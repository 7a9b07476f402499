package suppress_test

import (
	"strconv"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
	"muster/schemas/suppress"
)

// BenchmarkRecord looks a person's record up in a set that none of its identifiers is
// in.
func BenchmarkRecord(b *testing.B) {
	rec, err := record.Decode(record.KindNetworkPerson, []byte(`{"profile_id":"28bjj84j1t8","username":"ada-lovelace-84","full_name":"Ada Lovelace","headline":"Engineer","emails":["ada@example.com","ada.lovelace@example.org"],"last_updated":"2026-01-02"}`))
	require.NoError(b, err)
	for _, n := range []int{1, 1_000_000} {
		set := suppress.NewSet(suppress.NoKey())
		for i := range n {
			t := suppress.Types()[i%len(suppress.Types())]
			value, err := json.Marshal(suppress.Entry{Type: t, Scope: suppress.All, RequestedAt: "2026-01-01", Key: set.Key().ID()})
			require.NoError(b, err)
			require.NoError(b, set.Apply([]byte(set.Key().Of(t, "nobody-"+strconv.Itoa(i)).String()), value))
		}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, hit := set.Record(rec); hit {
					b.Fatal("is in the set")
				}
			}
		})
	}
	b.Run("hash", func(b *testing.B) {
		key := suppress.NoKey()
		b.ReportAllocs()
		for b.Loop() {
			key.Of(suppress.Email, "ada.lovelace@example.org")
		}
	})
}
