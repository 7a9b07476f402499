package broker

import (
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

// maxProducePartitions is the maximum number of topics and partitions in a Produce request.
const maxProducePartitions = 10_000

// maxRecords is the maximum number of records in a batch. A decoded record takes much more memory than its minimum
// encoded size of seven bytes.
const maxRecords = 1 << 20

// batchValidator validates record batches before kfake stores them. kfake checks only their headers, and some invalid
// batches break readers of the log.
type batchValidator struct {
	decoders  sync.Pool     // of *recordbatch.Decoder
	inflating chan struct{} // limits concurrent decompression, and so memory
	compacted func(topic string) (bool, error)
	partition func(tp topicPartition) (*kfake.PartitionInfo, error)

	mu     sync.Mutex
	newest map[topicPartition]int64 // Unix milliseconds
}

func newBatchValidator() *batchValidator {
	return &batchValidator{
		compacted: func(string) (bool, error) { return false, nil },
		partition: func(topicPartition) (*kfake.PartitionInfo, error) { return nil, nil },
		newest:    make(map[topicPartition]int64),
		decoders:  sync.Pool{New: func() any { return new(recordbatch.Decoder) }},
		inflating: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
	}
}

// rejections are the partitions of a Produce request whose batches are rejected.
type rejections struct {
	request
	byPartition map[topicPartition]*kerr.Error
}

type topicPartition struct {
	topic     string
	partition int32
}

// validateProduce validates the batches of a Produce request. It changes rejected batches in place so that kfake
// answers them with INVALID_RECORD.
func (v *batchValidator) validateProduce(r request, raw []byte, logger *slog.Logger) (*rejections, error) {
	rejected := &rejections{request: r, byPartition: make(map[topicPartition]*kerr.Error)}
	var closed error
	acks, err := eachProduced(r, raw, func(tp topicPartition, records []byte) {
		err := v.validate(tp, records)
		if errors.Is(err, errClosed) { // neither stored nor answered
			closed = err
			return
		}
		if err == nil {
			return
		}
		response := *kerr.InvalidRecord
		// Producers split a batch on MESSAGE_TOO_LARGE.
		if errors.Is(err, recordbatch.ErrTooLarge) {
			response = *kerr.MessageTooLarge
		}
		response.Description = err.Error()
		rejected.byPartition[tp] = &response
		logger.Warn("kafka broker: record batch rejected",
			slog.String("topic", tp.topic), slog.Int("partition", int(tp.partition)), slog.Any("error", err))
	})
	if err := errors.Join(err, closed); err != nil {
		return nil, err
	}
	if acks == 0 || len(rejected.byPartition) == 0 { // acks=0 has no response
		return nil, nil
	}
	return rejected, nil
}

// validate returns an error if the batch is invalid, and changes it so that kfake does not store it.
func (v *batchValidator) validate(tp topicPartition, records []byte) error {
	b, rest, err := recordbatch.Next(records)
	if err != nil || len(rest) > 0 { // kfake checks headers itself
		return nil
	}
	if b.Compressed() {
		v.inflating <- struct{}{}
		defer func() { <-v.inflating }()
	}
	d := v.decoders.Get().(*recordbatch.Decoder)
	defer v.decoders.Put(d)
	keyless, err := checkContiguous(d, &b)
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
	return v.raiseTimestamp(tp, &b)
}

// raiseTimestamp raises the timestamp of a batch to that of earlier batches, so that it does not expire before them.
// kfake's retention removes everything before an expired batch.
func (v *batchValidator) raiseTimestamp(tp topicPartition, b *recordbatch.Batch) error {
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
	newest = max(newest, min(b.MaxTimestamp, now)) // timestamps in the future do not delay later batches
	v.mu.Lock()
	v.newest[tp] = max(v.newest[tp], newest)
	v.mu.Unlock()
	return nil
}

// errKeyless rejects records that a compaction would remove.
var errKeyless = errors.New("a record of a compacted topic has no key")

// checkContiguous checks that the batch has one record for each of its offsets, as before compaction, and reports
// whether a record has no key.
func checkContiguous(d *recordbatch.Decoder, b *recordbatch.Batch) (keyless bool, err error) {
	if b.Count < 1 || b.LastOffsetDelta != b.Count-1 {
		return false, fmt.Errorf("record batch has %d records, but its last offset delta is %d", b.Count,
			b.LastOffsetDelta)
	}
	// Offsets are distinct and ascending, so none is missing.
	err = d.Records(b, func(r recordbatch.Record) error {
		keyless = keyless || r.Key == nil
		return nil
	})
	if err == nil && b.Count > maxRecords {
		err = fmt.Errorf("%w: %d records", recordbatch.ErrTooLarge, b.Count)
	}
	return keyless, err
}

// eachProduced calls fn with the records of each partition of a Produce request. The records are parts of raw. It
// allocates nothing based on counts in the request.
func eachProduced(r request, raw []byte, fn func(tp topicPartition, records []byte)) (acks int16, err error) {
	reader, kind := r.body(raw)
	flexible := kind.IsFlexible()
	if flexible {
		reader.CompactNullableString() // transactional ID
	} else {
		reader.NullableString()
	}
	acks = reader.Int16()
	reader.Int32() // timeout
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
		if !reader.Ok() || named > maxProducePartitions {
			break
		}
	}
	if flexible {
		skipTags(&reader)
	}
	switch {
	case named > maxProducePartitions:
		return acks, fmt.Errorf("a Produce request has more than %d topics and partitions", maxProducePartitions)
	case !reader.Ok():
		return acks, errors.New("truncated Produce request")
	}
	return acks, nil
}

// arrayLen reads the length of an array. It invalidates the reader if that is above maxProducePartitions.
func arrayLen(r *kbin.Reader, flexible bool) int32 {
	var n int32
	if flexible {
		n = r.CompactArrayLen()
	} else {
		n = r.ArrayLen()
	}
	if n > maxProducePartitions {
		r.Span(-1) // invalidates the reader
		return 0
	}
	return n
}

// rewrite puts the reasons of the rejections into kfake's response.
func (f *rejections) rewrite(response []byte) ([]byte, error) {
	var res kmsg.ProduceResponse
	res.SetVersion(f.version)
	at := 8 // after size and correlation ID
	if res.IsFlexible() {
		at++ // empty tagged fields
	}
	if len(response) < at {
		return nil, fmt.Errorf("response of kfake has %d bytes", len(response))
	}
	if err := res.ReadFrom(response[at:]); err != nil {
		return nil, fmt.Errorf("parse the response of kfake: %w", err)
	}
	for i := range res.Topics {
		t := &res.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			found, ok := f.byPartition[topicPartition{t.Topic, p.Partition}]
			if !ok || p.ErrorCode != kerr.InvalidRecord.Code { // kfake rejected it for another reason
				continue
			}
			p.ErrorCode = found.Code
			p.ErrorMessage = &found.Description
		}
	}
	return setFrameSize(res.AppendTo(response[:at:at])), nil
}
