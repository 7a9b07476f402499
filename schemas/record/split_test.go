package record_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestSplit_ExtractsEmbeddedRecords(t *testing.T) {
	r := decode(t, record.KindCodehostPerson, `{"user_id":42,"codehost_username":"jane","repos":[
		{"id":7,"updated_at":"2025","user_id":3,"name":"a \"quoted\" \\ name"},
		{"updated_at":"2026-01","id":8,"x":{"user_id":9}},
		null,
		{}
	],"bio":"b","last_updated":"2026-02","commits":[{"sha":"c1","author_date":"2024","user_\u0069d":5}],"z":[]}`)
	before := r.Hash
	parts, rejected := r.SplitEmbedded()
	require.Equal(t, before, r.Hash, "the lists are not part of the person's content")
	require.Equal(t, `{"user_id":42,"codehost_username":"jane","bio":"b","last_updated":"2026-02","z":[]}`,
		string(r.JSON))
	bare := decode(t, record.KindCodehostPerson, string(r.JSON))
	require.Equal(t, bare, r)

	var got []string
	for _, p := range parts {
		got = append(got, fmt.Sprintf("%s %s %s %s", p.Kind, p.Key, p.Version, p.JSON))
		require.Equal(t, decode(t, p.Kind, string(p.JSON)), p)
	}
	require.Equal(t, []string{
		`codehost-repo 42/7 2025-01-01T00:00:00Z {"user_id":42,"id":7,"updated_at":"2025",` +
			`"name":"a \"quoted\" \\ name"}`,
		`codehost-repo 42/8 2026-01-01T00:00:00Z {"user_id":42,"updated_at":"2026-01","id":8,"x":{"user_id":9}}`,
		`codehost-commit 42/c1 2024-01-01T00:00:00Z {"user_id":42,"sha":"c1","author_date":"2024"}`,
	}, got)
	require.Equal(t, []string{"repos[3].id missing_identity"}, describe(rejected))

	again, rejected := r.SplitEmbedded()
	require.Empty(t, again)
	require.Empty(t, rejected)
}

func describe(rejected []*record.ValidationError) []string {
	var out []string
	for _, bad := range rejected {
		out = append(out, bad.Path+" "+bad.Code)
	}
	return out
}

func TestSplit_RejectsEntriesWithPath(t *testing.T) {
	r := decode(t, record.KindCodehostPerson, `{"user_id":42,"codehost_username":"jane","last_updated":"2026","repos":[
		{"id":1,"updated_at":"2025"},{"id":2},{"id":"3","updated_at":"2025"},{"id":4,"updated_at":"soon"},5,
		{"id":6,"updated_at":"2025","topics":[1]},{"id":7,"updated_at":"2025","created_at":"x"},["id"]
	],"commits":[{"sha":"","author_date":"2025"},{"sha":"a"},{"sha":"b","author_date":"2025","repo":"x"},
		{"sha":"c","author_date":"2025","user_id":"42"},{"sha":"d","author_date":"2025","user_id":1.5},{"user_id":[],`+
		`"sha":"e","author_date":"2025"}]}`)
	parts, rejected := r.SplitEmbedded()
	require.Len(t, parts, 1)
	require.Equal(t, []string{
		"repos[1].updated_at missing_version",
		"repos[2].id wrong_type",
		"repos[3].updated_at bad_date",
		"repos[4] wrong_type",
		"repos[5].topics[0] wrong_type",
		"repos[6].created_at bad_date",
		"repos[7] wrong_type",
		"commits[0].sha missing_identity",
		"commits[1].author_date missing_version",
		"commits[2].repo wrong_type",
		"commits[3].user_id wrong_type",
		"commits[4].user_id wrong_type",
		"commits[5].user_id wrong_type",
	}, describe(rejected))
	for _, bad := range rejected {
		require.Equal(t, record.KindCodehostPerson, bad.Kind)
	}
}

func TestSplit_ReportsCompleteLists(t *testing.T) {
	const person = `{"user_id":42,"codehost_username":"jane","last_updated":"2026-02",`
	for _, c := range []struct {
		name, raw, list string
		items           []string
		rejected        []string
	}{
		{name: "complete", raw: `"repos_complete":true,"repos":[{"id":10,"updated_at":"2025"},{"id":9,` +
			`"updated_at":"2025"}]}`, list: "repos", items: []string{"10", "9"}},
		{name: "repeated entry", raw: `"repos_complete":true,"repos":[{"id":9,"updated_at":"2025"},{"id":9,` +
			`"updated_at":"2026"}]}`, list: "repos", items: []string{"9"}},
		{name: "none", raw: `"repos_complete":true,"repos":[]}`, list: "repos"},
		{name: "commits", raw: `"commits_complete":true,"commits":[{"sha":"b","author_date":"2025"}]}`, list: "commits",
			items: []string{"b"}},
		{name: "list missing", raw: `"repos_complete":true}`},
		{name: "list null", raw: `"repos_complete":true,"repos":null}`},
		{name: "not complete", raw: `"repos_complete":false,"repos":[{"id":9,"updated_at":"2025"}]}`},
		{
			name: "an invalid entry with identity is listed",
			raw:  `"repos_complete":true,"repos":[{"id":9,"updated_at":"2025"},{"id":10}]}`,
			list: "repos", items: []string{"10", "9"}, rejected: []string{"repos[1].updated_at missing_version"},
		},
		{
			name: "a withdrawn entry is not listed",
			raw: `"repos_complete":true,"repos":[{"id":9,"updated_at":"2025"},{"id":10,"updated_at":"2025",` +
				`"deleted":true}]}`,
			list: "repos", items: []string{"9"},
		},
		{
			name:     "an entry without identity",
			raw:      `"repos_complete":true,"repos":[{"id":9,"updated_at":"2025"},{"updated_at":"2025"}]}`,
			rejected: []string{"repos[1].id missing_identity", "repos_complete incomplete_list"},
		},
		{
			name: "an entry that is not an object", raw: `"commits_complete":true,"commits":["abc"]}`,
			rejected: []string{"commits[0] wrong_type", "commits_complete incomplete_list"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, record.KindCodehostPerson, person+c.raw)
			parts, rejected := r.SplitEmbedded()
			require.Equal(t, c.rejected, describe(rejected))
			i := slices.IndexFunc(parts, func(p *record.Record) bool { return p.Kind == record.KindCodehostList })
			if c.list == "" {
				require.Equal(t, -1, i)
				return
			}
			require.Equal(t, len(parts)-1, i, "the list comes after its entries")
			list := parts[i].Body.(*record.CodehostList)
			require.Equal(t, "42/"+c.list, parts[i].Key)
			require.Equal(t, r.Version, parts[i].Version)
			require.Equal(t, c.list, list.List)
			require.Equal(t, c.items, list.Items)
		})
	}
}

func TestSplit_SupportsSingleLists(t *testing.T) {
	for raw, key := range map[string]string{
		`"repos":[{"id":7,"updated_at":"2025"}]`:       "42/7",
		`"commits":[{"sha":"c","author_date":"2025"}]`: "42/c",
	} {
		r := decode(t, record.KindCodehostPerson, `{"user_id":42,"codehost_username":"jane","last_updated":"2026",`+raw+
			`}`)
		parts, rejected := r.SplitEmbedded()
		require.Empty(t, rejected)
		require.Len(t, parts, 1)
		require.Equal(t, key, parts[0].Key)
		require.Equal(t, `{"user_id":42,"codehost_username":"jane","last_updated":"2026"}`, string(r.JSON))
	}
}

func TestSplit_IgnoresOtherRecords(t *testing.T) {
	for _, r := range []*record.Record{
		decode(t, record.KindCodehostRepo,
			`{"user_id":1,"id":2,"updated_at":"2026","repos":[1],"repos_complete":true}`),
		decode(t, record.KindCodehostPerson,
			`{"user_id":1,"last_updated":"2026","deleted":true,"repos":[{"id":1}],"repos_complete":true}`),
		decode(t, record.KindCodehostPerson, `{"user_id":1,"last_updated":"2026","codehost_username":"j"}`),
	} {
		before := string(r.JSON)
		parts, rejected := r.SplitEmbedded()
		require.Empty(t, parts)
		require.Empty(t, rejected)
		require.Equal(t, before, string(r.JSON))
	}
}

func TestSplit_HandlesManyEntries(t *testing.T) {
	entries := make([]string, 10_000)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"id":%d,"updated_at":"2025"}`, i)
	}
	r := decode(t, record.KindCodehostPerson,
		`{"user_id":42,"codehost_username":"j","last_updated":"2026","repos_complete":true,"repos":[`+
			strings.Join(entries, ",")+`]}`)
	parts, rejected := r.SplitEmbedded()
	require.Empty(t, rejected)
	require.Len(t, parts, 10_001)
	require.Len(t, parts[10_000].Body.(*record.CodehostList).Items, 10_000)
}
