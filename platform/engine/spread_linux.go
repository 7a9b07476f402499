package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fsTopdirFlag is FS_TOPDIR_FL of linux/fs.h: it marks a directory whose subdirectories are unrelated, which ext4
// allocates far from each other (Orlov allocator; chattr(1), attribute T).
const fsTopdirFlag = 0x00020000

// setTopdirFlags sets the topdir flag on the directories of tables in store, so that ext4 allocates the parts of a
// table far from each other. It polls for new tables until ctx ends. It does nothing on other file systems or with a
// journal.
//
// Without a journal ext4 does not reuse an inode for minutes after its file was deleted, and searches for a free one
// from the start of the block group (recently_deleted in fs/ext4/ialloc.c). A merge deletes hundreds of files, and an
// insert creates as many in the same group: that search took most of an insert's CPU time (see the decision "parts are
// spread").
func setTopdirFlags(ctx context.Context, store string) error {
	if applies, err := isExt4WithoutJournal(store); err != nil || !applies {
		return err
	}
	seen := make(map[string]time.Time) // modification times of directories in store
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := flagNewTables(store, seen); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// isExt4WithoutJournal reports whether dir, or its nearest existing parent, is on ext4 without a journal.
func isExt4WithoutJournal(dir string) (bool, error) {
	var about unix.Stat_t
	err := unix.Stat(dir, &about)
	for ; errors.Is(err, unix.ENOENT); err = unix.Stat(dir, &about) {
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return false, fmt.Errorf("engine: inspect the data directory: %w", err)
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(about.Dev), unix.Minor(about.Dev)))
	if err != nil {
		return false, nil //nolint:nilerr // not a block device: tmpfs, overlay, network
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "journal_task"))
	return err == nil && strings.TrimSpace(string(task)) == "<none>", nil
}

// flagNewTables sets the flag on new tables. The directory of a table is store/abc/abc…, by its UUID.
func flagNewTables(store string, seen map[string]time.Time) error {
	prefixes, err := os.ReadDir(store)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("engine: list tables: %w", err)
	}
	for _, prefix := range prefixes {
		info, err := prefix.Info()
		if err != nil || info.ModTime().Equal(seen[prefix.Name()]) {
			continue // removed or unchanged
		}
		tables, err := os.ReadDir(filepath.Join(store, prefix.Name()))
		if err != nil {
			continue // removed
		}
		for _, table := range tables {
			err := setTopdirFlag(filepath.Join(store, prefix.Name(), table.Name()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("engine: set the topdir flag of a table's directory: %w", err)
			}
		}
		seen[prefix.Name()] = info.ModTime()
	}
	return nil
}

// setTopdirFlag sets the flag on a directory.
func setTopdirFlag(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil || flags&fsTopdirFlag != 0 {
		return err
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|fsTopdirFlag))
}
