package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBundledLibrary_IsFoundNextToTheProgram(t *testing.T) {
	p := pin{platform: "linux/amd64", version: "1.2.3"}
	for _, place := range []string{"bin/libchdb", "lib/muster/libchdb"} {
		root := t.TempDir()
		executable := filepath.Join(root, "bin", "muster")
		library := filepath.Join(root, place, "1.2.3", "linux-amd64", "libchdb.so")
		require.Empty(t, bundledLibrary(p, executable))
		require.NoError(t, os.MkdirAll(filepath.Dir(library), 0o700))
		require.NoError(t, os.WriteFile(library, nil, 0o600))
		require.Equal(t, library, bundledLibrary(p, executable))

		newer := p
		newer.version = "1.2.4"
		require.Empty(t, bundledLibrary(newer, executable), "a library of another version")
	}
}

func TestLibraryVersion_IsThatOfThePinnedPackage(t *testing.T) {
	require.Regexp(t, `^\d+\.\d+\.\d+`, LibraryVersion())
}
