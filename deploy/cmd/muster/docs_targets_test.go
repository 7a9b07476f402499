package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocs_MakeTargetsAndBenchPartsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	require.NoError(t, err)
	bench, err := os.ReadFile(filepath.Join(repository, "deploy", "bench", "main.go"))
	require.NoError(t, err)
	named := func(pattern, text string) (out []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	targets, parts := named(`(?m)^([a-z-]+):`, string(makefile)), named(`\{name: "(\w+)"`, string(bench))
	checked := 0
	for path, text := range pages(t) {
		if path == "CHANGELOG.md" || strings.HasPrefix(path, filepath.Join("deploy", "docs", "decisions")) {
			continue // history
		}
		for _, target := range named("(?m)(?:`|^)make ([a-z][a-z-]*)", text) {
			checked++
			require.Contains(t, targets, target, "%s: make %s", path, target)
		}
		for _, list := range named(`PARTS="?([a-z ]+)`, text) {
			for part := range strings.FieldsSeq(list) {
				checked++
				require.True(t, slices.Contains(parts, part), "%s: the bench has no part %s", path, part)
			}
		}
	}
	require.Greater(t, checked, 20)
}
