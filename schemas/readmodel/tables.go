package readmodel

import (
	"encoding/binary"
	"math/big"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/record"
)

// field is one column of an insert.
type field struct {
	name string
	// ClickHouse type to send. String also for LowCardinality(String): the server converts it faster than the client.
	kind   string
	values values
}

// values are the values of a column.
type values interface {
	appendTo(driver.BatchColumn) error
	reset()
}

// column holds values of a Go type that clickhouse-go appends in one call.
type column[T any] struct{ list []T }

func (c *column[T]) add(v T) { c.list = append(c.list, v) }

func (c *column[T]) appendTo(dst driver.BatchColumn) error {
	if len(c.list) == 0 {
		return nil
	}
	if lists, ok := any(c.list).([][]string); ok { // Appending all in one call uses reflection.
		for _, list := range lists {
			if err := dst.AppendRow(list); err != nil {
				return err
			}
		}
		return nil
	}
	return dst.Append(c.list)
}

func (c *column[T]) reset() {
	clear(c.list) // Releases the records' strings.
	c.list = c.list[:0]
}

// text is a column of rendered fragments in one buffer.
type text struct {
	arena []byte
	ends  []int
}

func (t *text) add(fragment []byte) {
	t.arena = append(t.arena, fragment...)
	t.ends = append(t.ends, len(t.arena))
}

// bytes returns the buffer, for reserveCapacity.
func (t *text) bytes() *[]byte { return &t.arena }

func (t *text) appendTo(dst driver.BatchColumn) error {
	var fragment []byte
	var boxed any = &fragment // One for all rows: appending a *[]byte does not allocate.
	begin := 0
	for _, end := range t.ends {
		fragment = t.arena[begin:end]
		if err := dst.AppendRow(boxed); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

func (t *text) reset() {
	if cap(t.arena) > maxKeptArena {
		t.arena = nil
	}
	t.arena, t.ends = t.arena[:0], t.ends[:0]
}

// maxKeptArena is the maximum buffer size that a column keeps for the next batch, in bytes.
const maxKeptArena = 32 << 20

// table is a table as Insert needs it.
type table struct {
	name    string
	rows    int
	columns func() []field
}

func (b *Batch) tables() []table {
	return []table{
		{"lookups", len(b.lookups.keyHash.list), b.lookups.columns},
		{"network_people", len(b.networkPeople.profileHash.list), b.networkPeople.columns},
		{"search_people", len(b.searchPeople.hash.list),
			func() []field { return b.searchPeople.columns(PeopleCollection) }},
		{"codehost_people", len(b.codehostPeople.userID.list), b.codehostPeople.columns},
		{"codehost_repos", len(b.codehostRepos.userID.list), b.codehostRepos.columns},
		{"codehost_commits", len(b.codehostCommits.userID.list), b.codehostCommits.columns},
		{"codehost_lists", len(b.codehostLists.userID.list), b.codehostLists.columns},
		{"network_companies", len(b.networkCompanies.companyHash.list), b.networkCompanies.columns},
		{"search_companies", len(b.searchCompanies.hash.list), func() []field {
			return b.searchCompanies.columns(CompaniesCollection)
		}},
		{"microblog_people", len(b.microblogPeople.userHash.list), b.microblogPeople.columns},
		{"account_links", len(b.accountLinks.linkHash.list), b.accountLinks.columns},
		{"seen_versions", len(b.seenVersions.keyHash.list), b.seenVersions.columns},
	}
}

func (h *commonColumns) columns(own ...field) []field {
	return append(own,
		field{"version", "Int64", &h.version},
		field{"revision", "UInt32", &h.revision},
		field{"content_hash", "UInt64", &h.contentHash},
		field{"deleted", "Bool", &h.deleted},
		field{"topic", "String", &h.topic},
		field{"partition", "Int32", &h.partition},
		field{"offset", "Int64", &h.offset},
	)
}

// lookupTable has one column for the version order: most of its rows are hardly longer.
type lookupTable struct {
	keyHash    column[uint64]
	claim      text
	ver        versions
	confidence column[float32]
	topic      column[string]
	partition  column[int32]
	offset     column[int64]

	joining []joiningLookup
}

func (t *lookupTable) columns() []field {
	return []field{
		{"key_hash", "UInt64", &t.keyHash},
		{"claim", "String", &t.claim},
		{"ver", "UInt128", &t.ver},
		{"confidence", "Float32", &t.confidence},
		{"topic", "String", &t.topic},
		{"partition", "Int32", &t.partition},
		{"offset", "Int64", &t.offset},
	}
}

// versions are values of the column ver, which other tables compute from commonColumns: version (59 bits),
// mapping revision (32), deletion (1) and the 36 highest bits of the content hash.
type versions struct{ list [][2]uint64 }

func (v *versions) add(rec *record.Record) {
	deleted := uint64(0)
	if rec.Deleted {
		deleted = 1
	}
	revision := uint64(rec.Revision)
	high := uint64(rec.Version)<<5 | revision>>27 //nolint:gosec // versions are positive
	v.list = append(v.list, [2]uint64{high, revision<<37 | deleted<<36 | rec.Hash>>28})
}

func (v *versions) addNumber(n *big.Int) {
	var bytes [16]byte
	n.FillBytes(bytes[:])
	v.list = append(v.list, [2]uint64{binary.BigEndian.Uint64(bytes[:8]), binary.BigEndian.Uint64(bytes[8:])})
}

func (v *versions) appendTo(dst driver.BatchColumn) error {
	var n, low big.Int
	var boxed any = &n
	for _, half := range v.list {
		n.Lsh(n.SetUint64(half[0]), 64)
		n.Or(&n, low.SetUint64(half[1]))
		if err := dst.AppendRow(boxed); err != nil {
			return err
		}
	}
	return nil
}

func (v *versions) reset() { v.list = v.list[:0] }

type networkPeopleTable struct {
	common                                                   commonColumns
	profileHash                                              column[uint64]
	profileID, lastUpdated, updatedAt, username, usernameKey column[string]
	emailKeys, codehostUsernameKeys, microblogUsernameKeys   column[[]string]
	content                                                  text
}

func (t *networkPeopleTable) columns() []field {
	return t.common.columns(
		field{"profile_hash", "UInt64", &t.profileHash},
		field{"profile_id", "String", &t.profileID},
		field{"last_updated", "String", &t.lastUpdated},
		field{"updated_at", "String", &t.updatedAt},
		field{"username", "String", &t.username},
		field{"username_key", "String", &t.usernameKey},
		field{"email_keys", "Array(String)", &t.emailKeys},
		field{"codehost_username_keys", "Array(String)", &t.codehostUsernameKeys},
		field{"microblog_username_keys", "Array(String)", &t.microblogUsernameKeys},
		field{"content", "String", &t.content},
	)
}

// addDeletion adds a row for a deleted profile.
func (t *networkPeopleTable) addDeletion(rec *record.Record, at Position, profileID, lastUpdated string) {
	t.common.add(rec, at)
	t.profileHash.add(ProfileHash(profileID))
	t.profileID.add(profileID)
	t.lastUpdated.add(lastUpdated)
	t.updatedAt.add(rec.Version.String())
	t.username.add("")
	t.usernameKey.add("")
	t.emailKeys.add(nil)
	t.codehostUsernameKeys.add(nil)
	t.microblogUsernameKeys.add(nil)
	t.content.add(appendNetworkFields(nil, rec, profileID, "", "", "", nil, nil, 0))
}

type codehostPeopleTable struct {
	common                                                commonColumns
	userID                                                column[int64]
	lastUpdated, codehostUsername, usernameKey            column[string]
	accountType, networkUsername                          column[string]
	emailKeys, networkUsernameKeys, microblogUsernameKeys column[[]string]
	present                                               column[uint64]
	content                                               text
}

func (t *codehostPeopleTable) columns() []field {
	return t.common.columns(
		field{"user_id", "Int64", &t.userID},
		field{"last_updated", "String", &t.lastUpdated},
		field{"codehost_username", "String", &t.codehostUsername},
		field{"username_key", "String", &t.usernameKey},
		field{"type", "String", &t.accountType},
		field{"email_keys", "Array(String)", &t.emailKeys},
		field{"network_username", "String", &t.networkUsername},
		field{"network_username_keys", "Array(String)", &t.networkUsernameKeys},
		field{"microblog_username_keys", "Array(String)", &t.microblogUsernameKeys},
		field{"present", "UInt64", &t.present},
		field{"content", "String", &t.content},
	)
}

// addDeletion adds a row for a deleted account.
func (t *codehostPeopleTable) addDeletion(rec *record.Record, at Position, userID int64, lastUpdated string) {
	t.common.add(rec, at)
	t.userID.add(userID)
	t.lastUpdated.add(lastUpdated)
	t.codehostUsername.add("")
	t.usernameKey.add("")
	t.accountType.add("")
	t.emailKeys.add(nil)
	t.networkUsername.add("")
	t.networkUsernameKeys.add(nil)
	t.microblogUsernameKeys.add(nil)
	t.present.add(0)
	t.content.add(nil)
}

type codehostReposTable struct {
	common         commonColumns
	userID, repoID column[int64]
	content        text
}

func (t *codehostReposTable) columns() []field {
	return t.common.columns(
		field{"user_id", "Int64", &t.userID},
		field{"repo_id", "Int64", &t.repoID},
		field{"content", "String", &t.content},
	)
}

type codehostCommitsTable struct {
	common  commonColumns
	userID  column[int64]
	sha     column[string]
	content text
}

func (t *codehostCommitsTable) columns() []field {
	return t.common.columns(
		field{"user_id", "Int64", &t.userID},
		field{"sha", "String", &t.sha},
		field{"content", "String", &t.content},
	)
}

type codehostListsTable struct {
	common commonColumns
	userID column[int64]
	list   column[string]
	items  column[[]string]
}

func (t *codehostListsTable) columns() []field {
	return t.common.columns(
		field{"user_id", "Int64", &t.userID},
		field{"list", "String", &t.list},
		field{"items", "Array(String)", &t.items},
	)
}

type networkCompaniesTable struct {
	common                                                        commonColumns
	companyHash                                                   column[uint64]
	companyID, lastUpdated, networkSlug, slugKey, networkID, name column[string]
	company                                                       text
}

func (t *networkCompaniesTable) columns() []field {
	return t.common.columns(
		field{"company_hash", "UInt64", &t.companyHash},
		field{"company_id", "String", &t.companyID},
		field{"last_updated", "String", &t.lastUpdated},
		field{"network_slug", "String", &t.networkSlug},
		field{"slug_key", "String", &t.slugKey},
		field{"network_id", "String", &t.networkID},
		field{"name", "String", &t.name},
		field{"company", "String", &t.company},
	)
}

type microblogPeopleTable struct {
	common                                     commonColumns
	userHash                                   column[uint64]
	userID, lastUpdated, username              column[string]
	usernameKey, name, bio, location           column[string]
	website, avatarURL, createdAt, accountType column[string]
	followers, following                       column[*int64]
}

func (t *microblogPeopleTable) columns() []field {
	return t.common.columns(
		field{"user_hash", "UInt64", &t.userHash},
		field{"user_id", "String", &t.userID},
		field{"last_updated", "String", &t.lastUpdated},
		field{"username", "String", &t.username},
		field{"username_key", "String", &t.usernameKey},
		field{"name", "String", &t.name},
		field{"bio", "String", &t.bio},
		field{"location", "String", &t.location},
		field{"website", "String", &t.website},
		field{"avatar_url", "String", &t.avatarURL},
		field{"followers", "Nullable(Int64)", &t.followers},
		field{"following", "Nullable(Int64)", &t.following},
		field{"created_at", "String", &t.createdAt},
		field{"account_type", "String", &t.accountType},
	)
}

type accountLinksTable struct {
	common                     commonColumns
	linkHash                   column[uint64]
	linkID                     column[string]
	aPlatform, aUsername, aKey column[string]
	bPlatform, bUsername, bKey column[string]
	source, observedAt         column[string]
	confidence                 column[float32]
}

func (t *accountLinksTable) columns() []field {
	return t.common.columns(
		field{"link_hash", "UInt64", &t.linkHash},
		field{"link_id", "String", &t.linkID},
		field{"a_platform", "String", &t.aPlatform},
		field{"a_username", "String", &t.aUsername},
		field{"a_key", "String", &t.aKey},
		field{"b_platform", "String", &t.bPlatform},
		field{"b_username", "String", &t.bUsername},
		field{"b_key", "String", &t.bKey},
		field{"source", "String", &t.source},
		field{"confidence", "Float32", &t.confidence},
		field{"observed_at", "String", &t.observedAt},
	)
}

type seenVersionsTable struct {
	common                 commonColumns
	kind, key, lastUpdated column[string]
	keyHash                column[uint64]
}

func (t *seenVersionsTable) columns() []field {
	return t.common.columns(
		field{"kind", "String", &t.kind},
		field{"key_hash", "UInt64", &t.keyHash},
		field{"key", "String", &t.key},
		field{"last_updated", "String", &t.lastUpdated},
	)
}
