package readmodel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/schemas/event"
	"muster/schemas/record"
)

// VersionBump adds the row of a version bump: a newer version of a record with unchanged content (records.md, rule
// 5).
func (b *Batch) VersionBump(s event.VersionBump, version record.Version, at Position) error {
	hash, err := seenHash(s.Kind, s.Key)
	if err != nil {
		return err
	}
	t := &b.seenVersions
	t.common.add(&record.Record{Version: version, Hash: s.Hash}, at)
	t.kind.add(string(s.Kind))
	t.keyHash.add(hash)
	t.key.add(s.Key)
	t.lastUpdated.add(s.Version)
	b.records++
	return nil
}

// TouchedVersions adds the people and companies whose documents in the search index show the version of the record, and
// of which the batch has version bumps, by kind, each with the newest version of these.
func (b *Batch) TouchedVersions(newest map[record.Kind]map[string]int64) {
	t := &b.seenVersions
	if len(t.key.list) == 0 {
		return
	}
	for _, c := range SearchCollections() {
		if c.Updated == "" {
			continue
		}
		for i, key := range t.key.list {
			if t.kind.list[i] != string(c.Kind) {
				continue
			}
			if newest[c.Kind] == nil {
				newest[c.Kind] = make(map[string]int64)
			}
			newest[c.Kind][key] = max(newest[c.Kind][key], t.common.version.list[i])
		}
	}
}

// seenHash returns the sorting key of the kind's main table, so that one list of keys reads both.
func seenHash(kind record.Kind, key string) (uint64, error) {
	switch kind {
	case record.KindNetworkPerson:
		return ProfileHash(key), nil
	case record.KindNetworkCompany:
		return CompanyHash(key), nil
	case record.KindMicroblogPerson:
		return MicroblogHash(key), nil
	case record.KindCodehostPerson:
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil || id < 0 {
			return 0, fmt.Errorf("seen version: key: %w", strconv.ErrSyntax)
		}
		return uint64(id), nil
	}
	return 0, fmt.Errorf("seen version: unsupported kind %s", kind)
}

// VersionBumpRow is a version bump: a newer version of a record with unchanged content.
type VersionBumpRow struct {
	Kind        string
	KeyHash     uint64
	Key         string
	Version     int64
	ContentHash uint64
}

// ScanDest returns the scan destinations in the order of VersionBumpsQuery's columns.
func (r *VersionBumpRow) ScanDest() []any {
	return []any{&r.Kind, &r.KeyHash, &r.Key, &r.Version, &r.ContentHash}
}

// VersionBumpsQuery returns the query for version bumps by the sorting keys of main tables: ProfileHash,
// CompanyHash, MicroblogHash, and user ids of the code host.
func VersionBumpsQuery() string {
	kinds := []string{
		string(record.KindNetworkPerson), string(record.KindCodehostPerson), string(record.KindMicroblogPerson),
		string(record.KindNetworkCompany),
	}
	slices.Sort(kinds)
	return `SELECT toString(kind), key_hash, key, version, content_hash
FROM seen_versions
WHERE kind IN ('` + strings.Join(kinds, "', '") + `') AND key_hash IN {keys:Array(UInt64)}`
}

// NewestVersion returns the newest of a record's version and its version bumps with the same content hash.
func NewestVersion(kind record.Kind, key string, version int64, hash uint64, seen []VersionBumpRow) int64 {
	for _, s := range seen {
		if s.Key == key && s.ContentHash == hash && s.Kind == string(kind) {
			version = max(version, s.Version)
		}
	}
	return version
}
