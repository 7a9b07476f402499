package readmodel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/record"
)

// AnswersTable holds the API's answers about accounts of the code host: one row per account with all data
// that responses contain. BuildAnswers derives it from the tables of accounts, repositories, commits and
// complete lists.
const AnswersTable = "codehost_answers"

// AnswerRow is a row of AnswersTable.
type AnswerRow struct {
	UserID              int64
	Generation          uint32
	Touch               int64
	Rebuilt             uint32
	Version             int64 // of the account record, in microseconds since 0001-01-01T00:00:00Z
	ContentHash         uint64
	Deleted             bool   // deleted: only the version is set
	CodehostUsername    string // as given in the record
	UsernameKey         string
	Type                string // of the account, as given in the record
	EmailKeys           []string
	NetworkUsername     string   // the record's own field, as given; may be empty
	NetworkUsernameKeys []string // declared, the record's own field first
	Repos               uint64   // number of repositories
	Commits             uint64   // number of commits

	present          uint64 // of the record only
	values           accountValues
	account, entries string // pieces
}

// AnswersQuery returns the query for rows of accounts by user id. An account may have several unmerged rows;
// use the one for which Newer holds.
func AnswersQuery() string {
	return `SELECT user_id, content
FROM ` + AnswersTable + `
WHERE user_id IN {keys:Array(Int64)}`
}

// ScanDest returns the scan destinations in the order of AnswersQuery's columns.
func (r *AnswerRow) ScanDest() []any { return []any{&r.UserID, (*answerContent)(r)} }

// answerContent scans the column content, written by Builds.content.
type answerContent AnswerRow

// Scan implements sql.Scanner.
func (r *answerContent) Scan(value any) error {
	f, err := contentText(value)
	if err != nil {
		return err
	}
	r.Generation, r.Touch = uint32(f.unsigned()), f.signed() //nolint:gosec // stored values
	r.Rebuilt = uint32(f.unsigned())                         //nolint:gosec // stored values
	r.Version, r.ContentHash, r.Deleted = f.signed(), f.unsigned(), f.flag()
	r.CodehostUsername, r.UsernameKey, r.Type, r.EmailKeys = f.text(), f.text(), f.text(), f.list()
	r.NetworkUsername, r.NetworkUsernameKeys = f.text(), f.list()
	r.present, r.Repos, r.Commits = f.unsigned(), f.unsigned(), f.unsigned()
	if !r.Deleted {
		r.values.read(&f)
		r.account, r.entries = f.text(), f.rest
	}
	return f.err
}

// Newer reports whether the row was built later than another of the same account.
func (r *AnswerRow) Newer(than *AnswerRow) bool {
	switch {
	case r.Generation != than.Generation:
		return r.Generation > than.Generation
	case r.Touch != than.Touch:
		return r.Touch > than.Touch
	}
	return r.Rebuilt > than.Rebuilt
}

// IsOrganization reports whether the account belongs to an organization. Endpoints for people do not return
// it (rulings.md, Names).
func (r *AnswerRow) IsOrganization() bool { return r.Type == "Organization" }

// AppendEntries appends the newest repositories and commits of the account in a shape, and their total
// counts, to the object at the end of b.
func (r *AnswerRow) AppendEntries(b []byte, shape Shape) []byte {
	owner := ""
	if shape == ShapeEnrich && r.Repos > 0 {
		owner = string(appendPieces([]byte{'{'}, r.account, shapeSpecial, "")) + "}"
	}
	return appendPieces(b, r.entries, shape, owner)
}

// A Touch requests a build of the answer of an account.
type Touch struct {
	UserID    int64
	Partition int32
	Offset    int64
	// Rebuilt is set by builds without a touch message: one more than in the existing row.
	Rebuilt uint32
}

// Builds are the options of BuildAnswers.
type Builds struct {
	Table      string // default AnswersTable
	Generation uint32
	// Large reads accounts in their order on disk, which needs little memory but more work.
	Large bool
}

// BuildAnswers builds the rows of the touched accounts in ClickHouse, each at most once, from the newest base
// rows at that time.
func BuildAnswers(ctx context.Context, conn driver.Conn, builds Builds, touches []Touch) error {
	if len(touches) == 0 {
		return nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	if err := conn.Exec(ctx, builds.statement(touches)); err != nil {
		return fmt.Errorf("build answers: %w", err)
	}
	return nil
}

// statement returns the INSERT for touches. All interpolated values are numbers, so no quoting is needed.
func (b Builds) statement(touches []Touch) string {
	table := b.Table
	if table == "" {
		table = AnswersTable
	}
	list := func(number func(Touch) int64) string {
		out := make([]int64, len(touches))
		for i, t := range touches {
			out[i] = number(t)
		}
		return numbers(out)
	}
	ids := list(func(t Touch) int64 { return t.UserID })
	of := func(number func(Touch) int64) string {
		return "transform(user_id, " + ids + ", " + list(number) + ", toInt64(0))"
	}
	content := joinFields("generation", "touch", "rebuilt", "version", "content_hash", "if(deleted, '1', '0')",
		"codehost_username", "username_key", "type", itemsOf("email_keys"), "network_username",
		itemsOf("network_username_keys"), "present", "repos", "commits",
		"if(deleted, '', concat("+joinFields(itemsOf("authors"), itemsOf("addresses.1"), itemsOf("addresses.2"),
			"languages_count", itemsOf("languages"), "content", "repos_list")+", commits_list))")
	generation := "toUInt32(" + strconv.FormatUint(uint64(b.Generation), 10) + ")"
	return `INSERT INTO ` + table + ` (user_id, generation, touch, partition, rebuilt,
    base_version, base_rows, base_hash, username_key, email_keys, content)
SELECT user_id, ` + generation + ` AS generation, ` + of(func(t Touch) int64 { return t.Offset }) + ` AS touch, ` +
		of(func(t Touch) int64 { return int64(t.Partition) }) + `, ` +
		of(func(t Touch) int64 { return int64(t.Rebuilt) }) + ` AS rebuilt,
    greatest(version, e.newest), 1 + e.rows, cityHash64(user_id, ver) + e.hash,
    username_key, email_keys,
    ` + content + `
FROM (
    SELECT user_id, ver, version, content_hash, deleted, codehost_username, username_key, type, email_keys,
        network_username, network_username_keys, present, content
    FROM codehost_people
    WHERE user_id IN (` + ids + `)
    ORDER BY ver DESC LIMIT 1 BY user_id
) AS p
LEFT JOIN (
` + b.entries(ids) + `
) AS e ON p.user_id = e.account_id
SETTINGS join_use_nulls = 0`
}

// joinFields returns an expression for fields as type fields reads them.
func joinFields(parts ...string) string {
	return `concatWithSeparator('\0', ` + strings.Join(parts, ", ") + ")"
}

// itemsOf returns an expression for a list as type fields reads it, without its last end.
func itemsOf(column string) string {
	return "arrayStringConcat(arrayPushFront(" + column + ", toString(length(" + column + `))), '\0')`
}

// beginOf and endOf are the pieces around the entries of a list; its count follows.
func beginOf(list string) string { return string(pieceMark) + shapesAll.letter() + `"` + list + `":[` }

func endOf(list string) string {
	mark := string(pieceMark) + shapesAll.letter()
	return mark + "]" + mark + `"` + list + `_count":`
}

// mostOften returns an aggregate of the MaxEntries most frequent values of an account's own entries, ordered by
// frequency, then value. For large accounts, counts of more than 300 values are approximate.
func (b Builds) mostOften(name, value, condition string) string {
	condition = "own AND " + condition
	counts := "arrayZip((sumMapIf([" + value + "], [1], " + condition + ") AS " + name + "_counts).1, " + name +
		"_counts.2)"
	if b.Large {
		counts = "topKIf(" + strconv.Itoa(MaxEntries) + ", 3, 'counts')(" + value + ", " + condition + ")"
	}
	return "arrayMap(v -> v.1, arraySlice(arraySort(v -> (-toInt64(v.2), v.1), " + counts + "), 1, " +
		strconv.Itoa(MaxEntries) + ")) AS " + name
}

// entries returns a query for the newest MaxEntries repositories and commits of accounts, their totals, and what is
// derived from them. For an account with a complete list, only listed and newer entries count. A commit is the
// account's own unless its author is another account. At most MaxEntries of a list are kept in memory while reading.
//
// Repositories, commits and complete lists are rows of one relation with one aggregate, and the conditions on them are
// its columns, because ClickHouse analyzes an alias again wherever it is used. Analysis is most of the time of a build of
// few accounts.
func (b Builds) entries(ids string) string {
	newest := func(table, id string, fields int) string {
		rows := "SELECT user_id, " + id + ", version, ver, deleted, splitByChar('\\0', content, " +
			strconv.Itoa(fields) + ") AS f FROM " + table
		if b.Large { // Reads in the order on disk.
			return rows + " FINAL WHERE user_id IN (" + ids + ")"
		}
		return rows + " WHERE user_id IN (" + ids + ") ORDER BY ver DESC LIMIT 1 BY user_id, " + id
	}
	namesCount := "length(names_counts.1)"
	if b.Large {
		namesCount = "uniqExactIf(name, own AND name != '' AND list = 'repos')"
	}
	list := func(pieces func(string) string) string {
		return "'" + strings.ReplaceAll(pieces("', list, '"), string(pieceMark), `\x1e`) + "'"
	}
	return `    SELECT account_id, max(newest) AS newest, sum(rows) AS rows, sum(hash) AS hash,
        sumIf(visible, list = 'repos') AS repos, anyIf(pieces, list = 'repos') AS repos_list,
        anyIf(names_count, list = 'repos') AS languages_count, anyIf(names, list = 'repos') AS languages,
        sumIf(visible, list = 'commits') AS commits, anyIf(pieces, list = 'commits') AS commits_list,
        anyIf(names, list = 'commits') AS authors, anyIf(addresses, list = 'commits') AS addresses
    FROM (
        SELECT user_id AS account_id, list, max(version) AS newest, count() AS rows, sum(row_hash) AS hash,
            countIf(shown) AS visible, if(visible = 0, '', concat(` + list(beginOf) + `, arrayStringConcat(
                groupArraySortedIf(` + strconv.Itoa(MaxEntries) + `)((-version, number, sha, entry), shown).4
            ), ` + list(endOf) + `, toString(visible))) AS pieces,
            ` + b.mostOften("names", "name", "name != ''") + `, ` + namesCount + ` AS names_count,
            ` + b.mostOften("addresses", "address", "address.1 != ''") + `
        FROM (
            WITH
                complete AS (
                    SELECT user_id, list, version, items FROM (
                        SELECT user_id, list, version, items, deleted FROM codehost_lists
                        WHERE user_id IN (` + ids + `) ORDER BY ver DESC LIMIT 1 BY user_id, list
                    )
                    WHERE NOT deleted
                ),
                (SELECT (arrayPushBack(groupArray((user_id, list)), (toInt64(-1), '')),
                    arrayPushBack(groupArray(version), toInt64(0))) FROM complete) AS lists,
                (SELECT (arrayPushBack(groupArray(user_id), toInt64(-1)), arrayPushBack(groupArray(username_key), ''))
                    FROM (
                        SELECT user_id, username_key FROM codehost_people
                        WHERE user_id IN (` + ids + `) ORDER BY ver DESC LIMIT 1 BY user_id
                    )) AS holders
            SELECT user_id, list, version, row_hash, number, sha, name, address, entry,
                NOT deleted AND (
                    version > transform((user_id, list), lists.1, lists.2, toInt64(-9223372036854775808)) OR
                    (user_id, list, item) GLOBAL IN (SELECT user_id, list, arrayJoin(items) FROM complete)
                ) AS shown,
                shown AND login IN ('', transform(user_id, holders.1, holders.2, '')) AS own
            FROM (
                SELECT user_id, 'repos' AS list, version, deleted, cityHash64(user_id, repo_id, ver) AS row_hash,
                    repo_id AS number, '' AS sha, toString(repo_id) AS item, '' AS login, f[1] AS name,
                    ('', '') AS address, f[2] AS entry
                FROM (` + newest("codehost_repos", "repo_id", 2) + `)
                UNION ALL
                SELECT user_id, 'commits', version, deleted, cityHash64(user_id, sha, ver), 0, sha, sha, f[1], f[2],
                    (f[3], f[4]), f[5]
                FROM (` + newest("codehost_commits", "sha", 5) + `)
                UNION ALL
                SELECT user_id, list, version, true, cityHash64(user_id, list, ver), 0, '', '', '', '', ('', ''), ''
                FROM codehost_lists
                WHERE user_id IN (` + ids + `) ORDER BY ver DESC LIMIT 1 BY user_id, list
            )
        )
        GROUP BY user_id, list
    )
    GROUP BY account_id`
}

// AnswersGeneration returns the newest generation of the topic of touches, and its number of partitions. Both
// are 0 before the first generation.
func AnswersGeneration(ctx context.Context, conn driver.Conn) (generation, partitions uint32, err error) {
	err = readRows(ctx, conn, "SELECT generation, partitions FROM answer_generations ORDER BY generation DESC LIMIT 1",
		func(rows driver.Rows) error {
			return rows.Scan(&generation, &partitions)
		})
	if err != nil {
		return 0, 0, fmt.Errorf("read the generation of answers: %w", err)
	}
	return generation, partitions, nil
}

// BeginAnswers starts a generation.
func BeginAnswers(ctx context.Context, conn driver.Conn, generation, partitions uint32) error {
	err := conn.Exec(ctx, "INSERT INTO answer_generations (generation, partitions) VALUES ("+
		strconv.FormatUint(uint64(generation), 10)+", "+strconv.FormatUint(uint64(partitions), 10)+")")
	if err != nil {
		return fmt.Errorf("begin a generation of answers: %w", err)
	}
	return nil
}

// TouchedAccounts adds the codehost accounts whose answers change through rows of the batch, each with the
// newest version of these rows.
func (b *Batch) TouchedAccounts(newest map[int64]int64) {
	for _, rows := range []struct {
		ids  []int64
		head *commonColumns
	}{
		{b.codehostPeople.userID.list, &b.codehostPeople.common}, {b.codehostRepos.userID.list,
			&b.codehostRepos.common},
		{b.codehostCommits.userID.list, &b.codehostCommits.common}, {b.codehostLists.userID.list,
			&b.codehostLists.common},
	} {
		for i, id := range rows.ids {
			version := rows.head.version.list[i]
			if before, known := newest[id]; !known || before < version {
				newest[id] = version
			}
		}
	}
}

// TouchedDocuments adds the network people and companies whose rows are in the batch, by kind, each with the newest
// version of these rows.
func (b *Batch) TouchedDocuments(newest map[record.Kind]map[string]int64) {
	for _, t := range []*searchTable{&b.searchPeople, &b.searchCompanies} {
		if len(t.id.list) == 0 {
			continue
		}
		kind := t.collection.Kind
		if newest[kind] == nil {
			newest[kind] = make(map[string]int64)
		}
		for i, id := range t.id.list {
			newest[kind][id] = max(newest[kind][id], t.common.version.list[i])
		}
	}
}

// AnswerState is the state of an account before its answer is built.
type AnswerState struct {
	Generation uint32
	Touch      int64
	Rebuilt    uint32
	Partition  int32
	// Rows is the number of source rows (repositories and commits), including older versions.
	Rows uint64
	Has  bool // the account has an answer
}

// Built reports whether the answer was built for this touch or a later one.
func (s AnswerState) Built(generation uint32, touch int64) bool {
	return s.Has && (s.Generation > generation || s.Generation == generation && s.Touch >= touch)
}

// AnswerStates returns the states of accounts.
func AnswerStates(ctx context.Context, conn driver.Conn, accounts []int64) (map[int64]AnswerState, error) {
	out := make(map[int64]AnswerState, len(accounts))
	if len(accounts) == 0 {
		return out, nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	list := numbers(accounts)
	err := readRows(ctx, conn, "SELECT user_id, (argMax((generation, touch, rebuilt, partition), ver) AS newest).1, "+
		"newest.2, newest.3, newest.4 FROM "+
		AnswersTable+" WHERE user_id IN ("+list+") GROUP BY user_id", func(rows driver.Rows) error {
		s := AnswerState{Has: true}
		var id int64
		if err := rows.Scan(&id, &s.Generation, &s.Touch, &s.Rebuilt, &s.Partition); err != nil {
			return err
		}
		out[id] = s
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the states of answers: %w", err)
	}
	err = readRows(ctx, conn, "SELECT user_id, count() FROM (SELECT user_id FROM codehost_repos WHERE user_id IN ("+
		list+
		") UNION ALL SELECT user_id FROM codehost_commits WHERE user_id IN ("+list+")) GROUP BY user_id",
		func(rows driver.Rows) error {
			var id int64
			var n uint64
			if err := rows.Scan(&id, &n); err != nil {
				return err
			}
			s := out[id]
			s.Rows = n
			out[id] = s
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("count the rows of accounts: %w", err)
	}
	return out, nil
}

// BuiltAnswer is the part of an answer that decides whether it must be dropped.
type BuiltAnswer struct {
	AccountHash uint64 // for DropAnswers
	UsernameKey string
	EmailKeys   []string
	BaseVersion int64
}

// BuiltAnswers returns the stored answers of accounts.
func BuiltAnswers(ctx context.Context, conn driver.Conn, accounts []int64) (map[int64]BuiltAnswer, error) {
	out := make(map[int64]BuiltAnswer, len(accounts))
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	err := readRows(ctx, conn, "SELECT user_id, "+accountHash+
		", (argMax((username_key, email_keys, base_version), ver) AS newest).1, newest.2, newest.3 FROM "+
		AnswersTable+" WHERE user_id IN ("+numbers(accounts)+") GROUP BY user_id", func(rows driver.Rows) error {
		var b BuiltAnswer
		var id int64
		if err := rows.Scan(&id, &b.AccountHash, &b.UsernameKey, &b.EmailKeys, &b.BaseVersion); err != nil {
			return err
		}
		out[id] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read built answers: %w", err)
	}
	return out, nil
}

// accountHash identifies an account in statements that ClickHouse keeps on disk.
const accountHash = "cityHash64(user_id)"

// DropAnswers deletes the answers of accounts, by BuiltAnswer.AccountHash. Later queries do not return them.
func DropAnswers(ctx context.Context, conn driver.Conn, layout Layout, table string, accounts []uint64) error {
	settings := longStatement()
	settings["mutations_sync"], settings["lightweight_deletes_sync"] = 2, 2
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings))
	if err := conn.Exec(ctx, "DELETE FROM "+layout.Local(table)+layout.OnCluster()+" WHERE "+accountHash+" IN ("+
		numbers(accounts)+")"); err != nil {
		return fmt.Errorf("delete answers: %w", err)
	}
	return nil
}

// DifferingAnswers returns the accounts with ids in (after, last] whose answer is missing or was not built
// from the newest version of each base row.
func DifferingAnswers(ctx context.Context, conn driver.Conn, table string, after, last int64) ([]int64, error) {
	return differingAnswers(ctx, conn, table, fmt.Sprintf("WHERE user_id > %d AND user_id <= %d", after, last))
}

// DifferingAmong is DifferingAnswers for a list of accounts.
func DifferingAmong(ctx context.Context, conn driver.Conn, table string, accounts []int64) ([]int64, error) {
	return differingAnswers(ctx, conn, table, "WHERE user_id IN ("+numbers(accounts)+")")
}

func differingAnswers(ctx context.Context, conn driver.Conn, table, slice string) ([]int64, error) {
	base := func(table, id string, account int) string {
		return fmt.Sprintf("SELECT user_id, cityHash64(user_id, %sver) AS row, %d AS account FROM %s FINAL %s", id,
			account, table, slice)
	}
	query := `SELECT b.user_id FROM (
    SELECT user_id, sum(row) AS hash FROM (
        ` + strings.Join([]string{
		base("codehost_people", "", 1), base("codehost_repos", "repo_id, ", 0),
		base("codehost_commits", "sha, ", 0), base("codehost_lists", "list, ", 0),
	}, "\n        UNION ALL ") + `
    ) GROUP BY user_id HAVING max(account) = 1
) AS b
LEFT JOIN (SELECT user_id, base_hash FROM ` + table + ` FINAL ` + slice + `) AS a ON b.user_id = a.user_id
WHERE a.base_hash != b.hash
ORDER BY b.user_id
SETTINGS join_use_nulls = 0`
	out, err := readNumbers[int64](ctx, conn, query)
	if err != nil {
		return nil, fmt.Errorf("compare answers with their rows: %w", err)
	}
	return out, nil
}

// AccountsAfter returns up to limit account ids greater than after, in ascending order.
func AccountsAfter(ctx context.Context, conn driver.Conn, after int64, limit int) ([]int64, error) {
	out, err := readNumbers[int64](ctx, conn, "SELECT DISTINCT user_id FROM codehost_people WHERE "+
		nextKeys("codehost_people", "user_id", fmt.Sprint("user_id > ", after), limit)+" ORDER BY user_id")
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	return out, nil
}

// nextKeys returns a condition for the first rows of a table that begins its sort key with a column and fulfills a
// condition on it: those of at most limit different keys. The statement reads little more than these rows; with
// DISTINCT and LIMIT alone ClickHouse would read the rest of the table.
func nextKeys(table, column, condition string, limit int) string {
	n := strconv.Itoa(limit)
	return condition + " AND " + column + " <= (SELECT max(" + column + ") FROM (SELECT " + column + " FROM " + table +
		" WHERE " + condition + " ORDER BY " + column + " LIMIT " + n + " SETTINGS max_block_size = " + n + "))"
}

// AnswerHash identifies a row of AnswersTable.
const AnswerHash = "cityHash64(user_id, ver)"

// ReplacedAnswers returns the hashes (AnswerHash) of superseded rows of accounts that a table still stores.
func ReplacedAnswers(ctx context.Context, conn driver.Conn, table string, accounts []int64) ([]uint64, error) {
	list := numbers(accounts)
	out, err := readNumbers[uint64](ctx, conn, "SELECT "+AnswerHash+" FROM "+table+" WHERE user_id IN ("+list+
		") AND (user_id, ver) GLOBAL NOT IN (SELECT user_id, max(ver) FROM "+table+" WHERE user_id IN ("+list+
		") GROUP BY user_id)")
	if err != nil {
		return nil, fmt.Errorf("find superseded answers: %w", err)
	}
	return out, nil
}

// readNumbers returns the values of a query with one column.
func readNumbers[N int64 | uint64](ctx context.Context, conn driver.Conn, query string) (out []N, err error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	err = readRows(ctx, conn, query, func(rows driver.Rows) error {
		var n N
		if err := rows.Scan(&n); err != nil {
			return err
		}
		out = append(out, n)
		return nil
	})
	return out, err
}

// readRows runs a query and calls scan for each row.
func readRows(ctx context.Context, conn driver.Conn, query string, scan func(driver.Rows) error) (err error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return err //nolint:wrapcheck // callers say what they read
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err() //nolint:wrapcheck // as above
}

// longStatement returns settings for statements with long lists of numbers. The lists are ids of people and
// must not be logged.
func longStatement() clickhouse.Settings {
	return clickhouse.Settings{
		"log_queries": 0, "max_query_size": 64 << 20, "max_threads": 1,
	}
}

// numbers formats a list of numbers as an array for a statement. The text of an array costs the engine much less than
// literals: with 2,000 accounts in ten lists these took a quarter of the time of a build.
func numbers[N int64 | uint64](list []N) string {
	kind := "Int64"
	if _, unsigned := any(list).([]uint64); unsigned {
		kind = "UInt64"
	}
	return "CAST('" + FormatKeys(list) + "', 'Array(" + kind + ")')"
}
