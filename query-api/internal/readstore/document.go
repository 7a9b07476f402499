package readstore

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
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

// NetworkDocuments reads people in the order of keys. unseen says that it is known that none has a version newer than her
// content. The error may be ErrSharedHash.
func (s *Store) NetworkDocuments(ctx context.Context, keys []ProfileKey, unseen bool) ([]Document, error) {
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = k.Hash
	}
	var lists, seen [][]*readmodel.NetworkPersonRow
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		lists, err = s.documents.Get(ctx, hashes)
		return err
	})
	if unseen {
		seen = make([][]*readmodel.NetworkPersonRow, len(keys))
	} else {
		g.Go(func() (err error) {
			seen, err = s.seenPeople.Get(ctx, hashes)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := make([]Document, len(keys))
	for i, k := range keys {
		if k.ProfileID == "" && len(lists[i]) > 1 {
			return nil, ErrSharedHash
		}
		for _, shared := range lists[i] {
			if k.ProfileID != "" && shared.ProfileID != k.ProfileID {
				continue
			}
			row := *shared
			readmodel.FreshenNetworkPeople(append([]*readmodel.NetworkPersonRow{&row}, seen[i]...))
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
