package bus

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/segmentio/kafka-go"
)

// Range is a range of offsets of one partition. It may include offsets without a message: transaction markers and
// offsets removed by compaction.
type Range struct {
	Topic     string
	Partition int
	First     int64
	Last      int64 // inclusive
}

// Batch holds messages of the partitions assigned to this process. Messages of one partition are in offset order and
// continue the partition's previous batch.
type Batch struct {
	Messages []kafka.Message
	Ranges   []Range // by topic, then partition
}

// Token returns a deduplication token: equal for all attempts at the same batch, different for different messages. It
// includes the times and sizes of the messages, since a topic that is deleted and created again reuses its offsets. It
// is at most 320 bytes long.
func (b Batch) Token() string {
	fingerprint := xxhash.New()
	var buf [24]byte
	for i := range b.Messages {
		m := &b.Messages[i]
		binary.LittleEndian.PutUint64(buf[0:], uint64(m.Offset)) //nolint:gosec // bits
		binary.LittleEndian.PutUint64(buf[8:], uint64(m.Time.UnixNano()))
		binary.LittleEndian.PutUint64(buf[16:], uint64(len(m.Value)))
		_, _ = fingerprint.Write(buf[:]) // never fails
	}
	if len(b.Ranges) == 1 {
		r := b.Ranges[0]
		return fmt.Sprintf("%s:%d:%d-%d:%016x", r.Topic, r.Partition, r.First, r.Last, fingerprint.Sum64())
	}
	h := sha256.New()
	for _, r := range b.Ranges {
		fmt.Fprintf(h, "%s:%d:%d-%d;", r.Topic, r.Partition, r.First, r.Last)
	}
	return fmt.Sprintf("%d:%s:%016x", len(b.Ranges), hex.EncodeToString(h.Sum(nil)), fingerprint.Sum64())
}

// offsets returns the offsets to commit after the batch: the next ones to read.
func (b Batch) offsets() map[string]map[int]int64 {
	out := make(map[string]map[int]int64)
	for _, r := range b.Ranges {
		if out[r.Topic] == nil {
			out[r.Topic] = make(map[int]int64)
		}
		out[r.Topic][r.Partition] = r.Last + 1
	}
	return out
}

// assembler collects chunks into one batch within its limits. It is not safe for concurrent use.
type assembler struct {
	maxMessages int
	maxBytes    int

	messages []kafka.Message
	bytes    int
	ranges   map[topicPartition]*Range
	carry    []chunk // does not fit into this batch
}

func (a *assembler) full() bool {
	return len(a.messages) >= a.maxMessages || a.bytes >= a.maxBytes
}

func (a *assembler) empty() bool { return len(a.ranges) == 0 }

// add adds what fits of c to the batch and carries the rest over to the next one.
func (a *assembler) add(c chunk) {
	if len(a.carry) > 0 || a.full() {
		a.carry = append(a.carry, c)
		return
	}
	a.reserve(len(c.messages))
	n := 0
	for n < len(c.messages) && !a.full() {
		m := &c.messages[n]
		a.messages = append(a.messages, *m)
		a.bytes += int(messageSize(m))
		a.cover(c.tp, m.Offset, m.Offset)
		n++
	}
	if n < len(c.messages) {
		c.messages = c.messages[n:]
		a.carry = append(a.carry, c)
		return
	}
	if n == 0 || c.next > c.messages[n-1].Offset+1 { // the chunk ends with offsets without a message
		a.cover(c.tp, c.from, c.next-1)
	}
}

// reserve allocates room for n more messages, within the limit of the batch. It doubles the capacity: append grows
// large slices by a quarter, which produces four times the batch as garbage.
func (a *assembler) reserve(n int) {
	need := min(len(a.messages)+n, a.maxMessages)
	if need <= cap(a.messages) {
		return
	}
	grown := make([]kafka.Message, len(a.messages), min(max(need, 2*cap(a.messages), 64), a.maxMessages))
	copy(grown, a.messages)
	a.messages = grown
}

// cover extends the batch's range of a partition to last.
func (a *assembler) cover(tp topicPartition, first, last int64) {
	if r := a.ranges[tp]; r != nil {
		r.Last = last
		return
	}
	if a.ranges == nil {
		a.ranges = make(map[topicPartition]*Range)
	}
	a.ranges[tp] = &Range{Topic: tp.topic, Partition: tp.partition, First: first, Last: last}
}

// batch returns the current batch.
func (a *assembler) batch() Batch {
	b := Batch{Messages: a.messages, Ranges: make([]Range, 0, len(a.ranges))}
	for _, r := range a.ranges {
		b.Ranges = append(b.Ranges, *r)
	}
	slices.SortFunc(b.Ranges, func(x, y Range) int {
		return cmp.Or(strings.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return b
}

// next starts the next batch with the chunks carried over.
func (a *assembler) next() {
	a.messages, a.bytes, a.ranges = nil, 0, nil
	carry := a.carry
	a.carry = nil
	for _, c := range carry {
		a.add(c)
	}
}
