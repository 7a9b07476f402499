package account_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/account"
	"muster/schemas/event"
)

var (
	created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now     = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func apply(t *testing.T, d *account.Directory, key string, state any) {
	t.Helper()
	value, err := json.Marshal(state)
	require.NoError(t, err)
	require.NoError(t, d.Apply([]byte(key), value))
}

func newKey(t *testing.T, organization string) (event.APIKey, event.Key) {
	t.Helper()
	secret, err := event.GenerateAPIKey(rand.Reader)
	require.NoError(t, err)
	return secret, event.Key{
		ID: secret.ID(), OrganizationID: organization, SHA256: secret.Hash(), Scopes: event.DefaultScopes(),
		CreatedAt: created,
	}
}

func TestAuthenticate(t *testing.T) {
	d := account.NewDirectory()
	apply(t, d, "org:acme", event.Organization{ID: "acme", Name: "Acme", Active: true, CreatedAt: created})
	valid, k := newKey(t, "acme")
	apply(t, d, k.EventKey(), k)
	revoked, k := newKey(t, "acme")
	k.RevokedAt = now.Add(10 * time.Minute) // by a machine with a fast clock
	apply(t, d, k.EventKey(), k)
	expired, k := newKey(t, "acme")
	k.ExpiresAt = now.Add(-time.Second)
	apply(t, d, k.EventKey(), k)
	later, k := newKey(t, "acme")
	k.ExpiresAt = now.Add(time.Second)
	apply(t, d, k.EventKey(), k)
	orphan, k := newKey(t, "missing")
	apply(t, d, k.EventKey(), k)
	foreign, _ := newKey(t, "acme")
	// A key with a known public id, a valid checksum and another secret.
	forged, k := newKey(t, "acme")
	k.SHA256 = valid.Hash()
	apply(t, d, k.EventKey(), k)

	text := valid.Reveal()
	mistyped := text[:len(text)-1] + "!"
	typo := []byte(text)
	if typo[30]++; typo[30] == '9'+1 || typo[30] == 'Z'+1 || typo[30] == 'z'+1 {
		typo[30] = '0'
	}
	for name, tc := range map[string]struct {
		header []string
		reason string // empty: accepted
	}{
		"valid":                {[]string{"Bearer " + text}, ""},
		"scheme in lower case": {[]string{"bearer " + text}, ""},
		"two spaces":           {[]string{"Bearer  " + text}, ""},
		"not yet expired":      {[]string{"Bearer " + later.Reveal()}, ""},
		"no header":            {nil, "missing API key"},
		"two headers":          {[]string{"Bearer " + text, "Bearer " + text}, "more than one"},
		"empty":                {[]string{""}, "not of the form"},
		"other scheme":         {[]string{"Basic " + text}, "not of the form"},
		"key alone":            {[]string{text}, "not of the form"},
		"not a key":            {[]string{"Bearer secret"}, "not an API key"},
		"foreign character":    {[]string{"Bearer " + mistyped}, "not an API key"},
		"cut off":              {[]string{"Bearer " + text[:len(text)-1]}, "not an API key"},
		"wrong checksum":       {[]string{"Bearer " + string(typo)}, "wrong checksum"},
		"foreign key":          {[]string{"Bearer " + foreign.Reveal()}, "unknown API key"},
		"forged secret":        {[]string{"Bearer " + forged.Reveal()}, "unknown API key"},
		"unknown organization": {[]string{"Bearer " + orphan.Reveal()}, "unknown API key"},
		"revoked":              {[]string{"Bearer " + revoked.Reveal()}, "revoked"},
		"expired":              {[]string{"Bearer " + expired.Reveal()}, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := d.Authenticate(tc.header, now)
			if tc.reason == "" {
				require.NoError(t, err)
				require.Equal(t, "acme", p.Organization.ID)
				return
			}
			var refused *account.Unauthorized
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Reason, tc.reason)
			require.NotContains(t, refused.Reason, strings.TrimPrefix(text, "mk_live_"))
			require.Zero(t, p)
		})
	}
}

func TestApply(t *testing.T) {
	d := account.NewDirectory()
	o := event.Organization{ID: "acme", Name: "Acme", Active: true, CreatedAt: created}
	apply(t, d, o.EventKey(), o)
	secret, k := newKey(t, "acme")
	apply(t, d, k.EventKey(), k)
	header := []string{"Bearer " + secret.Reveal()}

	p, err := d.Authenticate(header, now)
	require.NoError(t, err)
	require.True(t, p.Organization.Active)
	require.Equal(t, []event.Organization{o}, d.Organizations())
	require.Equal(t, []event.Key{k}, d.Keys("acme"))
	require.Empty(t, d.Keys("other"))

	o.Active = false
	apply(t, d, o.EventKey(), o)
	p, err = d.Authenticate(header, now)
	require.NoError(t, err, "an inactive organization gets 403, not 401")
	require.False(t, p.Organization.Active)

	for _, bad := range []struct{ key, value string }{
		{"org:acme", "{"}, {"org:acme", `{"id":"other","name":"x"}`}, {"key:" + k.ID, `{"id":"` + k.ID + `"}`},
		{"plan:x", "{}"}, {"", ""},
	} {
		require.Error(t, d.Apply([]byte(bad.key), []byte(bad.value)))
	}
	got, ok := d.Organization("acme")
	require.True(t, ok, "a bad event changes nothing")
	require.Equal(t, o, got)
	kept, ok := d.Key(k.ID)
	require.True(t, ok)
	require.Equal(t, k, kept)

	require.NoError(t, d.Apply([]byte(k.EventKey()), nil))
	_, err = d.Authenticate(header, now)
	require.Error(t, err, "a tombstone removes")
	require.NoError(t, d.Apply([]byte(o.EventKey()), nil))
	require.Empty(t, d.Organizations())
}

func BenchmarkAuthenticate(b *testing.B) {
	d := account.NewDirectory()
	secret, err := event.GenerateAPIKey(rand.Reader)
	require.NoError(b, err)
	header := []string{"Bearer " + secret.Reveal()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Authenticate(header, now); err == nil {
			b.Fatal("accepted")
		}
	}
}
