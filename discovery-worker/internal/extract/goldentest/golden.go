// Package goldentest compares results with golden answers in txtar archives.
package goldentest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden answers") //nolint:gochecknoglobals // a flag of the tests

// Run reads the txtar archives that match a pattern. For each case it compares the result of read
// for "name/input" with "name/want". With -update it writes the answers instead.
func Run(t *testing.T, pattern string, read func(t *testing.T, input string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		out := &txtar.Archive{Comment: archive.Comment}
		for i, part := range archive.Files {
			name, ok := strings.CutSuffix(part.Name, "/input")
			if !ok {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+name, func(t *testing.T) {
				want := txtar.File{Name: name + "/want"}
				defer func() { out.Files = append(out.Files, part, want) }()
				got := strings.TrimRight(read(t, string(part.Data)), "\n") + "\n"
				want.Data = []byte(got)
				if !*update {
					require.Less(t, i+1, len(archive.Files), "no answer")
					require.Equal(t, name+"/want", archive.Files[i+1].Name)
					require.Equal(t, string(archive.Files[i+1].Data), got)
				}
			})
		}
		if *update {
			require.NoError(t, os.WriteFile(file, txtar.Format(out), 0o600))
		}
	}
}

// Lines applies a function to each line of an input and returns the lines with their results.
func Lines(input string, read func(line string) string) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimRight(line, "\n")
		b.WriteString(line + " => " + read(line) + "\n")
	}
	return b.String()
}
