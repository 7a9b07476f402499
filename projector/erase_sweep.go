package projector

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

func (f *foundErased) empty() bool { return len(f.counts()) == 0 }

func (f *foundErased) ids(platform string) []string {
	var out []string
	for id := range f.people[platform] {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// errLifted ends a sweep in which an erasure was withdrawn.
var errLifted = errors.New("an erasure was withdrawn meanwhile")

// unlifted fails once an erasure was withdrawn since the set was unravelled. What was
// found before that may be of somebody who comes in again, as is said to be done then,
// and goes by an id that does not tell the one from the other.
func (e *Eraser) unlifted() error {
	if e.deps.Suppressed.Lifts() != e.lifts {
		return errLifted
	}
	return nil
}

// sweep finds what is stored of erased people, makes sure that it stays suppressed,
// leaves tombstones on its topics and deletes its rows. It begins anew when an erasure
// is withdrawn meanwhile, and returns what it last found.
func (e *Eraser) sweep(ctx context.Context) (last *foundErased, err error) {
	for {
		if err := e.unravel(ctx); err != nil {
			return nil, err
		}
		found, err := e.find(ctx)
		if err == nil && !found.empty() {
			if last == nil {
				clear(e.removed)
			}
			last = found
			// Tombstones first: when this is cut short, the rows are still there to be found.
			if err = e.bury(ctx, found); err == nil {
				err = e.remove(ctx, found)
			}
		}
		if err == nil {
			err = e.rebuild(ctx)
		}
		if errors.Is(err, errLifted) {
			continue
		}
		if last == nil {
			last = found
		}
		return last, err
	}
}

// bury writes tombstones for every key under which the topics may hold something of
// what was found.
func (e *Eraser) bury(ctx context.Context, f *foundErased) error {
	var messages []kafka.Message
	write := func() error {
		if err := e.unlifted(); err != nil {
			return err
		}
		err := bus.WriteAll(ctx, e.writer, messages)
		if refused, ok := errors.AsType[*bus.RefusedError](err); ok {
			return fmt.Errorf("%d tombstones were refused: %w", len(refused.Messages), err)
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
	grave := func(topic, key string) {
		messages = append(messages, kafka.Message{Topic: topic, Key: []byte(key)})
	}
	for platform, kind := range map[string]record.Kind{
		identity.Network: record.KindNetworkPerson, identity.Codehost: record.KindCodehostPerson, identity.Microblog: record.KindMicroblogPerson,
	} {
		for id := range f.people[platform] {
			grave(kind.Topic(), id)
			grave(event.TopicSeen, event.Seen{Kind: kind, Key: id}.MessageKey())
		}
	}
	for id := range f.links {
		grave(record.KindAccountLink.Topic(), id)
	}
	for _, c := range f.commits {
		grave(record.KindCodehostCommit.Topic(), c.key)
	}
	for _, t := range []struct {
		kind  record.Kind
		query string
	}{
		{record.KindCodehostRepo, "SELECT DISTINCT concat(toString(user_id), '/', toString(repo_id)) FROM codehost_repos WHERE toString(user_id) IN {ids:Array(String)}"},
		{record.KindCodehostCommit, "SELECT DISTINCT concat(toString(user_id), '/', sha) FROM codehost_commits WHERE toString(user_id) IN {ids:Array(String)}"},
		{record.KindCodehostList, "SELECT DISTINCT concat(toString(user_id), '/', list) FROM codehost_lists WHERE toString(user_id) IN {ids:Array(String)}"},
	} {
		for part := range slices.Chunk(f.ids(identity.Codehost), idsAtOnce) {
			err := e.read(ctx, t.query, part, func(rows driver.Rows) error {
				var key string
				if err := rows.Scan(&key); err != nil {
					return err
				}
				grave(t.kind.Topic(), key)
				return nil
			})
			if err != nil {
				return fmt.Errorf("look for what to bury: %w", err)
			}
			if len(messages) >= gravesAtOnce {
				if err := write(); err != nil {
					return err
				}
			}
		}
	}
	return write()
}

// gravesAtOnce is about how many tombstones are held before they are written.
const gravesAtOnce = 10_000

// doomed says which rows of a table are of found people: a condition on their ids,
// and a hash that names them in a statement that ClickHouse keeps on disk.
type doomed struct{ table, hash, where string }

func doomedRows(platform string) []doomed {
	lookups := func(kind string) doomed {
		return doomed{"lookups", "cityHash64(target_kind, target)", "target_kind = '" + kind + "' AND target IN {ids:Array(String)}"}
	}
	seen := func(kind record.Kind) doomed {
		return doomed{"seen_versions", "cityHash64(kind, key)", "kind = '" + string(kind) + "' AND key IN {ids:Array(String)}"}
	}
	switch platform {
	case identity.Network:
		return []doomed{
			lookups(readmodel.TargetNetworkPerson), {"network_people", "profile_hash", "profile_id IN {ids:Array(String)}"},
			{"search_people", "profile_hash", "profile_id IN {ids:Array(String)}"}, seen(record.KindNetworkPerson),
		}
	case identity.Codehost:
		out := []doomed{lookups(readmodel.TargetCodehostPerson), seen(record.KindCodehostPerson)}
		for _, t := range []string{"codehost_people", "codehost_repos", "codehost_commits", "codehost_lists"} {
			out = append(out, doomed{t, "cityHash64(user_id)", "toString(user_id) IN {ids:Array(String)}"})
		}
		// Last: until then it is found by the rows that it was built from.
		return append(out, doomed{readmodel.AnswersTable, "cityHash64(user_id)", "toString(user_id) IN {ids:Array(String)}"})
	case identity.Microblog:
		return []doomed{
			lookups(readmodel.TargetMicroblogPerson), {"microblog_people", "user_hash", "user_id IN {ids:Array(String)}"}, seen(record.KindMicroblogPerson),
		}
	}
	return nil
}

// remove deletes the rows of what was found from the live tables and from those
// beside them that a replay is making or has kept.
func (e *Eraser) remove(ctx context.Context, f *foundErased) error {
	beside, err := e.tablesBeside(ctx)
	if err != nil {
		return err
	}
	for _, platform := range identity.PlatformNames() {
		ids := f.ids(platform)
		for _, d := range doomedRows(platform) {
			for _, table := range append([]string{d.table}, beside[d.table]...) {
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
	for _, table := range append([]string{"account_links"}, beside["account_links"]...) {
		if err := e.delete(ctx, table, "link_hash", "link_id IN {ids:Array(String)}", links); err != nil {
			return err
		}
	}
	e.owe(f)
	if err := e.removeEvents(ctx, f, append([]string{"codehost_commits"}, beside["codehost_commits"]...)); err != nil {
		return err
	}
	return e.removeLookups(ctx, append([]string{"lookups"}, beside["lookups"]...))
}

// removeLookups deletes the lookups of account-links that name an erased account, and those by the addresses of erased
// authors, which commits in accounts of others have left.
func (e *Eraser) removeLookups(ctx context.Context, tables []string) error {
	for _, table := range tables {
		var hashes []uint64
		const hash = "cityHash64(type, value, target)"
		query := "SELECT type, value, target, " + hash + " FROM " + e.layout.From(table) + " WHERE target_kind = '" +
			readmodel.TargetAccount + "' OR type = '" + string(readmodel.LookupCodehostEmail) + "'"
		err := ch.ReadRows(ctx, e.deps.Conn, query, func(rows driver.Rows) error {
			var lookup, value, target string
			var h uint64
			if err := rows.Scan(&lookup, &value, &target, &h); err != nil {
				return err
			}
			erased := e.linkErased(lookup, value, target)
			if readmodel.LookupType(lookup) == readmodel.LookupCodehostEmail {
				erased = e.deps.Suppressed.Author(value)
			}
			if erased {
				hashes = append(hashes, h)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("look for lookups of links and authors: %w", err)
		}
		if err := e.deleteHashes(ctx, table, hash, hashes); err != nil {
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

// delete deletes the rows that meet a condition on ids, by a hash of what names them. It
// looks for all of them first: a deletion rewrites, and is waited for, and takes many at once.
func (e *Eraser) delete(ctx context.Context, table, hash, where string, ids []string) error {
	var hashes []uint64
	var found int64
	for part := range slices.Chunk(ids, idsAtOnce) {
		err := e.read(ctx, "SELECT "+hash+" AS h, toInt64(count()) FROM "+e.layout.From(table)+" WHERE "+where+" GROUP BY h", part, func(rows driver.Rows) error {
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
			return fmt.Errorf("look for rows of %s: %w", table, err)
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
		statement := "DELETE FROM " + e.layout.Local(table) + e.layout.OnCluster() + " WHERE " + hash + " IN (" + list + ")"
		ctx := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2, "lightweight_deletes_sync": 2}))
		if err := e.deps.Conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("delete rows of %s: %w", table, err)
		}
		e.count(table, int64(strings.Count(list, ",")+1))
		return nil
	})
}

// count adds to what the sweep under way has removed from a table; those that a replay
// keeps beside it are counted with it.
func (e *Eraser) count(table string, rows int64) {
	if of, _, _, ok := readmodel.ParseRebuilt(table); ok {
		table = of
	}
	if rows > 0 {
		e.removed["rows of "+table] += rows
	}
}

// forEachList hands over hashes as lists that fit a statement, while nothing is lifted.
func (e *Eraser) forEachList(hashes []uint64, do func(list string) error) error {
	for part := range slices.Chunk(hashes, 10*idsAtOnce) {
		list := make([]byte, 0, 21*len(part))
		for i, h := range part {
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendUint(list, h, 10)
		}
		if err := e.unlifted(); err != nil {
			return err
		}
		if err := do(string(list)); err != nil {
			return err
		}
	}
	return nil
}

// tablesBeside lists the tables that replays have made or kept, by the name of the
// live one.
func (e *Eraser) tablesBeside(ctx context.Context) (map[string][]string, error) {
	out := make(map[string][]string)
	err := ch.ReadRows(ctx, e.deps.Conn, "SELECT name FROM system.tables WHERE database = currentDatabase()", func(rows driver.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		// Of a cluster's two tables the distributed one may be missing: a replay was cut short.
		if name, ok := e.layout.Logical(name); ok {
			if table, _, _, ok := readmodel.ParseRebuilt(name); ok {
				out[table] = append(out[table], name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	return out, nil
}

// idsAtOnce is how many ids one statement names.
const idsAtOnce = 500

// read runs a query with the parameter ids.
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

// quoted is a string in the notation of an array parameter.
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
