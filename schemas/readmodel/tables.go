package readmodel

import "muster/schemas/record"

// column is one column of an insert: its values are a slice that clickhouse-go
// appends at once.
type column struct {
	name   string
	kind   string // ClickHouse type to send; String also for LowCardinality(String), which the server makes of it faster than the client can
	values any
}

// table is what Insert needs of a table.
type table struct {
	name    string
	rows    int
	columns func() []column
}

func (b *Batch) tables() []table {
	return []table{
		{"lookups", len(b.lookups.keyHash), b.lookups.columns},
		{"network_people", len(b.networkPeople.profileHash), b.networkPeople.columns},
		{"codehost_people", len(b.codehostPeople.userID), b.codehostPeople.columns},
		{"codehost_repos", len(b.codehostRepos.userID), b.codehostRepos.columns},
		{"codehost_commits", len(b.codehostCommits.userID), b.codehostCommits.columns},
		{"codehost_lists", len(b.codehostLists.userID), b.codehostLists.columns},
		{"network_companies", len(b.networkCompanies.companyHash), b.networkCompanies.columns},
		{"microblog_people", len(b.microblogPeople.userHash), b.microblogPeople.columns},
		{"account_links", len(b.accountLinks.linkHash), b.accountLinks.columns},
	}
}

func (h *head) columns(own ...column) []column {
	return append(own,
		column{"version", "Int64", h.version},
		column{"content_hash", "UInt64", h.contentHash},
		column{"deleted", "Bool", h.deleted},
		column{"topic", "String", h.topic},
		column{"partition", "Int32", h.partition},
		column{"offset", "Int64", h.offset},
	)
}

type lookupTable struct {
	head                                          head
	keyHash                                       []uint64
	lookupType, value, targetKind, target, source []string
	confidence                                    []float32
	declared                                      []bool
}

func (t *lookupTable) columns() []column {
	return t.head.columns(
		column{"key_hash", "UInt64", t.keyHash},
		column{"type", "String", t.lookupType},
		column{"value", "String", t.value},
		column{"target_kind", "String", t.targetKind},
		column{"target", "String", t.target},
		column{"source", "String", t.source},
		column{"confidence", "Float32", t.confidence},
		column{"declared", "Bool", t.declared},
	)
}

type networkPeopleTable struct {
	head                                                     head
	profileHash                                              []uint64
	profileID, lastUpdated, updatedAt, username, usernameKey []string
	emailKeys, codehostUsernameKeys, microblogUsernameKeys   [][]string
	present                                                  []uint64
	enrich, websetShared, websetRest, websetOpen             text
	websetEmail                                              text
}

func (t *networkPeopleTable) columns() []column {
	return t.head.columns(
		column{"profile_hash", "UInt64", t.profileHash},
		column{"profile_id", "String", t.profileID},
		column{"last_updated", "String", t.lastUpdated},
		column{"updated_at", "String", t.updatedAt},
		column{"username", "String", t.username},
		column{"username_key", "String", t.usernameKey},
		column{"email_keys", "Array(String)", t.emailKeys},
		column{"codehost_username_keys", "Array(String)", t.codehostUsernameKeys},
		column{"microblog_username_keys", "Array(String)", t.microblogUsernameKeys},
		column{"present", "UInt64", t.present},
		column{"enrich", "String", t.enrich.values()},
		column{"webset_shared", "String", t.websetShared.values()},
		column{"webset_rest", "String", t.websetRest.values()},
		column{"webset_open", "String", t.websetOpen.values()},
		column{"webset_email", "String", t.websetEmail.values()},
	)
}

// withdraw adds a row that says that the profile is gone and nothing else.
func (t *networkPeopleTable) withdraw(rec *record.Record, at Position, profileID, lastUpdated string) {
	t.head.add(rec, at)
	t.profileHash = append(t.profileHash, ProfileHash(profileID))
	t.profileID = append(t.profileID, profileID)
	t.lastUpdated = append(t.lastUpdated, lastUpdated)
	t.updatedAt = append(t.updatedAt, rec.Version.String())
	t.username = append(t.username, "")
	t.usernameKey = append(t.usernameKey, "")
	t.emailKeys = append(t.emailKeys, nil)
	t.codehostUsernameKeys = append(t.codehostUsernameKeys, nil)
	t.microblogUsernameKeys = append(t.microblogUsernameKeys, nil)
	t.present = append(t.present, 0)
	for _, c := range []*text{&t.enrich, &t.websetShared, &t.websetRest, &t.websetOpen, &t.websetEmail} {
		c.add(nil)
	}
}

type codehostPeopleTable struct {
	head                                                  head
	userID                                                []int64
	lastUpdated, codehostUsername, usernameKey            []string
	accountType, networkUsername                          []string
	emailKeys, networkUsernameKeys, microblogUsernameKeys [][]string
	present                                               []uint64
	enrich, owner, webset, addon, addonOpen               text
}

func (t *codehostPeopleTable) columns() []column {
	return t.head.columns(
		column{"user_id", "Int64", t.userID},
		column{"last_updated", "String", t.lastUpdated},
		column{"codehost_username", "String", t.codehostUsername},
		column{"username_key", "String", t.usernameKey},
		column{"type", "String", t.accountType},
		column{"email_keys", "Array(String)", t.emailKeys},
		column{"network_username", "String", t.networkUsername},
		column{"network_username_keys", "Array(String)", t.networkUsernameKeys},
		column{"microblog_username_keys", "Array(String)", t.microblogUsernameKeys},
		column{"present", "UInt64", t.present},
		column{"enrich", "String", t.enrich.values()},
		column{"owner", "String", t.owner.values()},
		column{"webset", "String", t.webset.values()},
		column{"addon", "String", t.addon.values()},
		column{"addon_open", "String", t.addonOpen.values()},
	)
}

// withdraw adds a row that says that the account is gone and nothing else.
func (t *codehostPeopleTable) withdraw(rec *record.Record, at Position, userID int64, lastUpdated string) {
	t.head.add(rec, at)
	t.userID = append(t.userID, userID)
	t.lastUpdated = append(t.lastUpdated, lastUpdated)
	t.codehostUsername = append(t.codehostUsername, "")
	t.usernameKey = append(t.usernameKey, "")
	t.accountType = append(t.accountType, "")
	t.emailKeys = append(t.emailKeys, nil)
	t.networkUsername = append(t.networkUsername, "")
	t.networkUsernameKeys = append(t.networkUsernameKeys, nil)
	t.microblogUsernameKeys = append(t.microblogUsernameKeys, nil)
	t.present = append(t.present, 0)
	for _, c := range []*text{&t.enrich, &t.owner, &t.webset, &t.addon, &t.addonOpen} {
		c.add(nil)
	}
}

type codehostReposTable struct {
	head                    head
	userID, repoID          []int64
	entry, enrich, redacted text
}

func (t *codehostReposTable) columns() []column {
	return t.head.columns(
		column{"user_id", "Int64", t.userID},
		column{"repo_id", "Int64", t.repoID},
		column{"entry", "String", t.entry.values()},
		column{"enrich", "String", t.enrich.values()},
		column{"redacted", "String", t.redacted.values()},
	)
}

type codehostCommitsTable struct {
	head            head
	userID          []int64
	sha             []string
	entry, redacted text
}

func (t *codehostCommitsTable) columns() []column {
	return t.head.columns(
		column{"user_id", "Int64", t.userID},
		column{"sha", "String", t.sha},
		column{"entry", "String", t.entry.values()},
		column{"redacted", "String", t.redacted.values()},
	)
}

type codehostListsTable struct {
	head   head
	userID []int64
	list   []string
	items  [][]string
}

func (t *codehostListsTable) columns() []column {
	return t.head.columns(
		column{"user_id", "Int64", t.userID},
		column{"list", "String", t.list},
		column{"items", "Array(String)", t.items},
	)
}

type networkCompaniesTable struct {
	head                                                          head
	companyHash                                                   []uint64
	companyID, lastUpdated, networkSlug, slugKey, networkID, name []string
	company                                                       text
}

func (t *networkCompaniesTable) columns() []column {
	return t.head.columns(
		column{"company_hash", "UInt64", t.companyHash},
		column{"company_id", "String", t.companyID},
		column{"last_updated", "String", t.lastUpdated},
		column{"network_slug", "String", t.networkSlug},
		column{"slug_key", "String", t.slugKey},
		column{"network_id", "String", t.networkID},
		column{"name", "String", t.name},
		column{"company", "String", t.company.values()},
	)
}

type microblogPeopleTable struct {
	head                                       head
	userHash                                   []uint64
	userID, lastUpdated, username              []string
	usernameKey, name, bio, location           []string
	website, avatarURL, createdAt, accountType []string
	followers, following                       []*int64
}

func (t *microblogPeopleTable) columns() []column {
	return t.head.columns(
		column{"user_hash", "UInt64", t.userHash},
		column{"user_id", "String", t.userID},
		column{"last_updated", "String", t.lastUpdated},
		column{"username", "String", t.username},
		column{"username_key", "String", t.usernameKey},
		column{"name", "String", t.name},
		column{"bio", "String", t.bio},
		column{"location", "String", t.location},
		column{"website", "String", t.website},
		column{"avatar_url", "String", t.avatarURL},
		column{"followers", "Nullable(Int64)", t.followers},
		column{"following", "Nullable(Int64)", t.following},
		column{"created_at", "String", t.createdAt},
		column{"account_type", "String", t.accountType},
	)
}

type accountLinksTable struct {
	head                       head
	linkHash                   []uint64
	linkID                     []string
	aPlatform, aUsername, aKey []string
	bPlatform, bUsername, bKey []string
	source, observedAt         []string
	confidence                 []float32
}

func (t *accountLinksTable) columns() []column {
	return t.head.columns(
		column{"link_hash", "UInt64", t.linkHash},
		column{"link_id", "String", t.linkID},
		column{"a_platform", "String", t.aPlatform},
		column{"a_username", "String", t.aUsername},
		column{"a_key", "String", t.aKey},
		column{"b_platform", "String", t.bPlatform},
		column{"b_username", "String", t.bUsername},
		column{"b_key", "String", t.bKey},
		column{"source", "String", t.source},
		column{"confidence", "Float32", t.confidence},
		column{"observed_at", "String", t.observedAt},
	)
}
