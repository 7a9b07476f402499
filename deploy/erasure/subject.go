package erasure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Source has the stores that are searched.
type Source struct {
	Conn driver.Conn
	Bus  bus.Config
}

// ReportLimits bounds a report.
type ReportLimits struct {
	// Rows is the maximum number of rows per table, and of calls; Messages of messages that are read from Kafka.
	Rows, Messages int
}

// SubjectReport is the data about a person.
type SubjectReport struct {
	At time.Time `json:"at"`
	// Accounts are the accounts that match the identifiers, with or without rows.
	Accounts []SubjectAccount `json:"accounts"`
	// Tables has the number of rows about the person in each table.
	Tables []SubjectTable `json:"tables"`
	Rows   []SubjectRow   `json:"rows"`
	// Calls is the number of calls that returned the person; Received has the newest.
	Calls    uint64     `json:"calls"`
	Received []Received `json:"received"`
	// NotLookedThrough lists what was not searched.
	NotLookedThrough []string `json:"not_looked_through"`
}

// Held returns the number of rows about the person.
func (r *SubjectReport) Held() (n uint64) {
	for _, t := range r.Tables {
		n += t.Rows
	}
	return n
}

// SubjectTable is the number of rows about the person in a table.
type SubjectTable struct {
	Name string `json:"table"`
	Rows uint64 `json:"rows"`
	// Listed is the number of these rows that are in the report.
	Listed int `json:"listed"`
}

// SubjectRow is a row of a read model.
type SubjectRow struct {
	Table    string `json:"table"`
	Identity string `json:"identity"`
	// Version is the version of the record, or the time of the event.
	Version string        `json:"version,omitempty"`
	Message SourceMessage `json:"message"`
	// Contents are the other columns of the row; JSON columns are JSON values.
	Contents map[string]any `json:"contents"`
}

// SourceMessage is the message that a row comes from, with the source of its record.
type SourceMessage struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	// Gone reports that the log no longer has the message, because of compaction or retention. Unread reports that
	// the message was not read, because of ReportLimits.Messages.
	Gone   bool `json:"gone,omitzero"`
	Unread bool `json:"unread,omitzero"`
	// Source is the CloudEvents source; Run, File and Line are set by ingest.
	Source string    `json:"source,omitempty"`
	Run    string    `json:"run,omitempty"`
	File   string    `json:"file,omitempty"`
	Line   string    `json:"line,omitempty"`
	Time   time.Time `json:"time,omitzero"`
}

// Received is a call that returned the person.
type Received struct {
	OrganizationID string    `json:"organization_id"`
	KeyID          string    `json:"key_id"`
	At             time.Time `json:"at"`
	RequestID      string    `json:"request_id"`
	Endpoint       string    `json:"endpoint"`
	Status         uint16    `json:"status"`
	// Fields are the groups of fields of the call in the ledger.
	Fields []string `json:"fields"`
	// Identities are the identities of the person that were returned.
	Identities []string      `json:"identities"`
	Message    SourceMessage `json:"message"`
}

// FindSubject finds the data about the people with any of the identifiers. The key is that of the instance's
// suppression set. Errors contain no identifiers.
func FindSubject(ctx context.Context, src Source, key *suppress.Key, identifiers []record.ErasureIdentifier,
	limits ReportLimits) (*SubjectReport, error) {
	w, err := newWanted(identifiers)
	if err != nil {
		return nil, err
	}
	p, err := find(ctx, src.Conn, w)
	if err != nil {
		return nil, err
	}
	r := &SubjectReport{
		At: time.Now().
			UTC(),
		Accounts: p.list(), Tables: []SubjectTable{}, Rows: []SubjectRow{}, Received: []Received{},
		NotLookedThrough: []string{
			"topics, except for the messages of rows: tasks and events (7 days), rejected records and dead letters " +
				"(30 days)",
			"mentions in records of other people",
			"calls that reached the ledger in the last seconds, and contexts and deliveries of calls that are not " +
				"in it",
			"stored responses (24 hours, encrypted), the raw files that were ingested, and backups",
		},
	}
	requests, err := r.readLedger(ctx, src.Conn, key, p, limits)
	if err != nil {
		return nil, err
	}
	for _, t := range tablesOf(p, requests) {
		if err := r.read(ctx, src.Conn, t, limits.Rows); err != nil {
			return nil, fmt.Errorf("search %s: %w", t.name, err)
		}
	}
	return r, r.locate(ctx, src.Bus, limits.Messages)
}

// held selects the rows of a table about a person.
type held struct {
	name, identity, where string
	params                parameters
}

func tablesOf(p *person, requests []string) []held {
	network, codehost, microblog := p.ids(identity.Network), p.ids(identity.Codehost), p.ids(identity.Microblog)
	named := parameters{"named": slices.Sorted(maps.Keys(p.named))}
	var targets []string
	for _, t := range tablesOfPeople() {
		for _, id := range p.ids(t.Platform) {
			targets = append(targets, t.kind+" "+id)
		}
	}
	out := []held{{"network_people", "profile_id", "profile_id IN {ids:Array(String)}", parameters{"ids": network}}}
	out = append(out,
		held{"search_people", "profile_id", "profile_id IN {ids:Array(String)}", parameters{"ids": network}})
	for _, t := range [][2]string{
		{"codehost_people", "toString(user_id)"},
		{"codehost_repos", "concat(toString(user_id), '/', toString(repo_id))"},
		{"codehost_lists", "concat(toString(user_id), '/', list)"},
	} {
		out = append(out, held{t[0], t[1], "toString(user_id) IN {ids:Array(String)}", parameters{"ids": codehost}})
	}
	// A commit belongs to its author too, in any account.
	out = append(out, held{"codehost_commits", "concat(toString(user_id), '/', sha)",
		"toString(user_id) IN {ids:Array(String)} OR (" +
			readmodel.CommitAuthor + " IN {emails:Array(String)} OR lower(hex(SHA256(" + readmodel.CommitAuthor +
			"))) IN {sums:Array(String)})",
		parameters{"ids": codehost, "emails": slices.Sorted(maps.Keys(p.emails)), "sums": p.emailSums}})
	const social = "concat(JSONExtractString(s, 'platform'), ':', lowerUTF8(JSONExtractString(s, 'username')))"
	// The account that got a hint is of the other platform.
	const namer = "concat(if(type = 'hint.network', 'codehost', 'network'), ':', splitByChar(' ', source)[1])"
	return append(out,
		held{"microblog_people", "user_id", "user_id IN {ids:Array(String)}", parameters{"ids": microblog}},
		held{"account_links", "link_id",
			"concat(a_platform, ':', a_key) IN {named:Array(String)} OR concat(b_platform, ':', b_key) IN " +
				"{named:Array(String)}", named},
		held{"lookups", "concat(type, ' ', value)",
			"concat(target_kind, ' ', target) IN {ids:Array(String)} OR target_kind = '" + readmodel.TargetAccount +
				"' AND (target IN {named:Array(String)} OR concat(substring(type, 6), ':', value) IN " +
				"{named:Array(String)}) OR startsWith(type, 'hint.') AND (" + namer + " IN {named:Array(String)})",
			parameters{"ids": targets, "named": named["named"]}},
		held{"seen_versions", "concat(kind, ' ', key)", "concat(kind, ' ', key) IN {ids:Array(String)}",
			parameters{"ids": targets}},
		held{readmodel.DiscoveryTable, "concat(platform, ':', username_key)",
			"concat(platform, ':', username_key) IN {named:Array(String)} OR arrayExists(s -> " +
				social + " IN {named:Array(String)}, JSONExtractArrayRaw(result, 'socials'))", named},
		held{readmodel.DiscoveredTable, "concat(found_platform, ':', found_key, ' ', input_platform, ':', input_key)",
			"concat(found_platform, ':', found_key) IN {named:Array(String)} OR concat(input_platform, ':', " +
				"input_key) IN {named:Array(String)}", named},
		held{readmodel.FeedbackTable, "feedback_id", "arrayExists(s -> " + social + " IN {named:Array(String)}, " +
			"arrayPushBack(JSONExtractArrayRaw(content, 'accounts'), JSONExtractRaw(content, 'correct')))", named},
		held{"contexts", "request_id", "request_id IN {ids:Array(String)}", parameters{"ids": requests}},
		held{"webhook_attempts", "delivery_id", "request_id IN {ids:Array(String)}", parameters{"ids": requests}},
	)
}

// read counts and lists the rows of a table.
func (r *SubjectReport) read(ctx context.Context, conn driver.Conn, t held, limit int) error {
	ctx = withParameters(ctx, t.params)
	sum := SubjectTable{Name: t.name}
	err := ch.ReadRows(ctx, conn, "SELECT count() FROM "+t.name+" WHERE "+t.where,
		func(rows driver.Rows) error { return rows.Scan(&sum.Rows) })
	if err != nil {
		return err
	}
	if sum.Rows > 0 {
		query := fmt.Sprintf(
			"SELECT %s AS subject_identity, %s FROM %s WHERE %s ORDER BY topic, partition, offset, subject_identity "+
				"LIMIT %d", t.identity, columnsOf(t.name), t.name, t.where, limit)
		err := ch.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
			columns, err := scan(rows)
			if err != nil {
				return err
			}
			r.Rows = append(r.Rows, rowOf(t.name, columns))
			sum.Listed++
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.Tables = append(r.Tables, sum)
	return nil
}

// columnsOf returns the columns of a table that a report shows. Packed ones are unpacked.
func columnsOf(table string) string {
	switch table {
	case "lookups":
		return "* EXCEPT (claim), type, value, target_kind, target, source, version, deleted"
	case "network_people":
		return "* EXCEPT (content), concat('{', " +
			readmodel.Members(readmodel.ShapeOpen|readmodel.ShapeEmails) + ", '}') AS record"
	}
	return "*"
}

// scan reads a row of any columns.
func scan(rows driver.Rows) (map[string]any, error) {
	dest := make([]any, len(rows.ColumnTypes()))
	for i, t := range rows.ColumnTypes() {
		dest[i] = reflect.New(t.ScanType()).Interface()
	}
	if err := rows.Scan(dest...); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(dest))
	for i, name := range rows.Columns() {
		out[name] = reflect.ValueOf(dest[i]).Elem().Interface()
	}
	return out, nil
}

func rowOf(table string, columns map[string]any) SubjectRow {
	take := func(name string) any {
		v := columns[name]
		delete(columns, name)
		return v
	}
	row := SubjectRow{Table: table}
	row.Identity, _ = take("subject_identity").(string)
	row.Message = messageOf(take("topic"), take("partition"), take("offset"))
	version, _ := take("version").(int64)
	if at, ok := columns["at"].(time.Time); ok { // an event
		row.Version = at.UTC().Format(time.RFC3339Nano)
	} else {
		row.Version = record.Version(version).String()
	}
	row.Contents = columns
	for name, v := range columns {
		switch v := v.(type) {
		case string:
			columns[name] = fragment(v)
		case uint64: // JSON's numbers are too small for it
			columns[name] = strconv.FormatUint(v, 10)
		case big.Int:
			columns[name] = v.String()
		}
	}
	return row
}

func messageOf(topic, partition, offset any) (m SourceMessage) {
	m.Topic, _ = topic.(string)
	n, _ := partition.(int32)
	m.Partition = int(n)
	m.Offset, _ = offset.(int64)
	return m
}

// fragment returns a column as JSON if it is JSON or members of an object, else as a string.
func fragment(s string) any {
	switch {
	case strings.HasPrefix(s, "{") || strings.HasPrefix(s, "["):
		if v := jsontext.Value(s); v.IsValid() {
			return v
		}
	case strings.HasPrefix(s, `"`), strings.HasPrefix(s, `,"`):
		if v := jsontext.Value("{" + strings.TrimPrefix(s, ",") + "}"); v.IsValid() {
			return v
		}
	}
	return s
}

// readLedger finds the calls that returned the person, and returns the IDs of those that are listed.
func (r *SubjectReport) readLedger(ctx context.Context, conn driver.Conn, key *suppress.Key, p *person,
	limits ReportLimits) ([]string, error) {
	identityOf := make(map[event.Disclosure]string)
	for _, t := range tablesOfPeople() {
		for _, id := range p.ids(t.Platform) {
			if d, ok := key.Record(t.kind + " " + id); ok {
				identityOf[d] = t.kind + " " + id
			}
		}
	}
	people := slices.Collect(maps.Keys(identityOf))
	identities := make(map[string][]string) // by request
	var requests []string
	err := readmodel.ReadDisclosures(ctx, conn, people, 0, func(d readmodel.DisclosedTo) error {
		name, ok := identityOf[d.Disclosure]
		if !ok {
			return nil
		}
		if _, known := identities[d.RequestID]; !known && len(requests) < limits.Rows {
			requests = append(requests, d.RequestID)
		}
		if !slices.Contains(identities[d.RequestID], name) { // rows that are not merged yet
			identities[d.RequestID] = append(identities[d.RequestID], name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search the disclosures: %w", err)
	}
	r.Calls = uint64(len(identities))
	for part := range slices.Chunk(requests, requestsPerQuery) {
		if err := r.readCalls(ctx, conn, part, identities); err != nil {
			return nil, fmt.Errorf("search the ledger: %w", err)
		}
	}
	slices.SortFunc(r.Received, func(a, b Received) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.RequestID, b.RequestID))
	})
	return requests, nil
}

// requestsPerQuery is the maximum number of request IDs in one statement: parameters are part of the URL.
const requestsPerQuery = 500

// readCalls adds the ledger's entries of requests that returned identities of the person.
func (r *SubjectReport) readCalls(
	ctx context.Context, conn driver.Conn, requests []string, identities map[string][]string,
) error {
	query := "SELECT organization_id, toString(key_id), at, request_id, toString(endpoint), status, arrayMap(g " +
		"-> toString(g), groups), toString(topic), partition, offset FROM " + readmodel.UsageTable +
		" FINAL WHERE request_id IN {ids:Array(String)}"
	return ch.ReadRows(withParameters(ctx, parameters{"ids": requests}), conn, query, func(rows driver.Rows) error {
		var c Received
		var topic string
		var partition int32
		var offset int64
		if err := rows.Scan(&c.OrganizationID, &c.KeyID, &c.At, &c.RequestID, &c.Endpoint, &c.Status, &c.Fields, &topic,
			&partition, &offset); err != nil {
			return err
		}
		c.Identities = slices.Sorted(slices.Values(identities[c.RequestID]))
		c.Message = messageOf(topic, partition, offset)
		r.Received = append(r.Received, c)
		return nil
	})
}

// locate reads the messages of the rows, up to limit of them.
func (r *SubjectReport) locate(ctx context.Context, cfg bus.Config, limit int) error {
	known := map[SourceMessage]SourceMessage{}
	for i := range r.Rows {
		at := r.Rows[i].Message
		m, ok := known[at]
		switch {
		case ok:
		case len(known) >= limit:
			m = at
			m.Unread = true
		default:
			var err error
			if m, err = lookUp(ctx, cfg, at); err != nil {
				return fmt.Errorf("read the messages of rows: %w", err)
			}
			known[at] = m
		}
		r.Rows[i].Message = m
	}
	return nil
}

func lookUp(ctx context.Context, cfg bus.Config, at SourceMessage) (SourceMessage, error) {
	m, err := bus.MessageAt(ctx, cfg, at.Topic, at.Partition, at.Offset)
	if errors.Is(err, bus.ErrNoMessage) {
		at.Gone = true
		return at, nil
	}
	if err != nil {
		return at, err
	}
	at.Time = m.Time.UTC()
	for _, h := range m.Headers {
		switch h.Key {
		case event.HeaderRun:
			at.Run = string(h.Value)
		case event.HeaderFile:
			at.File = string(h.Value)
		case event.HeaderLine:
			at.Line = string(h.Value)
		case bus.HeaderSource:
			at.Source = string(h.Value)
		case bus.HeaderTime:
			if t, err := time.Parse(time.RFC3339Nano, string(h.Value)); err == nil {
				at.Time = t.UTC()
			}
		}
	}
	return at, nil
}
