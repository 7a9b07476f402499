package readmodel

import (
	"strconv"
	"strings"

	"muster/schemas/identity"
	"muster/schemas/record"
)

// ProfileRow is an account as compared by discovery, in one form for all platforms.
type ProfileRow struct {
	Platform      string // one of identity's platforms
	ID            string // profile_id, user_id in decimal, or user_id
	Version       int64
	Revision      uint32 // mapping revision
	ContentHash   uint64
	Deleted       bool
	Username      string
	UsernameKey   string
	EmailKeys     []string
	NetworkKeys   []string // normalized usernames declared on other platforms, the own field first
	CodehostKeys  []string
	MicroblogKeys []string
	Followers     int64 // microblog only; -1 if unknown
	// Texts are, for the network, the fields of the webset record; for the code host the add-on; for the
	// microblog name, bio, location, website, avatar_url, created_at and account_type.
	Texts []string
}

// ScanDest returns the scan destinations in the order of ProfilesQuery's columns.
func (r *ProfileRow) ScanDest() []any {
	return []any{
		&r.Platform, &r.ID, &r.Version, &r.Revision, &r.ContentHash, &r.Deleted, &r.Username, &r.UsernameKey,
		&r.EmailKeys,
		&r.NetworkKeys, &r.CodehostKeys, &r.MicroblogKeys, &r.Followers, &r.Texts,
	}
}

// ProfilesQuery returns one query for accounts of several platforms, which is cheaper than one per platform.
// Each platform has a parameter of its name: up to MaxKeys ProfileHashes for network, user ids for codehost,
// MicroblogHashes for microblog. Pass the rows to NewestProfiles. Versions do not include version bumps.
// Accounts of organizations count as deleted: discovery serves people.
func ProfilesQuery(platforms ...string) string {
	arms := make([]string, 0, len(platforms))
	for _, p := range platforms {
		switch p {
		case identity.Network:
			arms = append(arms, profilesFrom(p)+"\nWHERE profile_hash IN {network:Array(UInt64)}")
		case identity.Codehost:
			arms = append(arms, profilesFrom(p)+"\nWHERE user_id IN {codehost:Array(Int64)}")
		case identity.Microblog:
			arms = append(arms, profilesFrom(p)+"\nWHERE user_hash IN {microblog:Array(UInt64)}")
		}
	}
	return strings.Join(arms, "\nUNION ALL\n")
}

// UsernameHistoryQuery returns the query for current and former owners of a platform's usernames, by KeyHash, with
// the columns of ProfilesQuery: the current rows of accounts in lookups, at most the 200 newest per key. Pass
// the rows to NewestProfiles.
func UsernameHistoryQuery(platform string) string {
	order, kind := "", ""
	switch platform {
	case identity.Network:
		order, kind = "profile_hash GLOBAL IN (SELECT xxHash64(concat('network.profile_id\\0', target))",
			TargetNetworkPerson
	case identity.Codehost:
		order, kind = "user_id GLOBAL IN (SELECT toInt64OrZero(target)", TargetCodehostPerson
	case identity.Microblog:
		order, kind = "user_hash GLOBAL IN (SELECT xxHash64(concat('microblog.user_id\\0', target))",
			TargetMicroblogPerson
	}
	return profilesFrom(platform) + "\nWHERE " + order +
		` FROM lookups WHERE key_hash IN {keys:Array(UInt64)} AND target_kind = '` + kind + `'
ORDER BY ver DESC
LIMIT ` + strconv.Itoa(maxCandidateRows) + ` BY key_hash)`
}

// profilesFrom selects the columns of a ProfileRow.
func profilesFrom(platform string) string {
	switch platform {
	case identity.Network:
		return `SELECT 'network' AS platform, profile_id AS id, version, revision, content_hash, deleted, username,
    username_key, email_keys, emptyArrayString() AS network_keys, codehost_username_keys AS codehost_keys,
    microblog_username_keys AS microblog_keys, toInt64(-1) AS followed, [` + Members(ShapeWebset) + `] AS texts
FROM network_people`
	case identity.Codehost:
		return `SELECT 'codehost' AS platform, toString(user_id) AS id, version, revision, content_hash,
    deleted OR type = 'Organization' AS gone, codehost_username, username_key, email_keys,
    network_username_keys AS network_keys, emptyArrayString() AS codehost_keys,
    microblog_username_keys AS microblog_keys, toInt64(-1) AS followed, [` + Members(ShapeAddon) + `] AS texts
FROM codehost_people`
	}
	return `SELECT 'microblog' AS platform, user_id AS id, version, revision, content_hash, deleted, username,
    username_key, emptyArrayString() AS email_keys, emptyArrayString() AS network_keys,
    emptyArrayString() AS codehost_keys, emptyArrayString() AS microblog_keys, ifNull(followers, -1) AS followed,
    [name, bio, location, website, avatar_url, created_at, toString(account_type)] AS texts
FROM microblog_people`
}

// NewestProfiles returns the newest row of each account, deleted or not. Accounts have several rows while
// parts are unmerged; there are few, so selecting here is cheaper than in SQL.
func NewestProfiles(rows []*ProfileRow) []*ProfileRow {
	type account struct{ platform, id string }
	at := make(map[account]int, len(rows))
	out := rows[:0]
	for _, r := range rows {
		a := account{r.Platform, r.ID}
		i, have := at[a]
		switch {
		case !have:
			at[a] = len(out)
			out = append(out, r)
		case compareVersions(r.Version, out[i].Version, r.Revision, out[i].Revision, r.ContentHash,
			out[i].ContentHash) > 0:
			out[i] = r
		}
	}
	return out
}

// NewestVersion returns the row's version or the newest version bump of its content.
func (r *ProfileRow) NewestVersion(seen []VersionBumpRow) int64 {
	return NewestVersion(record.Kind(r.Platform+"-person"), r.ID, r.Version, r.ContentHash, seen)
}
