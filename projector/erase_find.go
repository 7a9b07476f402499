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

// finding is a look for everybody who is erased.
type finding struct {
	*Eraser
	found   *foundErased
	beside  map[string][]string // the tables beside a live one, by its name
	derived []kafka.Message     // entries that follow from what was found
}

// find compares all rows with the set. In the tables beside the live ones people are
// looked for by their ids, which are suppressed once they were found: a replay may
// have copied them just when they were deleted. What else such a table says of
// somebody is compared when it is live.
func (e *Eraser) find(ctx context.Context) (*foundErased, error) {
	found := newFound()
	if e.deps.Suppressed.Len() == 0 {
		return found, nil
	}
	beside, err := e.tablesBeside(ctx)
	if err != nil {
		return nil, err
	}
	f := &finding{Eraser: e, found: found, beside: beside}
	for _, step := range []func(context.Context) error{
		f.people,
		f.follow, // in force before the other tables are read, which takes longer
		f.identified, f.mutual,
		f.follow,
		f.links, f.commits, f.events, f.discovered,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	return found, nil
}

// tables are a table and those beside it.
func (f *finding) tables(name string) []string {
	return append([]string{name}, f.beside[name]...)
}

// people compares the people of all platforms with the set.
func (f *finding) people(ctx context.Context) error {
	set := f.deps.Suppressed
	// Telephone numbers, addresses that muster has no field for, and what else may be on a list of
	// deletions have no columns.
	emails, others := set.HasEmails(), set.HasPhones() || set.HasDrop()
	for _, t := range readmodel.PeopleTables() {
		query := "SELECT " + t.ID + ", " + t.Username + ", " + t.Emails + ", " + t.Body(emails, others) + " FROM " + t.Name
		err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
			s := suppress.Subject{Platform: t.Platform}
			var body string
			if err := rows.Scan(&s.ID, &s.Username, &s.Emails, &body); err != nil {
				return err
			}
			if body != "" {
				s.Beside([]byte(body))
			}
			if by, hit := set.Subject(s); hit {
				return f.person(s, by)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("people: %w", err)
		}
	}
	return nil
}

// person takes somebody in who was found by an entry, with the entries that follow from it.
func (f *finding) person(s suppress.Subject, by suppress.Hash) error {
	if _, known := f.found.people[s.Platform][s.ID]; known && s.Username == "" {
		return nil
	}
	f.found.people[s.Platform][s.ID] = by
	more, err := derive(f.deps.Suppressed, s.Platform, s.ID, s.Username, by)
	f.derived = append(f.derived, more...)
	return err
}

// follow publishes the entries that follow from what was found.
func (f *finding) follow(ctx context.Context) error {
	if err := f.unlifted(); err != nil {
		return err
	}
	derived := f.derived
	f.derived = nil
	return f.publish(ctx, derived)
}

// identified looks for people by their ids: in the tables beside those of people, and in all
// that have rows of people without an account.
func (f *finding) identified(ctx context.Context) error {
	for _, t := range readmodel.PeopleTables() {
		for _, table := range f.beside[t.Name] {
			if err := f.identify(ctx, identified{platform: t.Platform, id: t.ID}, table); err != nil {
				return err
			}
		}
	}
	for _, t := range identifiedTables() {
		for _, table := range f.tables(t.table) {
			if err := f.identify(ctx, t, table); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *finding) identify(ctx context.Context, t identified, table string) error {
	query := "SELECT " + t.id + " FROM " + f.layout.From(table) + t.where
	err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
		s := suppress.Subject{Platform: t.platform}
		if err := rows.Scan(&s.ID); err != nil {
			return err
		}
		if by, hit := f.deps.Suppressed.ID(s.Platform, s.ID); hit {
			return f.person(s, by)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("people of %s: %w", table, err)
	}
	return nil
}

// mutual takes in the accounts on the other of the two platforms that name a found
// one and are named by it: they are one person. A claim of one side may be wrong.
func (f *finding) mutual(ctx context.Context) error {
	for _, s := range []struct{ from, to string }{{identity.Network, identity.Codehost}, {identity.Codehost, identity.Network}} {
		for part := range slices.Chunk(f.found.ids(s.from), idsAtOnce) {
			err := f.read(ctx, readmodel.MutualAccountsQuery(s.from), part, func(rows driver.Rows) error {
				var from, to, username string
				if err := rows.Scan(&from, &to, &username); err != nil {
					return err
				}
				by := f.found.people[s.from][from]
				if _, known := f.found.people[s.to][to]; known || !f.deps.Suppressed.Everywhere(by) {
					return nil
				}
				return f.person(suppress.Subject{Platform: s.to, ID: to, Username: username}, by)
			})
			if err != nil {
				return fmt.Errorf("linked accounts: %w", err)
			}
		}
	}
	return nil
}

// links finds the account-links of erased accounts.
func (f *finding) links(ctx context.Context) error {
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
