package readstore

import (
	"context"
	"errors"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// ProfileKey identifies a network person.
type ProfileKey struct {
	Hash uint64 // readmodel.ProfileHash of ProfileID
	// ProfileID may be empty if only one person has the hash.
	ProfileID string
}

// ErrSharedHash is returned if several people have the hash of a key without ProfileID.
var ErrSharedHash = errors.New("several profiles have one hash")

// Document is a person in a search result (MAPPING.md, 5.1).
type Document struct {
	ProfileID string
	// Identifiers are the identifiers of the person (metering.Used).
	Identifiers []string
	JSON        []byte // nil: the person no longer exists
}

// AsOf describes the state of the tables that documents are read from.
type AsOf struct {
	// State identifies the state of the tables; cached rows are valid for one state. Empty if unknown.
	State string
	// Unseen states that no record has a version bump.
	Unseen bool
}

// NetworkDocuments returns people in the order of keys. The error may be [ErrSharedHash].
func (s *Store) NetworkDocuments(ctx context.Context, keys []ProfileKey, as AsOf) ([]Document, error) {
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = k.Hash
	}
	lists, err := s.documentRows(ctx, hashes, as)
	if err != nil {
		return nil, err
	}
	out := make([]Document, len(keys))
	for i, k := range keys {
		if k.ProfileID == "" && len(lists[i].people) > 1 {
			return nil, ErrSharedHash
		}
		for _, shared := range lists[i].people {
			if k.ProfileID != "" && shared.ProfileID != k.ProfileID {
				continue
			}
			row := *shared
			row.Version = readmodel.NewestVersion(record.KindNetworkPerson, row.ProfileID, row.Version, row.ContentHash,
				lists[i].seen)
			if !row.Deleted && !s.isNetworkErased(&row) {
				out[i] = Document{
					ProfileID: row.ProfileID,
					Identifiers: appendIdentifiers(nil, identity.Network, row.ProfileID, row.UsernameKey,
						row.EmailKeys),
					JSON: appendEnrichedNetwork(nil, &row, nil),
				}
			}
		}
	}
	return out, nil
}
