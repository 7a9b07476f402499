package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrInsufficientDiskSpace means that the disk has too little free space to compact the log.
var ErrInsufficientDiskSpace = errors.New("insufficient disk space to compact the log")

// reservedBytes is the free space left for concurrent writers.
const reservedBytes = 64 << 20

// checkDiskSpace checks that the log can be compacted: the old files stay on disk until all new ones are written, and
// batches that lose records are stored uncompressed.
func (b *Broker) checkDiskSpace() error {
	need := int64(reservedBytes)
	partitions, err := os.ReadDir(partitionsDir(b.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("measure the log: %w", err)
	}
	for _, f := range partitions {
		topic, _, ok := partitionOf(f.Name())
		if !ok || !b.compacted(topic) {
			continue
		}
		size, err := dirSize(filepath.Join(partitionsDir(b.dir), f.Name()))
		if err != nil {
			return fmt.Errorf("measure the log: %w", err)
		}
		need += 2 * size
	}
	free, err := b.free(b.dir)
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	if free < need {
		return fmt.Errorf("%w: %s has %d MiB free, %d MiB are required",
			ErrInsufficientDiskSpace, b.dir, free>>20, need>>20)
	}
	return nil
}

// compacted reports whether cleanup.policy of the topic includes compact.
func (b *Broker) compacted(topic string) bool {
	info := b.cluster.TopicInfo(topic)
	if info == nil {
		return false
	}
	policy := info.Configs["cleanup.policy"]
	return policy != nil && strings.Contains(*policy, "compact")
}

// callCluster calls fn, which queries kfake. It returns errClosed if the broker is closed, since kfake then does not
// respond.
func callCluster[T any](b *Broker, fn func() T) (result T, err error) {
	done := make(chan T, 1)
	go func() { done <- fn() }()
	select {
	case result = <-done:
		return result, nil
	case <-b.gate.shutting:
		return result, errClosed
	}
}

// dirSize returns the size of the files in a directory, in bytes.
func dirSize(dir string) (size int64, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) { // replaced concurrently
			continue
		}
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

// freeDiskBytes returns the free space of the file system of dir, in bytes.
func freeDiskBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:gosec,unconvert // below 2^63; types differ by platform
}
