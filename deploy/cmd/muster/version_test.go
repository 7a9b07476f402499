package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion_IsTheSameInAllParts(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(repository, name))
		require.NoError(t, err)
		return string(raw)
	}
	want := strings.TrimSpace(read("VERSION"))
	require.Regexp(t, `^\d+\.\d+\.\d+$`, want)
	require.Equal(t, want, release, "version.go")
	for _, part := range []struct{ file, pattern string }{
		{"deploy/kubernetes/muster/Chart.yaml", `(?m)^version: (.*)$`},
		{"deploy/kubernetes/muster/Chart.yaml", `(?m)^appVersion: "(.*)"$`},
		{"deploy/Dockerfile", `(?m)^ARG VERSION=(.*)$`},
		{"query-api/openapi.yaml", `(?m)^  version: (.*)$`},
		{"query-api/client/client.go", `(?m)^const Version = "(.*)"$`},
		{"query-api/client-py/src/muster_client/_http.py", `(?m)^__version__ = "(.*)"$`},
		{"query-api/client-ts/package.json", `(?m)^  "version": "(.*)",$`},
		{"query-api/client-ts/package-lock.json", `(?m)^  "version": "(.*)",$`},
		{"query-api/client-ts/package-lock.json", `"name": "muster-client",\n      "version": "(.*)",`},
	} {
		found := regexp.MustCompile(part.pattern).FindStringSubmatch(read(part.file))
		require.NotNil(t, found, part.file)
		require.Equal(t, want, found[1], part.file)
	}
}

func TestVersion_IsPrinted(t *testing.T) {
	c := cli{t: t}
	short, _ := c.run(0, "--version")
	require.Equal(t, "muster "+release+"\n", short)
	long, _ := c.run(0, "version")
	require.True(t, strings.HasPrefix(long, short), long)
	require.Regexp(t, `\ncommit \S+\ngo     go1\.\S+ \w+/\w+\nengine libchdb \S+`, long)
}
