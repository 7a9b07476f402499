package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// preserveEndOffsets writes an empty record batch at the end of each partition without messages, as compaction does in
// Apache Kafka. Otherwise the next start would assign offsets from 0, and groups would skip new messages. end returns
// the end offset of a partition without messages, or 0 for others.
func preserveEndOffsets(dir string, end func(partition string) (int64, error)) error {
	partitions, err := os.ReadDir(partitionsDir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("preserve end offsets: %w", err)
	}
	for _, f := range partitions {
		if !f.IsDir() {
			continue
		}
		path := filepath.Join(partitionsDir(dir), f.Name())
		at, err := end(path)
		if err == nil && at > 0 {
			err = preserveEndOffset(path, at)
		}
		if err != nil {
			return fmt.Errorf("preserve the end offset of %s: %w", f.Name(), err)
		}
	}
	return nil
}

// preserveEndOffset replaces everything before the offset end by an empty batch. Messages may be appended after it
// concurrently. It does nothing if that batch is already all there is before end.
func preserveEndOffset(partition string, end int64) error {
	batch := emptyBatch(end-1, end-1)
	all, err := segments(partition)
	if err != nil {
		return err
	}
	if len(all) == 1 && all[0].base == end-1 {
		// A batch with records is larger.
		if info, err := os.Stat(all[0].path); err != nil || info.Size() == int64(len(batch)) {
			return err
		}
	}
	if err := writeAtomic(filepath.Join(partition, strconv.FormatInt(end-1, 10)+".dat"), batch); err != nil {
		return err
	}
	files, err := os.ReadDir(partition)
	if err != nil {
		return err
	}
	// Remove older empty batches.
	for _, f := range files {
		base, _, _ := strings.Cut(f.Name(), ".")
		if at, err := strconv.ParseInt(base, 10, 64); err != nil || at >= end-1 {
			continue
		}
		if err := os.Remove(filepath.Join(partition, f.Name())); err != nil {
			return err
		}
	}
	return syncDir(partition)
}

// writeAtomic replaces a file atomically. It never writes in place: the file may also be linked from the log backup.
func writeAtomic(path string, raw []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// currentEndOffset returns the end offset of a partition of the running broker, or 0 if it has messages.
func (b *Broker) currentEndOffset(dir string) (int64, error) {
	topic, partition, ok := partitionOf(filepath.Base(dir))
	if !ok {
		return 0, nil
	}
	p := b.cluster.PartitionInfo(topic, partition)
	if p == nil || p.LogStartOffset < p.HighWatermark { // the topic is deleted, or there are messages
		return 0, nil
	}
	return p.HighWatermark, nil
}

// savedEndOffset returns the end offset that Close saved for a partition, or 0 if it has segments.
func savedEndOffset(dir string) (int64, error) {
	if all, err := segments(dir); err != nil || len(all) > 0 {
		return 0, err
	}
	saved, err := readSnapshot(dir)
	return saved.HighWatermark, err
}

// partitionOf parses the directory name of a partition.
func partitionOf(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return "", 0, false
	}
	topic, err := url.PathUnescape(name[:i])
	n, err2 := strconv.ParseInt(name[i+1:], 10, 32)
	return topic, int32(n), err == nil && err2 == nil && n >= 0
}

// emptyBatch returns a record batch without records that covers the offsets first to last.
func emptyBatch(first, last int64) []byte {
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		FirstOffset: first, LastOffsetDelta: int32(last - first), //nolint:gosec // checked by the caller
		Magic: 2, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	return sealBatch(batch.AppendTo(nil))
}
