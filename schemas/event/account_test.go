package event_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

func account(t *testing.T) (event.Organization, event.Key) {
	t.Helper()
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	key, err := event.GenerateAPIKey(bytes.NewReader(make([]byte, 100)))
	require.NoError(t, err)
	return event.Organization{ID: "o1", Name: "Acme", Plan: "development", Active: true, CreatedAt: at},
		event.Key{ID: key.ID(), OrganizationID: "o1", Name: "ci", SHA256: key.Hash(), Scopes: event.DefaultScopes(),
			CreatedAt: at}
}

func TestDecodeAccount_ReturnsEncodedEvents(t *testing.T) {
	organization, key := account(t)
	raw, err := json.Marshal(organization)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"o1","name":"Acme","plan":"development","active":true,`+
		`"created_at":"2026-11-20T08:00:00Z"}`, string(raw))
	o, k, err := event.DecodeAccount([]byte(organization.EventKey()), raw)
	require.NoError(t, err)
	require.Nil(t, k)
	require.Equal(t, &organization, o)

	raw, err = json.Marshal(key)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "expires_at")
	o, k, err = event.DecodeAccount([]byte(key.EventKey()), raw)
	require.NoError(t, err)
	require.Nil(t, o)
	require.Equal(t, &key, k)

	// A later version may add fields.
	o, _, err = event.DecodeAccount([]byte("org:o1"),
		[]byte(`{"id":"o1","name":"Acme","active":true,"created_at":"2026-11-20T08:00:00Z","region":"eu"}`))
	require.NoError(t, err)
	require.Equal(t, "Acme", o.Name)

	o, _, err = event.DecodeAccount([]byte("org:o1"), nil)
	require.NoError(t, err)
	require.Equal(t, &event.Organization{ID: "o1"}, o)
	_, k, err = event.DecodeAccount([]byte("key:00000000"), []byte{})
	require.NoError(t, err)
	require.Equal(t, &event.Key{ID: "00000000"}, k)
}

func TestDecodeAccount_RejectsInvalid(t *testing.T) {
	_, _, err := event.DecodeAccount([]byte("plan:x"), []byte(`{}`))
	require.ErrorIs(t, err, event.ErrNotAccount)
	for _, c := range [][2]string{
		{"org:o1", `{`}, {"org:o1", `{"id":"o2","name":"x","created_at":"2026-11-20T08:00:00Z"}`},
		{"org:o1", `{"id":"o1"}`},
		{"org:o1", `{"id":"o1","name":"x"}`}, {"org:", `{"id":"","name":"x"}`}, {"key:k", `[]`},
		{"key:00000000", `{"id":"00000000"}`},
		{"key:00000000", `{"id":"00000001"}`},
	} {
		_, _, err := event.DecodeAccount([]byte(c[0]), []byte(c[1]))
		require.Error(t, err, c)
	}
	_, key := account(t)
	for name, spoil := range map[string]func(*event.Key){
		"id":     func(k *event.Key) { k.ID = "short" },
		"org":    func(k *event.Key) { k.OrganizationID = "" },
		"hash":   func(k *event.Key) { k.SHA256 = strings.ToUpper(k.SHA256) },
		"scopes": func(k *event.Key) { k.Scopes = []string{"everything"} },
		"time":   func(k *event.Key) { k.CreatedAt = time.Time{} },
	} {
		bad := key
		spoil(&bad)
		require.Error(t, bad.Validate(), name)
	}
	require.NoError(t, key.Validate())
}

func TestKey_IsValidUntilExpiryOrRevocation(t *testing.T) {
	_, key := account(t)
	now := key.CreatedAt.Add(time.Hour)
	require.True(t, key.ValidAt(now))
	require.True(t, key.HasScope(event.ScopeEnrich))
	require.False(t, key.HasScope("admin"))
	expired := key
	expired.ExpiresAt = now
	require.False(t, expired.ValidAt(now))
	require.True(t, expired.ValidAt(now.Add(-time.Second)))
	revoked := key
	revoked.RevokedAt = now.Add(-time.Second)
	require.False(t, revoked.ValidAt(now))
}
