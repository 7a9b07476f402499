package projector

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// erasureMatches are the matches of a sweep, by identifier.
type erasureMatches struct {
	people      map[string]map[string]suppress.Hash // platform, id -> hash of the matching entry
	links       map[string]bool                     // link_id
	discoveries map[uint64]bool                     // input_hash
	discovered  map[uint64]bool                     // value of discoveredHash
	contexts    map[uint64]bool                     // request_hash
	commits     map[uint64]commit                   // of authors other than the account owner, by hash of owner and SHA
	// webhook attempts whose response contains an erased person, by hash
	attempts map[uint64]bool
}

// commit is a commit in an account that is not erased.
type commit struct{ key string }

func newErasureMatches() *erasureMatches {
	return &erasureMatches{
		people: map[string]map[string]suppress.Hash{
			identity.Network: {}, identity.Codehost: {}, identity.Microblog: {},
		},
		links: make(map[string]bool), discoveries: make(map[uint64]bool), discovered: make(map[uint64]bool),
		contexts: make(map[uint64]bool),
		commits:  make(map[uint64]commit), attempts: make(map[uint64]bool),
	}
}

func (f *erasureMatches) counts() map[string]int64 {
	out := map[string]int64{}
	for platform, ids := range f.people {
		if len(ids) > 0 {
			out[platform] = int64(len(ids))
		}
	}
	for name, n := range map[string]int{
		"account_links": len(f.links), "discoveries": len(f.discoveries), "discovered_links": len(f.discovered),
		"contexts": len(f.contexts), "commits": len(f.commits),
		"webhook_attempts": len(f.attempts),
	} {
		if n > 0 {
			out[name] = int64(n)
		}
	}
	return out
}

// hashes returns the keys of a set of hashes.
func hashes[V any](set map[uint64]V) []uint64 {
	out := make([]uint64, 0, len(set))
	for h := range set {
		out = append(out, h)
	}
	return out
}

// commitHash and attemptHash name rows of two tables.
const (
	// commitHash and attemptHash are SQL expressions that identify rows in statements.
	commitHash  = "cityHash64(user_id, sha)"
	attemptHash = "cityHash64(organization_id, delivery_id, created_at, round, attempt)"
)

// scanCommits finds commits of erased authors in accounts of others.
func (f *erasureScan) scanCommits(ctx context.Context) error {
	for _, table := range f.tables("codehost_commits") {
		if err := f.scanCommitsTable(ctx, table); err != nil {
			return fmt.Errorf("commits: %w", err)
		}
	}
	return nil
}

// scanCommitsTable finds commits of erased authors in one table. Addresses are compared here, not in
// ClickHouse: the hash key must not leave the process.
func (f *erasureScan) scanCommitsTable(ctx context.Context, table string) error {
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
				f.found.commits[h] = commit{key}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scanEvents finds results of discovery, results of context calls and responses of webhook receivers that
// contain an erased person.
func (f *erasureScan) scanEvents(ctx context.Context) error {
	set := f.deps.Suppressed
	for _, t := range []struct {
		query string
		hit   func(text string) bool
		found map[uint64]bool
	}{
		{"SELECT input_hash, result FROM " + readmodel.DiscoveryTable, func(text string) bool {
			var d event.Discovery
			return json.Unmarshal([]byte(text), &d) == nil && erasedDiscovery(set, &d)
		}, f.found.discoveries},
		{"SELECT request_hash, result FROM " + readmodel.ContextTable + " WHERE version > 0", func(text string) bool {
			var c event.Context
			return json.Unmarshal([]byte(text), &c) == nil && erasedContext(set, &c)
		}, f.found.contexts},
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

// erasedContext reports whether the profile of a context call contains an erased person or was built from one
// of their records.
func erasedContext(set *suppress.Set, c *event.Context) bool {
	if set.IsAnyNamed(c.Identities) {
		return true
	}
	if len(c.Profile) == 0 {
		return false
	}
	_, hit := set.FindInDocument(identity.Default(), c.Profile)
	return hit
}

// scheduleRebuild records the accounts whose commits by erased authors are about to be deleted: their answers
// must be rebuilt. The schedule survives failed attempts.
func (e *Eraser) scheduleRebuild(f *erasureMatches) {
	for _, c := range f.commits {
		owner, _, _ := strings.Cut(c.key, "/")
		if id, err := strconv.ParseInt(owner, 10, 64); err == nil {
			e.answersToRebuild[id] = true
		}
	}
}

// scheduleDiffering records the accounts whose answers differ from their rows: an eraser that was killed may
// have deleted commits without rebuilding the answers.
func (e *Eraser) scheduleDiffering(ctx context.Context) error {
	return scanAnswers(ctx, e.deps.Conn, readmodel.AnswersTable, func(ids []int64) error {
		for _, id := range ids {
			e.answersToRebuild[id] = true
		}
		return nil
	})
}

// rebuild rebuilds the answers of the scheduled accounts. It also publishes touches, so that answers built
// concurrently from older rows are built again.
func (e *Eraser) rebuild(ctx context.Context) error {
	shadows, err := fillingAnswers(ctx, e.deps.Conn, e.layout)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(e.answersToRebuild)), idsPerStatement) {
		if err := e.checkNotWithdrawn(); err != nil {
			return err
		}
		states, err := readmodel.AnswerStates(ctx, e.deps.Conn, part)
		if err != nil {
			return redactedError(err)
		}
		tasks := make([]event.AnswerTask, len(part))
		var due, large []*buildTarget
		for i, id := range part {
			tasks[i] = event.AnswerTask{Kind: record.KindCodehostPerson, ID: itoa(id)}
			s := states[id]
			t := &buildTarget{
				Touch: readmodel.Touch{
					UserID: id, Partition: s.Partition, Offset: s.Touch, Rebuilt: s.Rebuilt + 1,
				},
				generation: s.Generation, rows: s.Rows,
			}
			if t.rows > largeAccount {
				large = append(large, t)
			} else {
				due = append(due, t)
			}
		}
		err = eachBuild(due, large, func(builds readmodel.Builds, touches []readmodel.Touch) error {
			for _, table := range append(slices.Clone(shadows), readmodel.AnswersTable) {
				builds.Table = table
				if err := readmodel.BuildAnswers(ctx, e.deps.Conn, builds, touches); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return redactedError(err)
		}
		if err := publishTouches(ctx, e.writer, event.TopicAnswerTask, tasks); err != nil {
			return err
		}
		for _, id := range part {
			e.rebuiltAnswers[id] = true
		}
	}
	if _, err := e.dropReplaced(ctx); err != nil {
		return err
	}
	clear(e.answersToRebuild)
	return nil
}

// dropReplaced deletes superseded rows of rebuilt answers, which may contain commits of erased authors. It
// reports whether there were any.
func (e *Eraser) dropReplaced(ctx context.Context) (bool, error) {
	if len(e.rebuiltAnswers) == 0 {
		return false, nil
	}
	shadows, err := shadowAnswers(ctx, e.deps.Conn, e.layout)
	if err != nil {
		return false, err
	}
	some := false
	for part := range slices.Chunk(slices.Sorted(maps.Keys(e.rebuiltAnswers)), idsPerStatement) {
		for _, table := range append(slices.Clone(shadows), readmodel.AnswersTable) {
			replaced, err := readmodel.ReplacedAnswers(ctx, e.deps.Conn, e.layout.From(table), part)
			if err != nil {
				return some, redactedError(err)
			}
			some = some || len(replaced) > 0
			if err := e.deleteHashes(ctx, table, readmodel.AnswerHash, replaced); err != nil {
				return some, err
			}
		}
	}
	return some, nil
}

// removeEvents deletes the matched events and commits. Of webhook attempts it clears the response only.
func (e *Eraser) removeEvents(ctx context.Context, f *erasureMatches, commits []string) error {
	if err := e.deleteHashes(ctx, readmodel.DiscoveryTable, "input_hash", hashes(f.discoveries)); err != nil {
		return err
	}
	if err := e.deleteHashes(ctx, readmodel.DiscoveredTable, discoveredHash, hashes(f.discovered)); err != nil {
		return err
	}
	if err := e.deleteHashes(ctx, readmodel.ContextTable, "request_hash", hashes(f.contexts)); err != nil {
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
