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

// fsTopdirFlag is FS_TOPDIR_FL of linux/fs.h: a folder whose subfolders have nothing to
// do with each other, for which ext4 looks for a place far from each other
// (ext2's and ext4's Orlov allocator; chattr(1), attribute T).
const fsTopdirFlag = 0x00020000

// spreadParts has ext4 without a journal put the parts of a table far from each other,
// the folders of tables being those in store, and looks for new tables until ctx ends.
//
// Such a file system does not use an inode again for minutes after its file was
// deleted, and looks for one that it may use from the first of its group on
// (recently_deleted in fs/ext4/ialloc.c). A merge deletes hundreds of files, and an
// insert creates as many in the same group: most of an insert's processor time went
// there (deploy/docs/decisions, parts are spread). With a journal, or on another file system, nothing is done.
func spreadParts(ctx context.Context, store string) error {
	if without, err := ext4WithoutJournal(store); err != nil || !without {
		return err
	}
	seen := make(map[string]time.Time) // folders of store as they were
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := spreadNew(store, seen); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ext4WithoutJournal says whether dir, or what will be its parent, is on such a file
// system.
func ext4WithoutJournal(dir string) (bool, error) {
	var about unix.Stat_t
	err := unix.Stat(dir, &about)
	for ; errors.Is(err, unix.ENOENT); err = unix.Stat(dir, &about) {
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return false, fmt.Errorf("engine: look at the data folder: %w", err)
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(about.Dev), unix.Minor(about.Dev)))
	if err != nil {
		return false, nil //nolint:nilerr // no device of its own: tmpfs, overlay, network
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "journal_task"))
	return err == nil && strings.TrimSpace(string(task)) == "<none>", nil
}

// spreadNew marks the tables that have come. A table's folder is store/abc/abc…, by
// its UUID.
func spreadNew(store string, seen map[string]time.Time) error {
	prefixes, err := os.ReadDir(store)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("engine: list tables: %w", err)
	}
	for _, prefix := range prefixes {
		info, err := prefix.Info()
		if err != nil || info.ModTime().Equal(seen[prefix.Name()]) {
			continue // gone, or as it was
		}
		tables, err := os.ReadDir(filepath.Join(store, prefix.Name()))
		if err != nil {
			continue // gone
		}
		for _, table := range tables {
			if err := spread(filepath.Join(store, prefix.Name(), table.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("engine: mark a table's folder: %w", err)
			}
		}
		seen[prefix.Name()] = info.ModTime()
	}
	return nil
}

// spread sets the flag on a folder.
func spread(folder string) error {
	f, err := os.Open(folder)
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
