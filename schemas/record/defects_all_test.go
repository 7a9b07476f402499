package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// errorsOf returns the validation errors of a record as "path code".
func errorsOf(t *testing.T, kind record.Kind, raw string) []string {
	t.Helper()
	_, err := record.Decode(kind, []byte(raw))
	bad, ok := record.AsValidationError(err)
	require.True(t, ok, raw)
	var out []string
	for _, d := range bad.FieldErrors() {
		require.NotEmpty(t, d.Reason)
		out = append(out, strings.TrimSpace(d.Path+" "+d.Code))
	}
	return out
}

func TestDecode_ReportsAllErrors(t *testing.T) {
	for name, c := range map[string]struct {
		kind record.Kind
		raw  string
		want []string
	}{
		"empty object": {record.KindNetworkPerson, `{}`, []string{"profile_id missing_identity",
			"last_updated missing_version", "username missing_field"}},
		"other names": {
			record.KindNetworkPerson, `{"id":"17","name":"S","email":"s@x.example","changed":"2026"}`,
			[]string{"profile_id missing_identity", "last_updated missing_version", "username missing_field"},
		},
		"types and dates": {
			record.KindNetworkPerson,
			`{ "profile_id":17, "last_updated":"soon", "username":["a"], "connections":"many", "skills":{},
			"experience":[{"start":"2020"},{"start":"x","end":true,"company":"A"}], "education":[{"start":"y"}] }`,
			[]string{
				"profile_id wrong_type", "username wrong_type", "connections wrong_type", "skills wrong_type",
				"experience[1].end wrong_type", "experience[1].company wrong_type", "last_updated bad_date",
				"experience[1].start bad_date", "education[0].start bad_date",
			},
		},
		"numbers for identities": {
			record.KindCodehostPerson, `{"user_id":"7","followers":-0.5,"hireable":"no","last_updated":5}`,
			[]string{"user_id wrong_type", "followers wrong_type", "hireable wrong_type", "last_updated wrong_type",
				"codehost_username missing_field"},
		},
		"two identities": {record.KindCodehostRepo, `{"stargazers_count":"x"}`, []string{
			"stargazers_count wrong_type", "user_id missing_identity", "id missing_identity",
			"updated_at missing_version",
		}},
		"accounts of a link": {record.KindAccountLink, `{"b":{"platform":"moon"},"confidence":2}`, []string{
			"a.platform missing_identity", "a.username missing_identity", "b.platform bad_identity",
			"b.username missing_identity",
			"source missing_identity", "observed_at missing_version", "confidence out_of_range",
		}},
		"an erasure": {record.KindErasure, `{"identifiers":[{"type":"email","value":"a@x.example"}],"urgent":"yes"}`,
			[]string{"urgent wrong_type", "requested_at missing_version"}},
		"not JSON":      {record.KindNetworkPerson, `{"profile_id":`, []string{"profile_id syntax"}},
		"not an object": {record.KindNetworkPerson, `[]`, []string{"wrong_type"}},
		"a NUL":         {record.KindNetworkPerson, `{"profile_id":5,"x":"\u0000"}`, []string{"profile_id wrong_type"}},
		"duplicate field": {record.KindNetworkPerson, `{"profile_id":5,"profile_id":"1"}`,
			[]string{"profile_id wrong_type"}},
		"of a deletion": {record.KindNetworkPerson, `{"deleted":true}`, []string{"profile_id missing_identity",
			"last_updated missing_version"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, errorsOf(t, c.kind, c.raw)) })
	}
}

// Their number and the time to find them are bounded.
func TestDecode_LimitsReportedErrors(t *testing.T) {
	raw := `{"profile_id":"1","username":"a","last_updated":"2026","experience":[` +
		strings.TrimSuffix(strings.Repeat(`{"start":"x"},`, 60_000), ",") + `]}`
	began := time.Now()
	require.Len(t, errorsOf(t, record.KindNetworkPerson, raw), 10)
	require.Less(t, time.Since(began), 30*time.Second)
	require.Len(t, errorsOf(t, record.KindNetworkPerson, `{"profile_id":{`+strings.Repeat(`"a":{`, 40)+
		strings.Repeat(`}`, 40)+`}}`), 3)
}

func TestSplit_ReportsAllErrorsOfEntry(t *testing.T) {
	r, err := record.Decode(record.KindCodehostPerson,
		[]byte(`{"user_id":7,"codehost_username":"u","last_updated":"2026","repos":[{"id":1,"updated_at":"2026"},`+
			`{"name":5}]}`))
	require.NoError(t, err)
	parts, bad := r.SplitEmbedded()
	require.Len(t, parts, 1)
	require.Len(t, bad, 1)
	require.Equal(t, []record.FieldError{
		{Path: "repos[1].name", Code: record.CodeWrongType, Reason: "is a number where a string is needed"},
		{Path: "repos[1].id", Code: record.CodeMissingIdentity, Reason: "is missing"},
		{Path: "repos[1].updated_at", Code: record.CodeMissingVersion, Reason: "is missing"},
	}, bad[0].FieldErrors())
	require.Contains(t, bad[0].Error(), "; repos[1].id is missing (missing_identity); ")
}
