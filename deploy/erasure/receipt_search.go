package erasure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Search searches for data about the people of a request, given the hashes of its identifiers, and fills in the
// results. The key computes the suppression hashes.
func (r *Receipt) Search(ctx context.Context, src Source, key *suppress.Key,
	identifiers []event.ErasureIdentifier) error {
	set, kept, err := suppressedBy(ctx, src.Bus, key, identifiers)
	if err != nil {
		return err
	}
	r.Version, r.Kept, r.VerifiedAt = receiptVersion, kept, time.Now().UTC()
	layout, err := readmodel.FindLayout(ctx, src.Conn)
	if err != nil {
		return err
	}
	if r.Tables, err = searchTables(ctx, src.Conn, layout, set); err != nil {
		return err
	}
	if r.Topics, err = searchTopics(ctx, src.Bus, set); err != nil {
		return err
	}
	if r.Passing, err = searchExpiring(ctx, src.Bus, set); err != nil {
		return err
	}
	if r.Files, err = countFiles(ctx, src.Conn, layout); err != nil {
		return err
	}
	r.NotLookedThrough = notLookedThrough(r.SuppressedAt)
	return nil
}

// storedResponseTime is the maximum time that responses of calls with an Idempotency-Key are on disk: 24 hours
// (rulings.md, Limits and charges), plus one hour of writing to a file.
const storedResponseTime = 25 * time.Hour

// notLookedThrough lists what cannot be searched, with its retention. suppressed is when the request took effect
// everywhere, or zero if that is unknown.
func notLookedThrough(suppressed time.Time) []string {
	answers := "responses stored under an Idempotency-Key, on disk or in Redis, are encrypted: one that contains " +
		"the person is overwritten within half a minute, or in Redis discarded when it is requested, and all expire " +
		"after 25 hours"
	if !suppressed.IsZero() {
		answers += ": earlier ones by " + suppressed.Add(storedResponseTime).UTC().Format(time.RFC3339)
	}
	return []string{
		answers,
		"the ledger of calls (" + event.TopicUsage +
			", usage_events and each query-api's outbox) contains keyed hashes of identities, and is retained by law",
		"mentions in texts of other people's records are retained",
		"compacted segments are searched as messages; exported and ingested files, and backups, are the operator's " +
			"responsibility",
	}
}

// suppressedBy returns the suppression entries of identifiers and those derived from them, and a set of only these.
func suppressedBy(ctx context.Context, cfg bus.Config, own *suppress.Key,
	identifiers []event.ErasureIdentifier) (*suppress.Set, []Kept, error) {
	values, from := map[string][]byte{}, map[string]suppress.Entry{}
	err := bus.Scan(ctx, cfg, []string{event.TopicErasure}, func(m kafka.Message) error {
		key := string(m.Key)
		delete(values, key)
		delete(from, key)
		var e suppress.Entry
		if m.Value != nil && json.Unmarshal(m.Value, &e) == nil && !e.Unsuppressed {
			values[key], from[key] = m.Value, e
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the suppression set: %w", err)
	}
	mine := map[string]bool{}
	for _, i := range identifiers {
		mine[i.Hash] = values[i.Hash] != nil
	}
	for before := -1; before != len(mine); {
		before = len(mine)
		for h, e := range from {
			if e.Derived() && mine[e.From] {
				mine[h] = true
			}
		}
	}
	set, kept := suppress.NewSet(own), []Kept{}
	for h, held := range mine {
		if !held {
			continue
		}
		if err := set.Apply([]byte(h), values[h]); err != nil {
			return nil, nil, err
		}
		kept = append(kept, Kept{Type: string(from[h].Type), Hash: h, From: from[h].From})
	}
	slices.SortFunc(kept,
		func(a, b Kept) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Hash, b.Hash)) })
	return set, kept, nil
}

// tableQuery describes how to compare the rows of a table: a query of three strings and an array.
type tableQuery struct {
	table, columns string
	hit            func(a, b, c string, list []string) bool
}

func tableQueries(set *suppress.Set) []tableQuery {
	const none = ", emptyArrayString()"
	// body is the record as JSON if it may contain a telephone number or another identifier of deletion lists.
	subject := func(platform string) func(id, username, body string, emails []string) bool {
		return func(id, username, body string, emails []string) bool {
			s := suppress.Subject{Platform: platform, ID: id, Username: username, Emails: emails}
			if body != "" {
				s.AddUnknownFields([]byte(body))
			}
			_, hit := set.Subject(s)
			return hit
		}
	}
	account := func(platform, name string) bool {
		_, hit := set.Account(platform, name)
		return hit
	}
	linked := func(of string) bool {
		platform, name, _ := strings.Cut(of, ":")
		return account(platform, name)
	}
	byID := func(kind, id, _ string, _ []string) bool {
		_, hit := set.ID(record.Kind(kind).Platform(), id)
		return hit
	}
	out := []tableQuery{
		{"search_people", "profile_id, '', ''" + none, subject(identity.Network)},
		{readmodel.LinkedTable, "profile_id, toString(user_id), ''" + none,
			func(profile, account, _ string, _ []string) bool {
				_, person := set.ID(identity.Network, profile)
				_, linked := set.ID(identity.Codehost, account)
				return person || linked
			}},
		{"seen_versions", "toString(kind), key, ''" + none, byID},
		{"account_links", "concat(a_platform, ':', a_key), concat(b_platform, ':', b_key), ''" + none,
			func(a, b, _ string, _ []string) bool { return linked(a) || linked(b) }},
		{"lookups",
			"toString(target_kind), target, if(startsWith(type, 'link.'), concat(substring(type, 6), ':', value), " +
				"''), [type, source]", func(kind, target, link string, hint []string) bool {
				row := readmodel.LookupRow{Type: hint[0], Source: hint[1]}
				return byID(kind, target, "", nil) || kind == readmodel.TargetAccount &&
					(linked(target) || linked(link)) || row.NamerSuppressed(set)
			}},
		{readmodel.DiscoveryTable, "toString(platform), username_key, result" + none,
			func(platform, username, result string, _ []string) bool {
				var d event.Discovery
				if json.Unmarshal([]byte(result), &d) != nil {
					return account(platform, username)
				}
				return account(platform, username) || slices.ContainsFunc(d.Socials, func(s event.Social) bool {
					_, byID := set.ID(s.Platform, s.Identity)
					return byID || account(s.Platform, identity.NormalizeUsername(s.Username))
				})
			}},
		{readmodel.DiscoveredTable,
			"concat(found_platform, ':', found_key), concat(input_platform, ':', input_key), '', " +
				"[concat(found_platform, ' ', found_identity), concat(input_platform, ' ', input_identity)]",
			func(found, input, _ string, ids []string) bool {
				return linked(found) || linked(input) || slices.ContainsFunc(ids, func(of string) bool {
					platform, id, _ := strings.Cut(of, " ")
					_, hit := set.ID(platform, id)
					return hit
				})
			}},
	}
	emails, others := set.HasEmails(), set.HasPhones() || set.HasDrop()
	for _, t := range readmodel.PeopleTables() {
		out = append(out,
			tableQuery{t.Name, t.ID + ", " + t.Username + ", " + t.Body(emails, others) + ", " + t.Emails,
				subject(t.Platform)})
	}
	for _, t := range []string{"codehost_repos", "codehost_lists", readmodel.AnswersTable} {
		out = append(out, tableQuery{t, "toString(user_id), '', ''" + none, subject(identity.Codehost)})
	}
	document := func(_, _, text string, _ []string) bool {
		_, hit := set.FindInDocument(identity.Default(), []byte(text))
		return hit
	}
	return append(out,
		tableQuery{"codehost_commits", "toString(user_id), " + readmodel.CommitAuthor + ", ''" + none,
			func(id, author, _ string, _ []string) bool {
				if key, err := identity.NormalizeEmail(author); err == nil && set.Author(key) {
					return true
				}
				_, hit := set.ID(identity.Codehost, id)
				return hit
			}},
		tableQuery{readmodel.ContextTable, "'', '', if(version > 0, result, '')" + none,
			func(_, _, result string, _ []string) bool {
				var c event.Context
				if json.Unmarshal([]byte(result), &c) != nil {
					return false
				}
				return set.IsAnyNamed(c.Identities) || len(c.Profile) > 0 && document("", "", string(c.Profile), nil)
			}},
		tableQuery{readmodel.BulkTable, "'', '', subjects" + none, func(_, _, subjects string, _ []string) bool {
			return set.Stored([]byte(subjects))
		}},
		tableQuery{readmodel.FeedbackTable, "'', '', content" + none, func(_, _, content string, _ []string) bool {
			var f event.Feedback
			return json.Unmarshal([]byte(content), &f) == nil && set.Feedback(&f)
		}},
		tableQuery{readmodel.WebhookAttemptsTable, "'', '', response" + none, document},
		tableQuery{readmodel.DisclosuresTable, "toString(platform), identity, ''" + none,
			func(platform, identity, _ string, _ []string) bool {
				d := event.Disclosure{Platform: platform}
				copy(d.Hash[:], identity)
				_, hit := set.Disclosed(d)
				return hit
			}},
	)
}

// countFiles counts the parts of tables on all nodes, and those that still contain deleted rows of any person.
func countFiles(ctx context.Context, conn driver.Conn, layout readmodel.Layout) ([]Place, error) {
	wanted := map[string]bool{
		readmodel.AnswersTable: true, readmodel.DiscoveryTable: true, readmodel.DiscoveredTable: true,
		readmodel.ContextTable: true, readmodel.BulkTable: true, readmodel.WebhookAttemptsTable: true,
		readmodel.DisclosuresTable: true,
		readmodel.FeedbackTable:    true,
		readmodel.LinkedTable:      true,
	}
	for _, t := range readmodel.Tables() {
		wanted[t] = true
	}
	var out []Place
	var database string
	if err := conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return nil, fmt.Errorf("search the parts of tables: %w", err)
	}
	query := "SELECT table, toInt64(count()), toInt64(countIf(active AND has_lightweight_delete)) FROM " +
		layout.OnAllNodes("system.parts") +
		" WHERE database = {database:String} GROUP BY table ORDER BY table"
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"database": database}))
	err := ch.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var p Place
		if err := rows.Scan(&p.Name, &p.Looked, &p.Remaining); err != nil {
			return err
		}
		name, ok := layout.Logical(p.Name)
		if !ok {
			return nil
		}
		p.Name = name
		if table, _, _, ok := readmodel.ParseRebuilt(name); ok {
			name = table
		}
		if wanted[name] {
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search the parts of tables: %w", err)
	}
	return out, nil
}

// searchTables searches the tables, including those that replays have replaced and kept.
func searchTables(ctx context.Context, conn driver.Conn, layout readmodel.Layout, set *suppress.Set) ([]Place, error) {
	names := map[string][]string{}
	err := ch.ReadRows(ctx, conn, "SELECT name FROM system.tables WHERE database = currentDatabase()",
		func(rows driver.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			if name, ok := layout.Logical(name); ok {
				if table, _, _, ok := readmodel.ParseRebuilt(name); ok {
					names[table] = append(names[table], name)
				}
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	var out []Place
	for _, l := range tableQueries(set) {
		for _, name := range append([]string{l.table}, names[l.table]...) {
			p := Place{Name: name}
			err := ch.ReadRows(ctx, conn, "SELECT "+l.columns+" FROM "+layout.From(name), func(rows driver.Rows) error {
				var a, b, c string
				var list []string
				if err := rows.Scan(&a, &b, &c, &list); err != nil {
					return err
				}
				p.Looked++
				if l.hit(a, b, c, list) {
					p.Remaining++
				}
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("search %s: %w", name, err)
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// searchTopics searches the topics of records. A tombstone has no data, but its key is an identity until it is
// compacted.
func searchTopics(ctx context.Context, cfg bus.Config, set *suppress.Set) ([]Place, error) {
	var out []Place
	for _, d := range record.Definitions() {
		if d.Topic == "" {
			continue
		}
		p := Place{Name: d.Topic}
		err := bus.Scan(ctx, cfg, []string{d.Topic}, func(m kafka.Message) error {
			p.Looked++
			if hasKeyOf(set, d.Kind, string(m.Key)) {
				p.Remaining++
				return nil
			}
			if rec, err := record.Decode(d.Kind, m.Value); err == nil {
				if _, hit := set.Record(rec); hit {
					p.Remaining++
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("search %s: %w", d.Topic, err)
		}
		out = append(out, p)
	}
	seen := Place{Name: event.TopicVersionBump}
	err := bus.Scan(ctx, cfg, []string{event.TopicVersionBump}, func(m kafka.Message) error {
		seen.Looked++
		if kind, key, ok := strings.Cut(string(m.Key), "/"); ok && hasKeyOf(set, record.Kind(kind), key) {
			seen.Remaining++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search %s: %w", event.TopicVersionBump, err)
	}
	return append(out, seen), nil
}

// hasKeyOf reports whether the key of a record is the ID of a person in the set.
func hasKeyOf(set *suppress.Set, kind record.Kind, key string) (hit bool) {
	switch kind {
	case record.KindNetworkPerson:
		_, hit = set.ID(identity.Network, key)
	case record.KindMicroblogPerson:
		_, hit = set.ID(identity.Microblog, key)
	case record.KindCodehostPerson, record.KindCodehostRepo, record.KindCodehostCommit, record.KindCodehostList:
		id, _, _ := strings.Cut(key, "/")
		_, hit = set.ID(identity.Codehost, id)
	}
	return hit
}
