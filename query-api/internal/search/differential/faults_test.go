//go:build opensearch

package differential_test

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// faults are plausible mistakes in the implementation of search, one a paragraph: name, file, a unique part of a line,
// and its replacement.
//
//go:embed faults.txt
var faults string

// Each fault is compiled in turn from an overlay, and TestSearch_EqualsOpenSearch must fail. The test runs if
// MUSTER_TEST_SEARCH_FAULTS is set: to "all", to the numbers of the faults to try ("7" or "12-20", the first is 1) or
// to a part of their names.
func TestFaults_AreDetected(t *testing.T) {
	which := os.Getenv("MUSTER_TEST_SEARCH_FAULTS")
	if which == "" {
		return
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dsn := fillBoth(t)
	caught, tried := 0, 0
	for i, paragraph := range strings.Split(strings.TrimSpace(faults), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		require.Len(t, lines, 4, "%s", paragraph)
		name, file, was, is := lines[0], filepath.Join(root, lines[1]), lines[2], lines[3]
		if !chosen(which, i+1, name) {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(source), was), "%s: %s", lines[1], was)
			dir := t.TempDir()
			changed := filepath.Join(dir, "changed.go")
			require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), was, is, 1)), 0o600))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
			require.NoError(t, err)
			overlayFile := filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
			binary := filepath.Join(dir, "differential.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags", "-s -w", "-tags", "opensearch",
				"-overlay", overlayFile, "-o", binary, ".")
			out, err := build.CombinedOutput()
			require.NoError(t, err, "the fault must compile: %s", out)
			run := exec.CommandContext(
				t.Context(), binary, "-test.run", "^TestSearch_EqualsOpenSearch$", "-test.failfast",
			)
			run.Env = append(os.Environ(), nodeEnv+"="+node.URL(), storeEnv+"="+dsn, failuresEnv+"=1")
			out, err = run.CombinedOutput()
			require.Error(t, err, "not detected")
			_, by, ok := strings.Cut(string(out), "opensearch_test.go:")
			require.True(t, ok, "detected otherwise than by a result: %s", out)
			t.Log(strings.SplitN(by, "\n", 3)[:2])
			caught++
		})
	}
	require.Positive(t, tried, "no fault matches %s", which)
	fmt.Fprintf(os.Stdout, "%d of %d faults were detected\n", caught, tried)
	require.Equal(t, tried, caught)
}

// chosen reports whether a fault is among those to try.
func chosen(which string, number int, name string) bool {
	first, last, isRange := strings.Cut(which, "-")
	from, err := strconv.Atoi(first)
	if err != nil {
		return which == "all" || strings.Contains(name, which)
	}
	to := from
	if isRange {
		if to, err = strconv.Atoi(last); err != nil {
			return false
		}
	}
	return from <= number && number <= to
}
