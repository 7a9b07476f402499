package backup_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/backup"
)

func TestFinish_CompletesARestoreInterruptedAnywhere(t *testing.T) {
	now := time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)
	const before = ".before-20261122T200000Z"
	write := func(t *testing.T, dir string, names ...string) {
		t.Helper()
		for _, name := range names {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
	}
	list := func(t *testing.T, dir string) (names []string) {
		t.Helper()
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				path, err = filepath.Rel(dir, path)
				names = append(names, path)
			}
			return err
		}))
		return names
	}
	for name, test := range map[string]struct {
		at   []string
		kept []string // nil: there is nothing to do
	}{
		"nothing":   {[]string{"kafka/new", "lock"}, nil},
		"not whole": {[]string{"kafka/new", "lock", ".restoring/kafka/x"}, nil},
		"whole": {[]string{"kafka/old", "secret", "lock", "lost+found/x", ".restored/kafka/new"},
			[]string{"kafka/old", "secret"}},
		"half aside": {[]string{"secret", ".before/kafka/old", ".restored/kafka/new"},
			[]string{"kafka/old", "secret"}},
		"all aside": {[]string{".before/kafka/old", ".before/secret", ".restored/kafka/new"},
			[]string{"kafka/old", "secret"}},
		"about to enter": {[]string{".before/kafka/old", ".restored.enters/kafka/new"}, []string{"kafka/old"}},
		"enters with a disk's": {[]string{".before/kafka/old", ".restored.enters/kafka/new",
			".restored.enters/lost+found/y"}, []string{"kafka/old"}},
		"in":                {[]string{".before/kafka/old", "kafka/new"}, []string{"kafka/old"}},
		"into an empty one": {[]string{".restored/kafka/new"}, []string{}},
		"the previous content stays": {[]string{".before-1/kafka/older", ".restored/kafka/new", "kafka/old"},
			[]string{"kafka/old"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			write(t, dir, test.at...)
			kept, err := backup.Finish(dir, now)
			require.NoError(t, err)
			if test.kept == nil {
				require.Empty(t, kept)
			} else {
				require.NoDirExists(t, filepath.Join(dir, ".restored"))
				require.NoDirExists(t, filepath.Join(dir, ".restored.enters"))
				require.NoDirExists(t, filepath.Join(dir, ".before"))
			}
			require.NoDirExists(t, filepath.Join(dir, ".restoring"))
			require.FileExists(t, filepath.Join(dir, "kafka/new"))
			require.NoFileExists(t, filepath.Join(dir, "kafka/old"))
			if len(test.kept) > 0 {
				require.Equal(t, dir+before, kept)
				require.Equal(t, test.kept, list(t, kept))
			} else {
				require.Empty(t, kept)
			}
			for _, isNotData := range []string{"lock", "lost+found/x", ".before-1/kafka/older"} {
				for _, name := range test.at {
					if name == isNotData {
						require.FileExists(t, filepath.Join(dir, isNotData))
					}
				}
			}
			again, err := backup.Finish(dir, now)
			require.NoError(t, err)
			require.Empty(t, again)
		})
	}
	t.Run("a file is in both directories", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		write(t, dir, "a/old", "secret.key", ".restored/kafka/new", ".restored/secret.key", ".before/kafka/old")
		old := filepath.Join(dir, ".before", "secret.key")
		require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))
		for range 2 { // no start sees a part of the data
			_, err := backup.Finish(dir, now)
			require.ErrorContains(t, err, "secret.key")
			require.DirExists(t, filepath.Join(dir, ".restored"))
			secret, err := os.ReadFile(old)
			require.NoError(t, err)
			require.Equal(t, "old", string(secret))
		}
		require.NoError(t, os.Remove(filepath.Join(dir, "secret.key")))
		kept, err := backup.Finish(dir, now)
		require.NoError(t, err)
		require.Equal(t, []string{"a/old", "kafka/old", "secret.key"}, list(t, kept))
		require.FileExists(t, filepath.Join(dir, "kafka/new"))
	})
	t.Run("a secret was created while all was moved", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		write(t, dir, "secret.key", ".before/kafka/old", ".restored.enters/kafka/new")
		restored := filepath.Join(dir, ".restored.enters", "secret.key")
		require.NoError(t, os.WriteFile(restored, []byte("restored"), 0o600))
		_, err := backup.Finish(dir, now)
		require.NoError(t, err)
		secret, err := os.ReadFile(filepath.Join(dir, "secret.key"))
		require.NoError(t, err)
		require.Equal(t, "restored", string(secret))
	})
	t.Run("twice within a second", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		write(t, dir, "kafka/old", ".restored/kafka/new")
		first, err := backup.Finish(dir, now)
		require.NoError(t, err)
		write(t, dir, ".restored/kafka/newer")
		second, err := backup.Finish(dir, now)
		require.NoError(t, err)
		require.Equal(t, first+"-2", second)
		require.Equal(t, []string{"kafka/old"}, list(t, first))
		require.Equal(t, []string{"kafka/new"}, list(t, second))
		require.Equal(t, []string{"kafka/newer"}, list(t, dir))
	})
	t.Run("inside the directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		write(t, dir, "kafka/old", ".restored/kafka/new")
		t.Chdir(dir)
		kept, err := backup.Finish(".", now)
		require.NoError(t, err)
		require.Equal(t, dir+before, kept, "the next backup would archive it")
		require.Equal(t, []string{"kafka/new"}, list(t, "."))
	})
	t.Run("the parent is not writable", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		write(t, dir, "kafka/old", ".restored/kafka/new")
		write(t, filepath.Dir(dir), "data"+before) // a file blocks the name
		kept, err := backup.Finish(dir, now)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, before), kept)
		require.Equal(t, []string{"kafka/old"}, list(t, kept))
		require.FileExists(t, filepath.Join(dir, "kafka/new"))
	})
}
