package readmodel

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
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

func TestQueries_EqualGoldenFile(t *testing.T) {
	golden(t, "testdata/queries.sql.golden", strings.Join([]string{
		lookupQuery(), boundedLookupQuery(), joinedQuery("lookups", []uint64{1, 2}),
		NetworkPeopleQuery(), Members(ShapeOpen | ShapeEmails), AnswersQuery(),
		Builds{Generation: 1}.statement([]Touch{{UserID: 7, Partition: 1, Offset: 70},
			{UserID: 8, Offset: 80, Rebuilt: 2}}),
		Builds{Table: "codehost_answers__new_x", Large: true}.statement([]Touch{{UserID: 7}}),
		CompaniesQuery(), DiscoveriesQuery(), discoveredQuery(), ContextsQuery(), CountQuery("lookups"), SizeQuery(),
	}, "\n;\n")+"\n")
}

func TestFormatKeys_FormatsIntegers(t *testing.T) {
	require.Equal(t, "[]", FormatKeys[uint64](nil))
	require.Equal(t, "[18446744073709551615,0]", FormatKeys([]uint64{1<<64 - 1, 0}))
	require.Equal(t, "[-9223372036854775808,7]", FormatKeys([]int64{-1 << 63, 7}))
}

// The newest version of a candidate wins, and deleted ones are dropped.
func TestNewestLookups_DropsOldAndDeletedRows(t *testing.T) {
	row := func(target string, version uint64, deleted bool) LookupRow {
		r := LookupRow{KeyHash: 1, claim: string(appendClaim(nil, LookupNetworkUsername, "v", TargetNetworkPerson,
			target, "s"))}
		r.ver.Lsh(r.ver.SetUint64(version), verVersion)
		if deleted {
			r.ver.SetBit(&r.ver, verDeleted, 1)
		}
		return r
	}
	read := func(target string, version uint64) LookupRow {
		r := row(target, version, false)
		r.Type, r.Value, r.TargetKind, r.Target, r.Source = "network.username", "v", TargetNetworkPerson, target, "s"
		r.Version = int64(version)
		return r
	}
	require.Empty(t, newestLookups(nil))
	require.Equal(t, []LookupRow{read("a", 9), read("c", 3)}, newestLookups([]LookupRow{
		row("b", 4, false), row("a", 6, false), row("c", 3, false), row("b", 8, true), row("a", 9, false),
		row("a", 5, true),
	}))
	require.Empty(t, newestLookups([]LookupRow{row("a", 9, false), row("a", 9, true)}),
		"a withdrawal wins among equal versions")
	two := func(targetKind string) []LookupRow {
		rows := []LookupRow{row("a", 8, false), row("a", 9, false)}
		rows[0].claim = string(appendClaim(nil, LookupLinkNetwork, "v", targetKind, "codehost:a", "one"))
		rows[1].claim = string(appendClaim(nil, LookupLinkNetwork, "v", targetKind, "codehost:a", "another"))
		return rows
	}
	require.Len(t, newestLookups(two(TargetAccount)), 2, "account-links of two sources are two candidates")
	newest := newestLookups(two(TargetNetworkPerson))
	require.Len(t, newest, 1, "a record whose declared usernames changed is one candidate")
	require.Equal(t, []string{"another"}, newest[0].Declares())
	var many []LookupRow
	for i := range uint64(maxCandidateRows) {
		many = append(many, row(strconv.FormatUint(i, 10), 801+i, false))
	}
	kept := newestLookups(many)
	require.Len(t, kept, maxCandidates)
	require.Equal(t, int64(800+maxCandidateRows), kept[0].Version)
}

// Keys with more rows than a plain query returns are read with a limit per key.
func TestReadLookups_BoundsKeysWithManyRows(t *testing.T) {
	var queries []string
	rows := &manyRows{}
	found, err := ReadLookups(func(query string, scan func(driver.Rows) error) error {
		queries = append(queries, query)
		n := maxPlainRows
		if query == boundedLookupQuery() {
			n = 3
		}
		for range n {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{lookupQuery(), boundedLookupQuery()}, queries)
	require.Len(t, found[7], 3)
	require.True(t, found[7][0].cut)
}

func TestNamed_ReturnsUsernamesWithCompleteHintsOnly(t *testing.T) {
	rows := []LookupRow{
		{Type: "codehost.username", Value: "ada", TargetKind: TargetCodehostPerson, Source: "one two"},
		{Type: "codehost.username", Value: "other", TargetKind: TargetCodehostPerson, Source: "not"},
		{Type: "link.codehost", Value: "ada", TargetKind: TargetAccount, Target: "network:three", Source: "s"},
		{Type: "link.codehost", Value: "ada", TargetKind: TargetAccount, Target: "microblog:not"},
		{Type: "network.codehost_username", Value: "ada", TargetKind: TargetNetworkPerson, Source: "not"},
	}
	named := func(rows []LookupRow) []string {
		return Named(rows, LookupCodehostUsername, LookupLinkCodehost, "ada", identity.Network)
	}
	hint := LookupRow{Type: "hint.network", Value: "one", TargetKind: TargetNetworkPerson, Source: "ada 1"}
	require.Equal(t, []string{"one", "two", "three"},
		named(append(rows, slices.Repeat([]LookupRow{hint}, MaxHints-1)...)))
	require.Empty(t, named(append(rows, slices.Repeat([]LookupRow{hint}, MaxHints)...)), "some hints may be missing")
	require.Empty(t, named(append(rows, LookupRow{cut: true})), "some rows may be missing")
}

// manyRows returns rows of lookups with one key hash and different claims.
type manyRows struct {
	driver.Rows
	n int
}

func (m *manyRows) Scan(dest ...any) error {
	m.n++
	*dest[0].(*uint64) = 7
	*dest[2].(*string) = string(appendClaim(nil, LookupNetworkUsername, "v", TargetNetworkPerson, strconv.Itoa(m.n),
		""))
	return nil
}

// Includes deleted people and any order of rows.
func TestNewestNetworkPeople_ReturnsNewestOfEach(t *testing.T) {
	row := func(id string, version int64, hash uint64) *NetworkPersonRow {
		return &NetworkPersonRow{ProfileHash: 1, ProfileID: id, Version: version, ContentHash: hash,
			Deleted: version == 9}
	}
	require.Empty(t, NewestNetworkPeople(nil))
	a, b := row("a", 5, 3), row("b", 9, 1)
	require.Equal(t, []*NetworkPersonRow{a, b}, NewestNetworkPeople([]*NetworkPersonRow{
		row("a", 4, 9), row("b", 9, 1), row("a", 5, 2), row("a", 5, 3), row("b", 8, 7), row("a", 5, 1),
	}))
}

// boundedLookupQuery distinguishes the types of one key hash by their first letters.
func TestKeyHash_SharedTypesHaveDistinctFirstLetters(t *testing.T) {
	types := []LookupType{
		LookupNetworkUsername, LookupNetworkEmail, LookupNetworkCodehostUsername, LookupNetworkMicroblogUsername,
		LookupCodehostUsername, LookupCodehostEmail, LookupCodehostNetworkUsername, LookupCodehostMicroblogUsername,
		LookupMicroblogUsername, LookupCompanySlug, LookupCompanyNetworkID, LookupLinkCodehost, LookupLinkNetwork,
		LookupLinkMicroblog, LookupHintCodehost, LookupHintNetwork,
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
