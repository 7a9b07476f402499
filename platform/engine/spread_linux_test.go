package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muster/platform/engine/enginetest"
)

// topdir reports whether a directory has chattr's attribute T.
func topdir(t *testing.T, dir string) bool {
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOTSUP) { // a file system without attributes
		return false
	}
	require.NoError(t, err)
	return flags&0x20000 != 0
}

// journalless reports whether a directory is on ext4 without a journal thread.
func journalless(t *testing.T, dir string) bool {
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	var about unix.Stat_t
	require.NoError(t, unix.Stat(dir, &about))
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(about.Dev), unix.Minor(about.Dev)))
	if fs.Type != unix.EXT4_SUPER_MAGIC || err != nil {
		return false
	}
	threads, err := filepath.Glob("/proc/fs/jbd2/" + filepath.Base(device) + "-*")
	require.NoError(t, err)
	return len(threads) == 0
}

func TestTopdirFlags_SetOnlyOnExt4WithoutJournal(t *testing.T) {
	e, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for _, table := range []string{"first", "second"} {
		_, err := ask(t.Context(), e.Addr(), "CREATE TABLE default."+table+" (k UInt64) ENGINE = MergeTree ORDER BY k")
		require.NoError(t, err)
		path, err := ask(t.Context(), e.Addr(),
			"SELECT arrayJoin(data_paths) FROM system.tables WHERE database = 'default' AND name = '"+table+"'")
		require.NoError(t, err)
		path = strings.TrimSpace(path)
		if journalless(t, path) {
			waitFor(t, func() bool { return topdir(t, path) })
		}
		require.Equal(t, journalless(t, path), topdir(t, path))
	}
}
