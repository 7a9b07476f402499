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

// ErrNoRoom says that the disk has no room to compact the log.
var ErrNoRoom = errors.New("the disk has too little room to compact the log")

// spareBytes must be left over, for what others write meanwhile.
const spareBytes = 64 << 20

// room says whether the log can be compacted: what a compacted topic was stays on
// disk until all of what it becomes is written, and a batch that loses some of its
// records loses its compression.
func (b *Broker) room() error {
	need := int64(spareBytes)
	folders, err := os.ReadDir(partitionsDir(b.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("measure the log: %w", err)
	}
	for _, f := range folders {
		topic, _, ok := partitionOf(f.Name())
		if !ok || !b.compacted(topic) {
			continue
		}
		size, err := folderBytes(filepath.Join(partitionsDir(b.dir), f.Name()))
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
		return fmt.Errorf("%w: %s has %d MB free, of %d MB", ErrNoRoom, b.dir, free>>20, need>>20)
	}
	return nil
}

// compacted reports whether a topic's cleanup.policy has it compacted.
func (b *Broker) compacted(topic string) bool {
	info := b.cluster.TopicInfo(topic)
	if info == nil {
		return false
	}
	policy := info.Configs["cleanup.policy"]
	return policy != nil && strings.Contains(*policy, "compact")
}

// ask asks kfake, of a broker that may be ending: kfake then answers nothing.
func ask[T any](b *Broker, question func() T) (answer T, err error) {
	answered := make(chan T, 1)
	go func() { answered <- question() }()
	select {
	case answer = <-answered:
		return answer, nil
	case <-b.gate.shutting:
		return answer, errClosed
	}
}

// folderBytes is the size of a folder's files.
func folderBytes(dir string) (size int64, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) { // being replaced
			continue
		}
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

// freeBytes is how much can still be written to the disk of a folder.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:gosec,unconvert // no disk has 2^63 bytes; the types are others elsewhere
}
