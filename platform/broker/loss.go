package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// LossError reports that messages are missing that were in the log when it was last closed. The log is unchanged.
type LossError struct {
	Topics []string // sorted
	Lost   []string // what is missing, one text for each partition
}

// Error names the topics and up to ten partitions.
func (e *LossError) Error() string {
	const maxListed = 10
	lost, more := e.Lost, ""
	if len(lost) > maxListed {
		lost, more = lost[:maxListed], fmt.Sprintf("; and of %d other partitions", len(e.Lost)-maxListed)
	}
	return fmt.Sprintf("the log has lost messages of %s since it was last closed (%s%s)",
		strings.Join(e.Topics, ", "), strings.Join(lost, "; "), more)
}

// loss is the data loss of a partition.
type loss struct {
	topic     string
	partition int32
	reason    string // empty: no loss
	// end is the end offset of the log, savedEnd the one that Close saved, or 0 if it is not known.
	end, savedEnd int64
}

func (l loss) dir(dataDir string) string {
	return filepath.Join(partitionsDir(dataDir), fmt.Sprintf("%s-%d", url.PathEscape(l.topic), l.partition))
}

// checkLoss compares the log with the state saved by Close. It returns a LossError for topics with missing messages,
// unless accept returns true for all of them: then the gaps are filled with empty batches and lost is true. A segment
// that is cut within its last record is not a loss; repairPartition reports it.
func checkLoss(dir string, closed bool, accept func(topic string) bool, logger *slog.Logger) (lost bool, err error) {
	found, err := findLoss(dir, closed)
	if err != nil {
		return false, fmt.Errorf("check the log: %w", err)
	}
	rejected, topics := &LossError{}, make(map[string]bool)
	for _, l := range found {
		if accept == nil || !accept(l.topic) {
			topics[l.topic] = true
			rejected.Lost = append(rejected.Lost, fmt.Sprintf("partition %d of %s: %s", l.partition, l.topic, l.reason))
		}
	}
	if len(topics) > 0 {
		rejected.Topics = slices.Sorted(maps.Keys(topics))
		return false, rejected
	}
	for _, l := range found {
		logger.Error("kafka broker: starting with lost messages, as configured",
			slog.String("topic", l.topic), slog.Int("partition", int(l.partition)), slog.String("lost", l.reason))
		if err := l.fill(dir); err != nil {
			return false, fmt.Errorf("fill the gap of lost messages of %s: %w", l.topic, err)
		}
	}
	return len(found) > 0, nil
}

// fill writes an empty batch in place of the messages missing at the end of the partition, so that their offsets are
// not reused.
func (l loss) fill(dataDir string) error {
	dir := l.dir(dataDir)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as kfake does; the parent is private
		return err
	}
	all, err := segments(dir)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.base < l.end || l.savedEnd <= l.end {
			continue
		}
		if err := errors.Join(removeIfExists(s.path), removeIfExists(s.index())); err != nil { // unreadable
			return err
		}
	}
	if l.savedEnd > l.end {
		batch := emptyBatch(max(l.end, l.savedEnd-math.MaxInt32), l.savedEnd-1)
		if err := writeAtomic(filepath.Join(dir, strconv.FormatInt(l.end, 10)+".dat"), batch); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// findLoss returns the partitions with missing messages, sorted by topic and partition.
func findLoss(dir string, closed bool) (found []loss, err error) {
	topics, err := readTopics(dir)
	if err != nil {
		return nil, err
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		for partition := range topics[topic] {
			l := loss{topic: topic, partition: partition}
			if err := l.inspect(l.dir(dir), closed); err != nil {
				return nil, fmt.Errorf("%s, partition %d: %w", topic, partition, err)
			}
			if l.reason != "" {
				found = append(found, l)
			}
		}
	}
	return found, nil
}

// inspect compares the partition in dir with its saved state and sets the fields of l.
func (l *loss) inspect(dir string, closed bool) error {
	all, err := segments(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if closed { // Close creates one for each partition
			l.reason = "its directory is missing"
		}
		return nil
	}
	if err != nil {
		return err
	}
	saved, err := readSnapshot(dir)
	if err != nil {
		return err
	}
	switch {
	case closed && saved.Version == 0:
		l.reason = snapshotFile + " is missing or cannot be read"
	case closed:
		for i, was := range saved.Segments {
			next := saved.HighWatermark
			if i+1 < len(saved.Segments) {
				next = saved.Segments[i+1].Base
			}
			if l.reason, err = was.findLoss(dir, next); err != nil || l.reason != "" {
				break
			}
		}
	case len(all) == 0 && len(saved.Segments) > 0: // a partition whose messages have all expired has a segment
		l.reason = "its segments are missing"
	case len(all) > 0 && all[len(all)-1].base < saved.HighWatermark: // written since: only the end is known
		last := savedSegment{Base: all[len(all)-1].base, Size: math.MaxInt64}
		l.reason, err = last.findLoss(dir, saved.HighWatermark)
	}
	if err != nil || l.reason == "" {
		return err
	}
	l.savedEnd = saved.HighWatermark
	l.end, err = readableEnd(all)
	return err
}

// findLoss describes what a segment lacks, or returns "". next is the first offset after it.
func (s savedSegment) findLoss(dir string, next int64) (string, error) {
	if s.Size == 0 {
		return "", nil
	}
	path := filepath.Join(dir, fmt.Sprintf("%d.dat", s.Base))
	name := filepath.Base(path)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return name + " is missing", nil
	}
	if err != nil {
		return "", err
	}
	if info.Size() == 0 {
		return name + " is empty", nil
	}
	if info.Size() >= s.Size {
		if ok, err := beginsWithBatch(path); ok || err != nil {
			return "", err
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	at, end, ok := lastReadable(raw, s.Base)
	switch tail := raw[at:]; {
	case end >= next, info.Size() >= s.Size && ok, len(tail) > 0 && s.isLast(tail, at, next):
		return "", nil // damage within the segment is reported and replaced by repairPartition
	case !ok:
		return name + " holds no readable message", nil
	default:
		return fmt.Sprintf("%s ends at offset %d, expected offset %d", name, end, next), nil
	}
}

// isLast reports whether the truncated batch in tail was the last one of the segment.
func (s savedSegment) isLast(tail []byte, at int, next int64) bool {
	if len(tail) < 12 {
		return true // too short to tell
	}
	size := int64(at) + 12 + int64(binary.BigEndian.Uint32(tail[8:]))
	if size == s.Size || len(tail) < 27 {
		return size == s.Size || s.Size == math.MaxInt64
	}
	first := int64(binary.BigEndian.Uint64(tail))             //nolint:gosec // sealBatch in the protocol
	delta := int64(int32(binary.BigEndian.Uint32(tail[23:]))) //nolint:gosec // sealBatch in the protocol
	return first+delta+1 == next
}

// beginsWithBatch reports whether the first batch of a segment is readable.
func beginsWithBatch(path string) (ok bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var head [12]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return false, nil // shorter than a batch
	}
	batch := make([]byte, 12+min(int64(binary.BigEndian.Uint32(head[8:])), maxProduceBytes))
	if _, err := f.ReadAt(batch, 0); err != nil {
		return false, nil // shorter than its header states
	}
	_, ok = parseBatch(batch)
	return ok, nil
}

// readableEnd returns the offset after the last readable batch.
func readableEnd(all []segment) (int64, error) {
	for _, s := range slices.Backward(all) {
		raw, err := os.ReadFile(s.path)
		if err != nil {
			return 0, err
		}
		if _, end, ok := lastReadable(raw, s.base); ok {
			return end, nil
		}
	}
	if len(all) > 0 {
		return all[0].base, nil
	}
	return 0, nil
}

// lastReadable finds the last readable batch of a segment: at is its end in the file, end the offset after it.
func lastReadable(raw []byte, base int64) (at int, end int64, ok bool) {
	end = base
	for pos := 0; pos < len(raw); {
		b, good := parseBatch(raw[pos:])
		if !good {
			pos, _ = findNextBatch(raw, pos, end)
			continue
		}
		pos += len(b.Raw)
		at, end, ok = pos, nextOffset(&b), true
	}
	return at, end, ok
}
