package readmodel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutCommits_DropsEntriesByAuthorAddress(t *testing.T) {
	const repos, commits = "\x1eO\"repos\":[\x1eO{\"id\":1}\x1eO]\x1eO\"repos_count\":1", "\x1eO\"commits\":["
	const end = "\x1eO]\x1eO\"commits_count\":"
	const alone = "\x1eO{\"sha\":\"a\"}" // no address
	const kept = "\x1eD{\"sha\":\"b\"}\x1eK{\"sha\":\"b\",\"author_email\":\"b@x.example\"}"
	const gone = "\x1eD{\"sha\":\"c\"}" +
		"\x1eK{\"sha\":\"c\",\"author_email\":\"\\\"c\\\\\\\"@x.example\",\"author_login\":\"c\"}"
	const gone2 = "\x1eK{\"sha\":\"d\",\"author_email\":\"d@x.example\"}"
	drop := func(address string) bool { return address == `"c\"@x.example` || address == "d@x.example" }
	for name, c := range map[string]struct {
		entries, want string
		dropped       uint64
	}{
		"no lists":           {"", "", 0},
		"no commits":         {repos, repos, 0},
		"none":               {repos + commits + alone + kept + end + "2", repos + commits + alone + kept + end + "2", 0},
		"first":              {commits + gone + kept + end + "2", commits + kept + end + "1", 1},
		"last":               {repos + commits + kept + gone + end + "2", repos + commits + kept + end + "1", 1},
		"between":            {commits + alone + gone + gone2 + kept + end + "204", commits + alone + kept + end + "202", 2},
		"all":                {repos + commits + gone + gone2 + end + "2", repos, 2},
		"all that are shown": {commits + gone + end + "101", commits + end + "100", 1},
	} {
		got, dropped := withoutCommits(c.entries, drop)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.dropped, dropped, name)
	}
}

// Stored text is complete, but a damaged row must not stop a reader.
func TestWithoutCommits_ReadsDamagedEntries(t *testing.T) {
	const entries = "\x1eO\"commits\":[\x1eD{\"sha\":\"c\"}\x1eK{\"sha\":\"c\",\"author_email\":\"c\\\\@x\"}\x1eO]" +
		"\x1eO\"commits_count\":1"
	for n := range len(entries) {
		for _, damaged := range []string{entries[:n], strings.Replace(entries, entries[n:n+1], "\x1e", 1)} {
			withoutCommits(damaged, func(string) bool { return true })
		}
	}
}
