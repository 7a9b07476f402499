package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// How large requests may be. kfake takes memory for a request before it looks at
// it, and up to some fifty times as much while it does.
const (
	// maxProduceBytes is for what carries records: what clients send at most by default.
	maxProduceBytes = 100 << 20
	// maxRequestBytes is for everything else.
	maxRequestBytes = 1 << 20
	// maxForeignBytes is for those who have not said who they are, and have to.
	maxForeignBytes = 64 << 10
)

// maxPartitions is how many partitions one request may create. kfake makes them
// before it does anything else.
const maxPartitions = 10_000

// The versions of Produce that are answered. kfake does not survive version 13 with
// two topics that it does not know.
const (
	minProduceVersion = 3
	maxProduceVersion = 12
)

// versions are the highest versions of each kind of request that kfake is allowed
// to answer: all that it can, but for Produce and DeleteRecords. kfake keeps nothing of
// what DeleteRecords does before it is closed: after a kill a partition would end before
// what groups have read.
func versions() *kversion.Versions {
	v := kversion.Stable()
	for key := range int16(kmsg.MaxKey + 1) {
		if kind := kmsg.RequestForKey(key); kind != nil {
			v.SetMaxKeyVersion(key, kind.MaxVersion())
		}
	}
	v.SetMaxKeyVersion(kmsg.Produce.Int16(), maxProduceVersion)
	v.SetMaxKeyVersion(kmsg.DeleteRecords.Int16(), -1)
	return v
}

// request is the beginning of a request.
type request struct {
	size    uint32 // without the four bytes that say it
	key     int16
	version int16
	id      uint32
}

func parseRequest(header []byte) request {
	return request{
		size:    binary.BigEndian.Uint32(header),
		key:     int16(binary.BigEndian.Uint16(header[4:])), //nolint:gosec // the protocol's numbers are signed
		version: int16(binary.BigEndian.Uint16(header[6:])), //nolint:gosec // the protocol's numbers are signed
		id:      binary.BigEndian.Uint32(header[8:]),
	}
}

func (r request) is(key kmsg.Key) bool { return r.key == key.Int16() }

// check refuses what kfake is not to see. known says that the client has said who
// it is, or need not.
func (r request) check(known bool) error {
	limit := uint32(maxRequestBytes)
	switch {
	case !known:
		limit = maxForeignBytes
	case r.is(kmsg.Produce):
		limit = maxProduceBytes
	}
	kind := kmsg.RequestForKey(r.key)
	switch {
	case r.size < minRequestBytes || kind != nil && r.size > limit || r.size > maxProduceBytes:
		return fmt.Errorf("a request of %d bytes; is this a client of Kafka, with TLS as the broker has it?", r.size)
	case kind == nil:
		return fmt.Errorf("a request of the unknown kind %d", r.key)
	case !known && !r.is(kmsg.ApiVersions) && !r.is(kmsg.SASLHandshake) && !r.is(kmsg.SASLAuthenticate):
		return fmt.Errorf("a request of the kind %s before authentication", kmsg.NameForKey(r.key))
	case r.is(kmsg.Produce) && (r.version < minProduceVersion || r.version > maxProduceVersion):
		return fmt.Errorf("a request of the kind Produce in version %d; versions %d to %d are answered", r.version, minProduceVersion, maxProduceVersion)
	}
	return nil
}

// wanted says whether a request is to be read whole before kfake gets it.
func (r request) wanted(known bool) bool {
	return !known || r.is(kmsg.Produce) || r.is(kmsg.CreateTopics) || r.is(kmsg.CreatePartitions)
}

// body reads a whole request up to where its own part begins.
func (r request) body(raw []byte) (kbin.Reader, kmsg.Request) {
	kind := kmsg.RequestForKey(r.key)
	kind.SetVersion(r.version)
	reader := kbin.Reader{Src: raw[headerBytes:]}
	reader.NullableString() // the client's id
	if kind.IsFlexible() {
		skipTags(&reader)
	}
	return reader, kind
}

// skipTags skips tagged fields. There are few: kfake keeps them all in a map.
func skipTags(r *kbin.Reader) {
	n := r.Uvarint()
	if n > 16 {
		r.Span(-1) // spoils the reader
		return
	}
	for range n {
		r.Uvarint()
		r.Span(int(r.Uvarint()))
	}
}

// limitPartitions makes a request that would create too many partitions, or a topic of a
// name that Apache Kafka does not take, one that kfake answers with INVALID_PARTITIONS.
// It returns what kfake is to get: a name may be no name of a folder.
func limitPartitions(r request, raw []byte) ([]byte, error) {
	reader, kind := r.body(raw)
	head := len(raw) - len(reader.Src)
	if !reader.Ok() {
		return nil, errors.New("a request that is cut off, or has too many tags")
	}
	if err := kind.ReadFrom(reader.Src); err != nil {
		return nil, fmt.Errorf("a request of the kind %s: %w", kmsg.NameForKey(r.key), err)
	}
	room, changed := int64(maxPartitions), false
	fits := func(n int64) bool {
		if n = max(1, n); n > room {
			return false
		}
		room -= n
		return true
	}
	switch kind := kind.(type) {
	case *kmsg.CreateTopicsRequest:
		for i := range kind.Topics {
			t := &kind.Topics[i]
			if !isTopicName(t.Topic) || !fits(max(int64(t.NumPartitions), int64(len(t.ReplicaAssignment)))) {
				t.NumPartitions, t.ReplicaAssignment, changed = 0, nil, true
			}
		}
	case *kmsg.CreatePartitionsRequest:
		for i := range kind.Topics {
			t := &kind.Topics[i]
			if !fits(int64(t.Count)) {
				t.Count, t.Assignment, changed = -1, nil, true
			}
		}
	}
	if !changed {
		return raw, nil
	}
	out := kind.AppendTo(slices.Clone(raw[:head]))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4)) //nolint:gosec // it became no longer
	return out, nil
}

// isTopicName says whether Apache Kafka would take a name.
func isTopicName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return name != "" && len(name) <= 249 && name != "." && name != ".." && strings.Trim(name, allowed) == ""
}
