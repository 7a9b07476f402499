//go:build docs || browser

package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func picture(name string) string { return filepath.Join("..", "docs", "images", name) }

// screenshots returns the screenshots in the documentation with their source files and directories.
func screenshots() map[string][]string {
	const docs, status = "../../query-api/internal/docs/", "../internal/status/page/web"
	const explore = "../../query-api/internal/explore/web"
	return map[string][]string{
		"docs-reference.png":  {docs + "web"},
		"docs-answer.png":     {docs + "web"},
		"docs-guide-dark.png": {docs + "web", docs + "guides/search.md"},
		"status.png":          {status},
		"explore-search.png":  {explore},
		"explore-person.png":  {explore},

		"explore-questions-dark.png": {explore},
	}
}

// takenFrom returns a hash of the sources of a screenshot.
func takenFrom(t *testing.T, sources []string) string {
	t.Helper()
	all := sha256.New()
	for _, source := range sources {
		require.NoError(t, filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(text)
			_, err = all.Write(append(sum[:], filepath.Base(path)...))
			return err
		}))
	}
	return hex.EncodeToString(all.Sum(nil))
}

// taken is the name of the file with the source hashes of all screenshots.
const taken = "taken.json"

func readTaken(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(picture(taken))
	require.NoError(t, err)
	var of map[string]string
	require.NoError(t, json.Unmarshal(raw, &of))
	return of
}

// noteTaken stores the current source hash of a screenshot.
func noteTaken(t *testing.T, name string) {
	t.Helper()
	of := readTaken(t)
	of[name] = takenFrom(t, screenshots()[name])
	raw, err := json.Marshal(of, json.Deterministic(true), jsontext.WithIndent("  "))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(picture(taken), append(raw, '\n'), 0o600))
}

func TestDocs_ScreenshotsAreCurrentAndUsed(t *testing.T) {
	of := readTaken(t)
	require.Len(t, of, len(screenshots()))
	shown := ""
	for _, page := range []string{"../../README.md", "../docs/operators.md", "../docs/explore.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		shown += string(text)
	}
	for name, sources := range screenshots() {
		require.Contains(t, shown, "images/"+name+")")
		require.Equal(t, takenFrom(t, sources), of[name],
			"%s is outdated: take it again with `make test-docs TESTFLAGS=-update`, check it, and commit it", name)
		raw, err := os.ReadFile(picture(name))
		require.NoError(t, err)
		_, err = png.DecodeConfig(bytes.NewReader(raw))
		require.NoError(t, err, name)
	}
}
