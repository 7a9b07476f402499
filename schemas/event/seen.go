package event

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"muster/schemas/record"
)

// Seen says that an identity has a newer version whose content is that of the
// version before (records.md, rule 5). It travels on TopicSeen instead of the
// record, under the key [Seen.MessageKey].
//
// Record topics and TopicSeen have no common order: a pair may be read before the
// record that it is about, also in a replay. It is about the record of the kind
// and key whose content hash is Hash and whose version is older than Version, and
// says nothing of any other: beside a record of another hash it counts for
// nothing, whichever of the two is newer. Withdrawals, and records of the kinds
// that SeenKind leaves out, are never announced this way but published whole.
type Seen struct {
	Kind record.Kind `json:"kind"`
	// Key is record.Record.Key.
	Key string `json:"key"`
	// Version is as the record gives it: record.Record.VersionText.
	Version string `json:"version"`
	// Hash is record.Record.Hash, a decimal string in JSON since it has 64 bits.
	Hash uint64 `json:"hash,string"`
}

// SeenKind says whether records of a kind are announced by a pair: those whose
// version is their last_updated, which stands beside the content. The version of
// the other kinds is a part of what is stated (the updated_at of a repository),
// decides what a complete list withdraws, and they are hardly larger than a pair.
func SeenKind(kind record.Kind) bool {
	d, known := record.Lookup(kind)
	return known && !d.Internal && d.VersionField == "last_updated"
}

// NewSeen returns what a record says when only its version is new.
func NewSeen(r *record.Record) Seen {
	return Seen{Kind: r.Kind, Key: r.Key, Version: r.VersionText, Hash: r.Hash}
}

// MessageKey is the Kafka key: the kind, a slash, and the identity.
func (s Seen) MessageKey() string { return string(s.Kind) + "/" + s.Key }

// ParseSeen reads the value of a message of TopicSeen and its version. The error
// says what is wrong with it.
func ParseSeen(value []byte) (Seen, record.Version, error) {
	var s Seen
	if err := json.Unmarshal(value, &s); err != nil {
		return s, 0, fmt.Errorf("read seen version: %w", err)
	}
	if _, known := record.Lookup(s.Kind); !known {
		return s, 0, fmt.Errorf("read seen version: kind: %q is unknown", s.Kind)
	}
	if !SeenKind(s.Kind) {
		return s, 0, fmt.Errorf("read seen version: kind: records of kind %s are published whole", s.Kind)
	}
	if strings.TrimSpace(s.Key) == "" {
		return s, 0, errors.New("read seen version: key: is missing")
	}
	version, err := record.ParseVersion(s.Version)
	if err != nil {
		return s, 0, fmt.Errorf("read seen version: version: %w", err)
	}
	return s, version, nil
}
