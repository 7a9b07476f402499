package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestEachUnknown_VisitsFieldsOutsideSchema(t *testing.T) {
	for _, c := range []struct {
		name string
		kind record.Kind
		raw  string
		want []string
	}{
		{
			name: "at the top", kind: record.KindNetworkPerson,
			raw: `{"profile_id":"p_1","last_updated":"2026","username":"ada","fullname":"Ada",` +
				`"languages":[{"language":"English"}]}`,
			want: []string{"fullname"},
		},
		{
			name: "in objects and arrays, every time", kind: record.KindNetworkPerson,
			raw: `{"profile_id":"p_1","last_updated":"2026","username":"ada","location":{"town":"London",` +
				`"city":"London"},` +
				`"experience":[{"company_name":"Kora"},{"title":"Engineer","company":{"slug":"kora"}},` +
				`{"company_name":"Tide"}]}`,
			want: []string{"location.town", "experience[].company_name", "experience[].company.slug",
				"experience[].company_name"},
		},
		{
			name: "not below an unknown field", kind: record.KindNetworkPerson,
			raw:  `{"profile_id":"p_1","last_updated":"2026","username":"ada","profile":{"a":{"b":[{"c":1}]}}}`,
			want: []string{"profile"},
		},
		{
			name: "escaped, and with white space", kind: record.KindNetworkPerson,
			raw: `{ "profile_id" : "p_1", "last_updated":"2026","username":"ada", "full\u005fname":"Ada", ` +
				`"f\u00fcll\"name" : [ 1, "}" ] }`,
			want: []string{`füll"name`},
		},
		{
			name: "in embedded lists, but not in arrays of any values", kind: record.KindCodehostPerson,
			raw: `{"user_id":1,"last_updated":"2026","codehost_username":"ada","starred_repos":[{"any":1}],` +
				`"repos":[{"id":1,"updated_at":"2026","stars":7}],"commits":[{"sha":"a","author_date":"2026",` +
				`"repo":{"full_name":"a/b","fork":true}}]}`,
			want: []string{"repos[].stars", "commits[].repo.fork"},
		},
		{
			name: "in the accounts of a link", kind: record.KindAccountLink,
			raw: `{"a":{"platform":"codehost","username":"x","url":"u"},"b":{"platform":"network","username":"y"},` +
				`"source":"s","observed_at":"2026"}`,
			want: []string{"a.url"},
		},
		{
			name: "of an erasure", kind: record.KindErasure,
			raw: `{"identifiers":[{"type":"email","value":"a@x.example","kind":"home"}],"requested_at":"2026",` +
				`"scop":"network"}`,
			want: []string{"identifiers[].kind", "scop"},
		},
		{
			name: "none where an object is null or empty", kind: record.KindNetworkPerson,
			raw: `{"profile_id":"p_1","last_updated":"2026","username":"ada","location":null,"experience":[null,` +
				`{}],"education":[]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := record.Decode(c.kind, []byte(c.raw))
			require.NoError(t, err)
			require.Equal(t, c.want, unknownOf(t, r))
		})
	}
}

func unknownOf(t *testing.T, r *record.Record) (paths []string) {
	t.Helper()
	d, ok := record.Lookup(r.Kind)
	require.True(t, ok)
	members, err := record.FieldNamesOf(d)
	require.NoError(t, err)
	members.EachUnknown(r.JSON, func(path []byte) { paths = append(paths, string(path)) })
	return paths
}
