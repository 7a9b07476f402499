package atomicfile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/atomicfile"
)

func TestWrite_FailureLeavesTheExistingFile(t *testing.T) {
	t.Chdir(t.TempDir())
	text := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, writeErr := io.WriteString(w, text)
			return errors.Join(writeErr, err)
		}
	}
	for _, content := range []string{"first", "second"} {
		require.NoError(t, atomicfile.Write("file", text(content, nil)))
		raw, err := os.ReadFile("file")
		require.NoError(t, err)
		require.Equal(t, content, string(raw))
	}
	require.ErrorIs(t, atomicfile.Write("file", text("third", io.ErrClosedPipe)), io.ErrClosedPipe)
	raw, err := os.ReadFile("file")
	require.NoError(t, err)
	require.Equal(t, "second", string(raw))
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, entries, 1, "without a temporary file")
	info, err := entries[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.ErrorIs(t, atomicfile.Write(filepath.Join("none", "file"), text("", nil)), os.ErrNotExist)
}
