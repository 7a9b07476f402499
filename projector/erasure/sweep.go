package erasure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// errErasureWithdrawn ends a sweep during which an erasure was withdrawn.
var errErasureWithdrawn = errors.New("an erasure was withdrawn during the sweep")

// checkNotWithdrawn returns errErasureWithdrawn if an erasure was withdrawn since derived entries were last
// unsuppressed. Earlier matches may then belong to a person whose data may be stored again, under the same
// id.
func (e *Eraser) checkNotWithdrawn() error {
	if e.deps.Suppressed.RemovalCount() != e.removalCount {
		return errErasureWithdrawn
	}
	return nil
}

// sweep finds the stored data of erased people, suppresses derived identifiers, writes tombstones and deletes
// rows. It starts over if an erasure is withdrawn in between, and returns the last matches.
func (e *Eraser) sweep(ctx context.Context) (last *matches, err error) {
	for {
		if err := e.unsuppressDerived(ctx); err != nil {
			return nil, err
		}
		found, err := e.find(ctx)
		if err == nil && !found.empty() {
			if last == nil {
				clear(e.removed)
			}
			last = found
			// Tombstones first: if this is interrupted, the rows are still there to be found.
			if err = e.writeTombstones(ctx, found); err == nil {
				err = e.remove(ctx, found)
			}
		}
		if err == nil {
			err = e.rebuild(ctx)
		}
		if errors.Is(err, errErasureWithdrawn) {
			continue
		}
		if last == nil {
			last = found
		}
		return last, err
	}
}

// writeTombstones writes tombstones for all keys under which topics may hold matched data.
func (e *Eraser) writeTombstones(ctx context.Context, f *matches) error {
	var messages []kafka.Message
	write := func() error {
		if err := e.checkNotWithdrawn(); err != nil {
			return err
		}
		err := bus.WriteAll(ctx, e.writer, messages)
		if refused, ok := errors.AsType[*bus.RejectedError](err); ok {
			return fmt.Errorf("brokers rejected %d tombstones: %w", len(refused.Messages), err)
		}
		if err != nil {
			return fmt.Errorf("write tombstones: %w", err)
		}
		for _, m := range messages {
			e.removed["tombstones of "+m.Topic]++
		}
		messages = messages[:0]
		return nil
	}
	addTombstone := func(topic, key string) {
		messages = append(messages, kafka.Message{Topic: topic, Key: []byte(key)})
	}
	for platform, kind := range map[string]record.Kind{
		identity.Network: record.KindNetworkPerson, identity.Codehost: record.KindCodehostPerson,
		identity.Microblog: record.KindMicroblogPerson,
	} {
		for id := range f.people[platform] {
			addTombstone(kind.Topic(), id)
			addTombstone(event.TopicVersionBump, event.VersionBump{Kind: kind, Key: id}.MessageKey())
		}
	}
	for id := range f.links {
		addTombstone(record.KindAccountLink.Topic(), id)
	}
	for _, key := range f.commits {
		addTombstone(record.KindCodehostCommit.Topic(), key)
	}
	for _, t := range []struct {
		kind  record.Kind
		query string
	}{
		{record.KindCodehostRepo, "SELECT DISTINCT concat(toString(user_id), '/', toString(repo_id)) FROM " +
			"codehost_repos WHERE toString(user_id) IN {ids:Array(String)}"},
		{record.KindCodehostCommit, "SELECT DISTINCT concat(toString(user_id), '/', sha) FROM codehost_commits WHERE " +
			"toString(user_id) IN {ids:Array(String)}"},
		{record.KindCodehostList, "SELECT DISTINCT concat(toString(user_id), '/', list) FROM codehost_lists WHERE " +
			"toString(user_id) IN {ids:Array(String)}"},
	} {
		for part := range slices.Chunk(f.ids(identity.Codehost), idsPerStatement) {
			err := e.read(ctx, t.query, part, func(rows driver.Rows) error {
				var key string
				if err := rows.Scan(&key); err != nil {
					return err
				}
				addTombstone(t.kind.Topic(), key)
				return nil
			})
			if err != nil {
				return fmt.Errorf("find keys for tombstones: %w", err)
			}
			if len(messages) >= tombstoneBatchSize {
				if err := write(); err != nil {
					return err
				}
			}
		}
	}
	return write()
}

// deletionTarget selects the rows of matched people in a table: a condition on their ids, and a hash
// expression that identifies them in DELETE statements, which ClickHouse keeps on disk.
type deletionTarget struct{ table, hash, where string }

func deletionTargets(platform string) []deletionTarget {
	lookups := func(kind string) deletionTarget {
		return deletionTarget{"lookups", "cityHash64(target_kind, target)", "target_kind = '" + kind +
			"' AND target IN {ids:Array(String)}"}
	}
	seen := func(kind record.Kind) deletionTarget {
		return deletionTarget{"seen_versions", "cityHash64(kind, key)", "kind = '" + string(kind) +
			"' AND key IN {ids:Array(String)}"}
	}
	switch platform {
	case identity.Network:
		return []deletionTarget{
			lookups(readmodel.TargetNetworkPerson), {"network_people", "profile_hash",
				"profile_id IN {ids:Array(String)}"},
			{"search_people", "profile_hash", "profile_id IN {ids:Array(String)}"},
			{readmodel.LinkedTable, "profile_hash", "profile_id IN {ids:Array(String)}"}, seen(record.KindNetworkPerson),
		}
	case identity.Codehost:
		out := []deletionTarget{lookups(readmodel.TargetCodehostPerson), seen(record.KindCodehostPerson)}
		for _, t := range []string{
			"codehost_people", "codehost_repos", "codehost_commits", "codehost_lists", readmodel.LinkedTable,
		} {
			out = append(out, deletionTarget{t, "cityHash64(user_id)", "toString(user_id) IN {ids:Array(String)}"})
		}
		// Last: if the others are deleted first, an interrupted erasure still finds it.
		return append(out, deletionTarget{readmodel.AnswersTable, "cityHash64(user_id)",
			"toString(user_id) IN {ids:Array(String)}"})
	case identity.Microblog:
		return []deletionTarget{
			lookups(readmodel.TargetMicroblogPerson), {"microblog_people", "user_hash",
				"user_id IN {ids:Array(String)}"}, seen(record.KindMicroblogPerson),
		}
	}
	return nil
}

// remove deletes the rows of the matches from the live tables and from shadow and retired tables.
func (e *Eraser) remove(ctx context.Context, f *matches) error {
	// Before their rows are deleted: if this is interrupted, the touches are still there; those of linked people are
	// marked, since a refresh after the deletion finds nothing to change. And after it, since the search sink may have
	// read the rows, but not the suppression set, before.
	linked, err := e.linkedPeople(ctx, f)
	if err != nil {
		return err
	}
	if err := e.touchPeople(ctx, f, linked, true); err != nil {
		return err
	}
	replayed, err := e.replayTables(ctx)
	if err != nil {
		return err
	}
	for _, platform := range identity.PlatformNames() {
		ids := f.ids(platform)
		for _, d := range deletionTargets(platform) {
			for _, table := range append([]string{d.table}, replayed[d.table]...) {
				if err := e.delete(ctx, table, d.hash, d.where, ids); err != nil {
					return err
				}
			}
		}
	}
	var links []string
	for id := range f.links {
		links = append(links, id)
	}
	for _, table := range append([]string{"account_links"}, replayed["account_links"]...) {
		if err := e.delete(ctx, table, "link_hash", "link_id IN {ids:Array(String)}", links); err != nil {
			return err
		}
	}
	if err := e.touchPeople(ctx, f, linked, false); err != nil {
		return err
	}
	e.scheduleRebuild(f)
	if err := e.removeEvents(ctx, f, append([]string{"codehost_commits"},
		replayed["codehost_commits"]...)); err != nil {
		return err
	}
	lookups := append([]string{"lookups"}, replayed["lookups"]...)
	for _, table := range lookups {
		if err := e.deleteHashes(ctx, table, hintHash, hashes(f.hints)); err != nil {
			return err
		}
	}
	if err := e.removeLookups(ctx, lookups); err != nil {
		return err
	}
	n := Notifier{
		Kafka: e.cfg.Kafka, Conn: e.deps.Conn, Suppressed: e.deps.Suppressed, Writer: e.writer, Now: e.deps.Now,
	}
	rows, err := n.Notify(ctx, f.disclosed)
	e.count(readmodel.DisclosuresTable, rows)
	return err
}

// removeEvents deletes the matched events and commits. Of webhook attempts it clears the response only.
func (e *Eraser) removeEvents(ctx context.Context, f *matches, commits []string) error {
	if err := e.deleteHashes(ctx, readmodel.DiscoveryTable, "input_hash", hashes(f.discoveries)); err != nil {
		return err
	}
	if err := e.deleteHashes(ctx, readmodel.DiscoveredTable, discoveredHash, hashes(f.discovered)); err != nil {
		return err
	}
	if err := e.deleteHashes(ctx, readmodel.ContextTable, "request_hash", hashes(f.contexts)); err != nil {
		return err
	}
	if err := e.deleteHashes(ctx, readmodel.BulkTable, readmodel.BulkHash, hashes(f.bulk)); err != nil {
		return err
	}
	if err := e.deleteHashes(ctx, readmodel.FeedbackTable, readmodel.FeedbackHash, hashes(f.feedback)); err != nil {
		return err
	}
	for _, table := range commits {
		if err := e.deleteHashes(ctx, table, commitHash, hashes(f.commits)); err != nil {
			return err
		}
	}
	return e.forEachList(hashes(f.attempts), func(list string) error {
		statement := "ALTER TABLE " + e.layout.Local(readmodel.WebhookAttemptsTable) + e.layout.OnCluster() +
			" UPDATE response = '' WHERE " + attemptHash + " IN (" + list + ")"
		ctx := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
		if err := e.deps.Conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("clear responses in %s: %w", readmodel.WebhookAttemptsTable, err)
		}
		e.count(readmodel.WebhookAttemptsTable, int64(strings.Count(list, ",")+1))
		return nil
	})
}

// removeLookups deletes lookups of account links that name an erased account, and lookups by addresses of
// erased authors, which stem from commits in accounts of others.
func (e *Eraser) removeLookups(ctx context.Context, tables []string) error {
	for _, table := range tables {
		var hashes []uint64
		md5s := make(map[string]bool) // of the erased addresses
		const hash = "cityHash64(type, value, target)"
		read := func(where string, isErased func(lookup readmodel.LookupType, value, target string) bool) error {
			query := "SELECT type, value, target, " + hash + " FROM " + e.layout.From(table) + " WHERE " + where
			err := ch.ReadRows(ctx, e.deps.Conn, query, func(rows driver.Rows) error {
				var lookup, value, target string
				var h uint64
				if err := rows.Scan(&lookup, &value, &target, &h); err != nil {
					return err
				}
				if isErased(readmodel.LookupType(lookup), value, target) {
					hashes = append(hashes, h)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("find lookups of links and authors: %w", err)
			}
			return nil
		}
		err := read("target_kind = '"+readmodel.TargetAccount+"' OR type = '"+string(readmodel.LookupCodehostEmail)+"'",
			func(lookup readmodel.LookupType, value, target string) bool {
				if lookup != readmodel.LookupCodehostEmail {
					return e.linkErased(string(lookup), value, target)
				}
				erased := e.deps.Suppressed.Author(value)
				if erased {
					md5s[readmodel.EmailMD5(value)] = true
				}
				return erased
			})
		if err == nil && len(md5s) > 0 {
			addresses := hashes
			hashes = nil
			err = read("type = '"+string(readmodel.LookupEmailMD5)+"'",
				func(_ readmodel.LookupType, value, _ string) bool { return md5s[value] })
			// Addresses last: an interrupted deletion finds their hashes again.
			hashes = append(hashes, addresses...)
		}
		if err == nil {
			err = e.deleteHashes(ctx, table, hash, hashes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Eraser) linkErased(lookup, value, target string) bool {
	for _, platform := range identity.PlatformNames() {
		if readmodel.LookupLink(platform) == readmodel.LookupType(lookup) {
			if _, hit := e.deps.Suppressed.Account(platform, value); hit {
				return true
			}
		}
		if rest, ok := cutAccount(target, platform); ok {
			if _, hit := e.deps.Suppressed.Account(platform, rest); hit {
				return true
			}
		}
	}
	return false
}

func cutAccount(target, platform string) (string, bool) {
	if len(target) > len(platform) && target[:len(platform)] == platform && target[len(platform)] == ':' {
		return target[len(platform)+1:], true
	}
	return "", false
}

// delete deletes the rows that match a condition on ids, by a hash of what identifies them. It collects all
// hashes first: each DELETE is a synchronous mutation, so few large ones are faster.
func (e *Eraser) delete(ctx context.Context, table, hash, where string, ids []string) error {
	var hashes []uint64
	var found int64
	for part := range slices.Chunk(ids, idsPerStatement) {
		err := e.read(ctx, "SELECT "+hash+" AS h, toInt64(count()) FROM "+e.layout.From(table)+" WHERE "+where+
			" GROUP BY h", part, func(rows driver.Rows) error {
			var h uint64
			var n int64
			if err := rows.Scan(&h, &n); err != nil {
				return err
			}
			hashes = append(hashes, h)
			found += n
			return nil
		})
		if err != nil {
			return fmt.Errorf("find rows of %s: %w", table, err)
		}
	}
	if err := e.deleteHashes(ctx, table, hash, hashes); err != nil {
		return err
	}
	e.count(table, found-int64(len(hashes))) // a hash may have several rows
	return nil
}

func (e *Eraser) deleteHashes(ctx context.Context, table, hash string, hashes []uint64) error {
	return e.forEachList(hashes, func(list string) error {
		if err := deleteRows(ctx, e.deps.Conn, e.layout, table, hash, list); err != nil {
			return err
		}
		e.count(table, int64(strings.Count(list, ",")+1))
		return nil
	})
}

// deleteRows deletes the rows of a table with a hash in a list.
func deleteRows(ctx context.Context, conn driver.Conn, layout readmodel.Layout, table, hash, list string) error {
	statement := "DELETE FROM " + layout.Local(table) + layout.OnCluster() + " WHERE " + hash + " IN (" + list + ")"
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2,
		"lightweight_deletes_sync": 2}))
	if err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("delete rows of %s: %w", table, err)
	}
	return nil
}

// count adds to the number of rows removed from a table in this sweep. Shadow and retired tables count as the
// live one.
func (e *Eraser) count(table string, rows int64) {
	if live, _, _, ok := readmodel.ParseRebuilt(table); ok {
		table = live
	}
	if rows > 0 {
		e.removed["rows of "+table] += rows
	}
}

// forEachList calls do with comma-separated lists of hashes that fit one statement. It stops if an erasure is
// withdrawn.
func (e *Eraser) forEachList(hashes []uint64, do func(list string) error) error {
	for part := range slices.Chunk(hashes, hashesPerStatement) {
		if err := e.checkNotWithdrawn(); err != nil {
			return err
		}
		if err := do(listOf(part)); err != nil {
			return err
		}
	}
	return nil
}

// listOf returns hashes separated by commas.
func listOf(hashes []uint64) string {
	list := make([]byte, 0, 21*len(hashes))
	for i, h := range hashes {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, h, 10)
	}
	return string(list)
}

// read runs a query with the array parameter ids.
func (e *Eraser) read(ctx context.Context, query string, ids []string, scan func(driver.Rows) error) error {
	value := make([]byte, 0, 32*len(ids))
	value = append(value, '[')
	for i, id := range ids {
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, quoted(id)...)
	}
	value = append(value, ']')
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"ids": string(value)}))
	return ch.ReadRows(ctx, e.deps.Conn, query, scan)
}

// quoted returns s in the notation of an array parameter.
func quoted(s string) string {
	out := make([]byte, 0, len(s)+2)
	out = append(out, '\'')
	for i := range len(s) {
		if s[i] == '\'' || s[i] == '\\' {
			out = append(out, '\\')
		}
		out = append(out, s[i])
	}
	return string(append(out, '\''))
}
