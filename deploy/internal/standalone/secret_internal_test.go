package standalone

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
	"muster/platform/service"
)

// Another secret would be wrong for the data.
func TestRootSecret_IsNotCreatedForAUsedDirectory(t *testing.T) {
	deps := Deps{Getenv: func(string) string { return "" }}
	for _, name := range []string{"kafka", instance.FileName} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		_, err := rootSecret(Config{DataDir: dir}, deps)
		require.ErrorIs(t, err, service.ErrNoRootSecret)
		require.ErrorContains(t, err, "has data")
		require.NoFileExists(t, filepath.Join(dir, "secret.key"))
		require.NoError(t,
			os.WriteFile(filepath.Join(dir, "secret.key"), []byte("0123456789abcdef0123456789abcdef"), 0o600))
		_, err = rootSecret(Config{DataDir: dir}, deps)
		require.NoError(t, err)
	}
	dir := t.TempDir() // the lock and other early files do not count
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
	_, err := rootSecret(Config{DataDir: dir}, deps)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "secret.key"))
}
