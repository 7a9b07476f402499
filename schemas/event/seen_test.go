package event_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/record"
)

func TestVersionBump_SurvivesEncoding(t *testing.T) {
	r, err := record.Decode(record.KindCodehostPerson,
		[]byte(`{"user_id":42,"last_updated":"2026-03","codehost_username":"x"}`))
	require.NoError(t, err)
	s := event.VersionBump{Kind: r.Kind, Key: r.Key, Version: r.VersionText, Hash: r.Hash}
	require.Equal(t, "codehost-person/42", s.MessageKey())
	require.Equal(t, "2026-03", s.Version, "as given")
	s.Hash = 1<<64 - 1
	value, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"codehost-person","key":"42","version":"2026-03","hash":"18446744073709551615"}`,
		string(value))
	back, version, err := event.ParseVersionBump(value)
	require.NoError(t, err)
	require.Equal(t, s, back)
	require.Equal(t, r.Version, version)

	for name, bad := range map[string]string{
		"whole":        `{"kind":"codehost-repo","key":"1/2","version":"2026","hash":"1"}`,
		"no JSON":      `{"kind":`,
		"kind":         `{"kind":"cat","key":"1","version":"2026","hash":"1"}`,
		"key":          `{"kind":"codehost-person","key":" ","version":"2026","hash":"1"}`,
		"version":      `{"kind":"codehost-person","key":"1/2","version":"soon","hash":"1"}`,
		"hash":         `{"kind":"codehost-person","key":"1/2","version":"2026","hash":"ff"}`,
		"null":         `null`,
		"type of hash": `{"kind":"codehost-person","key":"1/2","version":"2026","hash":1}`,
	} {
		_, _, err := event.ParseVersionBump([]byte(bad))
		require.Error(t, err, name)
	}
}
