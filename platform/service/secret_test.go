package service_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/service"
)

func unset(string) string { return "" }

func TestEnsureRootSecret_CreatesOneFileForConcurrentCallers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	keys := make([]string, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			s, err := service.EnsureRootSecret(unset, dir)
			if err != nil {
				keys[i] = err.Error()
				return
			}
			key, err := s.Key("cursor-signature", 32)
			keys[i] = fmt.Sprintf("%x %v", key, err)
		})
	}
	wg.Wait()
	for _, k := range keys {
		require.Equal(t, keys[0], k, "concurrent callers read the same secret")
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file remains")
	path := filepath.Join(dir, "secret.key")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	// The file's content gives the same keys when it is used as the variable.
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, strings.TrimSpace(string(content)), 64)
	env, err := service.LoadRootSecret(func(string) string { return string(content) }, "")
	require.NoError(t, err)
	key, err := env.Key("cursor-signature", 32)
	require.NoError(t, err)
	require.Equal(t, keys[0], fmt.Sprintf("%x <nil>", key))

	require.NoError(t, os.Chmod(path, 0o640))
	_, err = service.EnsureRootSecret(unset, dir)
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.WriteFile(path, []byte("short"), 0o600))
	require.NoError(t, os.Chmod(path, 0o600))
	_, err = service.EnsureRootSecret(unset, dir)
	require.ErrorContains(t, err, "5 bytes, want at least 32")
}

func TestRootSecret_ReportsInvalidSources(t *testing.T) {
	_, err := service.LoadRootSecret(func(string) string { return "tiny" }, t.TempDir())
	require.ErrorContains(t, err, "MUSTER_SECRET_KEY: root secret: 4 bytes, want at least 32")
	_, err = service.EnsureRootSecret(unset, "")
	require.ErrorContains(t, err, "neither MUSTER_SECRET_KEY nor a data directory")
	_, err = service.EnsureRootSecret(unset, "/dev/null/data")
	require.Error(t, err)
}

func TestLoadRootSecret_NeverCreatesASecret(t *testing.T) {
	dir := t.TempDir()
	_, err := service.LoadRootSecret(unset, dir)
	require.ErrorIs(t, err, service.ErrNoRootSecret)
	require.ErrorContains(t, err,
		"MUSTER_SECRET_KEY is not set and "+filepath.Join(dir, "secret.key")+" does not exist")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = service.EnsureRootSecret(unset, dir)
	require.NoError(t, err)
	_, err = service.LoadRootSecret(unset, dir)
	require.NoError(t, err)
}

func TestRootSecret_DerivesStableIndependentKeys(t *testing.T) {
	s, err := service.NewRootSecret([]byte(strings.Repeat("k", 32)))
	require.NoError(t, err)
	a, err := s.Key("a", 32)
	require.NoError(t, err)
	b, err := s.Key("b", 32)
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	// Computed independently according to RFC 5869. It must never change: stored data is encrypted and signed with it.
	require.Equal(t, "fcac1daaa6cf359e7c24f5e4a387177c61166f173e1fec27bc0f73d0826af3c5", hex.EncodeToString(a))
	_, err = s.Key("", 32)
	require.ErrorContains(t, err, "no name")
	_, err = s.Key("a", 1<<20)
	require.ErrorContains(t, err, "derive key a")
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, s), "kkkk")
	}
	require.Equal(t, "[secret]", s.LogValue().String())
}
