package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNoRoom says that the disk has no room to compact the log.
var ErrNoRoom = errors.New("the disk has too little room to compact the log")

// spareBytes must be left over, for what others write meanwhile.
const spareBytes = 64 << 20

// room says whether the log can be compacted: what it was stays on disk until all
// of what it becomes is written.
func (b *Broker) room() error {
	need := int64(spareBytes)
	err := filepath.WalkDir(partitionsDir(b.dir), func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a segment whose retention has ended, or no partition yet
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			need += info.Size()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("measure the log: %w", err)
	}
	free, err := b.free(b.dir)
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	if free < need {
		return fmt.Errorf("%w: %s has %d MB free, of %d MB", ErrNoRoom, b.dir, free>>20, need>>20)
	}
	return nil
}

// freeBytes is how much can still be written to the disk of a folder.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:gosec,unconvert // no disk has 2^63 bytes; the types are others elsewhere
}
