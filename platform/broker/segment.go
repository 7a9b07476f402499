package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/platform/internal/recordbatch"
)

// damagedDir holds the original segments whose damaged batches were replaced.
const damagedDir = "damaged"

// segment is a segment file of a partition.
type segment struct {
	path string
	base int64 // base offset
}

func (s segment) index() string { return strings.TrimSuffix(s.path, ".dat") + ".idx" }

// segments returns the segments of a partition, in order.
func segments(partition string) ([]segment, error) {
	files, err := os.ReadDir(partition)
	if err != nil {
		return nil, err
	}
	var out []segment
	for _, f := range files {
		text, ok := strings.CutSuffix(f.Name(), ".dat")
		if !ok {
			continue
		}
		if base, err := strconv.ParseInt(text, 10, 64); err == nil && base >= 0 {
			out = append(out, segment{path: filepath.Join(partition, f.Name()), base: base})
		}
	}
	slices.SortFunc(out, func(a, b segment) int { return int(a.base - b.base) })
	return out, nil
}

// damage is an unreadable range of a segment that has readable data after it.
type damage struct {
	at, end      int   // range in the file
	first, after int64 // first missing offset, and the first offset after the gap
	batches      int   // number of readable batches before it
}

// scan walks the batches of a segment. kfake reads up to the first invalid batch and discards the rest. scan returns
// the damaged ranges, the size of the file without an unreadable end (whole), the number of batches, and the offset
// after them. next is the base offset of the next segment, or -1: missing offsets before it count as damage. visit, if
// not nil, is called for each readable batch.
func scan(
	raw []byte, base, next int64, visit func(b *recordbatch.Batch),
) (damaged []damage, whole, batches int, end int64) {
	offset := base
	for whole < len(raw) {
		b, ok := parseBatch(raw[whole:])
		if !ok {
			d := damage{at: whole, first: offset, batches: batches}
			d.end, d.after = findNextBatch(raw, whole, offset)
			if d.end == len(raw) {
				if d.after = next; next <= offset { // nothing follows, or no offset is missing
					return damaged, whole, batches, offset
				}
			}
			damaged = append(damaged, d)
			whole, offset = d.end, d.after
			continue
		}
		if visit != nil {
			visit(&b)
		}
		whole += len(b.Raw)
		offset = nextOffset(&b)
		batches++
	}
	return damaged, whole, batches, offset
}

// findNextBatch finds the first readable batch after a damaged position. It returns len(raw), -1 if there is none.
func findNextBatch(raw []byte, at int, offset int64) (end int, first int64) {
	for end = at + 1; end < len(raw)-recordbatch.HeaderBytes+1; end++ {
		first = int64(binary.BigEndian.Uint64(raw[end:])) //nolint:gosec // sealBatch in the protocol
		// These checks are cheap; the checksum is not.
		if raw[end+16] != 2 || first < offset || first-offset > math.MaxInt32 {
			continue
		}
		if _, ok := parseBatch(raw[end:]); ok {
			return end, first
		}
	}
	return len(raw), -1
}

// nextOffset returns the offset after the last one of a batch.
func nextOffset(b *recordbatch.Batch) int64 { return b.BaseOffset + int64(b.LastOffsetDelta) + 1 }

func parseBatch(raw []byte) (recordbatch.Batch, bool) {
	b, _, err := recordbatch.Next(raw)
	return b, err == nil && b.LastOffsetDelta >= 0 && b.ChecksumOK()
}

// repaired is the result of repairPartition.
type repaired struct {
	cut  int64           // bytes of incomplete writes that were removed
	end  int64           // offset of the next message
	open map[int64]int16 // epochs by ID of producers whose transactions a kill left open
}

// repairPartition repairs the segments of a partition so that kfake discards nothing that is readable. It replaces
// unreadable ranges by empty batches, after a copy of the segment. It truncates an unreadable end of the last segment:
// that was an incomplete write, or the last one of a log that was not closed.
func repairPartition(dir, partition string, closed bool, logger *slog.Logger) (repaired, error) {
	all, err := segments(partition)
	if err != nil {
		return repaired{}, err
	}
	saved, err := readSnapshot(partition)
	if err != nil {
		return repaired{}, err
	}
	var out repaired
	next, last := int64(-1), true
	// Close has saved messages up to here.
	if saved.HighWatermark > 0 {
		next = saved.HighWatermark
	}
	transactions := newOpenTransactions()
	var empty []segment
	for _, s := range slices.Backward(all) {
		raw, err := os.ReadFile(s.path)
		if err != nil {
			return out, err
		}
		damaged, whole, batches, end := scan(raw, s.base, next, transactions.visit)
		transactions.endSegment()
		out.cut += int64(len(raw) - whole)
		// Each step can be interrupted: the next start finds the same damage, or none.
		switch {
		case whole == 0: // kfake would ignore it and append to the previous segment
			empty = append(empty, s)
			continue
		case len(damaged) > 0:
			raw, batches, err = replaceDamaged(dir, partition, s, raw[:whole], damaged, batches, logger)
			if err != nil {
				return out, err
			}
		case whole < len(raw):
			if err := os.Truncate(s.path, int64(whole)); err != nil {
				return out, err
			}
		}
		n, err := alignIndex(s.index(), raw, batches)
		if err != nil {
			return out, err
		}
		if last { // the next batch is appended to this segment
			out.cut += n
			out.end = end
			if err := dropSnapshot(partition, saved, end, closed); err != nil {
				return out, err
			}
		}
		next, last = s.base, false
	}
	// Without segments the partition would restart at offset 0.
	if len(all) > 0 && last && all[len(all)-1].base > 0 {
		out.end = all[len(all)-1].base
		if err := preserveEndOffset(partition, out.end); err != nil {
			return out, err
		}
	}
	for _, s := range empty {
		if err := errors.Join(removeIfExists(s.path), removeIfExists(s.index())); err != nil {
			return out, err
		}
	}
	if !closed { // otherwise kfake resumes them
		out.open = transactions.open
	}
	return out, nil
}

// replaceDamaged rewrites a segment without its damaged ranges. It returns the new content and its number of batches.
func replaceDamaged(
	dir, partition string, s segment, raw []byte, damaged []damage, batches int, logger *slog.Logger,
) ([]byte, int, error) {
	copies, name := filepath.Join(dir, damagedDir), filepath.Base(partition)
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, 0, err
	}
	original := filepath.Join(copies, fmt.Sprintf("%s-%d-%d.dat", name, s.base, info.ModTime().UnixNano()))
	if err := os.MkdirAll(copies, 0o700); err != nil {
		return nil, 0, err
	}
	// An earlier start may have linked it and failed later.
	if err := os.Link(s.path, original); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, 0, err
	}
	if err := errors.Join(syncDir(copies), syncDir(dir)); err != nil {
		return nil, 0, err
	}
	topic, number, _ := partitionOf(name)
	out, at, all := []byte(nil), 0, batches
	for _, d := range damaged {
		out = append(out, raw[at:d.at]...)
		at = d.end
		if d.after > d.first { // offsets are missing
			out = append(out, emptyBatch(d.first, min(d.after-1, d.first+math.MaxInt32))...)
			all++
		}
		logger.Error("kafka broker: damaged messages are replaced by an empty batch, the original segment is copied",
			slog.String("topic", topic), slog.Int("partition", int(number)),
			slog.Int64("first", d.first), slog.Int64("last", d.after-1), slog.String("copy", original))
	}
	out = append(out, raw[at:]...)
	if err := spliceIndex(s.index(), damaged[0].batches, batches-damaged[len(damaged)-1].batches, all); err != nil {
		return nil, 0, err
	}
	return out, all, errors.Join(writeAtomic(s.path, out), syncDir(partition))
}

// spliceIndex keeps the first front and the last back entries of an index and fills up to all entries with zeros. The
// number of entries of damaged batches is not known.
func spliceIndex(path string, front, back, all int) error {
	index, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	front, back, all = front*indexEntryBytes, back*indexEntryBytes, all*indexEntryBytes
	if err != nil || len(index) < front+back {
		return err
	}
	return writeAtomic(path, slices.Concat(index[:front], make([]byte, all-front-back), index[len(index)-back:]))
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
