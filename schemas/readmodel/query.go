package readmodel

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// MaxKeys is the maximum number of keys of a query. Parameters are part of the URL, whose size servers limit;
// more than 1,000 values would need an external table.
const MaxKeys = 256

// MaxEntries is the number of entries of a list that are served (rulings.md, Names).
const MaxEntries = 100

// ParameterKeys is the query parameter for the keys of all queries of this package: Array(Int64) for
// AnswersQuery, Array(UInt64) for others.
const ParameterKeys = "keys"

// FormatStrings returns the notation of an array parameter of strings.
func FormatStrings(values []string) string {
	buf := make([]byte, 0, 2+40*len(values))
	buf = append(buf, '[')
	for i, v := range values {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, '\'')
		for j := range len(v) {
			if v[j] == '\'' || v[j] == '\\' {
				buf = append(buf, '\\')
			}
			buf = append(buf, v[j])
		}
		buf = append(buf, '\'')
	}
	return string(append(buf, ']'))
}

// FormatKeys formats keys as the value of ParameterKeys.
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

// LookupRow is a candidate: at Version, Target had or declared Value. For link types, the account Value of
// the type's platform and the account Target are linked.
type LookupRow struct {
	KeyHash    uint64
	Type       string
	Value      string
	TargetKind string
	Target     string
	// Source is the source of an account link. For a username it is the usernames of the other webset that
	// the record declared at that version, for prefetching; for a declared username the record's own one; for a name
	// see partOfName; for a hint see Namer.
	Source     string
	Confidence float32
	Version    int64 // microseconds since 0001-01-01T00:00:00Z

	ver   big.Int
	claim string
	cut   bool // its key may have more rows than were read
}

// ScanDest returns the scan destinations in the order of lookupQuery's columns.
func (r *LookupRow) ScanDest() []any { return []any{&r.KeyHash, &r.ver, &r.claim, &r.Confidence} }

// Bits of ver.
const (
	verDeleted = 36
	verVersion = 69
)

// Declares returns the usernames of the other webset that the record declared when the row was written.
func (r *LookupRow) Declares() []string { return strings.Fields(r.Source) }

// appendClaim appends a claim: what a row of lookups states, without its confidence.
func appendClaim(b []byte, lookup LookupType, value, targetKind, target, source string) []byte {
	for _, field := range []string{string(lookup), value, targetKind, target, source} {
		b = append(append(b, field...), fieldEnd...)
	}
	return b
}

// read sets the fields encoded in ver and the claim.
func (r *LookupRow) read() {
	var version big.Int
	r.Version = version.Rsh(&r.ver, verVersion).Int64()
	f := fields{rest: r.claim}
	r.Type, r.Value, r.TargetKind, r.Target, r.Source = f.text(), f.text(), f.text(), f.text(), f.text()
}

// Bounds of what is read of one key.
const (
	maxCandidates    = 100
	maxCandidateRows = 200 // includes older versions and deletions
)

// maxPlainRows is the maximum number of rows of a query without a limit per key.
const maxPlainRows = 20_000

// lookupQuery returns the query for the rows of up to MaxKeys key hashes (KeyHash). Sorting in the server
// takes as long as reading, so newestLookups sorts.
func lookupQuery() string {
	return `SELECT key_hash, ver, claim, confidence
FROM lookups
WHERE key_hash IN {keys:Array(UInt64)}
LIMIT ` + strconv.Itoa(maxPlainRows)
}

// boundedLookupQuery is lookupQuery for keys with very many rows: it returns at most the 200 newest of each
// key and type. Types that share a hash begin with different letters.
func boundedLookupQuery() string {
	return `SELECT key_hash, ver, claim, confidence
FROM lookups
WHERE key_hash IN {keys:Array(UInt64)}
ORDER BY ver DESC
LIMIT ` + strconv.Itoa(maxCandidateRows) + ` BY key_hash, substring(claim, 1, 1)`
}

// ReadLookups returns the candidates of up to MaxKeys key hashes, by hash: the newest version of each that is
// not deleted, at most the 100 newest per key and type. send runs a query with the hashes as ParameterKeys.
func ReadLookups(send func(query string, scan func(driver.Rows) error) error) (map[uint64][]LookupRow, error) {
	found := make(map[uint64][]LookupRow)
	n, bounded := 0, false
	scan := func(rows driver.Rows) error {
		var r LookupRow
		if err := rows.Scan(r.ScanDest()...); err != nil {
			return err
		}
		n++
		r.cut = bounded
		found[r.KeyHash] = append(found[r.KeyHash], r)
		return nil
	}
	err := send(lookupQuery(), scan)
	if err == nil && n == maxPlainRows {
		clear(found)
		bounded = true
		err = send(boundedLookupQuery(), scan)
	}
	if err != nil {
		return nil, err
	}
	for k, rows := range found {
		found[k] = newestLookups(rows)
	}
	return found, nil
}

// newestLookups returns the candidates among the rows of a key hash. It modifies rows.
func newestLookups(rows []LookupRow) []LookupRow {
	slices.SortStableFunc(rows, func(a, b LookupRow) int { return b.ver.Cmp(&a.ver) })
	seen := make(map[string]bool, len(rows))
	kept := make(map[string]int, 1)
	out := rows[:0]
	for _, r := range rows {
		r.read()
		candidate := r.claim
		if r.TargetKind != TargetAccount { // The source is not part of the candidate's identity.
			candidate = strings.TrimSuffix(r.claim, r.Source+fieldEnd)
		}
		if seen[candidate] {
			continue
		}
		seen[candidate] = true
		if r.ver.Bit(verDeleted) == 1 {
			continue
		}
		if kept[r.Type] < maxCandidates {
			kept[r.Type]++
			out = append(out, r)
		}
	}
	return out
}

// NetworkPersonRow is a network-person.
type NetworkPersonRow struct {
	ProfileHash          uint64
	ProfileID            string
	Version              int64
	Revision             uint32 // mapping revision
	ContentHash          uint64
	Deleted              bool   // deleted: only identity and version are set
	Username             string // as given in the record
	UsernameKey          string
	FullName             string // derived or not; may be empty
	EmailKeys            []string
	CodehostUsernameKeys []string // declared, the own field first
	Present              uint64   // NetworkFieldMask

	pieces string
}

// ScanDest returns the scan destinations in the order of NetworkPeopleQuery's columns.
func (r *NetworkPersonRow) ScanDest() []any { return []any{&r.ProfileHash, (*networkContent)(r)} }

// networkContent reads the column content.
type networkContent NetworkPersonRow

// Scan implements sql.Scanner.
func (r *networkContent) Scan(value any) error {
	f, err := contentText(value)
	if err != nil {
		return err
	}
	r.ProfileID, r.Version = f.text(), f.signed()
	r.Revision = uint32(f.unsigned()) //nolint:gosec // stored value
	r.ContentHash, r.Deleted = f.unsigned(), f.flag()
	r.Username, r.UsernameKey, r.FullName = f.text(), f.text(), f.text()
	r.EmailKeys, r.CodehostUsernameKeys, r.Present = f.list(), f.list(), f.unsigned()
	r.pieces = f.rest
	return f.err
}

// Append appends the fields of a shape to the object at the end of b. emails adds what the add-on
// personal_email adds to a record of the network webset.
func (r *NetworkPersonRow) Append(b []byte, shape Shape, emails bool) []byte {
	if emails {
		shape |= ShapeEmails
	}
	return appendPieces(b, r.pieces, shape, "")
}

// Only returns the row with the fields of a shape only.
func (r *NetworkPersonRow) Only(shape Shape) *NetworkPersonRow {
	row := *r
	row.pieces = string(pieceMark) + shape.letter() + string(appendPieces(nil, r.pieces, shape, ""))
	return &row
}

// Size returns the size of the fields in bytes.
func (r *NetworkPersonRow) Size() int { return len(r.pieces) }

// NetworkPeopleQuery returns the query for network people by ProfileHash. It returns all rows, including
// older versions and deleted people, for NewestNetworkPeople. Compare ProfileID: hashes may collide.
func NetworkPeopleQuery() string {
	return `SELECT profile_hash, content
FROM network_people
WHERE profile_hash IN {keys:Array(UInt64)}`
}

// NewestNetworkPeople returns the newest version of each profile among rows, deleted or not. For the few rows
// of a response this is cheaper than sorting in SQL.
func NewestNetworkPeople(rows []*NetworkPersonRow) []*NetworkPersonRow {
	var out []*NetworkPersonRow
	for _, r := range rows {
		i := slices.IndexFunc(out, func(o *NetworkPersonRow) bool { return o.ProfileID == r.ProfileID })
		switch {
		case i < 0:
			out = append(out, r)
		case compareVersions(out[i].Version, r.Version, out[i].Revision, r.Revision, out[i].ContentHash,
			r.ContentHash) < 0:
			out[i] = r
		}
	}
	return out
}

// compareVersions orders two rows of one identity as ver does in SQL: by version, mapping revision and
// content hash, which is greatest for a deletion.
func compareVersions(version, otherVersion int64, revision, otherRevision uint32, hash, otherHash uint64) int {
	return cmp.Or(cmp.Compare(version, otherVersion), cmp.Compare(revision, otherRevision),
		cmp.Compare(hash, otherHash))
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

// ScanDest returns the scan destinations in the order of CompaniesQuery's columns.
func (r *CompanyRow) ScanDest() []any {
	return []any{&r.CompanyHash, &r.CompanyID, &r.Version, &r.Revision, &r.ContentHash, &r.Deleted, &r.SlugKey,
		&r.NetworkID, &r.Company}
}

// CompaniesQuery returns the query for companies by CompanyHash. It returns all rows, including older
// versions and deleted companies, for NewestCompanies. Compare CompanyID: hashes may collide.
func CompaniesQuery() string {
	return `SELECT company_hash, company_id, version, revision, content_hash, deleted, slug_key, network_id, company
FROM network_companies
WHERE company_hash IN {keys:Array(UInt64)}`
}

// NewestCompanies returns the newest version of each company among rows, deleted or not.
func NewestCompanies(rows []*CompanyRow) []*CompanyRow {
	var out []*CompanyRow
	for _, r := range rows {
		i := slices.IndexFunc(out, func(o *CompanyRow) bool { return o.CompanyID == r.CompanyID })
		switch {
		case i < 0:
			out = append(out, r)
		case compareVersions(out[i].Version, r.Version, out[i].Revision, r.Revision, out[i].ContentHash,
			r.ContentHash) < 0:
			out[i] = r
		}
	}
	return out
}
