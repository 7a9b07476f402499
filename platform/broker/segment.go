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

// damagedDir holds segments as they were before a damaged batch in them was replaced.
const damagedDir = "damaged"

// segment is a file of a partition.
type segment struct {
	path string
	base int64 // the first offset in it
}

func (s segment) index() string { return strings.TrimSuffix(s.path, ".dat") + ".idx" }

// segments are the segments of a partition, in order.
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

// damage is what of a segment is no batch that can be read, before something that is.
type damage struct {
	at, end      int   // in the file
	first, after int64 // the offsets: those that are missing, and the one that is there again
	batches      int   // that stand before it
}

// scan walks the batches of a segment. kfake reads one up to the first that is not as
// it was written, and throws the rest away: whole is where that is with nothing behind
// it, up to the offset next, at which the next segment begins, or -1; end is the offset
// behind whole. visit, if not nil, is called for each batch that can be read.
func scan(raw []byte, base, next int64, visit func(b *recordbatch.Batch)) (damaged []damage, whole, batches int, end int64) {
	offset := base
	for whole < len(raw) {
		b, ok := batchAt(raw[whole:])
		if !ok {
			d := damage{at: whole, first: offset, batches: batches}
			d.end, d.after = resume(raw, whole, offset)
			if d.end == len(raw) {
				if d.after = next; next <= offset { // nothing is behind it, or nothing is missing
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
		offset = endOf(&b)
		batches++
	}
	return damaged, whole, batches, offset
}

// resume finds the first batch behind what is damaged.
func resume(raw []byte, at int, offset int64) (end int, first int64) {
	for end = at + 1; end < len(raw)-recordbatch.HeaderBytes+1; end++ {
		first = int64(binary.BigEndian.Uint64(raw[end:]))                       //nolint:gosec // the protocol's numbers are signed
		if raw[end+16] != 2 || first < offset || first-offset > math.MaxInt32 { // quick to see, as the checksum is not
			continue
		}
		if _, ok := batchAt(raw[end:]); ok {
			return end, first
		}
	}
	return len(raw), -1
}

// endOf is the offset after a batch's last.
func endOf(b *recordbatch.Batch) int64 { return b.BaseOffset + int64(b.LastOffsetDelta) + 1 }

func batchAt(raw []byte) (recordbatch.Batch, bool) {
	b, _, err := recordbatch.Next(raw)
	return b, err == nil && b.LastOffsetDelta >= 0 && b.ChecksumOK()
}

// repaired is what repairPartition has found and made of a partition.
type repaired struct {
	cut  int64           // bytes that were being written
	end  int64           // the offset that the next message gets
	open map[int64]int16 // the epochs of producers, by ID, whose transactions a kill left open
}

// repairPartition makes the segments of a partition such that kfake throws nothing away
// that can be read: an empty batch stands for what cannot, and a copy of the segment as
// it was is kept. The end of the last one goes, if nothing is behind it: it was being
// written, or was the last that was, of a log that Close did not leave.
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
	if saved.HighWatermark > 0 {
		next = saved.HighWatermark // Close has written up to here
	}
	transactions := newOpenTransactions()
	var empty []segment
	for _, s := range slices.Backward(all) {
		raw, err := os.ReadFile(s.path)
		if err != nil {
			return out, err
		}
		damaged, whole, batches, behind := scan(raw, s.base, next, transactions.visit)
		transactions.endSegment()
		out.cut += int64(len(raw) - whole)
		switch { // a start may end anywhere: the next one finds the same damage, or none
		case whole == 0: // kfake would forget it, and write to the one before
			empty = append(empty, s)
			continue
		case len(damaged) > 0:
			if raw, batches, err = replaceDamaged(dir, partition, s, raw[:whole], damaged, batches, logger); err != nil {
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
		if last { // the next batch is written to it
			out.cut += n
			out.end = behind
			if err := dropSnapshot(partition, saved, behind, closed); err != nil {
				return out, err
			}
		}
		next, last = s.base, false
	}
	if len(all) > 0 && last && all[len(all)-1].base > 0 { // it would begin at 0 again
		out.end = all[len(all)-1].base
		if err := keepEnd(partition, out.end); err != nil {
			return out, err
		}
	}
	for _, s := range empty {
		if err := errors.Join(removeAny(s.path), removeAny(s.index())); err != nil {
			return out, err
		}
	}
	if !closed { // else kfake goes on with them
		out.open = transactions.open
	}
	return out, nil
}

// replaceDamaged writes a segment anew, and returns it and how many batches it has then.
func replaceDamaged(
	dir, partition string, s segment, raw []byte, damaged []damage, batches int, logger *slog.Logger,
) ([]byte, int, error) {
	folder, name := filepath.Join(dir, damagedDir), filepath.Base(partition)
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, 0, err
	}
	kept := filepath.Join(folder, fmt.Sprintf("%s-%d-%d.dat", name, s.base, info.ModTime().UnixNano()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, 0, err
	}
	if err := os.Link(s.path, kept); err != nil && !errors.Is(err, fs.ErrExist) { // a start before may have failed behind it
		return nil, 0, err
	}
	if err := errors.Join(syncDir(folder), syncDir(dir)); err != nil {
		return nil, 0, err
	}
	topic, number, _ := partitionOf(name)
	out, at, all := []byte(nil), 0, batches
	for _, d := range damaged {
		out = append(out, raw[at:d.at]...)
		at = d.end
		if d.after > d.first { // messages are missing
			out = append(out, emptyBatch(d.first, min(d.after-1, d.first+math.MaxInt32))...)
			all++
		}
		logger.Error("kafka broker: messages on the disk are damaged; an empty batch stands in their place now, and the segment as it was is kept",
			slog.String("topic", topic), slog.Int("partition", int(number)), slog.Int64("first", d.first), slog.Int64("last", d.after-1), slog.String("copy", kept))
	}
	out = append(out, raw[at:]...)
	if err := spliceIndex(s.index(), damaged[0].batches, batches-damaged[len(damaged)-1].batches, all); err != nil {
		return nil, 0, err
	}
	return out, all, errors.Join(writeWhole(s.path, out), syncDir(partition))
}

// spliceIndex keeps the entries of the first and the last batches of a segment: it had
// one for each batch that is damaged, too, and it is not known how many those were.
func spliceIndex(path string, front, behind, all int) error {
	index, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	front, behind, all = front*indexEntryBytes, behind*indexEntryBytes, all*indexEntryBytes
	if err != nil || len(index) < front+behind {
		return err
	}
	return writeWhole(path, slices.Concat(index[:front], make([]byte, all-front-behind), index[len(index)-behind:]))
}

func removeAny(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
