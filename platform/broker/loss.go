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

// LossError says that messages which an orderly stop has saved are not in the log any more. The log is as it was found.
type LossError struct {
	Topics []string // in order
	Lost   []string // what is missing, by partition
}

// Error names the topics and the first of what is missing.
func (e *LossError) Error() string {
	const most = 10
	lost, more := e.Lost, ""
	if len(lost) > most {
		lost, more = lost[:most], fmt.Sprintf("; and of %d other partitions", len(e.Lost)-most)
	}
	return fmt.Sprintf("the log has lost messages of %s since its last orderly stop (%s%s)",
		strings.Join(e.Topics, ", "), strings.Join(lost, "; "), more)
}

// loss is what is missing of a partition.
type loss struct {
	topic     string
	partition int32
	what      string
	end, want int64 // where the log ends, and where it ended; want is 0 if that is not known
}

func (l loss) folder(dir string) string {
	return filepath.Join(partitionsDir(dir), fmt.Sprintf("%s-%d", url.PathEscape(l.topic), l.partition))
}

// refuseLoss compares the log with what Close has saved. It returns a LossError of the topics that lack messages,
// unless accept takes all of them: then the log goes on where it ended, and lost is true. A segment that was cut within
// its last record is no loss here: repairPartition reports it.
func refuseLoss(dir string, closed bool, accept func(topic string) bool, logger *slog.Logger) (lost bool, err error) {
	found, err := findLoss(dir, closed)
	if err != nil {
		return false, fmt.Errorf("check the log: %w", err)
	}
	refused, topics := &LossError{}, make(map[string]bool)
	for _, l := range found {
		if accept == nil || !accept(l.topic) {
			topics[l.topic] = true
			refused.Lost = append(refused.Lost, fmt.Sprintf("partition %d of %s: %s", l.partition, l.topic, l.what))
		}
	}
	if len(topics) > 0 {
		refused.Topics = slices.Sorted(maps.Keys(topics))
		return false, refused
	}
	for _, l := range found {
		logger.Error("kafka broker: the loss of messages is accepted",
			slog.String("topic", l.topic), slog.Int("partition", int(l.partition)), slog.String("lost", l.what))
		if err := l.fill(dir); err != nil {
			return false, fmt.Errorf("accept the loss of messages of %s: %w", l.topic, err)
		}
	}
	return len(found) > 0, nil
}

// fill writes an empty batch in the place of what is missing at the end of a partition: no offset is used twice.
func (l loss) fill(dir string) error {
	folder := l.folder(dir)
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // as kfake makes it, in a folder of the owner's
		return err
	}
	all, err := segments(folder)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.base < l.end || l.want <= l.end {
			continue
		}
		if err := errors.Join(removeAny(s.path), removeAny(s.index())); err != nil { // nothing in it can be read
			return err
		}
	}
	if l.want > l.end {
		batch := emptyBatch(max(l.end, l.want-math.MaxInt32), l.want-1)
		if err := writeWhole(filepath.Join(folder, strconv.FormatInt(l.end, 10)+".dat"), batch); err != nil {
			return err
		}
	}
	return syncDir(folder)
}

// findLoss finds the partitions that lack messages, in order.
func findLoss(dir string, closed bool) (found []loss, err error) {
	topics, err := knownTopics(dir)
	if err != nil {
		return nil, err
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		for partition := range topics[topic] {
			l := loss{topic: topic, partition: partition}
			if err := l.look(l.folder(dir), closed); err != nil {
				return nil, fmt.Errorf("%s, partition %d: %w", topic, partition, err)
			}
			if l.what != "" {
				found = append(found, l)
			}
		}
	}
	return found, nil
}

// look sets what is missing of a partition.
func (l *loss) look(folder string, closed bool) error {
	all, err := segments(folder)
	if errors.Is(err, fs.ErrNotExist) {
		if closed { // Close makes one for each partition
			l.what = "its folder is missing"
		}
		return nil
	}
	if err != nil {
		return err
	}
	saved, err := readSnapshot(folder)
	if err != nil {
		return err
	}
	switch {
	case closed && saved.Version == 0:
		l.what = snapshotFile + " is missing or cannot be read"
	case closed:
		for i, was := range saved.Segments {
			next := saved.HighWatermark
			if i+1 < len(saved.Segments) {
				next = saved.Segments[i+1].Base
			}
			if l.what, err = was.loss(folder, next); err != nil || l.what != "" {
				break
			}
		}
	case len(all) == 0 && len(saved.Segments) > 0: // where all has expired there is one
		l.what = "its segments are missing"
	case len(all) > 0 && all[len(all)-1].base < saved.HighWatermark: // it was written to since: only the end tells
		last := savedSegment{Base: all[len(all)-1].base, Size: math.MaxInt64}
		l.what, err = last.loss(folder, saved.HighWatermark)
	}
	if err != nil || l.what == "" {
		return err
	}
	l.want = saved.HighWatermark
	l.end, err = readableEnd(all)
	return err
}

// loss tells what a segment lacks; next is the first offset behind it.
func (s savedSegment) loss(folder string, next int64) (string, error) {
	if s.Size == 0 {
		return "", nil
	}
	path := filepath.Join(folder, fmt.Sprintf("%d.dat", s.Base))
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
	switch torn := raw[at:]; {
	case end >= next, info.Size() >= s.Size && ok, len(torn) > 0 && s.isLast(torn, at, next):
		return "", nil // what is damaged within it is reported and replaced
	case !ok:
		return name + " holds no message that can be read", nil
	default:
		return fmt.Sprintf("%s ends at offset %d, and ended at offset %d", name, end, next), nil
	}
}

// isLast reports whether the batch that begins with torn was the last one of the segment.
func (s savedSegment) isLast(torn []byte, at int, next int64) bool {
	if len(torn) < 12 {
		return true // it says nothing else
	}
	size := int64(at) + 12 + int64(binary.BigEndian.Uint32(torn[8:]))
	if size == s.Size || len(torn) < 27 {
		return size == s.Size || s.Size == math.MaxInt64
	}
	first := int64(binary.BigEndian.Uint64(torn))             //nolint:gosec // the protocol's numbers are signed
	delta := int64(int32(binary.BigEndian.Uint32(torn[23:]))) //nolint:gosec // the protocol's numbers are signed
	return first+delta+1 == next
}

// beginsWithBatch reports whether the first batch of a segment can be read.
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
		return false, nil // shorter than the batch says
	}
	_, ok = batchAt(batch)
	return ok, nil
}

// readableEnd is the offset behind the last batch that can be read.
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

// lastReadable finds the last batch of a segment that can be read: where it ends in the file, and the offset behind it.
func lastReadable(raw []byte, base int64) (at int, end int64, ok bool) {
	end = base
	for pos := 0; pos < len(raw); {
		b, good := batchAt(raw[pos:])
		if !good {
			pos, _ = resume(raw, pos, end)
			continue
		}
		pos += len(b.Raw)
		at, end, ok = pos, endOf(&b), true
	}
	return at, end, ok
}
