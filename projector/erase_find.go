package projector

import (
	"context"
	"fmt"
	"slices"

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

// identifiedTable is a table that is searched for the people of a platform by id only: its rows may exist
// without a row of the account.
type identifiedTable struct{ platform, table, id, where string }

// identifiedTables returns the tables to search by id.
func identifiedTables() []identifiedTable {
	lookups := func(platform, kind string) identifiedTable {
		return identifiedTable{platform, "lookups", "target", " WHERE target_kind = '" + kind + "'"}
	}
	seen := func(platform string, kind record.Kind) identifiedTable {
		return identifiedTable{platform, "seen_versions", "key", " WHERE kind = '" + string(kind) + "'"}
	}
	return []identifiedTable{
		{identity.Codehost, "codehost_repos", "DISTINCT toString(user_id)", ""},
		{identity.Codehost, "codehost_commits", "DISTINCT toString(user_id)", ""},
		{identity.Codehost, "codehost_lists", "DISTINCT toString(user_id)", ""},
		{identity.Codehost, readmodel.AnswersTable, "DISTINCT toString(user_id)", ""},
		{identity.Network, "search_people", "profile_id", ""},
		lookups(identity.Network, readmodel.TargetNetworkPerson),
		lookups(identity.Codehost, readmodel.TargetCodehostPerson),
		lookups(identity.Microblog, readmodel.TargetMicroblogPerson),
		seen(identity.Network, record.KindNetworkPerson),
		seen(identity.Codehost, record.KindCodehostPerson),
		seen(identity.Microblog, record.KindMicroblogPerson),
	}
}

// erasureScan is one comparison of all rows with the suppression set.
type erasureScan struct {
	*Eraser
	// matches so far
	found    *erasureMatches
	replayed map[string][]string // shadow and retired tables of replays, by the name of the live table
	derived  []kafka.Message     // derived entries to publish
}

// find compares all rows with the suppression set. In the shadow and retired tables of replays it looks for
// people by id only: a replay may have copied rows while they were deleted, and the ids of matches are
// suppressed. Other data in such a table is compared once the table is live.
func (e *Eraser) find(ctx context.Context) (*erasureMatches, error) {
	found := newErasureMatches()
	if e.deps.Suppressed.Len() == 0 {
		return found, nil
	}
	replayed, err := e.replayTables(ctx)
	if err != nil {
		return nil, err
	}
	f := &erasureScan{Eraser: e, found: found, replayed: replayed}
	for _, step := range []func(context.Context) error{
		f.scanPeople,
		f.publishDerived, // Suppresses ids early: reading the other tables takes longer.
		f.scanIDs, f.scanMutualAccounts,
		f.publishDerived,
		f.scanLinks, f.scanCommits, f.scanEvents, f.scanDiscoveredLinks,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	return found, nil
}

// tables returns name and its shadow and retired tables.
func (f *erasureScan) tables(name string) []string {
	return append([]string{name}, f.replayed[name]...)
}

// scanPeople compares the people of all platforms with the set.
func (f *erasureScan) scanPeople(ctx context.Context) error {
	set := f.deps.Suppressed
	// Phone numbers, unmapped addresses and identifiers of deletion lists have no columns, so the body is
	// read.
	emails, others := set.HasEmails(), set.HasPhones() || set.HasDrop()
	for _, t := range readmodel.PeopleTables() {
		query := "SELECT " + t.ID + ", " + t.Username + ", " + t.Emails + ", " + t.Body(emails, others) + " FROM " +
			t.Name
		err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
			s := suppress.Subject{Platform: t.Platform}
			var body string
			if err := rows.Scan(&s.ID, &s.Username, &s.Emails, &body); err != nil {
				return err
			}
			if body != "" {
				s.AddUnknownFields([]byte(body))
			}
			if by, hit := set.Subject(s); hit {
				return f.addPerson(s, by)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("people: %w", err)
		}
	}
	return nil
}

// addPerson adds a matched person and the entries derived from the match.
func (f *erasureScan) addPerson(s suppress.Subject, by suppress.Hash) error {
	if _, known := f.found.people[s.Platform][s.ID]; known && s.Username == "" {
		return nil
	}
	f.found.people[s.Platform][s.ID] = by
	more, err := derive(f.deps.Suppressed, s.Platform, s.ID, s.Username, by)
	f.derived = append(f.derived, more...)
	return err
}

// publishDerived publishes the derived entries collected so far.
func (f *erasureScan) publishDerived(ctx context.Context) error {
	if err := f.checkNotWithdrawn(); err != nil {
		return err
	}
	derived := f.derived
	f.derived = nil
	return f.publish(ctx, derived)
}

// scanIDs looks for people by id, in shadow and retired tables of people and in all tables that may have rows
// without an account.
func (f *erasureScan) scanIDs(ctx context.Context) error {
	for _, t := range readmodel.PeopleTables() {
		for _, table := range f.replayed[t.Name] {
			if err := f.scanTableByID(ctx, identifiedTable{platform: t.Platform, id: t.ID}, table); err != nil {
				return err
			}
		}
	}
	for _, t := range identifiedTables() {
		for _, table := range f.tables(t.table) {
			if err := f.scanTableByID(ctx, t, table); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *erasureScan) scanTableByID(ctx context.Context, t identifiedTable, table string) error {
	query := "SELECT " + t.id + " FROM " + f.layout.From(table) + t.where
	err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
		s := suppress.Subject{Platform: t.platform}
		if err := rows.Scan(&s.ID); err != nil {
			return err
		}
		if by, hit := f.deps.Suppressed.ID(s.Platform, s.ID); hit {
			return f.addPerson(s, by)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("people of %s: %w", table, err)
	}
	return nil
}

// scanMutualAccounts adds accounts on the other platform that a matched account links to and that link back:
// both are one person. A one-sided link may be wrong.
func (f *erasureScan) scanMutualAccounts(ctx context.Context) error {
	for _, s := range []struct{ from, to string }{{identity.Network, identity.Codehost},
		{identity.Codehost, identity.Network}} {
		for part := range slices.Chunk(f.found.ids(s.from), idsPerStatement) {
			err := f.read(ctx, readmodel.MutualAccountsQuery(s.from), part, func(rows driver.Rows) error {
				var from, to, username string
				if err := rows.Scan(&from, &to, &username); err != nil {
					return err
				}
				by := f.found.people[s.from][from]
				if _, known := f.found.people[s.to][to]; known || !f.deps.Suppressed.InAllScopes(by) {
					return nil
				}
				return f.addPerson(suppress.Subject{Platform: s.to, ID: to, Username: username}, by)
			})
			if err != nil {
				return fmt.Errorf("linked accounts: %w", err)
			}
		}
	}
	return nil
}

// scanLinks finds the account links of erased accounts.
func (f *erasureScan) scanLinks(ctx context.Context) error {
	set := f.deps.Suppressed
	for _, table := range f.tables("account_links") {
		query := "SELECT link_id, a_platform, a_key, b_platform, b_key FROM " + f.layout.From(table)
		err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
			var id, aPlatform, a, bPlatform, b string
			if err := rows.Scan(&id, &aPlatform, &a, &bPlatform, &b); err != nil {
				return err
			}
			_, hitA := set.Account(aPlatform, a)
			_, hitB := set.Account(bPlatform, b)
			if hitA || hitB {
				f.found.links[id] = true
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("links: %w", err)
		}
	}
	return nil
}

// unsuppressDerived removes the entries that were derived from withdrawn erasures, until no erasure is
// withdrawn while it runs.
func (e *Eraser) unsuppressDerived(ctx context.Context) error {
	for lifts := e.deps.Suppressed.RemovalCount(); lifts != e.removalCount; lifts = e.deps.Suppressed.RemovalCount() {
		if err := e.unsuppressDerivedOnce(ctx); err != nil {
			return err
		}
		e.removalCount = lifts
	}
	return nil
}

func (e *Eraser) unsuppressDerivedOnce(ctx context.Context) error {
	derived := make(map[suppress.Hash]suppress.Entry)
	err := bus.Scan(ctx, e.cfg.Kafka, []string{event.TopicErasure}, func(m kafka.Message) error {
		var entry suppress.Entry
		if h, err := suppress.ParseHash(string(m.Key)); err == nil && json.Unmarshal(m.Value, &entry) == nil &&
			entry.Derived() {
			derived[h] = entry
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read entries derived from withdrawn erasures: %w", err)
	}
	var entries []kafka.Message
	for h, entry := range e.deps.Suppressed.UnsuppressDerived(derived) {
		value, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("encode suppression entry: %w", err)
		}
		entries = append(entries, kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value})
	}
	return e.publish(ctx, entries)
}

// publish makes entries durable and applies them to the set.
func (e *Eraser) publish(ctx context.Context, entries []kafka.Message) error {
	if err := bus.WriteAll(ctx, e.writer, entries); err != nil {
		return fmt.Errorf("publish suppression entries: %w", err)
	}
	for _, m := range entries {
		if err := e.deps.Suppressed.Apply(m.Key, m.Value); err != nil {
			return fmt.Errorf("publish suppression entries: %w", err)
		}
	}
	return nil
}
