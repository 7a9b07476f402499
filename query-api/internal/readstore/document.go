package readstore

import (
	"context"
	"errors"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// ProfileKey names a network person.
type ProfileKey struct {
	Hash uint64 // readmodel.ProfileHash of ProfileID
	// ProfileID may be empty for whoever has this hash, when only one does.
	ProfileID string
}

// ErrSharedHash says that several people have a hash for which no ProfileID was given.
var ErrSharedHash = errors.New("several profiles have one hash")

// Document is a person as search shows her (MAPPING.md, 5.1).
type Document struct {
	ProfileID string
	// Identifiers are what she goes by (metering.Used).
	Identifiers []string
	JSON        []byte // nil: she does not exist any more
}

// AsOf is what is known of the tables that documents are read from.
type AsOf struct {
	// State tells apart states of the tables: rows of one are kept, and good while it lasts. Empty: it is not known.
	State string
	// Unseen: none has a version that is newer than its content.
	Unseen bool
}

// NetworkDocuments reads people in the order of keys. The error may be ErrSharedHash.
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
			row.Version = readmodel.Freshen(record.KindNetworkPerson, row.ProfileID, row.Version, row.ContentHash, lists[i].seen)
			if !row.Deleted && !s.erasedNetwork(&row) {
				out[i] = Document{
					ProfileID: row.ProfileID, Identifiers: appendIdentifiers(nil, identity.Network, row.ProfileID, row.UsernameKey, row.EmailKeys),
					JSON: appendEnrichedNetwork(nil, &row, nil),
				}
			}
		}
	}
	return out, nil
}
