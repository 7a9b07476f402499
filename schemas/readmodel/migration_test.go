package readmodel

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func golden(t *testing.T, path, got string) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update")
	require.Equal(t, string(want), got)
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write golden files")
	os.Exit(m.Run())
}

func TestMigrationsGolden(t *testing.T) {
	for name, layout := range map[string]Layout{"single": {}, "cluster": {Cluster: "muster"}} {
		t.Run(name, func(t *testing.T) {
			migrations, err := Migrations(layout)
			require.NoError(t, err)
			var b strings.Builder
			for _, m := range migrations {
				b.WriteString("## " + m.Name + "\n" + strings.Join(m.Statements, "\n;\n") + "\n\n")
			}
			golden(t, "testdata/migrations_"+name+".sql.golden", b.String())
		})
	}
}

func TestEveryColumnIsCommented(t *testing.T) {
	migrations, err := Migrations(Layout{})
	require.NoError(t, err)
	require.Len(t, migrations, len(Tables()))
	for _, m := range migrations {
		for _, line := range strings.Split(m.Statements[0], "\n") {
			if strings.HasPrefix(line, "    ") {
				require.Contains(t, line, " COMMENT '", m.Name)
			}
		}
		for _, column := range []string{"topic", "partition", "offset", "version", "content_hash", "deleted"} {
			require.Contains(t, m.Statements[0], "\n    "+column+" ", m.Name)
		}
	}
}

func TestQueriesGolden(t *testing.T) {
	golden(t, "testdata/queries.sql.golden", strings.Join([]string{
		LookupQuery(),
		NetworkPeopleQuery(NetworkEnrich), NetworkPeopleQuery(NetworkWebset | NetworkOpen), NetworkPeopleQuery(NetworkAddon),
		CodehostPeopleQuery(CodehostEnrich), CodehostPeopleQuery(CodehostWebset), CodehostPeopleQuery(CodehostAddon | CodehostAddonOpen),
		ReposQuery(EntryEnrich), ReposQuery(EntryEnrich | EntryFull | EntryRedacted), CommitsQuery(EntryFull), CommitsQuery(EntryRedacted),
		CompaniesQuery(), CountQuery("lookups"), SizeQuery(),
	}, "\n;\n")+"\n")
}

func TestFormatKeys(t *testing.T) {
	require.Equal(t, "[]", FormatKeys[uint64](nil))
	require.Equal(t, "[18446744073709551615,0]", FormatKeys([]uint64{1<<64 - 1, 0}))
	require.Equal(t, "[-9223372036854775808,7]", FormatKeys([]int64{-1 << 63, 7}))
}
