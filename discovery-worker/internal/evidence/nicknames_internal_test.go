package evidence

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The index gives the same results as a scan of the groups.
func TestNicknames_IndexMatchesGroups(t *testing.T) {
	var names []string
	for line := range strings.Lines(nicknameGroups) {
		for _, n := range strings.Fields(line) {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	names = append(names, "", "unknown")
	for _, a := range names {
		var others []string
		for line := range strings.Lines(nicknameGroups) {
			if group := strings.Fields(line); slices.Contains(group, a) {
				others = append(others, slices.DeleteFunc(group, func(s string) bool { return s == a })...)
			}
		}
		require.Equal(t, others, Nicknames(a), a)
		for _, b := range names {
			want := false
			for line := range strings.Lines(nicknameGroups) {
				group := strings.Fields(line)
				want = want || (group[0] == a || group[0] == b) && slices.Contains(group, a) &&
					slices.Contains(group, b)
			}
			if got := nicknames(a, b); got != want {
				require.Equal(t, want, got, "%s and %s", a, b)
			}
		}
	}
}
