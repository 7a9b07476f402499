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

// openTransactions finds the producers whose last transaction in a partition is open. The batches of a segment are
// visited in order, the segments from the last to the first.
type openTransactions struct {
	open    map[int64]int16 // epochs by producer ID
	decoder recordbatch.Decoder

	seen    map[int64]bool  // producers found in later segments
	current map[int64]int16 // of the current segment: the epoch, or noEpoch if the transaction ended
}

// noEpoch is not a valid producer epoch.
const noEpoch = -1

func newOpenTransactions() *openTransactions {
	return &openTransactions{open: make(map[int64]int16), seen: make(map[int64]bool), current: make(map[int64]int16)}
}

func (o *openTransactions) visit(b *recordbatch.Batch) {
	if b.InTransaction() {
		o.current[b.ProducerID] = b.ProducerEpoch
	} else if _, ok := o.decoder.EndOfTransaction(b); ok {
		o.current[b.ProducerID] = noEpoch
	}
}

func (o *openTransactions) endSegment() {
	for id, epoch := range o.current {
		if !o.seen[id] && epoch != noEpoch {
			o.open[id] = epoch
		}
		o.seen[id] = true
	}
	clear(o.current)
}

// abortOpen writes abort markers for the transactions that a kill left open. The keys of open are partition
// directories. kfake treats them as aborted at its next start, but writes no markers: at a later start they would
// become part of the producer's next transaction and be committed with it. Their producers are fenced, as kfake does.
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
	for name, r := range open {
		if err := appendAborts(filepath.Join(partitionsDir(dir), name), r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// producerEntry is the entry of a producer's epoch in pids.log.
type producerEntry struct {
	Type  string `json:"type"`
	ID    int64  `json:"pid"`
	Epoch int16  `json:"epoch"`
}

// fence raises the epochs of the producers above all that they have used.
func fence(path string, producers map[int64]int16) error {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	version := []byte{0, 0}
	for {
		entry, rest, ok := nextEntry(raw)
		if !ok {
			break
		}
		raw, version = rest, entry[:entryVersionBytes]
		var e producerEntry
		if json.Unmarshal(entry[entryVersionBytes:], &e) != nil {
			continue // kfake skips it as well
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

// appendAborts appends an abort marker for each open transaction to the last segment of a partition.
func appendAborts(partition string, r repaired) error {
	all, err := segments(partition)
	if err != nil {
		return err
	}
	last := all[len(all)-1]
	var markers, index []byte
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		markers = append(markers, abortMarker(id, r.open[id], r.end)...)
		index = appendIndexEntry(index, false)
		r.end++
	}
	// An incomplete write is truncated by the next start, which repeats this.
	return errors.Join(appendFile(last.path, markers), appendFile(last.index(), index))
}

// abortMarker returns a control batch that aborts a producer's transaction.
func abortMarker(id int64, epoch int16, offset int64) []byte {
	key := kmsg.ControlRecordKey{Type: kmsg.ControlRecordKeyTypeAbort}
	var end kmsg.EndTxnMarker
	record := kmsg.Record{Key: key.AppendTo(nil), Value: end.AppendTo(nil)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) //nolint:gosec // a few bytes; the length field is one byte
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		FirstOffset: offset, PartitionLeaderEpoch: -1, Magic: 2, Attributes: 0x30, // control, transactional
		FirstTimestamp: now, MaxTimestamp: now, ProducerID: id, ProducerEpoch: epoch, FirstSequence: -1,
		NumRecords: 1, Records: record.AppendTo(nil),
	}
	return sealBatch(batch.AppendTo(nil))
}

// sealBatch sets the length and the checksum of a record batch.
func sealBatch(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12)) //nolint:gosec // batches are below 2 GiB
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

// ErrOpenTransaction means that a topic cannot be compacted while it has messages of an open transaction.
var ErrOpenTransaction = errors.New("a compacted topic has an open transaction")

// checkNoOpenTransactions returns ErrOpenTransaction if a compacted topic has messages of an open transaction. kfake
// would remove the messages that they replace, although they may still be aborted.
func (b *Broker) checkNoOpenTransactions() error {
	partitions, err := os.ReadDir(partitionsDir(b.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find open transactions: %w", err)
	}
	for _, f := range partitions {
		topic, partition, ok := partitionOf(f.Name())
		if !ok || !b.compacted(topic) {
			continue
		}
		if p := b.cluster.PartitionInfo(topic, partition); p != nil && p.LastStableOffset < p.HighWatermark {
			return fmt.Errorf("%w: %s, partition %d: wait until its producer commits or aborts it, or it times out",
				ErrOpenTransaction, topic, partition)
		}
	}
	return nil
}
