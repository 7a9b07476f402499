package readstore

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// DocumentKey identifies a network person or company.
type DocumentKey struct {
	Hash uint64 // readmodel.ProfileHash or readmodel.CompanyHash of ID
	// ID may be empty if only one document has the hash.
	ID string
}

// ErrSharedHash is returned if several documents have the hash of a key without ID.
var ErrSharedHash = errors.New("several documents have one hash")

// Document is a person or company in a search result (MAPPING.md, 4.1 and 5.1).
type Document struct {
	ID string
	// Identifiers are the identifiers of the person (metering.Used).
	Identifiers []string
	JSON        []byte // nil: the document no longer exists
}

// AsOf describes the state of the tables that documents are read from.
type AsOf struct {
	// State identifies the state of the tables; cached rows are valid for one state. Empty if unknown.
	State string
	// Unseen states that no record has a version bump.
	Unseen bool
}

// NetworkDocuments returns people in the order of keys. The error may be [ErrSharedHash].
func (s *Store) NetworkDocuments(ctx context.Context, keys []DocumentKey, as AsOf) ([]Document, error) {
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
		if k.ID == "" && len(lists[i].people) > 1 {
			return nil, ErrSharedHash
		}
		for _, shared := range lists[i].people {
			if k.ID != "" && shared.ProfileID != k.ID {
				continue
			}
			row := *shared
			row.Version = readmodel.NewestVersion(record.KindNetworkPerson, row.ProfileID, row.Version, row.ContentHash,
				lists[i].seen)
			if !row.Deleted && !s.isNetworkErased(&row) {
				out[i] = Document{
					ID: row.ProfileID,
					Identifiers: appendIdentifiers(nil, identity.Network, row.ProfileID, row.UsernameKey,
						row.EmailKeys),
					JSON: appendEnrichedNetwork(nil, &row, nil),
				}
			}
		}
	}
	return out, nil
}

// CompanyDocuments returns companies in the order of keys. The error may be [ErrSharedHash].
func (s *Store) CompanyDocuments(ctx context.Context, keys []DocumentKey, as AsOf) ([]Document, error) {
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = k.Hash
	}
	var companies [][]*readmodel.CompanyRow
	seen := make([][]readmodel.VersionBumpRow, len(keys))
	g, working := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		companies, err = s.companies.Get(working, hashes)
		return err
	})
	if !as.Unseen {
		g.Go(func() (err error) {
			seen, err = s.seen.Get(working, hashes)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := make([]Document, len(keys))
	for i, k := range keys {
		if k.ID == "" && len(companies[i]) > 1 {
			return nil, ErrSharedHash
		}
		for _, shared := range companies[i] {
			if shared.Deleted || k.ID != "" && shared.CompanyID != k.ID {
				continue
			}
			row := *shared
			row.Version = readmodel.NewestVersion(record.KindNetworkCompany, row.CompanyID, row.Version,
				row.ContentHash,
				seen[i])
			out[i] = Document{ID: row.CompanyID, JSON: appendCompany(nil, &row)}
		}
	}
	return out, nil
}
