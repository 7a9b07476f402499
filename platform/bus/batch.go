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

// Range is a run of offsets of one partition that a batch covers. Not all hold a
// message: compaction removes some, and markers of transactions are none.
type Range struct {
	Topic     string
	Partition int
	First     int64
	Last      int64 // inclusive
}

// Batch is a number of messages of any of the partitions of one process. Those of
// one partition are in offset order and follow the partition's previous batch.
type Batch struct {
	Messages []kafka.Message
	Ranges   []Range // by topic, then partition
}

// Token names the batch: equal for every attempt at it, different for different
// messages. Offsets alone do not tell: a topic that was made anew has the same
// again, and a server that remembers tokens would drop what it never saw. So the
// messages' times and sizes go into it. It is at most 320 bytes long.
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

// offsets is what to commit once the batch is done: the next offset to read.
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

// assembler gathers chunks into one batch within its limits. Not safe for
// concurrent use.
type assembler struct {
	maxMessages int
	maxBytes    int

	messages []kafka.Message
	bytes    int
	ranges   map[topicPartition]*Range
	carry    []chunk // what did not fit any more
}

func (a *assembler) full() bool {
	return len(a.messages) >= a.maxMessages || a.bytes >= a.maxBytes
}

func (a *assembler) empty() bool { return len(a.ranges) == 0 }

// add takes what fits of c and keeps the rest for the next batch.
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
	if n == 0 || c.next > c.messages[n-1].Offset+1 { // the rest holds no message
		a.cover(c.tp, c.from, c.next-1)
	}
}

// reserve makes room for n more messages, or as many as the batch takes. It doubles the room of large batches: append
// grows them by a quarter, and leaves four times a batch to the garbage collector.
func (a *assembler) reserve(n int) {
	need := min(len(a.messages)+n, a.maxMessages)
	if need <= cap(a.messages) {
		return
	}
	grown := make([]kafka.Message, len(a.messages), min(max(need, 2*cap(a.messages), 64), a.maxMessages))
	copy(grown, a.messages)
	a.messages = grown
}

// cover has the batch's range of a partition reach up to an offset.
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

// batch is what was gathered so far.
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

// next forgets the batch and starts the following one with what was carried over.
func (a *assembler) next() {
	a.messages, a.bytes, a.ranges = nil, 0, nil
	carry := a.carry
	a.carry = nil
	for _, c := range carry {
		a.add(c)
	}
}
