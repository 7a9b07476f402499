package readmodel

import (
	"fmt"
	"strconv"

	"muster/schemas/event"
	"muster/schemas/record"
)

// Seen adds the row of a version that is new of a record whose content is not
// (records.md, rule 5).
func (b *Batch) Seen(s event.Seen, version record.Version, at Position) error {
	hash, err := seenHash(s.Kind, s.Key)
	if err != nil {
		return err
	}
	t := &b.seenVersions
	t.head.add(&record.Record{Version: version, Hash: s.Hash}, at)
	t.kind.add(string(s.Kind))
	t.keyHash.add(hash)
	t.key.add(s.Key)
	t.lastUpdated.add(s.Version)
	b.records++
	return nil
}

// seenHash is what the table of a kind is ordered by, so that one list of keys
// reads both.
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
	return 0, fmt.Errorf("seen version: kind %s has none", kind)
}

// seenQuery is the arm of a main table's query that reads the newer versions of
// its keys. columns are those of the main query, constants where a newer version
// has none.
func seenQuery(kind record.Kind, parameter, columns string) string {
	return "(SELECT " + columns + "\nFROM seen_versions\nWHERE kind = '" + string(kind) + "' AND key_hash IN " + parameter + ")"
}

// freshens says whether a seen version is of the content that a row holds, and
// newer.
func freshens(version int64, hash uint64, seenVersion int64, seenHash uint64) bool {
	return seenHash == hash && seenVersion > version
}

// FreshenNetworkPeople takes the rows with SeenVersion set out of the rows of one
// or more profiles, as NetworkPeopleQuery returns them, and gives the others the
// newer version. It changes rows.
func FreshenNetworkPeople(rows []*NetworkPersonRow) []*NetworkPersonRow {
	main, seen := split(rows, func(r *NetworkPersonRow) bool { return r.SeenVersion })
	for _, m := range main {
		for _, s := range seen {
			if m.ProfileID == s.ProfileID && !m.Deleted && freshens(m.Version, m.ContentHash, s.Version, s.ContentHash) {
				m.Version = s.Version
			}
		}
	}
	return main
}

// FreshenCodehostPeople is FreshenNetworkPeople for CodehostPeopleQuery.
func FreshenCodehostPeople(rows []*CodehostPersonRow) []*CodehostPersonRow {
	main, seen := split(rows, func(r *CodehostPersonRow) bool { return r.SeenVersion })
	for _, m := range main {
		for _, s := range seen {
			if m.UserID == s.UserID && !m.Deleted && freshens(m.Version, m.ContentHash, s.Version, s.ContentHash) {
				m.Version = s.Version
			}
		}
	}
	return main
}

// FreshenCompanies is FreshenNetworkPeople for CompaniesQuery.
func FreshenCompanies(rows []*CompanyRow) []*CompanyRow {
	main, seen := split(rows, func(r *CompanyRow) bool { return r.SeenVersion })
	for _, m := range main {
		for _, s := range seen {
			if m.CompanyID == s.CompanyID && !m.Deleted && freshens(m.Version, m.ContentHash, s.Version, s.ContentHash) {
				m.Version = s.Version
			}
		}
	}
	return main
}

// split takes rows apart; without any that is seen it returns rows as they are.
func split[T any](rows []*T, isSeen func(*T) bool) (main, seen []*T) {
	for i, r := range rows {
		if !isSeen(r) {
			if seen != nil {
				main = append(main, r)
			}
			continue
		}
		if seen == nil {
			main = append(main, rows[:i]...)
		}
		seen = append(seen, r)
	}
	if seen == nil {
		return rows, nil
	}
	return main, seen
}
