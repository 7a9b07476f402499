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

// keepEnds gives each partition that has no messages any more a record batch without
// records at its end, as compaction leaves them in Apache Kafka. A start would
// otherwise count its offsets from 0 again: groups that had read it would pass over
// what is written next. end tells where a partition without messages has ended, and 0
// of any other.
func keepEnds(dir string, end func(folder string) (int64, error)) error {
	folders, err := os.ReadDir(partitionsDir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the ends of partitions: %w", err)
	}
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		path := filepath.Join(partitionsDir(dir), f.Name())
		at, err := end(path)
		if err == nil && at > 0 {
			err = keepEnd(path, at)
		}
		if err != nil {
			return fmt.Errorf("keep the end of %s: %w", f.Name(), err)
		}
	}
	return nil
}

// keepEnd makes an end all that a partition has before it; messages may be written
// behind it meanwhile. An end that is there already, and alone, stays as it is.
func keepEnd(partition string, end int64) error {
	batch := emptyBatch(end-1, end-1)
	all, err := segments(partition)
	if err != nil {
		return err
	}
	if len(all) == 1 && all[0].base == end-1 {
		if info, err := os.Stat(all[0].path); err != nil || info.Size() == int64(len(batch)) { // one with records is larger
			return err
		}
	}
	if err := writeWhole(filepath.Join(partition, strconv.FormatInt(end-1, 10)+".dat"), batch); err != nil {
		return err
	}
	files, err := os.ReadDir(partition)
	if err != nil {
		return err
	}
	for _, f := range files { // ends of before
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

// writeWhole writes a file anew, or not at all: what has the name may be the file that a
// compaction keeps, under its second name, and whoever ends while it is written leaves half.
func writeWhole(path string, raw []byte) error {
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

// runningEnd is the end of a partition that the broker serves.
func (b *Broker) runningEnd(folder string) (int64, error) {
	topic, partition, ok := partitionOf(filepath.Base(folder))
	if !ok {
		return 0, nil
	}
	p := b.cluster.PartitionInfo(topic, partition)
	if p == nil || p.LogStartOffset < p.HighWatermark { // the topic is gone, or there are messages
		return 0, nil
	}
	return p.HighWatermark, nil
}

// savedEnd is the end of a partition as Close left it.
func savedEnd(folder string) (int64, error) {
	if all, err := segments(folder); err != nil || len(all) > 0 {
		return 0, err
	}
	saved, err := readSnapshot(folder)
	return saved.HighWatermark, err
}

// partitionOf reads the name of a partition's folder.
func partitionOf(folder string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(folder, '-')
	if i < 0 {
		return "", 0, false
	}
	topic, err := url.PathUnescape(folder[:i])
	n, err2 := strconv.ParseInt(folder[i+1:], 10, 32)
	return topic, int32(n), err == nil && err2 == nil && n >= 0
}

// emptyBatch is a record batch of the offsets first to last, without records.
func emptyBatch(first, last int64) []byte {
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		FirstOffset: first, LastOffsetDelta: int32(last - first), //nolint:gosec // looked at before
		Magic: 2, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	return signed(batch.AppendTo(nil))
}
