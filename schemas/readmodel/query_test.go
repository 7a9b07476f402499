package readmodel

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
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
		NetworkPeopleQuery(), NetworkMembers(), AnswersQuery(),
		Builds{Generation: 1}.statement([]Touch{{UserID: 7, Partition: 1, Offset: 70}, {UserID: 8, Offset: 80, Rebuilt: 2}}),
		Builds{Table: "codehost_answers__new_x", Large: true}.statement([]Touch{{UserID: 7}}),
		CompaniesQuery(), DiscoveriesQuery(), DiscoveredQuery(), ContextsQuery(), CountQuery("lookups"), SizeQuery(),
	}, "\n;\n")+"\n")
}

func TestFormatKeys(t *testing.T) {
	require.Equal(t, "[]", FormatKeys[uint64](nil))
	require.Equal(t, "[18446744073709551615,0]", FormatKeys([]uint64{1<<64 - 1, 0}))
	require.Equal(t, "[-9223372036854775808,7]", FormatKeys([]int64{-1 << 63, 7}))
}

// Of the versions of a candidate the newest counts, and a withdrawn one not at all.
func TestNewestLookups(t *testing.T) {
	row := func(key uint64, target string, version int64, deleted bool) LookupRow {
		return LookupRow{KeyHash: key, Version: version, deleted: deleted, claim: string(appendClaim(nil, LookupNetworkUsername, "v", TargetNetworkPerson, target, "s"))}
	}
	read := func(key uint64, target string, version int64) LookupRow {
		r := row(key, target, version, false)
		r.Type, r.Value, r.TargetKind, r.Target, r.Source = "network.username", "v", TargetNetworkPerson, target, "s"
		return r
	}
	require.Empty(t, NewestLookups(nil))
	require.Equal(t, []LookupRow{read(1, "a", 9), read(2, "d", 7), read(1, "c", 3)}, NewestLookups([]LookupRow{
		row(1, "a", 9, false), row(1, "b", 8, true), row(2, "d", 7, false), row(1, "a", 6, false), row(1, "a", 5, true), row(1, "b", 4, false), row(1, "c", 3, false),
	}))
	links := []LookupRow{row(1, "a", 9, false), row(1, "a", 8, false)}
	links[1].claim = string(appendClaim(nil, LookupNetworkUsername, "v", TargetNetworkPerson, "a", "another")) // two sources say the same: two candidates
	require.Len(t, NewestLookups(links), 2)
	var many []LookupRow
	for i := range int64(maxCandidateRows) {
		many = append(many, row(1, strconv.FormatInt(i/2, 10), 1000-i, false), row(2, strconv.FormatInt(i, 10), 1000-i, false))
	}
	per := map[uint64]int{}
	for i, r := range NewestLookups(many) {
		per[r.KeyHash]++
		require.GreaterOrEqual(t, r.Version, int64(800), i)
	}
	require.Equal(t, map[uint64]int{1: 100, 2: maxCandidates}, per)
}

// The newest version of each profile is kept, withdrawn or not, whatever the order of the rows.
func TestNewestNetworkPeople(t *testing.T) {
	row := func(id string, version int64, hash uint64) *NetworkPersonRow {
		return &NetworkPersonRow{ProfileHash: 1, ProfileID: id, Version: version, ContentHash: hash, Deleted: version == 9}
	}
	require.Empty(t, NewestNetworkPeople(nil))
	a, b := row("a", 5, 3), row("b", 9, 1)
	require.Equal(t, []*NetworkPersonRow{a, b}, NewestNetworkPeople([]*NetworkPersonRow{
		row("a", 4, 9), row("b", 9, 1), row("a", 5, 2), row("a", 5, 3), row("b", 8, 7), row("a", 5, 1),
	}))
}

// LookupQuery tells the types of one key hash apart by their first letters.
func TestKeyHash_TypesThatShareOneBeginDifferently(t *testing.T) {
	types := []LookupType{
		LookupNetworkUsername, LookupNetworkEmail, LookupNetworkCodehostUsername, LookupNetworkMicroblogUsername,
		LookupCodehostUsername, LookupCodehostEmail, LookupCodehostNetworkUsername, LookupCodehostMicroblogUsername,
		LookupMicroblogUsername, LookupCompanySlug, LookupCompanyNetworkID, LookupLinkCodehost, LookupLinkNetwork, LookupLinkMicroblog,
	}
	for _, platform := range identity.PlatformNames() {
		types = append(types, LookupName(platform), LookupHandle(platform))
		for _, other := range identity.PlatformNames() {
			types = append(types, LookupMention(platform, other))
		}
	}
	shared := make(map[uint64]string)
	for _, lookup := range types {
		h := KeyHash(lookup, "v")
		require.NotContains(t, shared[h], string(lookup[0]), lookup)
		shared[h] += string(lookup[0])
	}
	require.Equal(t, KeyHash(LookupCodehostUsername, "v"), KeyHash(LookupLinkCodehost, "v"))
	require.NotEqual(t, KeyHash(LookupCodehostUsername, "v"), KeyHash(LookupNetworkUsername, "v"))
}
