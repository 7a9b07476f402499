package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
)

// maxProduced is how many topics and partitions one Produce may name.
const maxProduced = 10_000

// maxRecords is how many records one batch may hold: each takes much more memory than
// its seven bytes where batches are read as a whole.
const maxRecords = 1 << 20

// vetter looks into record batches before kfake stores them: kfake looks at their
// headers only, and a reader of the log may not survive what it lets through.
type vetter struct {
	decoders  sync.Pool     // of *recordbatch.Decoder
	inflating chan struct{} // each takes memory
	compacted func(topic string) (bool, error)
	partition func(tp topicPartition) (*kfake.PartitionInfo, error)

	mu     sync.Mutex
	newest map[topicPartition]int64 // Unix milliseconds
}

func newVetter() *vetter {
	return &vetter{
		compacted: func(string) (bool, error) { return false, nil },
		partition: func(topicPartition) (*kfake.PartitionInfo, error) { return nil, nil },
		newest:    make(map[topicPartition]int64),
		decoders:  sync.Pool{New: func() any { return new(recordbatch.Decoder) }},
		inflating: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
	}
}

// refusals are the partitions of a Produce of which kfake must store nothing.
type refusals struct {
	request
	byPartition map[topicPartition]*kerr.Error
}

type topicPartition struct {
	topic     string
	partition int32
}

// produce vets the batches of a Produce. Those that are refused are changed, in
// place, into what kfake answers with INVALID_RECORD.
func (v *vetter) produce(r request, raw []byte, logger *slog.Logger) (*refusals, error) {
	refused := &refusals{request: r, byPartition: make(map[topicPartition]*kerr.Error)}
	var closed error
	acks, err := eachProduced(r, raw, func(tp topicPartition, records []byte) {
		err := v.vet(tp, records)
		if errors.Is(err, errClosed) { // it is not said, nor stored
			closed = err
			return
		}
		if err == nil {
			return
		}
		answer := *kerr.InvalidRecord
		if errors.Is(err, recordbatch.ErrTooLarge) { // producers that can make smaller batches then do
			answer = *kerr.MessageTooLarge
		}
		answer.Description = err.Error()
		refused.byPartition[tp] = &answer
		logger.Warn("kafka broker: record batch refused", slog.String("topic", tp.topic), slog.Int("partition", int(tp.partition)), slog.Any("error", err))
	})
	if err := errors.Join(err, closed); err != nil {
		return nil, err
	}
	if acks == 0 || len(refused.byPartition) == 0 { // nobody is answered
		return nil, nil
	}
	return refused, nil
}

// vet says what is wrong with a batch that kfake would store, which it then will not.
func (v *vetter) vet(tp topicPartition, records []byte) error {
	b, rest, err := recordbatch.Next(records)
	if err != nil || len(rest) > 0 { // kfake looks at headers itself
		return nil
	}
	if b.Compressed() {
		v.inflating <- struct{}{}
		defer func() { <-v.inflating }()
	}
	d := v.decoders.Get().(*recordbatch.Decoder)
	defer v.decoders.Put(d)
	keyless, err := dense(d, &b)
	if err == nil && keyless {
		var compacted bool
		if compacted, err = v.compacted(tp.topic); compacted {
			err = errKeyless
		}
	}
	if !b.ChecksumOK() {
		return nil
	}
	if err != nil {
		b.MakeControl()
		return err
	}
	return v.order(tp, &b)
}

// order has a batch expire no sooner than those before it. kfake's retention removes all
// that is before a batch that has expired, however new it is.
func (v *vetter) order(tp topicPartition, b *recordbatch.Batch) error {
	v.mu.Lock()
	newest, known := v.newest[tp]
	v.mu.Unlock()
	now := time.Now().UnixMilli()
	if !known {
		p, err := v.partition(tp)
		if err != nil || p == nil {
			return err
		}
		newest = min(p.MaxTimestamp, now)
	}
	if b.MaxTimestamp < newest {
		b.SetMaxTimestamp(newest)
	}
	newest = max(newest, min(b.MaxTimestamp, now)) // a time to come keeps nothing else
	v.mu.Lock()
	v.newest[tp] = max(v.newest[tp], newest)
	v.mu.Unlock()
	return nil
}

// errKeyless refuses what a compaction would remove.
var errKeyless = errors.New("a record without a key, in a topic that is compacted")

// dense checks that a batch holds a record for each of its offsets, as it does
// before compaction, and says whether one has no key.
func dense(d *recordbatch.Decoder, b *recordbatch.Batch) (keyless bool, err error) {
	if b.Count < 1 || b.LastOffsetDelta != b.Count-1 {
		return false, fmt.Errorf("a record batch with %d records, the last at offset %d", b.Count, b.LastOffsetDelta)
	}
	// As many different offsets as there are, in order: none is left out.
	err = d.Records(b, func(r recordbatch.Record) error {
		keyless = keyless || r.Key == nil
		return nil
	})
	if err == nil && b.Count > maxRecords {
		err = fmt.Errorf("%w: %d records", recordbatch.ErrTooLarge, b.Count)
	}
	return keyless, err
}

// eachProduced calls fn with the records of each partition of a Produce, which are
// part of raw. It allocates nothing for what a request merely says it holds.
func eachProduced(r request, raw []byte, fn func(tp topicPartition, records []byte)) (acks int16, err error) {
	reader, kind := r.body(raw)
	flexible := kind.IsFlexible()
	if flexible {
		reader.CompactNullableString() // the transaction's id
	} else {
		reader.NullableString()
	}
	acks = reader.Int16()
	reader.Int32() // how long the client waits
	named := 0
	topics := arrayLen(&reader, flexible)
	for range topics {
		named++
		var tp topicPartition
		if flexible {
			tp.topic = reader.CompactString()
		} else {
			tp.topic = reader.String()
		}
		partitions := arrayLen(&reader, flexible)
		for range partitions {
			named++
			tp.partition = reader.Int32()
			var records []byte
			if flexible {
				records = reader.CompactNullableBytes()
				skipTags(&reader)
			} else {
				records = reader.NullableBytes()
			}
			if !reader.Ok() {
				break
			}
			fn(tp, records)
		}
		if flexible {
			skipTags(&reader)
		}
		if !reader.Ok() || named > maxProduced {
			break
		}
	}
	if flexible {
		skipTags(&reader)
	}
	switch {
	case named > maxProduced:
		return acks, fmt.Errorf("a Produce of more than %d topics and partitions", maxProduced)
	case !reader.Ok():
		return acks, errors.New("a Produce that is cut off")
	}
	return acks, nil
}

// arrayLen reads how many elements an array has, no more than a Produce may have.
func arrayLen(r *kbin.Reader, flexible bool) int32 {
	var n int32
	if flexible {
		n = r.CompactArrayLen()
	} else {
		n = r.ArrayLen()
	}
	if n > maxProduced {
		r.Span(-1) // spoils the reader
		return 0
	}
	return n
}

// rewrite puts what was found into kfake's answer.
func (f *refusals) rewrite(answer []byte) ([]byte, error) {
	var res kmsg.ProduceResponse
	res.SetVersion(f.version)
	at := 8 // after the size and the id
	if res.IsFlexible() {
		at++ // no tagged fields
	}
	if len(answer) < at {
		return nil, fmt.Errorf("an answer of %d bytes", len(answer))
	}
	if err := res.ReadFrom(answer[at:]); err != nil {
		return nil, fmt.Errorf("kfake's answer: %w", err)
	}
	for i := range res.Topics {
		t := &res.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			found, ok := f.byPartition[topicPartition{t.Topic, p.Partition}]
			if !ok || p.ErrorCode != kerr.InvalidRecord.Code { // it had another reason to refuse it
				continue
			}
			p.ErrorCode = found.Code
			p.ErrorMessage = &found.Description
		}
	}
	out := res.AppendTo(answer[:at:at])
	binary.BigEndian.PutUint32(out, uint32(len(out)-4)) //nolint:gosec // as long as an answer can be
	return out, nil
}
