package readmodel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The statements of a rebuild, on a single node and on a cluster.
func TestRebuild_EqualsGoldenFile(t *testing.T) {
	single := "CREATE TABLE muster.codehost_lists (`user_id` Int64 COMMENT 'Owner (it''s \\'theirs\\')', `ver` " +
		"UInt128 MATERIALIZED version) " +
		"ENGINE = ReplacingMergeTree(ver) ORDER BY (user_id, list) SETTINGS index_granularity = 64, " +
		"max_parts_in_total = 0 " +
		"COMMENT 'Complete \\'lists\\', newest; rebuilt by replay 20260101t000000000'"
	cluster := strings.Replace(strings.Replace(single, "codehost_lists", "codehost_lists_local", 1),
		"ReplacingMergeTree(ver)",
		"ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/codehost_lists', '{replica}', ver)", 1)
	var b strings.Builder
	for _, tt := range []struct {
		name, existing string
		layout         Layout
	}{
		{"single node", single, Layout{}},
		{"single node, without a comment", strings.Split(single, " COMMENT 'Complete")[0], Layout{}},
		{"cluster", cluster, Layout{Cluster: "main"}},
		{"cluster, rebuilt before", strings.Replace(cluster, "/codehost_lists'",
			"/codehost_lists__new_20260101t000000000'", 1), Layout{Cluster: "main"}},
		{"cluster, a path by uuid", strings.Replace(cluster, "{database}/codehost_lists'", "{uuid}'", 1),
			Layout{Cluster: "main"}},
	} {
		r := Rebuild{Model: Models()[5], Layout: tt.layout, ID: "20261121t021500123"}
		create, err := r.Create(tt.existing)
		require.NoError(t, err)
		s := Slice{From: "-3", To: "16"}
		b.WriteString("## " + tt.name + "\n")
		for _, list := range [][]string{create, {r.SampleQuery(), r.CountStale(Slice{}), r.CountStale(s),
			r.CountStale(Slice{From: "16", Part: 1, Parts: 3}), r.CopyNewer(s, []string{"user_id", "list", "items"})},
			{r.CompareQuery(s, []Progress{{Topic: r.Topics[0], Partition: 2, Next: 17}, {Topic: "another", Next: 1}})},
			{r.CompareQuery(s, nil)}, {r.ColumnsQuery(), r.PauseInserts(), r.Exchange(),
				r.ResumeInserts(r.ShadowTable())}, r.Retire(), r.Drop(r.ShadowTable()), r.Drop(r.RetiredTable())} {
			b.WriteString(strings.Join(list, "\n;\n") + "\n;\n")
		}
		b.WriteString("\n")
	}
	golden(t, "testdata/rebuild.sql.golden", b.String())

	_, err := Rebuild{ID: "x"}.Create("CREATE MATERIALIZED VIEW a (b Int8)")
	require.Error(t, err)
}

// Tables must be sliced by a column with a value for each row or each owner of rows. The kind of a record has few
// values.
func TestRangeColumn_HasManyValues(t *testing.T) {
	got := map[string]string{}
	for _, m := range Models() {
		got[m.Table] = m.rangeColumn()
	}
	require.Equal(t, map[string]string{
		"lookups":          "key_hash",
		"seen_versions":    "key_hash",
		"search_companies": "company_hash", "search_people": "profile_hash",
		"network_people":    "profile_hash",
		"network_companies": "company_hash",
		"microblog_people":  "user_hash",
		"account_links":     "link_hash",
		"codehost_people":   "user_id",
		"codehost_repos":    "user_id",
		"codehost_commits":  "user_id",
		"codehost_lists":    "user_id",
	}, got)
}

func TestSlices_HaveEqualSizes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sample []string
		number int
		want   []Slice
	}{
		{"of nothing", nil, 8, []Slice{{Parts: 1}}},
		{"one", []string{"1", "2"}, 1, []Slice{{Parts: 1}}},
		{"equal", []string{"-7", "1", "2", "3", "5", "9"}, 3, []Slice{{"", "2", 0, 1}, {"2", "5", 0, 1},
			{"5", "", 0, 1}}},
		{"more than values", []string{"4", "6"}, 4, []Slice{{"", "4", 0, 1}, {"4", "6", 0, 1}, {"6", "", 0, 2},
			{"6", "", 1, 2}}},
		{"one value has most", []string{"1", "4", "4", "4", "4", "6"}, 5, []Slice{{"", "4", 0, 1}, {"4", "", 0, 4},
			{"4", "", 1, 4}, {"4", "", 2, 4}, {"4", "", 3, 4}}},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, Slices(tt.sample, tt.number)) })
	}
}

func TestParseRebuilt_ParsesOwnNamesOnly(t *testing.T) {
	r := Rebuild{Model: Models()[0], ID: "20261121t021500123"}
	for name, old := range map[string]bool{r.ShadowTable(): false, r.RetiredTable(): true} {
		table, id, isOld, ok := ParseRebuilt(name)
		require.True(t, ok)
		require.Equal(t, []any{"lookups", r.ID, old}, []any{table, id, isOld})
	}
	for _, name := range []string{"lookups", "lookups__new_", "__new_1", "lookups__new_1_local", "lookups_new_1", ""} {
		_, _, _, ok := ParseRebuilt(name)
		require.False(t, ok, name)
	}
}
