package readmodel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// MaxKeys is the number of keys a lookup query is made for. Parameters travel
// in the URL, whose size servers limit; more than 1,000 values would need an
// external table.
const MaxKeys = 256

// MaxEntries is how many entries of a list are served (rulings.md, Names).
const MaxEntries = 100

// ParameterKeys is the query parameter that holds the keys of every query of
// this package: Array(Int64) for AnswersQuery, Array(UInt64) for the others.
const ParameterKeys = "keys"

// FormatKeys writes keys as the value of ParameterKeys.
func FormatKeys[K int64 | uint64](keys []K) string {
	buf := make([]byte, 0, 2+21*len(keys))
	buf = append(buf, '[')
	for i, k := range keys {
		if i > 0 {
			buf = append(buf, ',')
		}
		if k < 0 {
			buf = strconv.AppendInt(buf, int64(k), 10)
		} else {
			buf = strconv.AppendUint(buf, uint64(k), 10)
		}
	}
	return string(append(buf, ']'))
}

// LookupRow is a candidate: at Version, Target held or declared Value. For
// link types the row says that the account Value of the type's platform and
// the account Target belong together.
type LookupRow struct {
	KeyHash    uint64
	Type       string
	Value      string
	TargetKind string
	Target     string
	Source     string // account-link: its source; else empty
	Confidence float32
	Declared   bool
	Version    int64 // microseconds since 0001-01-01T00:00:00Z

	ContentHash uint64
	Deleted     bool // the record was withdrawn, or holds Value no more
}

// Dest gives the scan destinations in the order of LookupQuery's columns.
func (r *LookupRow) Dest() []any {
	return []any{
		&r.KeyHash, &r.Type, &r.Value, &r.TargetKind, &r.Target, &r.Source, &r.Confidence, &r.Declared, &r.Version, &r.ContentHash, &r.Deleted,
	}
}

// Bounds of what is read of one key.
const (
	maxCandidates    = 100
	maxCandidateRows = 200 // some are older versions of others, or withdrawn
)

// LookupQuery reads the rows of up to MaxKeys key hashes (KeyHash), of each key
// at most the 200 newest, newest first. Those of each key are for
// NewestLookups: one flat read takes about two thirds of what a statement takes
// that finds the newest of each candidate itself.
func LookupQuery() string {
	return `SELECT key_hash, type, value, target_kind, target, source, confidence, declared, version, content_hash, deleted
FROM lookups
WHERE key_hash IN {keys:Array(UInt64)}
ORDER BY ver DESC
LIMIT ` + strconv.Itoa(maxCandidateRows) + ` BY key_hash`
}

// NewestLookups are the candidates among the rows of one or more key hashes, which
// are in the order of LookupQuery: of each the newest version, unless it is
// withdrawn, and of each key at most the 100 newest. It changes rows.
func NewestLookups(rows []LookupRow) []LookupRow {
	type candidate struct {
		key                                     uint64
		kind, value, targetKind, target, source string
	}
	seen := make(map[candidate]bool, len(rows))
	kept := make(map[uint64]int, 1)
	out := rows[:0]
	for _, r := range rows {
		c := candidate{r.KeyHash, r.Type, r.Value, r.TargetKind, r.Target, r.Source}
		if seen[c] {
			continue
		}
		seen[c] = true
		if !r.Deleted && kept[r.KeyHash] < maxCandidates {
			kept[r.KeyHash]++
			out = append(out, r)
		}
	}
	return out
}

// NetworkColumns chooses the rendered columns of NetworkPeopleQuery; those
// not chosen come back empty.
type NetworkColumns uint8

// The rendered columns of network_people.
const (
	NetworkEnrich NetworkColumns = 1 << iota // Enrich
	NetworkWebset                            // WebsetShared and WebsetRest
	NetworkOpen                              // WebsetOpen and WebsetEmail (add-on personal_email); ask for NetworkWebset with it
)

// NetworkPersonRow is a network-person. The rendered columns are members of a
// JSON object without its braces; a non-empty one neither begins nor ends
// with a comma.
type NetworkPersonRow struct {
	ProfileHash           uint64
	ProfileID             string
	Version               int64
	Revision              uint32 // mapping revision
	ContentHash           uint64
	Deleted               bool   // withdrawn: the row exists so that readers know, nothing else is set
	Username              string // as the record has it
	UsernameKey           string
	EmailKeys             []string
	CodehostUsernameKeys  []string // declared, the field's own first
	MicroblogUsernameKeys []string
	Present               uint64 // NetworkFieldMask

	Enrich       string // person.network without updated_at
	WebsetShared string // the add-on network; also a part of the webset record. No e-mail
	WebsetRest   string // the rest of the webset record without last_updated. No e-mail
	WebsetOpen   string // shared and rest together with nothing removed; empty when that is the same
	WebsetEmail  string // "personal_email":{...},"emails":[...],"emails_count":n; empty when there is none
}

// Dest gives the scan destinations in the order of NetworkPeopleQuery's columns.
func (r *NetworkPersonRow) Dest() []any {
	return []any{
		&r.ProfileHash, &r.ProfileID, &r.Version, &r.Revision, &r.ContentHash, &r.Deleted, &r.Username, &r.UsernameKey,
		&r.EmailKeys, &r.CodehostUsernameKeys, &r.MicroblogUsernameKeys, &r.Present,
		&r.Enrich, &r.WebsetShared, &r.WebsetRest, &r.WebsetOpen, &r.WebsetEmail,
	}
}

// NetworkPeopleQuery reads network people by ProfileHash. Each row of the table is there, older versions and withdrawn
// people too, for NewestNetworkPeople. Compare ProfileID: hashes may collide.
func NetworkPeopleQuery(columns NetworkColumns) string {
	return `SELECT profile_hash, profile_id, version, revision, content_hash, deleted, username, username_key, email_keys, codehost_username_keys, microblog_username_keys, present, ` +
		choose(
			choice{column: "enrich", chosen: columns&NetworkEnrich != 0},
			choice{column: "webset_shared", chosen: columns&NetworkWebset != 0},
			choice{column: "webset_rest", chosen: columns&NetworkWebset != 0},
			choice{column: "webset_open", chosen: columns&NetworkOpen != 0},
			choice{column: "webset_email", chosen: columns&NetworkOpen != 0},
		) + `
FROM network_people
WHERE profile_hash IN {keys:Array(UInt64)}`
}

// NetworkDocumentsQuery reads what a search shows of network people, by ProfileHash: Enrich, and what tells versions
// and erased people apart, with the columns of NetworkPersonRow.Document: each column takes its part of every page.
// The rows are for NewestNetworkPeople.
func NetworkDocumentsQuery() string {
	return `SELECT profile_hash, profile_id, version, revision, content_hash, deleted, username_key, email_keys, enrich
FROM network_people
WHERE profile_hash IN {keys:Array(UInt64)}`
}

// Document gives the scan destinations in the order of the columns of NetworkDocumentsQuery.
func (r *NetworkPersonRow) Document() []any {
	return []any{
		&r.ProfileHash, &r.ProfileID, &r.Version, &r.Revision, &r.ContentHash, &r.Deleted, &r.UsernameKey, &r.EmailKeys, &r.Enrich,
	}
}

// NewestNetworkPeople keeps the newest version of each profile among rows, withdrawn or not: the few rows of an answer
// are told apart in less than the server takes to sort them.
func NewestNetworkPeople(rows []*NetworkPersonRow) []*NetworkPersonRow {
	var out []*NetworkPersonRow
	for _, r := range rows {
		i := slices.IndexFunc(out, func(o *NetworkPersonRow) bool { return o.ProfileID == r.ProfileID })
		switch {
		case i < 0:
			out = append(out, r)
		case compareVersions(out[i].Version, r.Version, out[i].Revision, r.Revision, out[i].ContentHash, r.ContentHash) < 0:
			out[i] = r
		}
	}
	return out
}

// compareVersions orders two rows of one identity as ver does in SQL: by version, mapping revision and
// content hash, which is greatest for a deletion.
func compareVersions(version, otherVersion int64, revision, otherRevision uint32, hash, otherHash uint64) int {
	return cmp.Or(cmp.Compare(version, otherVersion), cmp.Compare(revision, otherRevision), cmp.Compare(hash, otherHash))
}

// CompanyRow is a network-company.
type CompanyRow struct {
	CompanyHash uint64
	CompanyID   string
	Version     int64
	Revision    uint32 // mapping revision
	ContentHash uint64
	Deleted     bool
	SlugKey     string
	NetworkID   string
	Company     string // the company object without last_updated
}

// Dest gives the scan destinations in the order of CompaniesQuery's columns.
func (r *CompanyRow) Dest() []any {
	return []any{&r.CompanyHash, &r.CompanyID, &r.Version, &r.Revision, &r.ContentHash, &r.Deleted, &r.SlugKey, &r.NetworkID, &r.Company}
}

// CompaniesQuery reads companies by CompanyHash. Each row of the table is there, older versions and withdrawn companies
// too, for NewestCompanies. Compare CompanyID: hashes may collide.
func CompaniesQuery() string {
	return `SELECT company_hash, company_id, version, revision, content_hash, deleted, slug_key, network_id, company
FROM network_companies
WHERE company_hash IN {keys:Array(UInt64)}`
}

// NewestCompanies keeps the newest version of each company among rows, withdrawn or not.
func NewestCompanies(rows []*CompanyRow) []*CompanyRow {
	var out []*CompanyRow
	for _, r := range rows {
		i := slices.IndexFunc(out, func(o *CompanyRow) bool { return o.CompanyID == r.CompanyID })
		switch {
		case i < 0:
			out = append(out, r)
		case compareVersions(out[i].Version, r.Version, out[i].Revision, r.Revision, out[i].ContentHash, r.ContentHash) < 0:
			out[i] = r
		}
	}
	return out
}

type choice struct {
	column string
	chosen bool
}

// choose lists columns, an empty string in the place of those not chosen, so
// that one row type scans every selection.
func choose(choices ...choice) string {
	var b strings.Builder
	for i, c := range choices {
		if i > 0 {
			b.WriteString(", ")
		}
		if !c.chosen {
			b.WriteString("'' AS ")
		}
		b.WriteString(c.column)
	}
	return b.String()
}
