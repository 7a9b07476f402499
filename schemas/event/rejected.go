package event

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"muster/schemas/record"
)

// MaxRejectedRaw is the number of bytes stored of a record that is larger than record.MaxSize (records.md,
// rule 4).
const MaxRejectedRaw = 64 << 10

// Rejected is a rejected record, on TopicRejected with the name of its source as key. It has everything that
// an operator needs to fix and resubmit it.
type Rejected struct {
	Kind   record.Kind `json:"kind"`
	Source Source      `json:"source"`
	// Code, Reason and Path are those of record.ValidationError.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Path   string `json:"path,omitempty"`
	// Defects are all validation errors, starting with the one above, if there are several.
	Defects []record.FieldError `json:"defects,omitzero"`
	At      time.Time           `json:"at"`
	// Mapped reports that Raw is the source object of a mapping, not the record.
	Mapped bool `json:"mapped,omitzero"`
	// Raw is the record as received (base64 in JSON), or its first MaxRejectedRaw bytes if Length exceeds
	// record.MaxSize or the brokers' limit. SHA256 (lower-case hex) and Length, in bytes, refer to the
	// complete record.
	Raw    []byte `json:"raw"`
	SHA256 string `json:"sha256"`
	Length int64  `json:"length"`
}

// Source is the location of a record: a line of a file in an ingest run, or a message of a topic.
type Source struct {
	Run  string `json:"run,omitempty"`
	File string `json:"file,omitempty"`
	// Line counts from 1. Offset is the byte offset of the line in the uncompressed input, or the message's
	// offset in its partition.
	Line      int64  `json:"line,omitzero"`
	Topic     string `json:"topic,omitempty"`
	Partition int    `json:"partition,omitzero"`
	Offset    int64  `json:"offset"`
}

// Name returns the source without the position: the Kafka key of a rejected record.
func (s Source) Name() string {
	if s.Topic != "" {
		return s.Topic
	}
	return s.File
}

// String returns the source for display: "people.ndjson:17" or "topic/3@42".
func (s Source) String() string {
	if s.Topic != "" {
		return fmt.Sprintf("%s/%d@%d", s.Topic, s.Partition, s.Offset)
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// NewRejected returns the event of a complete record that was rejected with err, a *record.ValidationError or any
// other error.
func NewRejected(kind record.Kind, source Source, raw []byte, err error, at time.Time) Rejected {
	sum := sha256.Sum256(raw)
	kept := raw
	if len(raw) > record.MaxSize {
		kept = raw[:MaxRejectedRaw]
	}
	return NewRejectedPart(kind, source, kept, hex.EncodeToString(sum[:]), int64(len(raw)), err, at)
}

// NewRejectedPart is NewRejected for a record that was too large to be buffered. head is its beginning, of
// which at most MaxRejectedRaw bytes are used if length exceeds record.MaxSize.
func NewRejectedPart(
	kind record.Kind, source Source, head []byte, sha256Hex string, length int64, err error, at time.Time,
) Rejected {
	if length > record.MaxSize && len(head) > MaxRejectedRaw {
		head = head[:MaxRejectedRaw]
	}
	r := Rejected{
		Kind: kind, Source: source, At: at.UTC(),
		Raw: head, SHA256: sha256Hex, Length: length,
		Code: CodeFailed, Reason: err.Error(),
	}
	var bad *record.ValidationError
	if errors.As(err, &bad) {
		r.Code, r.Reason, r.Path = bad.Code, bad.Reason, bad.Path
		if len(bad.Also) > 0 {
			r.Defects = bad.FieldErrors()
		}
	}
	return r
}

// CodeFailed is the code of a valid record that could not be processed.
const CodeFailed = "failed"
