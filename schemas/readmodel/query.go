package readmodel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"muster/schemas/record"
)

// MaxKeys is the number of keys a lookup query is made for. Parameters travel
// in the URL, whose size servers limit; more than 1,000 values would need an
// external table.
const MaxKeys = 256

// MaxEntries is how many entries of a list are served (rulings.md, Names).
const MaxEntries = 100

// ParameterKeys is the query parameter that holds the keys of every query of
// this package: Array(UInt64) for LookupQuery, NetworkPeopleQuery
// and CompaniesQuery, Array(Int64) for
// CodehostPeopleQuery, ReposQuery and CommitsQuery.
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
	NetworkAddon                             // WebsetShared (add-on network of the codehost webset)
)

// NetworkPersonRow is a network-person. The rendered columns are members of a
// JSON object without its braces; a non-empty one neither begins nor ends
// with a comma.
type NetworkPersonRow struct {
	ProfileHash           uint64
	ProfileID             string
	Version               int64
	Revision              uint32 // mapping revision; of NetworkDocumentsQuery alone
	ContentHash           uint64
	Deleted               bool   // withdrawn: the row exists so that readers know, nothing else is set
	SeenVersion           bool   // not a person but a newer version of one with this content hash (FreshenNetworkPeople)
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
		&r.ProfileHash, &r.ProfileID, &r.Version, &r.ContentHash, &r.Deleted, &r.SeenVersion, &r.Username, &r.UsernameKey,
		&r.EmailKeys, &r.CodehostUsernameKeys, &r.MicroblogUsernameKeys, &r.Present,
		&r.Enrich, &r.WebsetShared, &r.WebsetRest, &r.WebsetOpen, &r.WebsetEmail,
	}
}

// NetworkPeopleQuery reads network people by ProfileHash. Withdrawn ones are
// returned with Deleted set. Compare ProfileID: hashes may collide. Rows with
// SeenVersion set are for FreshenNetworkPeople.
func NetworkPeopleQuery(columns NetworkColumns) string {
	return `(SELECT profile_hash, profile_id, version, content_hash, deleted, false AS seen, username, username_key, email_keys, codehost_username_keys, microblog_username_keys, present, ` +
		choose(
			choice{column: "enrich", chosen: columns&NetworkEnrich != 0},
			choice{column: "webset_shared", chosen: columns&(NetworkWebset|NetworkAddon) != 0},
			choice{column: "webset_rest", chosen: columns&NetworkWebset != 0},
			choice{column: "webset_open", chosen: columns&NetworkOpen != 0},
			choice{column: "webset_email", chosen: columns&NetworkOpen != 0},
		) + `
FROM network_people
WHERE profile_hash IN {keys:Array(UInt64)}
` + newestOf("profile_hash, profile_id") + `)
UNION ALL
` + seenQuery(record.KindNetworkPerson, "{keys:Array(UInt64)}",
		"key_hash, key, version, content_hash, false, true, '', '', [], [], [], 0, '', '', '', '', ''")
}

// NetworkDocumentsQuery reads what a search shows of network people, by ProfileHash:
// Enrich, and what tells versions and erased people apart. Each row of the table is
// there, older versions and withdrawn people too, for NewestNetworkPeople: the few
// rows of a page are told apart in less than the server takes to sort them. Newer
// versions are in a statement of their own, NetworkSeenQuery, which is asked at the
// same time. Both have the columns of NetworkPersonRow.Document, without the times, which
// the version says: each column takes its part of every page.
func NetworkDocumentsQuery() string {
	return `SELECT profile_hash, profile_id, version, revision, content_hash, deleted, false AS seen, username_key, email_keys, enrich
FROM network_people
WHERE profile_hash IN {keys:Array(UInt64)}`
}

// NetworkSeenQuery reads the newer versions of network people, by ProfileHash.
func NetworkSeenQuery() string {
	return `SELECT key_hash, key, version, revision, content_hash, false, true, '', CAST([], 'Array(String)'), ''
FROM seen_versions
WHERE kind = '` + string(record.KindNetworkPerson) + `' AND key_hash IN {keys:Array(UInt64)}`
}

// Document gives the scan destinations in the order of the columns of
// NetworkDocumentsQuery and NetworkSeenQuery.
func (r *NetworkPersonRow) Document() []any {
	return []any{
		&r.ProfileHash, &r.ProfileID, &r.Version, &r.Revision, &r.ContentHash, &r.Deleted, &r.SeenVersion, &r.UsernameKey, &r.EmailKeys, &r.Enrich,
	}
}

// NewestNetworkPeople keeps the newest version of each profile among rows of
// NetworkDocumentsQuery, withdrawn or not.
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

// CodehostColumns chooses the rendered columns of CodehostPeopleQuery.
type CodehostColumns uint8

// The rendered columns of codehost_people.
const (
	CodehostEnrich    CodehostColumns = 1 << iota // Enrich and Owner
	CodehostWebset                                // Webset
	CodehostAddon                                 // Addon
	CodehostAddonOpen                             // AddonOpen (with add-on personal_email); ask for CodehostAddon with it
)

// CodehostPersonRow is a codehost-person; rendered columns as in NetworkPersonRow.
type CodehostPersonRow struct {
	UserID                int64
	Version               int64
	ContentHash           uint64
	Deleted               bool
	SeenVersion           bool   // not a person but a newer version of one with this content hash (FreshenCodehostPeople)
	Type                  string // of the account, as the record has it
	CodehostUsername      string // as the record has it
	UsernameKey           string
	EmailKeys             []string
	NetworkUsername       string   // the record's own field as it has it; may be empty
	NetworkUsernameKeys   []string // declared, the field's own first
	MicroblogUsernameKeys []string
	Present               uint64 // CodehostFieldMask

	Enrich    string // person.codehost without network_username, repos, commits and last_updated
	Owner     string // members of repos[].owner
	Webset    string // the webset record without repos, commits and last_updated
	Addon     string // the add-on codehost without repos, commits and last_updated. No e-mail
	AddonOpen string // the same with nothing removed; empty when that is the same
}

// Dest gives the scan destinations in the order of CodehostPeopleQuery's columns.
func (r *CodehostPersonRow) Dest() []any {
	return []any{
		&r.UserID, &r.Version, &r.ContentHash, &r.Deleted, &r.SeenVersion, &r.Type, &r.CodehostUsername, &r.UsernameKey,
		&r.EmailKeys, &r.NetworkUsername, &r.NetworkUsernameKeys, &r.MicroblogUsernameKeys, &r.Present,
		&r.Enrich, &r.Owner, &r.Webset, &r.Addon, &r.AddonOpen,
	}
}

// IsOrganization reports whether the account is an organization's: endpoints that serve
// people do not find it (rulings.md, Names).
func (r *CodehostPersonRow) IsOrganization() bool { return r.Type == "Organization" }

// CodehostPeopleQuery reads codehost people by user id. Withdrawn ones are
// returned with Deleted set. Rows with SeenVersion set are for
// FreshenCodehostPeople.
func CodehostPeopleQuery(columns CodehostColumns) string {
	return `(SELECT user_id, version, content_hash, deleted, false AS seen, type, codehost_username, username_key, email_keys, network_username, network_username_keys, microblog_username_keys, present, ` +
		choose(
			choice{column: "enrich", chosen: columns&CodehostEnrich != 0},
			choice{column: "owner", chosen: columns&CodehostEnrich != 0},
			choice{column: "webset", chosen: columns&CodehostWebset != 0},
			choice{column: "addon", chosen: columns&CodehostAddon != 0},
			choice{column: "addon_open", chosen: columns&CodehostAddonOpen != 0},
		) + `
FROM codehost_people
WHERE user_id IN {keys:Array(Int64)}
` + newestOf("user_id") + `)
UNION ALL
` + seenQuery(record.KindCodehostPerson, "{keys:Array(Int64)}",
		"toInt64(key_hash), version, content_hash, false, true, '', '', '', [], '', [], [], 0, '', '', '', '', ''")
}

// CompanyRow is a network-company.
type CompanyRow struct {
	CompanyHash uint64
	CompanyID   string
	Version     int64
	ContentHash uint64
	Deleted     bool
	SeenVersion bool // not a company but a newer version of one with this content hash (FreshenCompanies)
	SlugKey     string
	NetworkID   string
	Company     string // the company object without last_updated
}

// Dest gives the scan destinations in the order of CompaniesQuery's columns.
func (r *CompanyRow) Dest() []any {
	return []any{&r.CompanyHash, &r.CompanyID, &r.Version, &r.ContentHash, &r.Deleted, &r.SeenVersion, &r.SlugKey, &r.NetworkID, &r.Company}
}

// CompaniesQuery reads companies by CompanyHash. Withdrawn ones are returned
// with Deleted set. Compare CompanyID: hashes may collide. Rows with SeenVersion
// set are for FreshenCompanies.
func CompaniesQuery() string {
	return `(SELECT company_hash, company_id, version, content_hash, deleted, false AS seen, slug_key, network_id, company
FROM network_companies
WHERE company_hash IN {keys:Array(UInt64)}
` + newestOf("company_hash, company_id") + `)
UNION ALL
` + seenQuery(record.KindNetworkCompany, "{keys:Array(UInt64)}",
		"key_hash, key, version, content_hash, false, true, '', '', ''")
}

// EntryColumns chooses the shapes of ReposQuery and CommitsQuery.
type EntryColumns uint8

// The shapes of repositories and commits.
const (
	EntryEnrich   EntryColumns = 1 << iota // Enrich: person.codehost (of commits the same as Full)
	EntryFull                              // Full: the codehost webset, and the add-on codehost with personal_email
	EntryRedacted                          // Redacted: the add-on codehost without personal_email. No e-mail
)

// EntriesRow holds the visible repositories, or commits, of one account: the
// newest MaxEntries of each chosen shape, newest first, and the number of
// all. An entry is the members of a JSON object without its braces; a
// repository's Enrich lacks owner. Accounts without entries have no row.
type EntriesRow struct {
	UserID   int64
	Count    uint64
	Enrich   []string
	Full     []string
	Redacted []string
}

// Dest gives the scan destinations in the order of ReposQuery's and CommitsQuery's columns.
func (r *EntriesRow) Dest() []any {
	return []any{&r.UserID, &r.Count, &r.Enrich, &r.Full, &r.Redacted}
}

// ReposQuery reads the repositories of accounts by user id.
func ReposQuery(columns EntryColumns) string {
	return entriesQuery("codehost_repos", "repos", "repo_id", "toString(repo_id)", columns, "enrich")
}

// CommitsQuery reads the commits of accounts by user id.
func CommitsQuery(columns EntryColumns) string {
	return entriesQuery("codehost_commits", "commits", "sha", "sha", columns, "entry")
}

// entriesQuery keeps 100 entries an account while it aggregates, so that an
// account of any size is read in bounded memory. Of an account with a complete
// list the newer ones, and those that it has, count.
// The redacted column is empty where nothing had to be removed.
func entriesQuery(table, list, id, item string, columns EntryColumns, enrich string) string {
	shapes := []choice{
		{column: enrich, needs: []string{enrich}, chosen: columns&EntryEnrich != 0},
		{column: "entry", needs: []string{"entry"}, chosen: columns&EntryFull != 0},
		{column: "if(empty(redacted), entry, redacted)", needs: []string{"entry", "redacted"}, chosen: columns&EntryRedacted != 0},
	}
	var tuple, out strings.Builder
	read := []string{"user_id", id, "version", "deleted"}
	n := 2
	for i, s := range shapes {
		if i > 0 {
			out.WriteString(", ")
		}
		if !s.chosen {
			out.WriteString("emptyArrayString()")
			continue
		}
		n++
		tuple.WriteString(", " + s.column)
		for _, c := range s.needs {
			if !slices.Contains(read, c) {
				read = append(read, c)
			}
		}
		out.WriteString("tupleElement(newest, " + strconv.Itoa(n) + ")")
	}
	newest := "groupArraySorted(" + strconv.Itoa(MaxEntries) + ")((-version, " + id + tuple.String() + "))"
	return `WITH
    complete AS (
        SELECT user_id, version, items FROM (
            SELECT user_id, version, items, deleted FROM codehost_lists
            WHERE user_id IN {keys:Array(Int64)} AND list = '` + list + `'
            ` + newestOf("user_id") + `
        )
        WHERE NOT deleted
    ),
    (SELECT (groupArray(user_id), groupArray(version)) FROM complete) AS lists
SELECT user_id, count() AS entries, ` + strings.ReplaceAll(out.String(), "newest", newest) + `
FROM (
    SELECT ` + strings.Join(read, ", ") + `
    FROM ` + table + `
    WHERE user_id IN {keys:Array(Int64)}
    ` + newestOf("user_id, "+id) + `
)
WHERE NOT deleted
  AND (NOT has(lists.1, user_id) OR version > lists.2[indexOf(lists.1, user_id)] OR (user_id, ` + item + `) GLOBAL IN (SELECT user_id, arrayJoin(items) FROM complete))
GROUP BY user_id`
}

// newestOf keeps the newest version of each key of a ReplacingMergeTree. For the
// few rows of a point lookup it takes a fifth of what FINAL does, which merges
// every granule that may hold a key in every part.
func newestOf(key string) string {
	return "ORDER BY ver DESC LIMIT 1 BY " + key
}

type choice struct {
	column string
	needs  []string // the table's columns that column is made of
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
