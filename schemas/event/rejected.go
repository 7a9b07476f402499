package event

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"muster/schemas/record"
)

// MaxRejectedRaw is how much is kept of a record that is larger than
// record.MaxSize (records.md, rule 4).
const MaxRejectedRaw = 64 << 10

// Rejected is a record that was not taken, on TopicRejected under the name of
// its source, with all that an operator needs to mend and resubmit it.
type Rejected struct {
	Kind   record.Kind `json:"kind"`
	Source Source      `json:"source"`
	// Code, Reason and Path are those of record.Invalid.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Path   string `json:"path,omitempty"`
	// Defects has all defects, the one above first, of a record that has several.
	Defects []record.Defect `json:"defects,omitzero"`
	At      time.Time       `json:"at"`
	// Mapped says that Raw is not the record but the object that a mapping made it of.
	Mapped bool `json:"mapped,omitzero"`
	// Raw is the record as it came (base64 in JSON, since it may be anything),
	// or its first MaxRejectedRaw bytes when Length is larger than
	// record.MaxSize, or when the brokers do not take more. SHA256 (lower-case hex) and Length, in bytes, are those of
	// the whole.
	Raw    []byte `json:"raw"`
	SHA256 string `json:"sha256"`
	Length int64  `json:"length"`
}

// Source is the place that a record came from: a line of a file in a run of
// ingest, or a message of a topic.
type Source struct {
	Run  string `json:"run,omitempty"`
	File string `json:"file,omitempty"`
	// Line counts from 1. Offset is that of the line's first byte in the
	// uncompressed input, or of the message in its partition.
	Line      int64  `json:"line,omitzero"`
	Topic     string `json:"topic,omitempty"`
	Partition int    `json:"partition,omitzero"`
	Offset    int64  `json:"offset"`
}

// Name returns the source without the place in it: the Kafka key of a rejected
// record.
func (s Source) Name() string {
	if s.Topic != "" {
		return s.Topic
	}
	return s.File
}

// String returns the source for people: "people.ndjson:17" or "topic/3@42".
func (s Source) String() string {
	if s.Topic != "" {
		return fmt.Sprintf("%s/%d@%d", s.Topic, s.Partition, s.Offset)
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// NewRejected describes a whole record that was rejected with err, which is a
// *record.Invalid or any other error.
func NewRejected(kind record.Kind, source Source, raw []byte, err error, at time.Time) Rejected {
	sum := sha256.Sum256(raw)
	kept := raw
	if len(raw) > record.MaxSize {
		kept = raw[:MaxRejectedRaw]
	}
	return NewRejectedPart(kind, source, kept, hex.EncodeToString(sum[:]), int64(len(raw)), err, at)
}

// NewRejectedPart is NewRejected for a record that was too large to be held:
// head is what was kept of it, of which no more than MaxRejectedRaw bytes are
// used when length is larger than record.MaxSize.
func NewRejectedPart(kind record.Kind, source Source, head []byte, sha256Hex string, length int64, err error, at time.Time) Rejected {
	if length > record.MaxSize && len(head) > MaxRejectedRaw {
		head = head[:MaxRejectedRaw]
	}
	r := Rejected{
		Kind: kind, Source: source, At: at.UTC(),
		Raw: head, SHA256: sha256Hex, Length: length,
		Code: CodeFailed, Reason: err.Error(),
	}
	var bad *record.Invalid
	if errors.As(err, &bad) {
		r.Code, r.Reason, r.Path = bad.Code, bad.Reason, bad.Path
		if len(bad.Also) > 0 {
			r.Defects = bad.Defects()
		}
	}
	return r
}

// CodeFailed is the code of a record that is sound but could not be handled.
const CodeFailed = "failed"
