package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocs_SystemdPageNamesWhatTheUnitHas(t *testing.T) {
	read := func(path ...string) string {
		raw, err := os.ReadFile(filepath.Join(append([]string{repository, "deploy"}, path...)...))
		require.NoError(t, err)
		return string(raw)
	}
	page, unit := read("docs", "systemd.md"), read("packages", "files", "muster.service")
	_, table, ok := strings.Cut(page, "\n## Unit settings\n")
	require.True(t, ok)
	span := regexp.MustCompile("`([^`]+)`")
	checked := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			if checked > 0 {
				break
			}
			continue
		}
		names, values := span.FindAllStringSubmatch(cells[1], -1), span.FindAllStringSubmatch(cells[2], -1)
		for i, name := range names {
			directive := "\n" + name[1] + "="
			if len(values) > 0 {
				require.Len(t, values, len(names), line)
				directive += values[i][1] + "\n"
			}
			require.Contains(t, unit, directive)
			checked++
		}
	}
	require.Greater(t, checked, 10)
	for _, absent := range []string{"MemoryMax=", "CPUQuota="} {
		require.NotContains(t, unit, absent, "the page says that the unit sets no limits")
	}
	source := read("packages", "nfpm.go") + unit + read("packages", "files", "postinstall.sh")
	_, files, ok := strings.Cut(page, "\n## Files\n")
	require.True(t, ok)
	files, _, _ = strings.Cut(files, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `(/[^`]+)`").FindAllStringSubmatch(files, -1) {
		// Directories of the package are constants there.
		require.Contains(t, source, filepath.Base(m[1]), m[1])
		checked++
	}
	require.Greater(t, checked, 16)
}
