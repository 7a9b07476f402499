package e2e_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/histories/historiestest"
)

// TestEvalDiscovery_ReportsAccuracyWithoutNames evaluates a running instance on generated repositories.
func TestEvalDiscovery_ReportsAccuracyWithoutNames(t *testing.T) {
	dir := t.TempDir()
	people := historiestest.Crowd(200)
	historiestest.Repository(t, filepath.Join(dir, "one.git"), historiestest.Mailmap(people), people[:120]...)
	historiestest.Repository(t, filepath.Join(dir, "two.git"), historiestest.Mailmap(people), people[100:]...)

	p := start(t, newDataDir(t), "--no-sample")
	flags := []string{"eval", "discovery", "--histories", dir, "--population", "2", "--calls", "60"}
	report := p.muster(t, flags...)
	require.Contains(t, report, "2 repositories: 200 accounts, ")
	linked := regexp.MustCompile(`declared link +\d+ +(\d+)  (\d+)/(\d+) `).FindStringSubmatch(report)
	require.NotNil(t, linked, report)
	require.NotEqual(t, "0", linked[1])
	require.Equal(t, linked[1], linked[2], "declared links are found")
	require.Equal(t, linked[2], linked[3], "and right")
	precision := regexp.MustCompile(`precision at 0\.45  (\d\.\d+) `).FindStringSubmatch(report)
	require.NotNil(t, precision, report)
	value, err := strconv.ParseFloat(precision[1], 64)
	require.NoError(t, err)
	require.Greater(t, value, 0.5)
	for _, given := range []string{"name", "name, company", "name, location", "name, title", "name, e-mail"} {
		require.Contains(t, report, "| "+given+" | ")
	}
	require.Regexp(t, `\| e-mail \| (\d+) \| \d+ \| 1\.000 \[\S+ \S+\] \| 1\.000 `, report,
		"identification finds the owner of every address")
	for _, name := range []string{"Karlon", "karlon", "quiet", "badger", "wrong answers", "@"} {
		require.NotContains(t, report, name, "standard output is no terminal")
	}

	// The instance has the records now.
	require.Contains(t, p.muster(t, append(flags, "--loaded", "--callers", "1")...), "2 repositories: 200 accounts, ")
	r, err := muster(t.Context(), p.dataDir, flags...)
	require.NoError(t, err)
	require.Equal(t, 2, r.status)
	require.Contains(t, r.errors, "the instance has records already")
}
