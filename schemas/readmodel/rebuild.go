package readmodel

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"muster/schemas/event"
	"muster/schemas/record"
)

// Model is a table and its sources.
type Model struct {
	Table string
	// Key are the columns of the sorting key; one row is current for each key.
	Key []string
	// Topics are the topics of records that have rows in it.
	Topics []string
}

// Models returns all tables, in the order of Tables.
func Models() []Model {
	topics := func(kinds ...record.Kind) []string {
		var names []string
		for _, k := range kinds {
			names = append(names, k.Topic())
		}
		return names
	}
	// Records of people may embed lists.
	embedded := record.KindCodehostPerson
	return []Model{
		{"lookups", []string{"key_hash", "claim"}, topics(record.KindNetworkPerson,
			record.KindNetworkCompany, record.KindCodehostPerson, record.KindMicroblogPerson, record.KindAccountLink)},
		{"network_people", []string{"profile_hash", "profile_id"}, topics(record.KindNetworkPerson)},
		{"search_people", []string{"profile_hash", "profile_id"}, topics(record.KindNetworkPerson)},
		{"codehost_people", []string{"user_id"}, topics(record.KindCodehostPerson)},
		{"codehost_repos", []string{"user_id", "repo_id"}, topics(record.KindCodehostRepo, embedded)},
		{"codehost_commits", []string{"user_id", "sha"}, topics(record.KindCodehostCommit, embedded)},
		{"codehost_lists", []string{"user_id", "list"}, topics(record.KindCodehostList, embedded)},
		{"network_companies", []string{"company_hash", "company_id"}, topics(record.KindNetworkCompany)},
		{"search_companies", []string{"company_hash", "company_id"}, topics(record.KindNetworkCompany)},
		{"microblog_people", []string{"user_hash", "user_id"}, topics(record.KindMicroblogPerson)},
		{"account_links", []string{"link_hash", "link_id"}, topics(record.KindAccountLink)},
		{"seen_versions", []string{"kind", "key_hash", "key", "content_hash"}, []string{event.TopicVersionBump}},
	}
}

// Marks in the names of shadow and retired tables.
const (
	shadowMark  = "__new_"
	retiredMark = "__old_"
)

// Rebuild builds the SQL that creates a shadow table and swaps it with the live one. On a cluster the
// statements change every node's local table; ShadowTable and RetiredTable are read through Distributed
// tables.
type Rebuild struct {
	Model
	Layout Layout
	// ID identifies the rebuild: lower-case letters and digits.
	ID string
}

// ShadowTable returns the name of the shadow table.
func (r Rebuild) ShadowTable() string { return r.Table + shadowMark + r.ID }

// RetiredTable returns the name of the retired table, which was live before.
func (r Rebuild) RetiredTable() string { return r.Table + retiredMark + r.ID }

// ParseRebuilt parses the name of a shadow or retired table. It does not accept local tables of a cluster.
func ParseRebuilt(name string) (table, id string, old, ok bool) {
	for _, mark := range []string{shadowMark, retiredMark} {
		if t, rest, found := strings.Cut(name, mark); found && t != "" && isID(rest) {
			return t, rest, mark == retiredMark, true
		}
	}
	return "", "", false, false
}

func isID(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// freeze is the table setting that fails every insert with TOO_MANY_PARTS, which writers retry. Reads are
// unaffected.
const freeze = "max_parts_in_total"

// PauseInserts returns the statement that makes the live table reject inserts until ResumeInserts.
func (r Rebuild) PauseInserts() string {
	return "ALTER TABLE " + r.Layout.Local(r.Table) + r.Layout.OnCluster() + " MODIFY SETTING " + freeze + " = 0"
}

// ResumeInserts returns the statement that makes a table accept inserts again. It is a no-op without
// PauseInserts.
func (r Rebuild) ResumeInserts(table string) string {
	return "ALTER TABLE " + r.Layout.Local(table) + r.Layout.OnCluster() + " RESET SETTING " + freeze
}

// Marker returns the text in the comment of a rebuilt table, which survives renames.
func (r Rebuild) Marker() string { return "; rebuilt by replay " + r.ID }

// createPatterns match parts of a CREATE TABLE query as ClickHouse prints it.
type createPatterns struct{ head, path, frozen, comment, marker *regexp.Regexp }

func newCreatePatterns() createPatterns {
	return createPatterns{
		head:    regexp.MustCompile(`^CREATE TABLE (?:[^ (]+\.)?[^ (]+ \(`),
		path:    regexp.MustCompile(`(Replicated\w*MergeTree\(')([^']+)'`),
		frozen:  regexp.MustCompile(`, ` + freeze + ` = \d+|` + freeze + ` = \d+, `),
		comment: regexp.MustCompile(` COMMENT '((?:[^'\\]|\\.)*)'$`),
		marker:  regexp.MustCompile(`; rebuilt by replay [a-z0-9]+`),
	}
}

// Create returns the statements that create the shadow table like the live one. existing is the server's
// CREATE query of the live table, on a cluster of the local one (system.tables, create_table_query), so that
// changes by operators are copied.
func (r Rebuild) Create(existing string) ([]string, error) {
	p := newCreatePatterns()
	head := p.head.FindString(existing)
	if head == "" {
		return nil, fmt.Errorf("rebuild %s: unsupported form of the server's CREATE TABLE query", r.Table)
	}
	query := "CREATE TABLE IF NOT EXISTS " + r.Layout.Local(r.ShadowTable()) + r.Layout.OnCluster() + " (" +
		existing[len(head):]
	query = p.frozen.ReplaceAllString(query, "")
	// Two tables must not share a path in Keeper; a path with {uuid} is unique.
	query = p.path.ReplaceAllStringFunc(query, func(engine string) string {
		m := p.path.FindStringSubmatch(engine)
		if strings.Contains(m[2], "{uuid}") {
			return engine
		}
		path, _, _ := strings.Cut(m[2], shadowMark)
		return m[1] + path + shadowMark + r.ID + "'"
	})
	text := ""
	if m := p.comment.FindStringSubmatchIndex(query); m != nil {
		text = p.marker.ReplaceAllString(query[m[2]:m[3]], "")
		query = query[:m[0]]
	}
	statements := []string{query + " COMMENT '" + text + r.Marker() + "'"}
	if r.Layout.Cluster != "" {
		statements = append(statements, r.distributed(r.ShadowTable()))
	}
	return statements, nil
}

// MatchesSchema reports whether fresh, the CREATE query of a shadow table, is what Create derives from live,
// that of the live table.
func (r Rebuild) MatchesSchema(fresh, live string) (bool, error) {
	wanted, err := r.Create(live)
	if err != nil {
		return false, err
	}
	made, err := r.Create(fresh)
	if err != nil {
		return false, err
	}
	return made[0] == wanted[0], nil
}

// distributed returns the statement for a Distributed table sharded like the live one.
func (r Rebuild) distributed(name string) string {
	return strings.TrimSuffix(r.Layout.Distributed(name, r.rangeColumn()), ";")
}

// Exchange returns the statement that swaps the shadow table and the live one. Readers see one or the other;
// on a cluster each node swaps by itself.
func (r Rebuild) Exchange() string {
	return "EXCHANGE TABLES " + r.Layout.Local(r.Table) + " AND " + r.Layout.Local(r.ShadowTable()) +
		r.Layout.OnCluster()
}

// Retire returns the statements that rename the previous live table after Exchange.
func (r Rebuild) Retire() []string {
	statements := []string{"RENAME TABLE " + r.Layout.Local(r.ShadowTable()) + " TO " +
		r.Layout.Local(r.RetiredTable()) + r.Layout.OnCluster()}
	if r.Layout.Cluster != "" {
		statements = append(statements, r.drop(r.ShadowTable()), r.distributed(r.RetiredTable()))
	}
	return statements
}

func (r Rebuild) drop(table string) string {
	return "DROP TABLE IF EXISTS " + table + r.Layout.OnCluster() + " SYNC"
}

// Drop returns the statements that drop a shadow or retired table.
func (r Rebuild) Drop(table string) []string {
	statements := []string{r.drop(table)}
	if r.Layout.Cluster != "" {
		statements = append(statements, r.drop(r.Layout.Local(table)))
	}
	return statements
}

// Slice is a range of a table, so that tables of any size are compared in bounded memory: rows whose range
// column is at least From and below To (decimal numbers, empty: unbounded). If a range is subdivided, it has
// the rows whose key hash modulo Parts is Part.
type Slice struct {
	From, To    string
	Part, Parts int
}

// rangeColumn returns the first sorting column with many values, so that the primary key finds the rows of a
// range. Clusters shard by it, too.
func (m Model) rangeColumn() string {
	if m.Key[0] == "kind" {
		return m.Key[1]
	}
	return m.Key[0]
}

// SampleQuery returns the query for a sorted random sample of range column values of the live and the shadow
// table, or all values if there are few.
func (r Rebuild) SampleQuery() string {
	by := r.rangeColumn()
	return "SELECT arrayMap(v -> toString(v), arraySort(groupArraySample(65536)(" + by + "))) FROM (SELECT " + by +
		" FROM " + r.Table +
		" UNION ALL SELECT " + by + " FROM " + r.ShadowTable() + ")"
}

// Slices divides a table into consecutive ranges of about equal size, by the result of SampleQuery. If one
// value has rows for several ranges, as for an account with millions of commits, each of them reads all its
// rows.
func Slices(sample []string, number int) []Slice {
	ranges := []Slice{{Parts: 1}}
	for i := 1; i < number && len(sample) > 0; i++ {
		last, next := &ranges[len(ranges)-1], sample[i*len(sample)/number]
		if next == last.From {
			last.Parts++
			continue
		}
		last.To = next
		ranges = append(ranges, Slice{From: next, Parts: 1})
	}
	parts := make([]Slice, 0, max(number, 1))
	for _, s := range ranges {
		for s.Part = range s.Parts {
			parts = append(parts, s)
		}
	}
	return parts
}

func (r Rebuild) within(s Slice) string {
	var bounds []string
	if s.From != "" {
		bounds = append(bounds, r.rangeColumn()+" >= "+s.From)
	}
	if s.To != "" {
		bounds = append(bounds, r.rangeColumn()+" < "+s.To)
	}
	if s.Parts > 1 {
		bounds = append(bounds, fmt.Sprintf("cityHash64(%s) %% %d = %d", strings.Join(r.Key, ", "), s.Parts, s.Part))
	}
	if len(bounds) == 0 {
		return "true"
	}
	return strings.Join(bounds, " AND ")
}

// bothSides returns a query for the keys and versions of the live and the shadow table.
func (r Rebuild) bothSides(s Slice, liveOnly string) string {
	key := strings.Join(r.Key, ", ")
	if liveOnly != "" {
		liveOnly = " AND " + liveOnly
	}
	return "SELECT " + key + ", ver, 0 AS fresh FROM " + r.Table + " WHERE " + r.within(s) + liveOnly +
		"\n    UNION ALL SELECT " + key + ", ver, 1 AS fresh FROM " + r.ShadowTable() + " WHERE " + r.within(s)
}

// stale returns a query for the keys of a slice that the shadow table lacks or has in an older version.
func (r Rebuild) stale(s Slice) string {
	key := strings.Join(r.Key, ", ")
	return "SELECT " + key + " FROM (\n    " + r.bothSides(s, "") + "\n) GROUP BY " + key +
		" HAVING countIf(fresh = 1) = 0 OR maxIf(ver, fresh = 1) < maxIf(ver, fresh = 0)"
}

// CountStale returns the query for the number of keys of a slice that the shadow table lacks or has in an
// older version.
func (r Rebuild) CountStale(s Slice) string {
	return "SELECT count() FROM (\n" + r.stale(s) + "\n)"
}

// CopyNewer returns the statement that copies their rows from the live table.
func (r Rebuild) CopyNewer(s Slice, columns []string) string {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = "`" + c + "`"
	}
	list, key := strings.Join(quoted, ", "), strings.Join(r.Key, ", ")
	here := ""
	if r.Layout.Cluster != "" {
		// Servers would send the statement to every shard, but shards lack the tables that it compares.
		here = "\nSETTINGS parallel_distributed_insert_select = 0"
	}
	return "INSERT INTO " + r.ShadowTable() + " (" + list + ")\nSELECT " + list + " FROM " + r.Table +
		" WHERE " + r.within(s) + " AND (" + key + ") GLOBAL IN (\n" + r.stale(s) + "\n)" + here
}

// ColumnsQuery returns the query for the names of the insertable columns, in order.
func (r Rebuild) ColumnsQuery() string {
	return "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '" +
		r.Layout.Local(r.Table) +
		"' AND default_kind NOT IN ('MATERIALIZED', 'ALIAS', 'EPHEMERAL') ORDER BY position"
}

// Progress is the next offset to handle in a partition.
type Progress struct {
	Topic     string
	Partition int
	Next      int64
}

// Comparison is the comparison of a slice of the live and the shadow table, including deleted identities.
// Checksums are of identity and version.
type Comparison struct {
	Live, Fresh          uint64 // identities
	LiveSum, FreshSum    uint64
	Stale                uint64 // identities that the shadow table lacks or has in an older version
	Added, NewerInShadow uint64
}

// ScanDest returns the scan destinations in the order of CompareQuery's columns.
func (c *Comparison) ScanDest() []any {
	return []any{&c.Live, &c.Fresh, &c.LiveSum, &c.FreshSum, &c.Stale, &c.Added, &c.NewerInShadow}
}

// CompareQuery returns the query that compares a slice. It ignores rows of the live table from records after
// handled, which have not reached the shadow table yet.
func (r Rebuild) CompareQuery(s Slice, handled []Progress) string {
	key := strings.Join(r.Key, ", ")
	names, offsets := make([]string, 0, len(handled)), make([]string, 0, len(handled))
	for _, h := range handled {
		if !slices.Contains(r.Topics, h.Topic) {
			continue
		}
		names = append(names, "'"+h.Topic+"/"+strconv.Itoa(h.Partition)+"'")
		offsets = append(offsets, strconv.FormatInt(h.Next, 10))
	}
	arrived := ""
	if len(names) > 0 {
		arrived = "offset < transform(concat(topic, '/', toString(partition)), [" + strings.Join(names, ", ") + "], [" +
			strings.Join(offsets, ", ") + "]::Array(Int64), toInt64(9223372036854775807))"
	}
	return `SELECT countIf(l > 0), countIf(f > 0), sumIf(cityHash64(` + key + `, lv), l > 0), sumIf(cityHash64(` + key +
		`, fv), f > 0),
    countIf(l > 0 AND (f = 0 OR fv < lv)), countIf(l = 0), countIf(l > 0 AND fv > lv)
FROM (
    SELECT ` + key + `, countIf(fresh = 0) AS l, countIf(fresh = 1) AS f, ` +
		`maxIf(ver, fresh = 0) AS lv, maxIf(ver, fresh = 1) AS fv
    FROM (
    ` + r.bothSides(s, arrived) + `
    ) GROUP BY ` + key + `
)`
}
