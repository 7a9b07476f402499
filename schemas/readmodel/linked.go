package readmodel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/schemas/analysis"
	"muster/schemas/identity"
)

// LinkedTable holds what person search reads of the accounts that network people are linked with by stated links: a row
// for each person who has such an account, or had one.
const LinkedTable = "linked_accounts"

// NoAccount is the user ID of a LinkedAccount of a person without a linked account.
const NoAccount = -1

// LinkedAccount is what person search reads of a linked account. The zero value is not NoAccount.
type LinkedAccount struct {
	UserID                 int64
	Username               string
	Languages              []string
	PublicRepos, Followers int64 // SearchMissing if missing
}

// Unlinked returns the LinkedAccount of a person without one.
func Unlinked() LinkedAccount {
	return LinkedAccount{UserID: NoAccount, PublicRepos: SearchMissing, Followers: SearchMissing}
}

// Equal reports whether both have the same values.
func (a LinkedAccount) Equal(b LinkedAccount) bool {
	return a.UserID == b.UserID && a.Username == b.Username && slices.Equal(a.Languages, b.Languages) &&
		a.PublicRepos == b.PublicRepos && a.Followers == b.Followers
}

// Linked returns what person search reads of the account: the values that the add-on codehost shows.
func (r *AnswerRow) Linked() (LinkedAccount, error) {
	var shown struct {
		Username    string   `json:"username"`
		Languages   []string `json:"repo_languages"`
		PublicRepos *int64   `json:"public_repos"`
		Followers   *int64   `json:"followers"`
	}
	if err := json.Unmarshal(append(r.AppendAccount([]byte{'{'}, ShapeAddon), '}'), &shown); err != nil {
		return LinkedAccount{}, fmt.Errorf("read an account: %w", err)
	}
	out := Unlinked()
	out.UserID, out.Username, out.Languages = r.UserID, shown.Username, shown.Languages
	if shown.PublicRepos != nil {
		out.PublicRepos = *shown.PublicRepos
	}
	if shown.Followers != nil {
		out.Followers = *shown.Followers
	}
	return out, nil
}

// LinkedRow is a row of LinkedTable.
type LinkedRow struct {
	ProfileID string
	Ver       uint64 // when the link was read, in microseconds since 1970
	Account   LinkedAccount
}

// linkedRow is a LinkedRow for an insert.
type linkedRow struct {
	ProfileHash     uint64     `ch:"profile_hash"`
	ProfileID       string     `ch:"profile_id"`
	Ver             uint64     `ch:"ver"`
	UserID          int64      `ch:"user_id"`
	Username        string     `ch:"codehost_username"`
	UsernameTokens  []string   `ch:"codehost_username_tokens"`
	Languages       []string   `ch:"codehost_languages"`
	LanguagesTokens [][]string `ch:"codehost_languages_tokens"`
	PublicRepos     int64      `ch:"codehost_public_repos"`
	Followers       int64      `ch:"codehost_followers"`
}

// InsertLinked writes rows of LinkedTable.
func InsertLinked(ctx context.Context, conn driver.Conn, rows []LinkedRow) error {
	var out eventRows[linkedRow]
	tokens := func(text string) (out []string) {
		for _, t := range analysis.Analyze(nil, text) {
			out = append(out, t.Text)
		}
		return out
	}
	for _, r := range rows {
		row := linkedRow{
			ProfileHash: ProfileHash(r.ProfileID), ProfileID: r.ProfileID, Ver: r.Ver, UserID: r.Account.UserID,
			PublicRepos: r.Account.PublicRepos, Followers: r.Account.Followers,
		}
		row.Username, row.UsernameTokens = r.Account.Username, tokens(r.Account.Username)
		row.Languages = r.Account.Languages
		for _, l := range row.Languages {
			row.LanguagesTokens = append(row.LanguagesTokens, tokens(l))
		}
		out.add(row)
	}
	// The same rows may have been deleted by an erasure since.
	token := "linked-" + strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // no key
	return out.insert(ctx, conn, LinkedTable, token)
}

// ReadLinked returns the newest rows of people, by profile ID; of rows with one version the one that searches read,
// too.
func ReadLinked(ctx context.Context, conn driver.Conn, people []string) (map[string]LinkedRow, error) {
	out := make(map[string]LinkedRow)
	err := readByProfile(ctx, conn, "SELECT profile_id, ver, user_id, codehost_username, codehost_languages, "+
		"codehost_public_repos, codehost_followers FROM "+LinkedTable+" FINAL", people, func(rows driver.Rows) error {
		var r LinkedRow
		a := &r.Account
		if err := rows.Scan(&r.ProfileID, &r.Ver, &a.UserID, &a.Username, &a.Languages, &a.PublicRepos,
			&a.Followers); err != nil {
			return err
		}
		out[r.ProfileID] = r
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read linked accounts: %w", err)
	}
	return out, nil
}

// readByProfile reads the newest rows of people.
func readByProfile(
	ctx context.Context, conn driver.Conn, query string, people []string, scan func(driver.Rows) error,
) error {
	if len(people) == 0 {
		return nil
	}
	hashes := make([]uint64, len(people))
	for i, id := range people {
		hashes[i] = ProfileHash(id)
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	return readRows(ctx, conn, query+" WHERE profile_hash IN ("+numbers(hashes)+
		") ORDER BY ver DESC LIMIT 1 BY profile_hash, profile_id", scan)
}

// LinkingPerson is what decides the linked account of a network person, of its own record.
type LinkingPerson struct {
	ProfileID, UsernameKey string
	EmailKeys              []string
	Declares               []string // usernames of the code host
	Version                int64
	Deleted                bool
}

// ReadLinkingPeople returns people with a record, deleted or not, by profile ID.
func ReadLinkingPeople(ctx context.Context, conn driver.Conn, people []string) (map[string]LinkingPerson, error) {
	out := make(map[string]LinkingPerson)
	err := readByProfile(ctx, conn, "SELECT profile_id, username_key, email_keys, codehost_username_keys, version, "+
		"deleted FROM network_people", people, func(rows driver.Rows) error {
		var p LinkingPerson
		err := rows.Scan(&p.ProfileID, &p.UsernameKey, &p.EmailKeys, &p.Declares, &p.Version, &p.Deleted)
		out[p.ProfileID] = p
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	return out, nil
}

// LinkingAccount is what decides who is linked with an account, of its own record.
type LinkingAccount struct {
	UsernameKey string
	Declares    []string // usernames of the network
}

// ReadLinkingAccounts returns accounts with a record.
func ReadLinkingAccounts(ctx context.Context, conn driver.Conn, accounts []int64) (out []LinkingAccount, err error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	err = readRows(ctx, conn, "SELECT username_key, network_username_keys FROM codehost_people WHERE user_id IN ("+
		numbers(accounts)+") ORDER BY ver DESC LIMIT 1 BY user_id", func(rows driver.Rows) error {
		var a LinkingAccount
		if err := rows.Scan(&a.UsernameKey, &a.Declares); err != nil {
			return err
		}
		out = append(out, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	return out, nil
}

// LinkedWith returns the people who are linked with accounts, and maybe some who were.
func LinkedWith(ctx context.Context, conn driver.Conn, accounts []int64) (people []string, err error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	query := "SELECT DISTINCT profile_id FROM " + LinkedTable + " WHERE user_id IN (" + numbers(accounts) + ")"
	err = readRows(ctx, conn, query, func(rows driver.Rows) error {
		var id string
		err := rows.Scan(&id)
		people = append(people, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read linked people: %w", err)
	}
	return people, nil
}

// LinkedAmong returns those of people who have a linked account, or had one.
func LinkedAmong(ctx context.Context, conn driver.Conn, people []string) (map[string]bool, error) {
	out := make(map[string]bool)
	err := readByProfile(ctx, conn, "SELECT profile_id FROM "+LinkedTable, people, func(rows driver.Rows) error {
		var id string
		err := rows.Scan(&id)
		out[id] = true
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read linked people: %w", err)
	}
	return out, nil
}

// LinkedAccounts returns those of accounts with which people are linked, or were.
func LinkedAccounts(ctx context.Context, conn driver.Conn, accounts []int64) ([]int64, error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	out, err := readNumbers[int64](ctx, conn, "SELECT DISTINCT user_id FROM "+LinkedTable+" WHERE user_id IN ("+
		numbers(accounts)+")")
	if err != nil {
		return nil, fmt.Errorf("read linked accounts: %w", err)
	}
	return out, nil
}

// ReadAnswers returns the newest answers of accounts, by user ID.
func ReadAnswers(ctx context.Context, conn driver.Conn, accounts []int64) (map[int64]*AnswerRow, error) {
	out := make(map[int64]*AnswerRow)
	for part := range slices.Chunk(accounts, MaxKeys) {
		err := readRows(withKeys(ctx, part), conn, AnswersQuery(), func(rows driver.Rows) error {
			var r AnswerRow
			if err := rows.Scan(r.ScanDest()...); err != nil {
				return err
			}
			if other := out[r.UserID]; other == nil || r.Newer(other) {
				out[r.UserID] = &r
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read answers: %w", err)
		}
	}
	return out, nil
}

// Candidates returns the rows of lookups of values of a type and of all types in its namespace, by value.
func Candidates(ctx context.Context, conn driver.Conn, of LookupType, values []string) (map[string][]LookupRow, error) {
	out := make(map[string][]LookupRow, len(values))
	for part := range slices.Chunk(values, MaxKeys) {
		keys := make([]uint64, len(part))
		for i, v := range part {
			keys[i] = KeyHash(of, v)
		}
		found, err := ReadLookups(func(query string, scan func(driver.Rows) error) error {
			return readRows(withKeys(ctx, keys), conn, query, scan)
		})
		if err != nil {
			return nil, fmt.Errorf("read lookups: %w", err)
		}
		for i, v := range part {
			for _, r := range found[keys[i]] {
				if r.Value == v {
					out[v] = append(out[v], r)
				}
			}
		}
	}
	return out, nil
}

// withKeys returns a context for a query with ParameterKeys, which is not logged.
func withKeys[K int64 | uint64](ctx context.Context, keys []K) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"log_queries": 0, "max_threads": 1}),
		clickhouse.WithParameters(clickhouse.Parameters{ParameterKeys: FormatKeys(keys)}))
}

// PeopleAfter returns up to limit profile IDs in the order of network_people, from the hash on that follows one; from
// the beginning if first is set. It returns all people with the last hash, and that hash.
func PeopleAfter(
	ctx context.Context, conn driver.Conn, after uint64, first bool, limit int,
) (people []string, last uint64, err error) {
	from := "profile_hash > " + strconv.FormatUint(after, 10)
	if first {
		from = "true"
	}
	err = readRows(ctx, conn, "SELECT DISTINCT profile_hash, profile_id FROM network_people WHERE "+
		nextKeys("network_people", "profile_hash", from, limit)+" ORDER BY profile_hash", func(rows driver.Rows) error {
		var id string
		if err := rows.Scan(&last, &id); err != nil {
			return err
		}
		people = append(people, id)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list people: %w", err)
	}
	return people, last, nil
}

// DropLinked deletes the rows of people.
func DropLinked(ctx context.Context, conn driver.Conn, layout Layout, people []string) error {
	settings := longStatement()
	settings["mutations_sync"], settings["lightweight_deletes_sync"] = 2, 2
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings))
	hashes := make([]uint64, len(people))
	for i, id := range people {
		hashes[i] = ProfileHash(id)
	}
	if err := conn.Exec(ctx, "DELETE FROM "+layout.Local(LinkedTable)+layout.OnCluster()+" WHERE profile_hash IN ("+
		numbers(hashes)+")"); err != nil {
		return fmt.Errorf("delete linked accounts: %w", err)
	}
	return nil
}

// TouchedLinks adds the network usernames that account-links of the batch link with accounts of the code host, each
// with the newest version of these rows.
func (b *Batch) TouchedLinks(newest map[string]int64) {
	t := &b.accountLinks
	for i, a := range t.aPlatform.list {
		name, other := t.aKey.list[i], t.bPlatform.list[i]
		if a != identity.Network {
			a, other, name = other, a, t.bKey.list[i]
		}
		if a != identity.Network || other != identity.Codehost || name == "" {
			continue
		}
		newest[name] = max(newest[name], t.common.version.list[i])
	}
}
