package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// Integers may have a decimal point or an exponent, as in JSON Schema. The record is the same and is
// published with plain integers.
func TestDecode_NormalizesIntegers(t *testing.T) {
	for _, tc := range []struct {
		kind       record.Kind
		raw, plain string
	}{
		{
			record.KindNetworkPerson,
			`{"profile_id":"jj","username":"jj","last_updated":"2026-01-01", "connections":10.0,"followers": 1e3 ,` +
				`"rank":2.0}`,
			`{"profile_id":"jj","username":"jj","last_updated":"2026-01-01","connections":10,"followers":1000,` +
				`"rank":2.0}`,
		},
		{
			record.KindCodehostPerson,
			`{"user_id":42.0,"codehost_username":"o","last_updated":"2026-01-01","commit_count":0.0}`,
			`{"user_id":42,"codehost_username":"o","last_updated":"2026-01-01","commit_count":0}`,
		},
		{record.KindCodehostPerson, `{"user_id":42.0,"last_updated":"2026-01-01","deleted":true,"name":"x"}`,
			`{"user_id":42,"last_updated":"2026-01-01","deleted":true}`},
	} {
		got, err := record.Decode(tc.kind, []byte(tc.raw))
		require.NoError(t, err, tc.raw)
		want, err := record.Decode(tc.kind, []byte(tc.plain))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, tc.plain, string(got.JSON))
	}
	for raw, reason := range map[string]string{`10.5`: "is not an integer", `1e-1`: "is not an integer",
		`"10"`: "is a string where an integer is needed"} {
		_, err := record.Decode(record.KindNetworkPerson,
			[]byte(`{"profile_id":"jj","username":"jj","last_updated":"2026-01-01","followers":1.0,"connections":`+raw+
				`}`))
		require.ErrorContains(t, err, "connections "+reason)
	}
}

// Embedded repositories behave the same, even if otherwise invalid.
func TestSplit_NormalizesIntegers(t *testing.T) {
	r, err := record.Decode(record.KindCodehostPerson,
		[]byte(`{"user_id":42.0,"codehost_username":"o","last_updated":"2026-01-01","repos_complete":true,`+
			`"repos":[{"id":7.0,"name":"a","updated_at":"2026-01-01","stargazers_count":3.0},{"id":8.0,"name":"b",`+
			`"updated_at":"never"}]}`))
	require.NoError(t, err)
	parts, rejected := r.SplitEmbedded()
	require.Len(t, rejected, 1)
	require.Len(t, parts, 2)
	require.Equal(t, "42/7", parts[0].Key)
	require.Contains(t, string(parts[0].JSON), `"stargazers_count":3`)
	require.ElementsMatch(t, []string{"7", "8"}, parts[1].Body.(*record.CodehostList).Items)
}

// An erasure of user 42.0 is one of user 42.
func TestDecode_NormalizesIntegersOfErasures(t *testing.T) {
	r, err := record.Decode(record.KindErasure,
		[]byte(`{"identifiers":[{"type":"user_id","value":42.0}],"requested_at":"2026-01-01T00:00:00Z"}`))
	require.NoError(t, err)
	require.EqualValues(t, "42", r.Body.(*record.Erasure).Identifiers[0].Value)
}
