package compose_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rowsOf returns the cells of the first table below a heading of a page, without the header.
func rowsOf(t *testing.T, page, heading string) (rows [][]string) {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n## "+heading+"\n")
	require.True(t, ok, heading)
	_, table, ok := strings.Cut(section, "\n|---")
	require.True(t, ok, heading)
	for line := range strings.Lines(table[strings.Index(table, "\n")+1:]) {
		if !strings.HasPrefix(line, "|") {
			return rows
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// code returns the first code span of a cell.
func code(cell string) string {
	parts := strings.Split(cell, "`")
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

func TestComposePage_NamesWhatTheFileHas(t *testing.T) {
	raw, err := os.ReadFile("../docs/compose.md")
	require.NoError(t, err)
	source, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	var file struct {
		Name     string
		Services map[string]struct {
			Image          string
			Ports, Volumes []string
		}
		Volumes map[string]any
	}
	read(t, "compose.yaml", &file)

	rows := rowsOf(t, string(raw), "Containers")
	require.Len(t, rows, len(file.Services))
	for _, row := range rows {
		s, ok := file.Services[code(row[0])]
		require.True(t, ok, row[0])
		image, _, _ := strings.Cut(s.Image, ":")
		require.Equal(t, image, code(row[1]), row[0])
		published, _, _ := strings.Cut(row[2], ": ")
		if len(s.Ports) == 0 {
			require.NotContains(t, row[2], "127.0.0.1", row[0])
		} else {
			require.Equal(t, published+regexp.MustCompile(`:\d+$`).FindString(s.Ports[0]), s.Ports[0], row[0])
		}
		named := slices.DeleteFunc(slices.Clone(s.Volumes), func(v string) bool { return strings.HasPrefix(v, "./") })
		volume, _, _ := strings.Cut(strings.Join(named, ""), ":")
		require.Equal(t, volume, code(row[3]), row[0])
	}
	require.Contains(t, string(raw), "-v "+file.Name+"_$volume:")
	backedUp := regexp.MustCompile(`for volume in ([a-z -]+);`).FindStringSubmatch(string(raw))
	require.NotNil(t, backedUp)
	for volume := range strings.FieldsSeq(backedUp[1]) {
		require.Contains(t, file.Volumes, volume)
	}

	var documented, used []string
	for _, row := range rowsOf(t, string(raw), "Configuration") {
		variable, byDefault := code(row[0]), code(row[1])
		documented = append(documented, variable)
		want := "${" + variable + ":-" + byDefault + "}"
		if row[1] == "required" {
			want = "${" + variable + ":?"
		}
		require.Contains(t, string(source), want)
	}
	for _, m := range regexp.MustCompile(`\$\{(\w+):`).FindAllStringSubmatch(string(source), -1) {
		used = append(used, m[1])
	}
	slices.Sort(used)
	require.ElementsMatch(t, slices.Compact(used), documented)
}
