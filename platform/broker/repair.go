package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"muster/platform/internal/recordbatch"
)

// indexEntryBytes is the size of an entry of a segment's index, of which each
// batch of the segment has one.
const indexEntryBytes = 15

// prepareLog makes of what the last broker left what kfake reads as it is meant.
func prepareLog(dir string, acceptLoss func(topic string) bool, logger *slog.Logger) error {
	restored, err := restoreLog(dir)
	if err != nil {
		return err
	}
	if restored {
		logger.Warn("kafka broker: a compaction was cut off; the log is as it was before it")
	}
	closed, err := wasClosed(dir)
	if err != nil {
		return err
	}
	if err := lacksMetadata(dir, closed); err != nil {
		return err
	}
	unknown, err := dropUnknown(dir)
	if len(unknown) > 0 {
		logger.Warn("kafka broker: removed what was left of deleted topics", slog.Any("partitions", unknown))
	}
	if err != nil {
		return err
	}
	lost, err := refuseLoss(dir, closed, acceptLoss, logger)
	if err == nil && lost { // what Close has saved is not of this log any more
		if err = markOpen(dir); err == nil {
			closed, err = wasClosed(dir)
		}
	}
	if err != nil {
		return err
	}
	if err := keepEnds(dir, savedEnd); err != nil {
		return err
	}
	cut, err := repairLog(dir, closed, logger)
	if cut > 0 {
		logger.Warn("kafka broker: something was being written when the broker ended", slog.Int64("bytes", cut))
	}
	return err
}

// repairLog cuts off, before kfake reads them, what a failed write left at the
// ends of files. kfake passes over it, and then writes behind it what its next
// start would not find. What the disk has damaged it replaces. In a log that Close did not
// leave it aborts the transactions that are open, and takes back commits that are behind its end.
func repairLog(dir string, closed bool, logger *slog.Logger) (cut int64, err error) {
	ends, open := make(map[topicPartition]int64), make(map[string]repaired)
	topics, err := knownTopics(dir)
	if err != nil {
		return 0, err
	}
	for topic, n := range topics {
		for partition := range n {
			ends[topicPartition{topic, partition}] = 0 // unless it has messages
		}
	}
	log := filepath.Join(dir, "log")
	for _, name := range []string{"groups.log", "pids.log"} {
		n, err := cutEntries(filepath.Join(log, name))
		if err != nil {
			return cut, fmt.Errorf("repair %s: %w", name, err)
		}
		cut += n
	}
	partitions, err := os.ReadDir(partitionsDir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cut, fmt.Errorf("repair the log: %w", err)
	}
	for _, p := range partitions {
		if !p.IsDir() {
			continue
		}
		found, err := repairPartition(dir, filepath.Join(partitionsDir(dir), p.Name()), closed, logger)
		if err != nil {
			return cut, fmt.Errorf("repair %s: %w", p.Name(), err)
		}
		if topic, partition, ok := partitionOf(p.Name()); ok {
			ends[topicPartition{topic, partition}] = found.end
		}
		if len(found.open) > 0 {
			open[p.Name()] = found
		}
		cut += found.cut
	}
	if err := abortOpen(dir, open); err != nil {
		return cut, fmt.Errorf("abort the transactions that were open: %w", err)
	}
	if closed { // what it had committed it has written, too
		return cut, nil
	}
	return cut, clampCommits(dir, ends, logger)
}

// ErrIncomplete says that messages are there, and not what tells of their topics.
var ErrIncomplete = errors.New("the data folder is incomplete")

// lacksMetadata looks for what kfake would make anew without a word: messages of topics
// that it does not know would be written over. It is there before the first of them, and
// in every log that was closed.
func lacksMetadata(dir string, closed bool) error {
	for _, name := range []string{"meta.json", "topics.json"} {
		path := filepath.Join(dir, "log", name)
		info, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && info.Size() > 0 {
			continue
		}
		if closed {
			return fmt.Errorf("%w: %s is missing or empty: restore a backup", ErrIncomplete, path)
		}
		files, err := filepath.Glob(filepath.Join(partitionsDir(dir), "*", "*.dat"))
		if err != nil {
			return err
		}
		for _, f := range files {
			if info, err := os.Stat(f); err != nil || info.Size() > 0 {
				return errors.Join(err, fmt.Errorf("%w: %s is missing or empty, and %s is there: restore a backup", ErrIncomplete, path, f))
			}
		}
	}
	return nil
}

// dropUnknown removes the folders of partitions that topics.json does not name: of a
// topic that was deleted while a compaction kept its log, or whose files could not be
// removed. A topic of that name would write behind them, and not read what it wrote.
func dropUnknown(dir string) (dropped []string, err error) {
	partitions, err := knownTopics(dir)
	if err != nil || partitions == nil {
		return nil, err
	}
	folders, err := os.ReadDir(partitionsDir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	for _, f := range folders {
		topic, partition, ok := partitionOf(f.Name())
		if !ok || partition < partitions[topic] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(partitionsDir(dir), f.Name())); err != nil {
			return dropped, fmt.Errorf("remove what is left of a deleted topic: %w", err)
		}
		dropped = append(dropped, f.Name())
	}
	return dropped, nil
}

// knownTopics reads how many partitions each topic has; nil if no topic was ever made.
func knownTopics(dir string) (map[string]int32, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "log", "topics.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the topics: %w", err)
	}
	var known struct {
		Topics []struct {
			Name       string `json:"name"`
			Partitions int32  `json:"partitions"`
		} `json:"topics"`
	}
	if err := json.Unmarshal(raw, &known); err != nil {
		return nil, fmt.Errorf("%w: %s cannot be read: restore a backup: %w", ErrIncomplete, filepath.Join(dir, "log", "topics.json"), err)
	}
	partitions := make(map[string]int32)
	for _, t := range known.Topics {
		partitions[t.Name] = t.Partitions
	}
	return partitions, nil
}

// cutEntries cuts a file after its last whole entry.
func cutEntries(path string) (cut int64, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	rest := raw
	for ok := true; ok; {
		_, rest, ok = nextEntry(rest)
	}
	if len(rest) == 0 {
		return 0, nil
	}
	return int64(len(rest)), os.Truncate(path, int64(len(raw)-len(rest)))
}

// alignIndex makes an index have one entry for each batch of its segment, so that the
// entries of later batches are theirs. An entry that was not written says what the batch does.
func alignIndex(path string, raw []byte, batches int) (cut int64, err error) {
	index, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	info, err := index.Stat()
	if err != nil {
		return 0, err
	}
	want, whole := int64(batches)*indexEntryBytes, info.Size()-info.Size()%indexEntryBytes
	have := min(want, whole)
	if have < info.Size() {
		if err := index.Truncate(have); err != nil {
			return 0, err
		}
		cut = info.Size() - have
	}
	if have == want {
		return cut, nil
	}
	entries := make([]byte, 0, want)
	for range batches {
		b, rest, err := recordbatch.Next(raw)
		if err != nil {
			return cut, err
		}
		raw = rest
		entries = appendIndexEntry(entries, b.InTransaction())
	}
	_, err = index.WriteAt(entries[have:], have)
	return cut, err
}

// appendIndexEntry appends what kfake notes of a batch beside its segment. Zeros say that a batch is of no transaction.
func appendIndexEntry(index []byte, inTransaction bool) []byte {
	entry := make([]byte, indexEntryBytes)
	if inTransaction {
		entry[indexEntryBytes-1] = 1
		entry[1] = byte(entryChecksum(entry[2:]) & 0xff)
	}
	return append(index, entry...)
}
