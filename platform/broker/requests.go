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

// Size limits of requests. kfake allocates memory for a request before it parses it, and up to about fifty times its
// size while it does.
const (
	// maxProduceBytes limits Produce requests. It is the default limit of clients.
	maxProduceBytes = 100 << 20
	// maxRequestBytes limits all other requests.
	maxRequestBytes = 1 << 20
	// maxUnauthenticatedBytes limits requests before authentication, where that is required.
	maxUnauthenticatedBytes = 64 << 10
)

// maxPartitions is the maximum number of partitions that one request may create. kfake creates them before it handles
// other requests.
const maxPartitions = 10_000

// Supported versions of Produce. kfake crashes on version 13 with two unknown topics.
const (
	minProduceVersion = 3
	maxProduceVersion = 12
)

// versions returns the highest supported version of each request: what kfake supports, except for Produce and
// DeleteRecords. kfake persists DeleteRecords only when it is closed; after a kill a partition would end before the
// committed offsets of its groups.
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

// request is a parsed request header.
type request struct {
	size    uint32 // without the size field itself
	key     int16
	version int16
	id      uint32
}

func parseRequest(header []byte) request {
	return request{
		size:    binary.BigEndian.Uint32(header),
		key:     int16(binary.BigEndian.Uint16(header[4:])), //nolint:gosec // sealBatch in the protocol
		version: int16(binary.BigEndian.Uint16(header[6:])), //nolint:gosec // sealBatch in the protocol
		id:      binary.BigEndian.Uint32(header[8:]),
	}
}

func (r request) is(key kmsg.Key) bool { return r.key == key.Int16() }

// check returns an error for requests that must not reach kfake. authenticated is true also if no authentication is
// required.
func (r request) check(authenticated bool) error {
	limit := uint32(maxRequestBytes)
	switch {
	case !authenticated:
		limit = maxUnauthenticatedBytes
	case r.is(kmsg.Produce):
		limit = maxProduceBytes
	}
	kind := kmsg.RequestForKey(r.key)
	switch {
	case r.size < minRequestBytes || kind != nil && r.size > limit || r.size > maxProduceBytes:
		return fmt.Errorf("invalid request size %d: not a Kafka client, or another TLS setting than the broker", r.size)
	case kind == nil:
		return fmt.Errorf("unknown request kind %d", r.key)
	case !authenticated && !r.is(kmsg.ApiVersions) && !r.is(kmsg.SASLHandshake) && !r.is(kmsg.SASLAuthenticate):
		return fmt.Errorf("%s request before authentication", kmsg.NameForKey(r.key))
	case r.is(kmsg.Produce) && (r.version < minProduceVersion || r.version > maxProduceVersion):
		return fmt.Errorf("unsupported version %d of Produce: supported are %d to %d",
			r.version, minProduceVersion, maxProduceVersion)
	}
	return nil
}

// needsInspection reports whether a request is read completely before it is forwarded to kfake.
func (r request) needsInspection(authenticated bool) bool {
	return !authenticated || r.is(kmsg.Produce) || r.is(kmsg.CreateTopics) || r.is(kmsg.CreatePartitions)
}

// body returns a reader at the start of the request's body, and the empty request of its kind and version.
func (r request) body(raw []byte) (kbin.Reader, kmsg.Request) {
	kind := kmsg.RequestForKey(r.key)
	kind.SetVersion(r.version)
	reader := kbin.Reader{Src: raw[headerBytes:]}
	reader.NullableString() // client ID
	if kind.IsFlexible() {
		skipTags(&reader)
	}
	return reader, kind
}

// skipTags skips up to 16 tagged fields; more invalidate the reader. kfake would store all of them in a map.
func skipTags(r *kbin.Reader) {
	n := r.Uvarint()
	if n > 16 {
		r.Span(-1) // invalidates the reader
		return
	}
	for range n {
		r.Uvarint()
		r.Span(int(r.Uvarint()))
	}
}

// limitPartitions returns the request to forward to kfake. It changes topics that would exceed maxPartitions or have an
// invalid name, so that kfake answers them with INVALID_PARTITIONS: kfake uses names as directory names unchecked.
func limitPartitions(r request, raw []byte) ([]byte, error) {
	reader, kind := r.body(raw)
	head := len(raw) - len(reader.Src)
	if !reader.Ok() {
		return nil, errors.New("request is truncated or has too many tags")
	}
	if err := kind.ReadFrom(reader.Src); err != nil {
		return nil, fmt.Errorf("parse %s request: %w", kmsg.NameForKey(r.key), err)
	}
	remaining, changed := int64(maxPartitions), false
	fits := func(n int64) bool {
		if n = max(1, n); n > remaining {
			return false
		}
		remaining -= n
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
	return setFrameSize(kind.AppendTo(slices.Clone(raw[:head]))), nil
}

// isTopicName reports whether Apache Kafka accepts the name of a topic.
func isTopicName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return name != "" && len(name) <= 249 && name != "." && name != ".." && strings.Trim(name, allowed) == ""
}
