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

// indexEntryBytes is the size of an entry of a segment's index, which has one entry for each batch.
const indexEntryBytes = 15

// prepareLog repairs the log before kfake reads it.
func prepareLog(dir string, acceptLoss func(topic string) bool, logger *slog.Logger) error {
	restored, err := restoreBackup(dir)
	if err != nil {
		return err
	}
	if restored {
		logger.Warn("kafka broker: compaction was interrupted, the log before it is restored")
	}
	closed, err := wasClosed(dir)
	if err != nil {
		return err
	}
	if err := checkMetadata(dir, closed); err != nil {
		return err
	}
	removed, err := removeUnknownPartitions(dir)
	if len(removed) > 0 {
		logger.Warn("kafka broker: removed partitions of deleted topics", slog.Any("partitions", removed))
	}
	if err != nil {
		return err
	}
	lost, err := checkLoss(dir, closed, acceptLoss, logger)
	if err == nil && lost { // the state saved by Close does not match this log
		if err = markOpen(dir); err == nil {
			closed, err = wasClosed(dir)
		}
	}
	if err != nil {
		return err
	}
	if err := preserveEndOffsets(dir, savedEndOffset); err != nil {
		return err
	}
	cut, err := repairLog(dir, closed, logger)
	if cut > 0 {
		logger.Warn("kafka broker: removed incomplete writes of the last run", slog.Int64("bytes", cut))
	}
	return err
}

// repairLog truncates incomplete writes at the ends of files. kfake would skip them but append after them, and its next
// start would not find what it appended. It replaces batches that the disk has damaged. If the log was not closed, it
// aborts open transactions and resets commits that are past the end of the log.
func repairLog(dir string, closed bool, logger *slog.Logger) (cut int64, err error) {
	ends, open := make(map[topicPartition]int64), make(map[string]repaired)
	topics, err := readTopics(dir)
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
		return cut, fmt.Errorf("abort open transactions: %w", err)
	}
	if closed { // Close synced commits and log together
		return cut, nil
	}
	return cut, clampCommits(dir, ends, logger)
}

// ErrIncomplete means that the data directory has messages but lacks the metadata of their topics.
var ErrIncomplete = errors.New("the data directory is incomplete")

// checkMetadata returns ErrIncomplete if a metadata file is missing although there are messages, or the log was closed.
// kfake would silently create a new file, and overwrite messages of topics that are not in it.
func checkMetadata(dir string, closed bool) error {
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
				return errors.Join(err,
					fmt.Errorf("%w: %s is missing or empty, but %s exists: restore a backup", ErrIncomplete, path, f))
			}
		}
	}
	return nil
}

// removeUnknownPartitions removes the directories of partitions that are not in topics.json. They remain if a topic was
// deleted while a compaction held a backup, or if its files could not be removed. A new topic of the same name would
// append to them, and not read what it appended.
func removeUnknownPartitions(dir string) (removed []string, err error) {
	partitions, err := readTopics(dir)
	if err != nil || partitions == nil {
		return nil, err
	}
	entries, err := os.ReadDir(partitionsDir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	for _, f := range entries {
		topic, partition, ok := partitionOf(f.Name())
		if !ok || partition < partitions[topic] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(partitionsDir(dir), f.Name())); err != nil {
			return removed, fmt.Errorf("remove a partition of a deleted topic: %w", err)
		}
		removed = append(removed, f.Name())
	}
	return removed, nil
}

// readTopics returns the number of partitions of each topic, or nil if no topic was ever created.
func readTopics(dir string) (map[string]int32, error) {
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
		return nil, fmt.Errorf("%w: %s cannot be read: restore a backup: %w",
			ErrIncomplete, filepath.Join(dir, "log", "topics.json"), err)
	}
	partitions := make(map[string]int32)
	for _, t := range known.Topics {
		partitions[t.Name] = t.Partitions
	}
	return partitions, nil
}

// cutEntries truncates a state file after its last complete entry.
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

// alignIndex gives the index one entry for each batch of its segment, so that appended entries match their batches.
// Missing entries are derived from the batches.
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

// appendIndexEntry appends kfake's index entry of a batch. Zeros mean that the batch is not part of a transaction.
func appendIndexEntry(index []byte, inTransaction bool) []byte {
	entry := make([]byte, indexEntryBytes)
	if inTransaction {
		entry[indexEntryBytes-1] = 1
		entry[1] = byte(entryChecksum(entry[2:]) & 0xff)
	}
	return append(index, entry...)
}
