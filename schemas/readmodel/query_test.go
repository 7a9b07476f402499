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

func TestQueriesGolden(t *testing.T) {
	golden(t, "testdata/queries.sql.golden", strings.Join([]string{
		LookupQuery(),
		NetworkPeopleQuery(NetworkEnrich), NetworkPeopleQuery(NetworkWebset | NetworkOpen), NetworkPeopleQuery(NetworkAddon),
		CodehostPeopleQuery(CodehostEnrich), CodehostPeopleQuery(CodehostWebset), CodehostPeopleQuery(CodehostAddon | CodehostAddonOpen),
		ReposQuery(EntryEnrich), ReposQuery(EntryEnrich | EntryFull | EntryRedacted), CommitsQuery(EntryFull), CommitsQuery(EntryRedacted),
		CompaniesQuery(), DiscoveriesQuery(), DiscoveredQuery(), ContextsQuery(), MicroblogPeopleQuery(), CountQuery("lookups"), SizeQuery(),
	}, "\n;\n")+"\n")
}

func TestFormatKeys(t *testing.T) {
	require.Equal(t, "[]", FormatKeys[uint64](nil))
	require.Equal(t, "[18446744073709551615,0]", FormatKeys([]uint64{1<<64 - 1, 0}))
	require.Equal(t, "[-9223372036854775808,7]", FormatKeys([]int64{-1 << 63, 7}))
}
