package segmentfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/segmentfile"
)

func TestList_ReturnsNumbersInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []uint64{12, 3, 1 << 60} {
		require.NoError(t, os.WriteFile(segmentfile.Path(dir, n, ".log"), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(segmentfile.Path(dir, 7, ".other"), nil, 0o600))
	numbers, err := segmentfile.List(dir, ".log")
	require.NoError(t, err)
	require.Equal(t, []uint64{3, 12, 1 << 60}, numbers)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.log"), nil, 0o600))
	_, err = segmentfile.List(dir, ".log")
	require.ErrorContains(t, err, "x.log is not a valid segment name")
	_, err = segmentfile.List(filepath.Join(dir, "none"), ".log")
	require.ErrorIs(t, err, os.ErrNotExist)
}
