package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
)

// openTransactions finds the producers whose last transaction in a partition has no end. It is shown the batches of
// each segment in order, and the segments from the last to the first.
type openTransactions struct {
	open    map[int64]int16 // the producer's epoch, by its ID
	decoder recordbatch.Decoder

	known   map[int64]bool  // producers that later segments tell of
	current map[int64]int16 // of the segment that is being read: the epoch, or ended
}

// ended is no epoch of a producer.
const ended = -1

func newOpenTransactions() *openTransactions {
	return &openTransactions{open: make(map[int64]int16), known: make(map[int64]bool), current: make(map[int64]int16)}
}

func (o *openTransactions) visit(b *recordbatch.Batch) {
	if b.InTransaction() {
		o.current[b.ProducerID] = b.ProducerEpoch
	} else if _, ok := o.decoder.EndOfTransaction(b); ok {
		o.current[b.ProducerID] = ended
	}
}

func (o *openTransactions) endSegment() {
	for id, epoch := range o.current {
		if !o.known[id] && epoch != ended {
			o.open[id] = epoch
		}
		o.known[id] = true
	}
	clear(o.current)
}

// abortOpen ends the transactions that a kill left open, by partition folder, with markers in the log. kfake takes them
// for aborted at its next start, and writes no marker: at a later start they would be part of the next transaction of
// their producer, and committed with it. Their producers are fenced, as kfake does: a transaction must not go on behind
// its abort.
func abortOpen(dir string, open map[string]repaired) error {
	if len(open) == 0 {
		return nil
	}
	producers := make(map[int64]int16)
	for _, r := range open {
		for id, epoch := range r.open {
			producers[id] = max(producers[id], epoch)
		}
	}
	if err := fence(filepath.Join(dir, "log", "pids.log"), producers); err != nil {
		return err
	}
	for folder, r := range open {
		if err := appendAborts(filepath.Join(partitionsDir(dir), folder), r); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// producerEntry is what kfake writes of a producer's epoch.
type producerEntry struct {
	Type  string `json:"type"`
	ID    int64  `json:"pid"`
	Epoch int16  `json:"epoch"`
}

// fence gives producers a later epoch than they know of.
func fence(path string, producers map[int64]int16) error {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	version := []byte{0, 0}
	for {
		entry, behind, ok := nextEntry(raw)
		if !ok {
			break
		}
		raw, version = behind, entry[:entryVersionBytes]
		var e producerEntry
		if json.Unmarshal(entry[entryVersionBytes:], &e) != nil {
			continue // kfake passes over it, too
		}
		if epoch, ok := producers[e.ID]; ok {
			producers[e.ID] = max(epoch, e.Epoch)
		}
	}
	var fenced []byte
	for _, id := range slices.Sorted(maps.Keys(producers)) {
		next := min(producers[id], math.MaxInt16-1) + 1
		text, err := json.Marshal(producerEntry{Type: "timeout", ID: id, Epoch: next})
		if err != nil {
			return err
		}
		fenced = appendEntry(fenced, slices.Concat(version, text))
	}
	return appendFile(path, fenced)
}

// appendAborts writes a marker for each open transaction behind the last batch of a partition.
func appendAborts(partition string, r repaired) error {
	all, err := segments(partition)
	if err != nil {
		return err
	}
	last := all[len(all)-1] // the transactions are in it, or before it
	var markers, index []byte
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		markers = append(markers, abortMarker(id, r.open[id], r.end)...)
		index = appendIndexEntry(index, false)
		r.end++
	}
	// The next start cuts off what is not whole, and begins again.
	return errors.Join(appendFile(last.path, markers), appendFile(last.index(), index))
}

// abortMarker is the control batch that aborts a producer's transaction.
func abortMarker(id int64, epoch int16, offset int64) []byte {
	key := kmsg.ControlRecordKey{Type: kmsg.ControlRecordKeyTypeAbort}
	var end kmsg.EndTxnMarker
	record := kmsg.Record{Key: key.AppendTo(nil), Value: end.AppendTo(nil)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) //nolint:gosec // a few bytes: the length takes one
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		FirstOffset: offset, PartitionLeaderEpoch: -1, Magic: 2, Attributes: 0x30, // control, of a transaction
		FirstTimestamp: now, MaxTimestamp: now, ProducerID: id, ProducerEpoch: epoch, FirstSequence: -1,
		NumRecords: 1, Records: record.AppendTo(nil),
	}
	return signed(batch.AppendTo(nil))
}

// signed sets the length and the checksum of a record batch.
func signed(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12)) //nolint:gosec // as long as a batch can be
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func appendFile(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}

// ErrOpenTransaction says that a topic cannot be compacted while messages of a transaction in it may be taken back.
var ErrOpenTransaction = errors.New("a transaction is open in a topic that is compacted")

// noneOpen returns ErrOpenTransaction if a compacted topic holds messages of an open transaction: kfake would compact
// away what they replace, and they may be aborted.
func (b *Broker) noneOpen() error {
	folders, err := os.ReadDir(partitionsDir(b.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for open transactions: %w", err)
	}
	for _, f := range folders {
		topic, partition, ok := partitionOf(f.Name())
		if !ok || !b.compacted(topic) {
			continue
		}
		if p := b.cluster.PartitionInfo(topic, partition); p != nil && p.LastStableOffset < p.HighWatermark {
			return fmt.Errorf("%w: %s, partition %d: it ends when its producer commits or aborts it, or its time is over",
				ErrOpenTransaction, topic, partition)
		}
	}
	return nil
}
