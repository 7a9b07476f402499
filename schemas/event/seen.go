package event

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"muster/schemas/record"
)

// VersionBump is a version bump: a newer version of an identity with the content of the previous one (records.md, rule
// 5). It is published to TopicVersionBump instead of the record, with the key [VersionBump.MessageKey].
//
// Record topics and TopicVersionBump have no common order: a version bump may be read before its record, also in a
// replay. It applies only to the record of the kind and key with the content hash Hash and a version older
// than Version. It does not affect records with another hash, older or newer. Deletions, and records of the
// kinds that HasVersionBumps excludes, are always published whole.
type VersionBump struct {
	Kind record.Kind `json:"kind"`
	// Key is record.Record.Key.
	Key string `json:"key"`
	// Version is the version as given: record.Record.VersionText.
	Version string `json:"version"`
	// Hash is record.Record.Hash, a decimal string in JSON because it has 64 bits.
	Hash uint64 `json:"hash,string"`
}

// HasVersionBumps reports whether records of a kind have version bumps: those whose version, last_updated, is
// separate from the content. For other kinds the version is part of the content (the updated_at of a
// repository) or decides which entries a complete list deletes, and the records are hardly larger than a
// version bump.
func HasVersionBumps(kind record.Kind) bool {
	d, known := record.Lookup(kind)
	return known && !d.Internal && d.VersionField == "last_updated"
}

// MessageKey returns the Kafka key: the kind, a slash, and the identity.
func (s VersionBump) MessageKey() string { return string(s.Kind) + "/" + s.Key }

// ParseVersionBump parses a message value of TopicVersionBump and its version.
func ParseVersionBump(value []byte) (VersionBump, record.Version, error) {
	var s VersionBump
	if err := json.Unmarshal(value, &s); err != nil {
		return s, 0, fmt.Errorf("read version bump: %w", err)
	}
	if _, known := record.Lookup(s.Kind); !known {
		return s, 0, fmt.Errorf("read version bump: unknown kind %q", s.Kind)
	}
	if !HasVersionBumps(s.Kind) {
		return s, 0, fmt.Errorf("read version bump: kind %s has no version bumps", s.Kind)
	}
	if strings.TrimSpace(s.Key) == "" {
		return s, 0, errors.New("read version bump: missing key")
	}
	version, err := record.ParseVersion(s.Version)
	if err != nil {
		return s, 0, fmt.Errorf("read version bump: version: %w", err)
	}
	return s, version, nil
}
