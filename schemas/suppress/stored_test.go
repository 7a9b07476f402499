package suppress_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/suppress"
)

// What the checks of a response that can be read find, the hashes of an encrypted one find, too.
func TestStored_FindsWhatChecksOfTheContentFind(t *testing.T) {
	body := []byte(`{"person":{"codehost":{"emails":["Hers@Example.com"],` +
		`"commits":[{"author_email":"other@xn--mnchen-3ya.example"}],"bio":"ask free@example.com"}},` +
		`"socials":[{"email":["list@example.com"]}]}`)
	stored := suppress.Stored{
		Identities:  []string{"network-person p1", "codehost-person 7", "microblog-person m1", "network-company c1"},
		Identifiers: []string{"network id p2", "codehost username octavia", "network email mail@example.com", "other id x"},
		Accounts:    []string{"microblog lin"},
		Body:        body,
	}
	for name, c := range map[string]struct {
		typ   suppress.Type
		value string
		found bool
	}{
		"record of the network":    {suppress.ProfileID, "p1", true},
		"record of the code host":  {suppress.UserID, "7", true},
		"record of the microblog":  {suppress.MicroblogUserID, "m1", true},
		"identifier":               {suppress.ProfileID, "p2", true},
		"username":                 {suppress.CodehostUsername, "octavia", true},
		"address of a record":      {suppress.Email, "mail@example.com", true},
		"account":                  {suppress.MicroblogUsername, "lin", true},
		"account of an erased one": {suppress.MicroblogAccount, "lin", true},
		"address in the body":      {suppress.Email, "hers@example.com", true},
		"author, other form":       {suppress.Email, "other@münchen.example", true},
		"address in a list":        {suppress.Email, "list@example.com", true},
		"company":                  {suppress.ProfileID, "c1", false},
		"address in free text":     {suppress.Email, "free@example.com", false},
		"another person":           {suppress.CodehostUsername, "juno", false},
	} {
		t.Run(name, func(t *testing.T) {
			set := suppress.NewSet(suppress.NoKey())
			hashes := set.StoredHashes(stored)
			require.False(t, set.Stored(hashes), "nothing is suppressed")
			entry, err := json.Marshal(suppress.Entry{
				Type: c.typ, Scope: suppress.All, RequestedAt: "2026-01-01T00:00:00Z", Key: set.Key().ID(),
			})
			require.NoError(t, err)
			require.NoError(t, set.Apply([]byte(set.Key().Of(c.typ, c.value).String()), entry))
			require.Equal(t, c.found, set.Stored(hashes))
			require.Equal(t, c.found, set.Stored(set.StoredHashes(stored)), "hashes do not depend on the set")
		})
	}
	var none *suppress.Set
	require.Empty(t, none.StoredHashes(stored))
	require.False(t, none.Stored([]byte("0123456789abcdef")))
}

func TestSet_DisclosedHonorsScopeAndWithdrawal(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	disclosed := func(name string) event.Disclosure {
		d, ok := set.Key().Record(name)
		require.True(t, ok, name)
		return d
	}
	person, account := disclosed("network-person p1"), disclosed("codehost-person 7")
	require.Equal(t, "network", person.Platform)
	_, hit := set.Disclosed(person)
	require.False(t, hit, "nothing is suppressed")
	apply := func(t *testing.T, typ suppress.Type, value string, scope suppress.Scope, at string, withdrawn bool) {
		entry, err := json.Marshal(suppress.Entry{
			Type: typ, Scope: scope, RequestedAt: at, Key: set.Key().ID(), Unsuppressed: withdrawn,
		})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(typ, value).String()), entry))
	}
	apply(t, suppress.ProfileID, "p1", suppress.Codehost, "2026-01-01T00:00:00Z", false)
	apply(t, suppress.UserID, "7", suppress.Codehost, "2026-01-02T00:00:00Z", false)
	_, hit = set.Disclosed(person)
	require.False(t, hit, "the record of the network is still returned")
	at, hit := set.Disclosed(account)
	require.True(t, hit)
	require.Equal(t, "2026-01-02T00:00:00Z", at.String())
	apply(t, suppress.UserID, "7", suppress.Codehost, "2026-01-03T00:00:00Z", true)
	_, hit = set.Disclosed(account)
	require.False(t, hit, "withdrawn")
	_, hit = set.Disclosed(event.Disclosure{Platform: "company", Hash: account.Hash})
	require.False(t, hit)
	for _, name := range []string{"", "network-person", "network-person ", "network-company c1"} {
		_, ok := set.Key().Record(name)
		require.False(t, ok, name)
	}
	_, hit = (*suppress.Set)(nil).Disclosed(person)
	require.False(t, hit)
}
