package engine

import (
	"archive/tar"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

func TestPinFor_KnownPlatforms(t *testing.T) {
	for _, platform := range []string{"linux/amd64"} {
		p, err := pinFor(platform)
		require.NoError(t, err)
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.integrity, "sha512-"))
		require.NoError(t, err)
		require.Len(t, sum, sha512.Size)
	}
	_, err := pinFor("plan9/amd64")
	require.ErrorContains(t, err, LibraryEnv)
	_, err = pinFor("darwin/arm64")
	require.ErrorContains(t, err, LibraryEnv)
}

func TestEnsureLibrary_UsesEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libchdb.so")
	t.Setenv(LibraryEnv, path)
	_, err := EnsureLibrary(t.Context(), LibraryConfig{})
	require.Error(t, err)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	got, err := EnsureLibrary(t.Context(), LibraryConfig{})
	require.NoError(t, err)
	require.Equal(t, path, got)
}

// fakeNPM adds an npm that runs script to PATH.
func fakeNPM(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "npm"), []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+"/usr/bin"+string(os.PathListSeparator)+"/bin")
	t.Setenv(LibraryEnv, "")
}

func archive(t *testing.T, name, content string) (path, integrity string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "package.tgz")
	f, err := os.Create(path)
	require.NoError(t, err)
	gz := gzip.NewWriter(f)
	w := tar.NewWriter(gz)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
	_, err = w.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, gz.Close())
	require.NoError(t, f.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha512.Sum512(data)
	return path, "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func TestFetchLibrary_UnpacksPackage(t *testing.T) {
	path, integrity := archive(t, "package/libchdb.so", "the library")
	fakeNPM(t, "cp "+path+" ./chdb.tgz\n")
	dir := filepath.Join(t.TempDir(), "linux-amd64")
	var stages []string
	progress := func(stage string, done, total int64) { stages = append(stages, stage) }
	require.NoError(t, fetchLibrary(t.Context(), pin{"linux/amd64", "p", "1", integrity}, dir, progress))
	content, err := os.ReadFile(filepath.Join(dir, "libchdb.so"))
	require.NoError(t, err)
	require.Equal(t, "the library", string(content))
	require.Equal(t, []string{"download", "unpack"}, stages)
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary files remain")
}

func TestFetchLibrary_ExplainsFailures(t *testing.T) {
	path, integrity := archive(t, "package/readme", "no library")
	for name, c := range map[string]struct{ script, integrity, want string }{
		"offline":       {"echo 'npm error network' >&2; exit 1", integrity, "is offline"},
		"other archive": {"cp " + path + " ./chdb.tgz", "sha512-AAAA", "npm cache clean"},
		"no library":    {"cp " + path + " ./chdb.tgz", integrity, "no libchdb"},
		"no archive":    {"exit 0", integrity, "0 archives"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeNPM(t, c.script)
			dir := filepath.Join(t.TempDir(), "x")
			err := fetchLibrary(t.Context(), pin{"linux/amd64", "p", "1", c.integrity}, dir, nil)
			require.ErrorContains(t, err, c.want)
			require.NoFileExists(t, dir)
		})
	}
	t.Setenv("PATH", t.TempDir())
	err := fetchLibrary(t.Context(), pin{"linux/amd64", "p", "1", integrity}, filepath.Join(t.TempDir(), "x"), nil)
	require.ErrorContains(t, err, "install Node.js")
}

func TestLockFile_IsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockFile(ctx, path)
	require.ErrorContains(t, err, "locked by another process")
	unlock()
	unlock, err = lockFile(t.Context(), path)
	require.NoError(t, err)
	unlock()
}
