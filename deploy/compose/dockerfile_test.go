package compose_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// It is built from sources only, reproducibly, and runs without root on a base without a shell.
func TestDockerfile_IsReproducibleAndUnprivileged(t *testing.T) {
	raw, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(raw), "\\\n", " ")
	instructions := map[string][]string{}
	for line := range strings.Lines(text) {
		if word, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(word, "#") {
			instructions[word] = append(instructions[word], strings.TrimSpace(rest))
		}
	}
	stages := instructions["FROM"]
	require.Len(t, stages, 2)
	gomod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	required := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(string(gomod))[1]
	require.True(t, strings.HasPrefix(stages[0], "golang:"+required+"-"), "the Go version of go.mod")
	require.Regexp(t, `^gcr\.io/distroless/.*:nonroot$`, stages[1])

	require.Len(t, instructions["RUN"], 2, "the program, and git with its libraries")
	require.NotContains(t, text[strings.LastIndex(text, "\nFROM "):], "\nRUN ", "the second stage runs nothing")
	require.Contains(t, instructions["RUN"][1], "install -D /usr/bin/git /git/usr/bin/git")
	build := instructions["RUN"][0]
	for _, part := range []string{"CGO_ENABLED=0", "-trimpath", "-buildvcs=false", "-buildid=",
		"-X main.release=${VERSION}", "./deploy/cmd/muster"} {
		require.Contains(t, build, part)
	}
	for _, word := range []string{"curl", "wget", "apt", "date", "go get"} {
		require.NotRegexp(t, `\b`+word+`\b`, build, "downloads make a build irreproducible")
	}
	require.Empty(t, instructions["ADD"])
	require.Equal(t, []string{". .", "--from=build /git /", "--from=build /muster /muster",
		"--from=build --chown=65532:65532 /data /data"}, instructions["COPY"])
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, instructions["USER"][0],
		"numeric, so that Kubernetes can tell it is not root")
	require.Equal(t, []string{`["/muster"]`}, instructions["ENTRYPOINT"])
	ignored, err := os.ReadFile("../../.dockerignore")
	require.NoError(t, err)
	for _, path := range []string{".git", ".muster", "**/secret.key", "**/.env*"} {
		require.Contains(t, strings.Fields(string(ignored)), path, "files excluded from the image")
	}
}
