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

// identified are the tables in which a person of a platform is looked for by the id
// alone: what has outlived its account, or came before it.
type identified struct{ platform, table, id, where string }

func identifiedTables() []identified {
	lookups := func(platform, kind string) identified {
		return identified{platform, "lookups", "target", " WHERE target_kind = '" + kind + "'"}
	}
	seen := func(platform string, kind record.Kind) identified {
		return identified{platform, "seen_versions", "key", " WHERE kind = '" + string(kind) + "'"}
	}
	return []identified{
		{identity.Codehost, "codehost_repos", "DISTINCT toString(user_id)", ""},
		{identity.Codehost, "codehost_commits", "DISTINCT toString(user_id)", ""},
		{identity.Codehost, "codehost_lists", "DISTINCT toString(user_id)", ""},
		{identity.Network, "search_people", "profile_id", ""},
		lookups(identity.Network, readmodel.TargetNetworkPerson),
		lookups(identity.Codehost, readmodel.TargetCodehostPerson),
		lookups(identity.Microblog, readmodel.TargetMicroblogPerson),
		seen(identity.Network, record.KindNetworkPerson),
		seen(identity.Codehost, record.KindCodehostPerson),
		seen(identity.Microblog, record.KindMicroblogPerson),
	}
}

// find compares all rows with the set. In the tables beside the live ones people are
// looked for by their ids, which are suppressed once they were found: a replay may
// have copied them just when they were deleted. What else such a table says of
// somebody is compared when it is live.
func (e *Eraser) find(ctx context.Context) (*foundErased, error) {
	f := newFound()
	set := e.deps.Suppressed
	if set.Len() == 0 {
		return f, nil
	}
	beside, err := e.tablesBeside(ctx)
	if err != nil {
		return nil, err
	}
	var derived []kafka.Message
	person := func(s suppress.Subject, by suppress.Hash) error {
		if _, known := f.people[s.Platform][s.ID]; known && s.Username == "" {
			return nil
		}
		f.people[s.Platform][s.ID] = by
		more, err := derive(set, s.Platform, s.ID, s.Username, by)
		derived = append(derived, more...)
		return err
	}
	// Telephone numbers, addresses that muster has no field for, and what else may be on a list of
	// deletions have no columns.
	emails, others := set.HasEmails(), set.HasPhones() || set.HasDrop()
	for _, t := range readmodel.PeopleTables() {
		query := "SELECT " + t.ID + ", " + t.Username + ", " + t.Emails + ", " + t.Body(emails, others) + " FROM " + t.Name
		err := ch.ReadRows(ctx, e.deps.Conn, query, func(rows driver.Rows) error {
			s := suppress.Subject{Platform: t.Platform}
			var body string
			if err := rows.Scan(&s.ID, &s.Username, &s.Emails, &body); err != nil {
				return err
			}
			if body != "" {
				s.Beside([]byte(body))
			}
			if by, hit := set.Subject(s); hit {
				return person(s, by)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	identify := func(t identified, table string) error {
		err := ch.ReadRows(ctx, e.deps.Conn, "SELECT "+t.id+" FROM "+e.layout.From(table)+t.where, func(rows driver.Rows) error {
			s := suppress.Subject{Platform: t.platform}
			if err := rows.Scan(&s.ID); err != nil {
				return err
			}
			if by, hit := set.ID(s.Platform, s.ID); hit {
				return person(s, by)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		return nil
	}
	// In force before the other tables are read, which takes longer.
	if err := e.follow(ctx, derived); err != nil {
		return nil, err
	}
	derived = nil
	for _, t := range readmodel.PeopleTables() {
		for _, table := range beside[t.Name] {
			if err := identify(identified{platform: t.Platform, id: t.ID}, table); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range identifiedTables() {
		for _, table := range append([]string{t.table}, beside[t.table]...) {
			if err := identify(t, table); err != nil {
				return nil, err
			}
		}
	}
	if err := e.mutual(ctx, f, person); err != nil {
		return nil, fmt.Errorf("sweep: linked accounts: %w", err)
	}
	if err := e.follow(ctx, derived); err != nil {
		return nil, err
	}
	for _, table := range append([]string{"account_links"}, beside["account_links"]...) {
		err := ch.ReadRows(ctx, e.deps.Conn, "SELECT link_id, a_platform, a_key, b_platform, b_key FROM "+e.layout.From(table), func(rows driver.Rows) error {
			var id, aPlatform, a, bPlatform, b string
			if err := rows.Scan(&id, &aPlatform, &a, &bPlatform, &b); err != nil {
				return err
			}
			_, hitA := set.Account(aPlatform, a)
			_, hitB := set.Account(bPlatform, b)
			if hitA || hitB {
				f.links[id] = true
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("sweep: links: %w", err)
		}
	}
	for _, table := range append([]string{"codehost_commits"}, beside["codehost_commits"]...) {
		if err := e.findCommits(ctx, f, table); err != nil {
			return nil, fmt.Errorf("sweep: commits: %w", err)
		}
	}
	if err := e.findEvents(ctx, f); err != nil {
		return nil, fmt.Errorf("sweep: results: %w", err)
	}
	return f, e.discovered(ctx, f)
}

// unravel lifts the entries that followed from what was withdrawn since it last ran.
func (e *Eraser) unravel(ctx context.Context) error {
	for lifts := e.deps.Suppressed.Lifts(); lifts != e.lifts; lifts = e.deps.Suppressed.Lifts() {
		if err := e.unravelOnce(ctx); err != nil {
			return err
		}
		e.lifts = lifts
	}
	return nil
}

func (e *Eraser) unravelOnce(ctx context.Context) error {
	derived := make(map[suppress.Hash]suppress.Entry)
	err := bus.Scan(ctx, e.cfg.Kafka, []string{event.TopicErasure}, func(m kafka.Message) error {
		var entry suppress.Entry
		if h, err := suppress.ParseHash(string(m.Key)); err == nil && json.Unmarshal(m.Value, &entry) == nil && entry.Derived() {
			derived[h] = entry
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what followed from withdrawn erasures: %w", err)
	}
	var entries []kafka.Message
	for h, entry := range e.deps.Suppressed.Unravel(derived) {
		value, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("write suppression entry: %w", err)
		}
		entries = append(entries, kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value})
	}
	return e.publish(ctx, entries)
}

// follow publishes the entries that follow from what was found.
func (e *Eraser) follow(ctx context.Context, derived []kafka.Message) error {
	if err := e.unlifted(); err != nil {
		return err
	}
	return e.publish(ctx, derived)
}

// publish makes entries durable and puts them into force.
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

// mutual takes in the accounts on the other of the two platforms that name a found
// one and are named by it: they are one person. A claim of one side may be wrong.
func (e *Eraser) mutual(ctx context.Context, f *foundErased, person func(suppress.Subject, suppress.Hash) error) error {
	for _, s := range []struct{ from, to string }{{identity.Network, identity.Codehost}, {identity.Codehost, identity.Network}} {
		for part := range slices.Chunk(f.ids(s.from), idsAtOnce) {
			err := e.read(ctx, readmodel.MutualAccountsQuery(s.from), part, func(rows driver.Rows) error {
				var from, to, username string
				if err := rows.Scan(&from, &to, &username); err != nil {
					return err
				}
				by := f.people[s.from][from]
				if _, known := f.people[s.to][to]; known || !e.deps.Suppressed.Everywhere(by) {
					return nil
				}
				return person(suppress.Subject{Platform: s.to, ID: to, Username: username}, by)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
