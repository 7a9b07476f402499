package suppress_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Unmapped addresses.
func TestSet_FindsAddressesInUnknownFields(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{})
	for _, c := range []struct {
		kind record.Kind
		raw  string
		hit  bool
	}{
		{record.KindCodehostPerson,
			`{"user_id":1,"codehost_username":"a","email":"Ada@example.com","last_updated":"2026"}`, true},
		{record.KindNetworkPerson,
			`{"profile_id":"p1","username":"a","work_email":"ada@example.com","last_updated":"2026"}`, true},
		{record.KindNetworkPerson,
			`{"profile_id":"p1","username":"a","emails":["b@example.com"],"contact":{"EMAILS":` +
				`[{"value":"ada@example.com"}]},"last_updated":"2026"}`, true},
		{record.KindNetworkPerson,
			`{"profile_id":"p1","username":"a","work_e\u006dail":"ada@example.com","last_updated":"2026"}`, true},
		{record.KindNetworkPerson,
			`{"profile_id":"p1","username":"a","experience":[{"title":"x","company_email":"ada@example.com"}],` +
				`"last_updated":"2026"}`, true},
		{record.KindNetworkPerson,
			`{"profile_id":"p1","username":"a","experience":[{"title":"x","location":{"email":"ada@example.com"}}],` +
				`"last_updated":"2026"}`, true},
		{record.KindMicroblogPerson, `{"user_id":"m1","username":"a","email":"ada@example.com","last_updated":"2026"}`,
			true},
		{record.KindNetworkPerson,
			`{"profile_id":"p1","username":"a","summary":"write to ada@example.com","last_updated":"2026"}`, false},
		{record.KindCodehostPerson,
			`{"user_id":1,"codehost_username":"a","follower_accounts":[{"login":"ada","email":"ada@example.com"}],` +
				`"last_updated":"2026"}`, false},
	} {
		r := decode(t, c.kind, c.raw)
		_, hit := s.Record(r)
		require.Equal(t, c.hit, hit, c.raw)
		subject, ok := suppress.SubjectOf(r)
		require.True(t, ok)
		_, hit = s.Subject(subject)
		require.Equal(t, c.hit, hit, c.raw)
	}
}

// Numbers in fields whose names contain "phone" or "mobile" (deploy/docs/erasure.md).
func TestSet_FindsPhonesInUnknownFields(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.Phone, "14155550100", suppress.Entry{})
	for member, want := range map[string]bool{
		`"phone":"+1 415 555 0100"`:               true,
		`"PHONE":"+1 415 555 0100"`:               true,
		`"MOBILE":"+1 415 555 0100"`:              true,
		`"phone":14155550100`:                     true,
		`"phones":[14155550100]`:                  true,
		`"phones":[{"number":"+1 415 555 0100"}]`: true,
		`"contact":{"phone":"+1 415 555 0100"}`:   true,
		`"p\u0068one":"+1 415 555 0100"`:          true,
		`"fax":"+1 415 555 0100"`:                 false,
	} {
		r := decode(t, record.KindNetworkPerson, `{"profile_id":"p1","username":"a",`+member+`,"last_updated":"2026"}`)
		_, hit := s.Record(r)
		require.Equal(t, want, hit, member)
		subject, _ := suppress.SubjectOf(r)
		_, hit = s.Subject(subject)
		require.Equal(t, want, hit, member)
	}
}

// Ids in records may have surrounding white space, those in requests do not.
func TestSet_IgnoresWhiteSpaceAroundIDs(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.ProfileID, "p1", suppress.Entry{})
	r := decode(t, record.KindNetworkPerson, `{"profile_id":" p1 ","username":"a","last_updated":"2026"}`)
	_, hit := s.Record(r)
	require.True(t, hit)
	_, hit = s.ID(identity.Network, r.Key)
	require.True(t, hit, "tables have the id as in the record")
	_, _, more := s.Derive(identity.Network, r.Key, s.Key().Of(suppress.ProfileID, "p1"))
	require.False(t, more, "the entry is the same")
}

func TestRecordPhones_AreThePersonsOwn(t *testing.T) {
	for raw, want := range map[string][]string{
		`"phone":"+47 555 01 234"`: {"4755501234"},
		`"mobile_numbers":["+1 (555) 010-0100","15550100100","x"],"contact":{"phone":5550100101}`: {"15550100100",
			"5550100101"},
		`"experience":[{"title":"x","company":{"name":"y","phone":"+47 555 01 234"}}]`: nil,
		`"summary":"phone +47 555 01 234"`:                                             nil,
	} {
		r, err := record.Decode(record.KindNetworkPerson,
			[]byte(`{"profile_id":"p1","username":"a","last_updated":"2026",`+raw+`}`))
		require.NoError(t, err)
		require.Equal(t, want, suppress.RecordPhones(r), raw)
		require.Equal(t, want, suppress.OwnPhones(r.JSON), raw)
	}
	require.Equal(t, []string{"5550100100", "15550100100"}, suppress.PhoneForms("(555) 010-0100"))
	require.Empty(t, suppress.PhoneForms("x"))
}
