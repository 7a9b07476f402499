package erasure

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

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
		{identity.Codehost, readmodel.LinkedTable, "DISTINCT toString(user_id)", " WHERE user_id != " +
			strconv.Itoa(readmodel.NoAccount)},
		{identity.Network, "search_people", "profile_id", ""},
		{identity.Network, readmodel.LinkedTable, "profile_id", ""},
		lookups(identity.Network, readmodel.TargetNetworkPerson),
		lookups(identity.Codehost, readmodel.TargetCodehostPerson),
		lookups(identity.Microblog, readmodel.TargetMicroblogPerson),
		seen(identity.Network, record.KindNetworkPerson),
		seen(identity.Codehost, record.KindCodehostPerson),
		seen(identity.Microblog, record.KindMicroblogPerson),
	}
}

// scan is one comparison of all rows with the suppression set.
type scan struct {
	*Eraser
	// matches so far
	found    *matches
	replayed map[string][]string // shadow and retired tables of replays, by the name of the live table
	derived  []kafka.Message     // derived entries to publish
}

// find compares all rows with the suppression set. In the shadow and retired tables of replays it looks for
// people by id only: a replay may have copied rows while they were deleted, and the ids of matches are
// suppressed. Other data in such a table is compared once the table is live.
func (e *Eraser) find(ctx context.Context) (*matches, error) {
	found := newMatches()
	if e.deps.Suppressed.Len() == 0 {
		return found, nil
	}
	replayed, err := e.replayTables(ctx)
	if err != nil {
		return nil, err
	}
	f := &scan{Eraser: e, found: found, replayed: replayed}
	for _, step := range []func(context.Context) error{
		f.scanPeople,
		f.publishDerived, // Suppresses ids early: reading the other tables takes longer.
		f.scanIDs, f.scanMutualAccounts,
		f.publishDerived,
		f.scanLinks, f.scanHints, f.scanCommits, f.scanEvents, f.scanDiscoveredLinks, f.scanBulk, f.scanDisclosures,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	return found, nil
}

// tables returns name and its shadow and retired tables.
func (f *scan) tables(name string) []string {
	return append([]string{name}, f.replayed[name]...)
}

// scanPeople compares the people of all platforms with the set.
func (f *scan) scanPeople(ctx context.Context) error {
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
func (f *scan) addPerson(s suppress.Subject, by suppress.Hash) error {
	if _, known := f.found.people[s.Platform][s.ID]; known && s.Username == "" {
		return nil
	}
	f.found.people[s.Platform][s.ID] = by
	more, err := derive(f.deps.Suppressed, s.Platform, s.ID, s.Username, by)
	f.derived = append(f.derived, more...)
	return err
}

// publishDerived publishes the derived entries collected so far.
func (f *scan) publishDerived(ctx context.Context) error {
	if err := f.checkNotWithdrawn(); err != nil {
		return err
	}
	derived := f.derived
	f.derived = nil
	return f.publish(ctx, derived)
}

// scanIDs looks for people by id, in shadow and retired tables of people and in all tables that may have rows
// without an account.
func (f *scan) scanIDs(ctx context.Context) error {
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

func (f *scan) scanTableByID(ctx context.Context, t identifiedTable, table string) error {
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
func (f *scan) scanMutualAccounts(ctx context.Context) error {
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
func (f *scan) scanLinks(ctx context.Context) error {
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

const (
	// discoveredHash, commitHash, hintHash and attemptHash are SQL expressions that identify rows in statements.
	discoveredHash = "cityHash64(found_hash, input_hash)"
	commitHash     = "cityHash64(user_id, sha)"
	hintHash       = "cityHash64(key_hash, claim)"
	attemptHash    = "cityHash64(organization_id, delivery_id, created_at, round, attempt)"
)

// scanHints finds the hints that erased accounts got for usernames that they name. Those that name an erased person are
// found by the person's id.
func (f *scan) scanHints(ctx context.Context) error {
	for _, table := range f.tables("lookups") {
		query := "SELECT " + hintHash + ", type, source FROM " + f.layout.From(table) +
			" WHERE startsWith(claim, 'hint.')"
		err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
			var hash uint64
			var hint readmodel.LookupRow
			if err := rows.Scan(&hash, &hint.Type, &hint.Source); err != nil {
				return err
			}
			if hint.NamerSuppressed(f.deps.Suppressed) {
				f.found.hints[hash] = true
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("hints: %w", err)
		}
	}
	return nil
}

// scanCommits finds commits of erased authors in accounts of others.
func (f *scan) scanCommits(ctx context.Context) error {
	for _, table := range f.tables("codehost_commits") {
		if err := f.scanCommitsTable(ctx, table); err != nil {
			return fmt.Errorf("commits: %w", err)
		}
	}
	return nil
}

// scanCommitsTable finds commits of erased authors in one table. Addresses are compared here, not in
// ClickHouse: the hash key must not leave the process.
func (f *scan) scanCommitsTable(ctx context.Context, table string) error {
	const author = readmodel.CommitAuthor
	erased := make(map[string]bool)
	query := "SELECT DISTINCT " + author + " AS address FROM " + f.layout.From(table) + " WHERE address != ''"
	err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
		var address string
		if err := rows.Scan(&address); err != nil {
			return err
		}
		if key, err := identity.NormalizeEmail(address); err == nil && f.deps.Suppressed.Author(key) {
			erased[address] = true
		}
		return nil
	})
	if err != nil || len(erased) == 0 {
		return err
	}
	var addresses []string
	for a := range erased {
		addresses = append(addresses, a)
	}
	for len(addresses) > 0 {
		part := addresses[:min(len(addresses), idsPerStatement)]
		addresses = addresses[len(part):]
		query := "SELECT " + commitHash + ", concat(toString(user_id), '/', sha), toString(user_id) FROM " +
			f.layout.From(table) + " WHERE " + author + " IN {ids:Array(String)}"
		err := f.read(ctx, query, part, func(rows driver.Rows) error {
			var h uint64
			var key, owner string
			if err := rows.Scan(&h, &key, &owner); err != nil {
				return err
			}
			if _, all := f.found.people[identity.Codehost][owner]; !all {
				f.found.commits[h] = key
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scanEvents finds results of discovery, results of context calls, feedback, and responses of webhook receivers that
// contain an erased person.
func (f *scan) scanEvents(ctx context.Context) error {
	set := f.deps.Suppressed
	for _, t := range []struct {
		query string
		hit   func(text string) bool
		found map[uint64]bool
	}{
		{"SELECT input_hash, result FROM " + readmodel.DiscoveryTable, func(text string) bool {
			var d event.Discovery
			return json.Unmarshal([]byte(text), &d) == nil && set.Discovery(&d)
		}, f.found.discoveries},
		{"SELECT request_hash, result FROM " + readmodel.ContextTable + " WHERE version > 0", func(text string) bool {
			var c event.Context
			return json.Unmarshal([]byte(text), &c) == nil && set.Context(identity.Default(), &c)
		}, f.found.contexts},
		{"SELECT " + readmodel.FeedbackHash + ", content FROM " + readmodel.FeedbackTable, func(text string) bool {
			var f event.Feedback
			return json.Unmarshal([]byte(text), &f) == nil && set.Feedback(&f)
		}, f.found.feedback},
		{"SELECT " + attemptHash + ", response FROM " + readmodel.WebhookAttemptsTable + " WHERE response != ''",
			func(text string) bool {
				_, hit := set.FindInDocument(identity.Default(), []byte(text))
				return hit
			}, f.found.attempts},
	} {
		err := ch.ReadRows(ctx, f.deps.Conn, t.query, func(rows driver.Rows) error {
			var hash uint64
			var text string
			if err := rows.Scan(&hash, &text); err != nil {
				return err
			}
			if t.hit(text) {
				t.found[hash] = true
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	return nil
}

// scanBulk finds answers of bulk jobs that contain an erased person. Their content is encrypted; the hashes of the
// people in it are not.
func (f *scan) scanBulk(ctx context.Context) error {
	const query = "SELECT " + readmodel.BulkHash + ", subjects FROM " + readmodel.BulkTable + " WHERE subjects != ''"
	err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
		var hash uint64
		var subjects string
		if err := rows.Scan(&hash, &subjects); err != nil {
			return err
		}
		if f.deps.Suppressed.Stored([]byte(subjects)) {
			f.found.bulk[hash] = true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("bulk answers: %w", err)
	}
	return nil
}

// scanDisclosures finds erased people whose records were returned.
func (f *scan) scanDisclosures(ctx context.Context) error {
	return readmodel.ReadDisclosedPeople(ctx, f.deps.Conn, func(d event.Disclosure) error {
		if _, erased := f.deps.Suppressed.Disclosed(d); erased {
			f.found.disclosed = append(f.found.disclosed, d)
		}
		return nil
	})
}

// scanDiscoveredLinks finds discovered links from or to erased people.
func (f *scan) scanDiscoveredLinks(ctx context.Context) error {
	const query = "SELECT " + discoveredHash +
		", toString(found_platform), found_key, found_identity, toString(input_platform), input_key, " +
		"input_identity FROM " + readmodel.DiscoveredTable
	err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
		var hash uint64
		var found, input event.Social
		if err := rows.Scan(&hash, &found.Platform, &found.Username, &found.Identity, &input.Platform, &input.Username,
			&input.Identity); err != nil {
			return err
		}
		d := event.Discovery{Input: input.Account, Socials: []event.Social{input, found}}
		if f.deps.Suppressed.Discovery(&d) {
			f.found.discovered[hash] = true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("discovered links: %w", err)
	}
	return nil
}
