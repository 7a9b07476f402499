package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// evict asks the kernel to drop the files of a directory from the page cache. No process may have them open.
func evict(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path) //nolint:gosec // a file of the bench
		if err != nil {
			return fmt.Errorf("evict: %w", err)
		}
		// Only clean pages are dropped.
		err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
		if err != nil {
			return fmt.Errorf("evict %s: %w", path, err)
		}
		return nil
	})
}
