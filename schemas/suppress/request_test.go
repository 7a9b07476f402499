package suppress_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
	"muster/schemas/suppress"
)

// A request by value and one by SHA-256 have the same hash and mark.
func TestKey_RequestByValueAndBySHA256Agree(t *testing.T) {
	key := suppress.NoKey()
	for _, typ := range suppress.Types() {
		value := map[suppress.Type]string{suppress.Email: "ada@example.com", suppress.Phone: "14155550100",
			suppress.UserID: "42"}[typ]
		if value == "" {
			value = "ada-l"
		}
		sum := sha256.Sum256([]byte(value))
		rec, err := record.Decode(
			record.KindErasure,
			fmt.Appendf(nil,
				`{"identifiers":[{"type":%q,"value":%q},{"type":%q,"sha256":%q}],"requested_at":"2026-11-21"}`, typ,
				value, typ, hex.EncodeToString(sum[:])),
		)
		require.NoError(t, err)
		request, ok := rec.Body.(*record.Erasure)
		require.True(t, ok)
		got, bad := key.Request(request)
		require.Nil(t, bad)
		want := suppress.Requested{Type: typ, Hash: key.Of(typ, value), Mark: key.Mark(typ, sum)}
		require.Equal(t, []suppress.Requested{want, want}, got)
	}
}
