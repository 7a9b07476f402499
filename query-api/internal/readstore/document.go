package readstore

import (
	"context"

	"muster/schemas/readmodel"
)

// ProfileKey names a network person.
type ProfileKey struct {
	Hash      uint64 // readmodel.ProfileHash of ProfileID
	ProfileID string
}

// NetworkDocuments reads people as search shows them (MAPPING.md, 5.1), in the
// order of keys; nil for one that does not exist any more.
func (s *Store) NetworkDocuments(ctx context.Context, keys []ProfileKey) ([][]byte, error) {
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = k.Hash
	}
	lists, err := s.network[readmodel.NetworkEnrich].Get(ctx, hashes)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(keys))
	for i, k := range keys {
		for _, row := range lists[i] {
			if row.ProfileID == k.ProfileID && !row.Deleted && !s.erasedNetwork(row) {
				out[i] = appendEnrichedNetwork(nil, row, nil)
			}
		}
	}
	return out, nil
}
