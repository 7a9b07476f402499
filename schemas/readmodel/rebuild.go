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

// Model is a table and what it is made of.
type Model struct {
	Table string
	// Key are the columns of the table's order: one row is current for each.
	Key []string
	// Topics are those whose records have rows in it.
	Topics []string
}

// Models describes every table, in the order of Tables.
func Models() []Model {
	topics := func(kinds ...record.Kind) []string {
		var names []string
		for _, k := range kinds {
			names = append(names, k.Topic())
		}
		return names
	}
	// A person on its topic may still embed lists.
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
		{"microblog_people", []string{"user_hash", "user_id"}, topics(record.KindMicroblogPerson)},
		{"account_links", []string{"link_hash", "link_id"}, topics(record.KindAccountLink)},
		{"seen_versions", []string{"kind", "key_hash", "key", "content_hash"}, []string{event.TopicSeen}},
	}
}

// Marks in the names of tables beside the live ones.
const (
	markNew = "__new_"
	markOld = "__old_"
)

// Rebuild is the SQL that makes a table anew beside the live one and puts it in
// its place. On a cluster (Layout) the statements work on every node's local
// table, and Fresh and Kept are reached through Distributed tables.
type Rebuild struct {
	Model
	Layout Layout
	// ID tells rebuilds apart: lower-case letters and digits.
	ID string
}

// Fresh is the name of the table that is being made.
func (r Rebuild) Fresh() string { return r.Table + markNew + r.ID }

// Kept is the name of the table that was live, once it has been replaced.
func (r Rebuild) Kept() string { return r.Table + markOld + r.ID }

// ParseRebuilt takes the name of a table that a rebuild made, or kept, apart. A
// node's local table of a cluster is not one by itself.
func ParseRebuilt(name string) (table, id string, old, ok bool) {
	for _, mark := range []string{markNew, markOld} {
		if t, rest, found := strings.Cut(name, mark); found && t != "" && isID(rest) {
			return t, rest, mark == markOld, true
		}
	}
	return "", "", false, false
}

func isID(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// freeze is the table setting that refuses every insert as TOO_MANY_PARTS, an error
// that writers wait out, and no read.
const freeze = "max_parts_in_total"

// Freeze makes the live table refuse inserts until Thaw.
func (r Rebuild) Freeze() string {
	return "ALTER TABLE " + r.Layout.Local(r.Table) + r.Layout.OnCluster() + " MODIFY SETTING " + freeze + " = 0"
}

// Thaw makes a table take inserts again; without Freeze it does nothing.
func (r Rebuild) Thaw(table string) string {
	return "ALTER TABLE " + r.Layout.Local(table) + r.Layout.OnCluster() + " RESET SETTING " + freeze
}

// Marker stands in the comment of the table that a rebuild made, whatever its name.
func (r Rebuild) Marker() string { return "; rebuilt by replay " + r.ID }

// Parts of a CREATE TABLE query as ClickHouse prints it.
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

// Create are the statements that make the fresh table like the live one. existing
// is the query by which ClickHouse would create the latter, the local one on a
// cluster (system.tables, create_table_query): so the fresh one also has what an
// operator added.
func (r Rebuild) Create(existing string) ([]string, error) {
	p := newCreatePatterns()
	head := p.head.FindString(existing)
	if head == "" {
		return nil, fmt.Errorf("rebuild %s: the server's CREATE TABLE query has an unknown form", r.Table)
	}
	query := "CREATE TABLE IF NOT EXISTS " + r.Layout.Local(r.Fresh()) + r.Layout.OnCluster() + " (" + existing[len(head):]
	query = p.frozen.ReplaceAllString(query, "")
	// Two tables may not share a path in Keeper; one named by {uuid} is nobody else's.
	query = p.path.ReplaceAllStringFunc(query, func(engine string) string {
		m := p.path.FindStringSubmatch(engine)
		if strings.Contains(m[2], "{uuid}") {
			return engine
		}
		path, _, _ := strings.Cut(m[2], markNew)
		return m[1] + path + markNew + r.ID + "'"
	})
	text := ""
	if m := p.comment.FindStringSubmatchIndex(query); m != nil {
		text = p.marker.ReplaceAllString(query[m[2]:m[3]], "")
		query = query[:m[0]]
	}
	statements := []string{query + " COMMENT '" + text + r.Marker() + "'"}
	if r.Layout.Cluster != "" {
		statements = append(statements, r.distributed(r.Fresh()))
	}
	return statements, nil
}

// MadeFrom reports whether the fresh table, of which the server's CREATE TABLE query is given, is
// as Create makes it from the live one's.
func (r Rebuild) MadeFrom(fresh, live string) (bool, error) {
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

// distributed puts a table over the nodes' local ones, sharded as the live one is.
func (r Rebuild) distributed(name string) string {
	return strings.TrimSuffix(r.Layout.Distributed(name, r.slicedBy()), ";")
}

// Exchange puts the fresh table in the live one's place, which gets its name.
// Readers see one or the other; on a cluster each node exchanges by itself.
func (r Rebuild) Exchange() string {
	return "EXCHANGE TABLES " + r.Layout.Local(r.Table) + " AND " + r.Layout.Local(r.Fresh()) + r.Layout.OnCluster()
}

// Keep renames the table that was live after Exchange.
func (r Rebuild) Keep() []string {
	statements := []string{"RENAME TABLE " + r.Layout.Local(r.Fresh()) + " TO " + r.Layout.Local(r.Kept()) + r.Layout.OnCluster()}
	if r.Layout.Cluster != "" {
		statements = append(statements, r.drop(r.Fresh()), r.distributed(r.Kept()))
	}
	return statements
}

func (r Rebuild) drop(table string) string {
	return "DROP TABLE IF EXISTS " + table + r.Layout.OnCluster() + " SYNC"
}

// Drop removes the fresh table, or the kept one.
func (r Rebuild) Drop(table string) []string {
	statements := []string{r.drop(table)}
	if r.Layout.Cluster != "" {
		statements = append(statements, r.drop(r.Layout.Local(table)))
	}
	return statements
}

// Slice is a range of a table, or a part of one, so that any table can be compared in bounded memory: the rows of which
// the column that slices are made by is at least From and below To, decimal numbers. An empty bound is none. Of a range
// that is divided, they are those whose keys have hashes that leave Part when they are divided by Parts.
type Slice struct {
	From, To    string
	Part, Parts int
}

// slicedBy is the first column of the order that has many values, so that the primary key finds the rows of a slice.
// The shards of a cluster divide a table by it, too.
func (m Model) slicedBy() string {
	if m.Key[0] == "kind" {
		return m.Key[1]
	}
	return m.Key[0]
}

// SampleQuery reads values of the column that slices are made by from the live and the fresh table, in order: some
// of them that were drawn by chance, or all.
func (r Rebuild) SampleQuery() string {
	by := r.slicedBy()
	return "SELECT arrayMap(v -> toString(v), arraySort(groupArraySample(65536)(" + by + "))) FROM (SELECT " + by + " FROM " + r.Table +
		" UNION ALL SELECT " + by + " FROM " + r.Fresh() + ")"
}

// Slices parts a table into slices of about as many rows, one behind the other, by what SampleQuery found. Where one
// value has the rows of several, as somebody with millions of commits has, each of these reads all of them.
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
		bounds = append(bounds, r.slicedBy()+" >= "+s.From)
	}
	if s.To != "" {
		bounds = append(bounds, r.slicedBy()+" < "+s.To)
	}
	if s.Parts > 1 {
		bounds = append(bounds, fmt.Sprintf("cityHash64(%s) %% %d = %d", strings.Join(r.Key, ", "), s.Parts, s.Part))
	}
	if len(bounds) == 0 {
		return "true"
	}
	return strings.Join(bounds, " AND ")
}

// sides are the keys and versions of the live and the fresh table.
func (r Rebuild) sides(s Slice, liveOnly string) string {
	key := strings.Join(r.Key, ", ")
	if liveOnly != "" {
		liveOnly = " AND " + liveOnly
	}
	return "SELECT " + key + ", ver, 0 AS fresh FROM " + r.Table + " WHERE " + r.within(s) + liveOnly +
		"\n    UNION ALL SELECT " + key + ", ver, 1 AS fresh FROM " + r.Fresh() + " WHERE " + r.within(s)
}

// behind are the keys of a slice that the fresh table lacks or has older.
func (r Rebuild) behind(s Slice) string {
	key := strings.Join(r.Key, ", ")
	return "SELECT " + key + " FROM (\n    " + r.sides(s, "") + "\n) GROUP BY " + key +
		" HAVING countIf(fresh = 1) = 0 OR maxIf(ver, fresh = 1) < maxIf(ver, fresh = 0)"
}

// CountBehind counts the keys of a slice that the fresh table lacks or has older.
func (r Rebuild) CountBehind(s Slice) string {
	return "SELECT count() FROM (\n" + r.behind(s) + "\n)"
}

// CopyBehind copies their rows from the live table: the newer of topic and live
// table wins.
func (r Rebuild) CopyBehind(s Slice, columns []string) string {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = "`" + c + "`"
	}
	list, key := strings.Join(quoted, ", "), strings.Join(r.Key, ", ")
	here := ""
	if r.Layout.Cluster != "" {
		// Servers would send the statement to every shard as it stands, and no shard knows the tables that it compares.
		here = "\nSETTINGS parallel_distributed_insert_select = 0"
	}
	return "INSERT INTO " + r.Fresh() + " (" + list + ")\nSELECT " + list + " FROM " + r.Table +
		" WHERE " + r.within(s) + " AND (" + key + ") GLOBAL IN (\n" + r.behind(s) + "\n)" + here
}

// ColumnsQuery reads the names of the columns that an insert gives, in order.
func (r Rebuild) ColumnsQuery() string {
	return "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '" + r.Layout.Local(r.Table) +
		"' AND default_kind NOT IN ('MATERIALIZED', 'ALIAS', 'EPHEMERAL') ORDER BY position"
}

// Progress is the offset before which a partition was handled.
type Progress struct {
	Topic     string
	Partition int
	Next      int64
}

// Comparison is a slice of the live table beside the fresh one, withdrawn
// identities included. Checksums are of identity and version.
type Comparison struct {
	Live, Fresh         uint64 // identities
	LiveSum, FreshSum   uint64
	Behind              uint64 // identities that the fresh table lacks, or has older
	Added, NewerInFresh uint64
}

// Dest gives the scan destinations in the order of CompareQuery's columns.
func (c *Comparison) Dest() []any {
	return []any{&c.Live, &c.Fresh, &c.LiveSum, &c.FreshSum, &c.Behind, &c.Added, &c.NewerInFresh}
}

// CompareQuery compares a slice. Of the live table it looks at what was made of
// records before handled alone: the others are still on their way to the fresh one.
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
	return `SELECT countIf(l > 0), countIf(f > 0), sumIf(cityHash64(` + key + `, lv), l > 0), sumIf(cityHash64(` + key + `, fv), f > 0),
    countIf(l > 0 AND (f = 0 OR fv < lv)), countIf(l = 0), countIf(l > 0 AND fv > lv)
FROM (
    SELECT ` + key + `, countIf(fresh = 0) AS l, countIf(fresh = 1) AS f, maxIf(ver, fresh = 0) AS lv, maxIf(ver, fresh = 1) AS fv
    FROM (
    ` + r.sides(s, arrived) + `
    ) GROUP BY ` + key + `
)`
}
