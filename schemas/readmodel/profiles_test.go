package readmodel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
)

// The newest row of an account wins; version bumps apply to equal content.
func TestNewestProfiles_AppliesVersionBumps(t *testing.T) {
	row := func(platform, id string, version int64, hash uint64) *ProfileRow {
		return &ProfileRow{Platform: platform, ID: id, Version: version, ContentHash: hash}
	}
	require.Empty(t, NewestProfiles(nil))
	got := NewestProfiles([]*ProfileRow{
		row("network", "a", 1, 9), row("codehost", "a", 2, 1), row("network", "a", 3, 1), row("network", "b", 3, 1),
		row("network", "a", 3, 2), row("network", "a", 2, 7),
	})
	require.Equal(t, []*ProfileRow{row("network", "a", 3, 2), row("codehost", "a", 2, 1), row("network", "b", 3, 1)},
		got)

	seen := []VersionBumpRow{{"network-person", 1, "a", 5, 2}, {"network-person", 1, "a", 8, 3},
		{"codehost-person", 1, "a", 9,
			2}, {"network-person", 1, "b", 9, 2}}
	require.Equal(t, int64(5), got[0].NewestVersion(seen))
	require.Equal(t, int64(3), got[2].NewestVersion(seen))
	require.Equal(t, int64(2), got[1].NewestVersion(nil))
}

func TestProfiles_EqualGoldenFile(t *testing.T) {
	golden(t, "testdata/profiles.sql.golden", ProfilesQuery(identity.PlatformNames()...)+"\n;\n"+
		ProfilesQuery(identity.Codehost)+"\n;\n"+VersionBumpsQuery()+"\n;\n"+
		UsernameHistoryQuery(identity.Network)+"\n;\n"+UsernameHistoryQuery(identity.Codehost)+"\n;\n"+
		UsernameHistoryQuery(identity.Microblog)+
		"\n")
}
