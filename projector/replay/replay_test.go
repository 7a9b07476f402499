package replay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/replay"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestModels_CoverAllTables(t *testing.T) {
	s := projectortest.OpenStore(t)
	var tables []string
	for _, m := range readmodel.Models() {
		tables = append(tables, m.Table)
		var key string
		require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT sorting_key FROM system.tables WHERE database = "+
			"currentDatabase() AND name = '"+m.Table+"'").Scan(&key))
		require.Equal(t, strings.Trim(key, "()"), strings.Join(m.Key, ", "), m.Table)
		for _, topic := range m.Topics {
			require.Contains(t, projector.Topics(), topic, m.Table)
		}
	}
	require.Equal(t, readmodel.Tables(), tables)
}

// The replay corrects the live tables and keeps rows that only they have.
func TestReplay_CorrectsLiveTables(t *testing.T) {
	h := projectortest.New(t)
	recs := projectortest.WorldRecords(t, 60, 5)
	h.Start(nil)
	h.PublishRecords(recs...)
	h.CaughtUp()
	before := map[string]uint64{}
	for _, table := range readmodel.Tables() {
		before[table] = h.Content(table)
	}
	parts := h.Count("SELECT sum(total_rows) FROM system.tables WHERE database = currentDatabase()")

	// Discovery results and discovered links are not records: their topic retains them for days only, so a
	// replay does not rebuild them.
	input, found := event.Account{Platform: "network", Username: "asked"}, event.Account{Platform: "codehost",
		Username: "found"}
	var results readmodel.DiscoveryBatch
	require.NoError(t, results.Add(&event.Discovery{
		RequestID: "replayed", Input: input, At: time.Now().UTC(),
		Socials: []event.Social{{Account: input, Confidence: 1}, {Account: found, Confidence: 0.95}},
	}, readmodel.Position{Topic: event.TopicDiscovery}))
	require.NoError(t, readmodel.InsertDiscoveries(t.Context(), h.Conn, "replayed", &results))
	discovered := []string{readmodel.DiscoveryTable, readmodel.DiscoveredTable}
	for _, table := range discovered {
		before[table] = h.Content(table)
	}

	report := h.Replay()
	for i, table := range discovered {
		require.EqualValues(t, 1+i, h.Count("SELECT count() FROM "+table), table) // one result with two rows of links
		require.Equal(t, before[table], h.Content(table), table)
	}
	require.False(t, report.Resumed)
	require.Len(t, report.Tables, len(readmodel.Tables()))
	for _, r := range report.Tables {
		require.Equal(t, before[r.Table], h.Content(r.Table), r.Table)
		require.Equal(t, before[r.Table], h.Content(r.Kept), r.Kept)
		require.Equal(t, r.Before, r.After, r.Table)
		require.Equal(t, r.Partitions, r.Equal, r.Table)
		require.Zero(t, r.Added+r.Newer, r.Table)
		if r.Table != "lookups" { // lookups keep former values of records
			require.Zero(t, r.FromLive, r.Table)
		}
	}

	// Rows are lost or damaged; one is newer than on the topic, one exists only here.
	victims := []string{}
	for _, r := range projectortest.Newest(recs)[record.KindNetworkPerson] {
		if victims = append(victims, r.Key); len(victims) == 4 {
			break
		}
	}
	require.NoError(t, h.Conn.Exec(t.Context(), "DELETE FROM network_people WHERE profile_id IN ('"+victims[0]+"', '"+
		victims[1]+"')"))
	require.NoError(t, h.Conn.Exec(t.Context(), "ALTER TABLE network_people UPDATE content = concat(content, "+
		"'\\x1eAspoilt') WHERE profile_id = '"+victims[2]+"' SETTINGS mutations_sync = 1"))
	h.Insert(
		"newer",
		projectortest.Person(t, victims[3], "2099", `"username":"from-the-future"`),
		projectortest.Person(t, "p_only_here", "2024",
			`"username":"only-here"`),
	)
	require.NotEqual(t, before["network_people"], h.Content("network_people"))

	report = h.Replay("lookups", "network_people")
	require.Len(t, report.Tables, 2)
	people := report.Tables[1]
	require.EqualValues(t, 2, people.FromLive)
	require.EqualValues(t, 2, people.Added)
	require.Equal(t, people.Before+2, people.After)
	rows := h.NetworkPeople(append(victims, "p_only_here")...)
	require.Len(t, rows, 5)
	for _, r := range rows {
		require.NotContains(t, projectortest.Members(r, readmodel.ShapeEnrich), "spoilt")
		if r.ProfileID == victims[3] {
			require.Equal(t, "from-the-future", r.Username)
		}
	}
	require.Equal(t, "p_only_here", h.Lookup(readmodel.LookupNetworkUsername, "only-here")[0].Target)

	dropped, err := replay.DropRetired(t.Context(), h.Conn, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Len(t, dropped, len(readmodel.Tables())+2)
	require.EqualValues(t, parts/1000, h.Count("SELECT sum(total_rows) FROM system.tables WHERE database = "+
		"currentDatabase()")/1000, "only the tables remain")
	require.Zero(t, h.Count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND (name LIKE "+
		"'%\\\\_\\\\_new%' OR name LIKE '%\\\\_\\\\_old%')"))
	require.EqualValues(t, 1, h.Count("SELECT countIf(comment LIKE '%; rebuilt by replay%') FROM system.tables WHERE "+
		"database = currentDatabase() AND name = 'network_people'"))
}

// The replay does not change the topics: the live projector writes the tombstones.
func TestReplay_OmitsErasedPeople(t *testing.T) {
	h := projectortest.New(t)
	h.PublishRecords(
		projectortest.Decode(
			t,
			record.KindCodehostPerson,
			`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`,
		),
		projectortest.Decode(
			t,
			record.KindCodehostPerson,
			`{"user_id":43,"codehost_username":"alive","last_updated":"2026"}`,
		),
	)
	ends := func() []bus.PartitionOffsets {
		offsets, err := bus.EndOffsets(t.Context(), h.Kafka, []string{record.KindCodehostPerson.Topic(),
			event.TopicErasure, event.TopicRejected})
		require.NoError(t, err)
		return offsets
	}
	before := ends()
	cfg, deps := h.ReplayConfig("codehost_people", "lookups")
	deps.Suppressed = projectortest.Suppressed(t, "ghost")
	_, err := replay.Tables(t.Context(), cfg, deps)
	require.NoError(t, err)
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people WHERE user_id = 43"))
	require.Zero(t, h.Count("SELECT count() FROM lookups WHERE target = '42'"))
	require.NotZero(t, h.Count("SELECT count() FROM lookups WHERE target = '43'"))
	require.Equal(t, before, ends())
}

// Each row is read about once, however many slices there are.
func TestReplay_ReadsEachRowOnce(t *testing.T) {
	const rows, number = 40_000, 32
	for table, values := range map[string]string{
		"lookups":        "(key_hash, claim) SELECT xxHash64(toString(number)), toString(number)",
		"codehost_lists": "(user_id, list) SELECT intDiv(number, 2) * intDiv(number, 2) - 1000, toString(number % 2)",
		"seen_versions": "(kind, key_hash, key) SELECT if(number % 2, 'codehost-person', 'network-person'), " +
			"if(number % 2, number, xxHash64(toString(number))), toString(number)",
	} {
		t.Run(table, func(t *testing.T) {
			s := projectortest.OpenStore(t)
			i := slices.IndexFunc(readmodel.Models(), func(m readmodel.Model) bool { return m.Table == table })
			r := readmodel.Rebuild{Model: readmodel.Models()[i], ID: "1"}
			var existing string
			require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT create_table_query FROM system.tables WHERE "+
				"database = currentDatabase() AND name = '"+table+"'").Scan(&existing))
			create, err := r.Create(existing)
			require.NoError(t, err)
			for _, statement := range append(create,
				"INSERT INTO "+table+" "+values+fmt.Sprint(" FROM numbers(", rows, ")"), "OPTIMIZE TABLE "+table+
					" FINAL",
				"INSERT INTO "+r.ShadowTable()+" "+values+fmt.Sprint(" FROM numbers(", rows/2, ")"), "OPTIMIZE TABLE "+
					r.ShadowTable()+" FINAL") {
				require.NoError(t, s.Conn.Exec(t.Context(), statement))
			}

			var sample []string
			require.NoError(t, s.Conn.QueryRow(t.Context(), r.SampleQuery()).Scan(&sample))
			parts := readmodel.Slices(sample, number)
			require.Len(t, parts, number)
			var behind, live, read uint64
			for _, part := range parts {
				n := s.Count(r.CountStale(part))
				require.Less(t, n, uint64(rows)/8)
				behind += n
				var c readmodel.Comparison
				require.NoError(t, s.Conn.QueryRow(t.Context(), r.CompareQuery(part, nil)).Scan(c.ScanDest()...))
				live += c.Live
				read += s.Count("SELECT sum(rows) FROM (EXPLAIN ESTIMATE " + r.CountStale(part) + ")")
			}
			require.EqualValues(t, rows/2, behind)
			require.EqualValues(t, rows, live)
			require.Less(t, read, uint64(3*rows), "of %d rows in both tables", rows+rows/2)
		})
	}
}

// The rows of a single account are divided, too.
func TestReplay_DividesRowsOfLargestAccount(t *testing.T) {
	const rows, number = 40_000, 16
	s := projectortest.OpenStore(t)
	i := slices.IndexFunc(readmodel.Models(), func(m readmodel.Model) bool { return m.Table == "codehost_commits" })
	r := readmodel.Rebuild{Model: readmodel.Models()[i], ID: "1"}
	var existing string
	require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT create_table_query FROM system.tables WHERE database = "+
		"currentDatabase() AND name = 'codehost_commits'").Scan(&existing))
	create, err := r.Create(existing)
	require.NoError(t, err)
	for _, statement := range append(create, fmt.Sprint("INSERT INTO codehost_commits (user_id, sha) SELECT "+
		"if(number < 1000, number, 5000), toString(number) FROM numbers(", rows, ")"),
		fmt.Sprint("INSERT INTO ", r.ShadowTable(), " SELECT * FROM codehost_commits WHERE sha < '3'")) {
		require.NoError(t, s.Conn.Exec(t.Context(), statement))
	}
	missing := s.Count("SELECT count() FROM codehost_commits WHERE sha >= '3'")
	var sample []string
	require.NoError(t, s.Conn.QueryRow(t.Context(), r.SampleQuery()).Scan(&sample))
	var behind, live uint64
	for _, part := range readmodel.Slices(sample, number) {
		behind += s.Count(r.CountStale(part))
		var c readmodel.Comparison
		require.NoError(t, s.Conn.QueryRow(t.Context(), r.CompareQuery(part, nil)).Scan(c.ScanDest()...))
		require.Less(t, c.Live, uint64(rows)/8)
		live += c.Live
		require.NoError(t, s.Conn.Exec(t.Context(), r.CopyNewer(part, []string{"user_id", "sha"})))
	}
	require.Equal(t, missing, behind)
	require.EqualValues(t, rows, live)
	require.EqualValues(t, rows, s.Count("SELECT count() FROM "+r.ShadowTable()))
}

func TestReplay_RejectsInvalidConfiguration(t *testing.T) {
	h := projectortest.New(t)
	cfg, deps := h.ReplayConfig("people")
	_, err := replay.Tables(t.Context(), cfg, deps)
	require.ErrorContains(t, err, `unknown read model "people"; the read models are lookups,`)
}

// stopAt cancels a replay at a phase and a progress.
type stopAt struct {
	phase  string
	done   int64
	cancel context.CancelCauseFunc
	now    string
}

var errKilled = errors.New("killed")

func (s *stopAt) Begin(label string, _ int64) { s.now = label }

func (s *stopAt) End() {}

func (s *stopAt) Set(done int64) {
	if strings.HasPrefix(s.now, s.phase) && done >= s.done {
		s.cancel(errKilled)
	}
}

// A replay interrupted anywhere can be resumed or aborted.
func TestReplay_ResumesAfterInterruption(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	recs := projectortest.WorldRecords(t, 40, 6)
	h.PublishRecords(recs...)
	h.CaughtUp()
	before := map[string]uint64{}
	for _, table := range readmodel.Tables() {
		before[table] = h.Content(table)
	}
	some := []string{"lookups", "network_people", "codehost_lists"}
	interrupt := func(phase string, done int64, tables ...string) {
		t.Helper()
		cfg, deps := h.ReplayConfig(tables...)
		cfg.Projector.MaxMessages = 20
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		deps.Progress = &stopAt{phase: phase, done: done, cancel: cancel}
		_, err := replay.Tables(ctx, cfg, deps)
		require.Error(t, err, phase)
	}
	check := func(report replay.Report) {
		t.Helper()
		for _, table := range readmodel.Tables() {
			require.Equal(t, before[table], h.Content(table), table)
		}
		h.PublishRecords(projectortest.Person(t, "p_"+report.ID, "2025", `"username":"ann"`))
		h.CaughtUp()
		require.Len(t, h.NetworkPeople("p_"+report.ID), 1, "the projector continues")
		for _, table := range []string{"network_people", "search_people", "lookups"} {
			before[table] = h.Content(table)
		}
	}

	type point struct {
		phase string
		done  int64
	}
	points := []point{{"Replaying", 60}, {"Keeping", 1}, {"Comparing codehost_lists", 3}}
	if testing.Short() {
		points = points[:1]
	}
	for _, at := range points {
		interrupt(at.phase, at.done, some...)
		report := h.Replay(some...)
		require.True(t, report.Resumed, at.phase)
		check(report)
	}

	// Killed between two exchanges: completed exchanges stay, the rest is done.
	interrupt("Comparing codehost_lists", 8, some...)
	id := h.OpenReplay()
	for _, m := range readmodel.Models()[:2] {
		require.NoError(t, h.Conn.Exec(t.Context(), readmodel.Rebuild{Model: m, ID: id}.PauseInserts()))
	}
	first := readmodel.Rebuild{Model: readmodel.Models()[0], ID: id}
	require.NoError(t, h.Conn.Exec(t.Context(), first.Exchange()))
	report := h.Replay(some...)
	require.True(t, report.Resumed)
	require.Equal(t, id, report.ID)
	require.Len(t, report.Tables, len(some)-1)
	require.NotZero(t, h.Count("SELECT count() FROM "+first.RetiredTable()))
	check(report)

	if testing.Short() {
		return
	}
	// With other tables, it starts over.
	interrupt("Comparing", 1, "network_people")
	report = h.Replay(some...)
	require.False(t, report.Resumed)
	check(report)
	interrupt("Comparing", 1, "network_people", "lookups")
	cfg, deps := h.ReplayConfig("network_people")
	_, err := replay.Tables(t.Context(), cfg, deps)
	require.ErrorContains(t, err, "unfinished replay of")

	// Aborted while inserts were paused.
	require.NoError(t, h.Conn.Exec(t.Context(), first.PauseInserts()))
	dropped, err := replay.Abort(t.Context(), h.Kafka, h.Conn, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Len(t, dropped, 2)
	check(h.Replay("network_people"))
}

// Live tables are migrated after a replay was killed. The resumed replay must not swap in tables without the
// migration.
func TestReplay_StartsOverAfterMigration(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	h.PublishRecords(projectortest.WorldRecords(t, 20, 6)...)
	h.CaughtUp()
	cfg, deps := h.ReplayConfig("network_people")
	cfg.Projector.MaxMessages = 5
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	deps.Progress = &stopAt{phase: "Comparing", done: 1, cancel: cancel}
	_, err := replay.Tables(ctx, cfg, deps)
	require.Error(t, err)

	require.NoError(t, h.Conn.Exec(t.Context(), "ALTER TABLE network_people ADD INDEX late_index username TYPE "+
		"bloom_filter(0.01) GRANULARITY 1"))
	require.NoError(t, h.Conn.Exec(t.Context(), "ALTER TABLE network_people ADD COLUMN late_column String DEFAULT "+
		"username"))
	report := h.Replay("network_people")
	require.False(t, report.Resumed)
	require.EqualValues(t, 1, h.Count("SELECT count() FROM system.data_skipping_indices WHERE database = "+
		"currentDatabase() AND table = 'network_people' AND name = 'late_index'"))
	require.EqualValues(t, 1, h.Count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND "+
		"table = 'network_people' AND name = 'late_column'"))
}

// Readers never see a record vanish or go back to an older version, and nothing is lost.
func TestReplay_KeepsVersionsWhileRecordsArrive(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	h.Start(nil) // as replicas do
	const people = 40
	var ids []string
	publish := func(version int) {
		var messages []kafka.Message
		for i := range people {
			messages = append(
				messages,
				projectortest.Message(
					projectortest.Person(t, fmt.Sprint("p_", i), fmt.Sprintf("2024-01-01T%02d:%02d:%02dZ",
						version/3600, version/60%60, version%60),
						fmt.Sprintf(`"username":"user-%d","headline":"v%d"`, i, version)),
				),
			)
		}
		if err := bus.WriteAll(t.Context(), h.Writer, messages); err != nil {
			t.Error(err)
		}
	}
	for i := range people {
		ids = append(ids, fmt.Sprint("p_", i))
	}
	publish(0)
	h.CaughtUp()

	var work sync.WaitGroup
	var done atomic.Bool
	last, reads := 0, 0
	work.Go(func() {
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for version := 1; !done.Load(); version++ {
			<-pace.C
			publish(version)
			last = version
		}
	})
	work.Go(func() {
		seen := map[string]int64{}
		for !done.Load() {
			reads++
			rows := h.NetworkPeople(ids...)
			if len(rows) != people {
				t.Errorf("read %d: %d of %d people", reads, len(rows), people)
				return
			}
			for _, r := range rows {
				if r.Version < seen[r.ProfileID] {
					t.Errorf("read %d: %s has an older version", reads, r.ProfileID)
				}
				seen[r.ProfileID] = r.Version
			}
			if n := len(h.Lookup(readmodel.LookupNetworkUsername, identity.NormalizeUsername("user-3"))); n == 0 {
				t.Errorf("read %d: a lookup vanished", reads)
			}
		}
	})
	for range 2 {
		report := h.Replay("lookups", "network_people")
		require.Less(t, report.InsertsPaused, 20*time.Second)
		require.EqualValues(t, people, report.Tables[1].After)
	}
	done.Store(true)
	work.Wait()
	h.CaughtUp()
	t.Logf("%d versions published, %d reads", last+1, reads)
	for _, r := range h.NetworkPeople(ids...) {
		require.Contains(t, projectortest.Members(r, readmodel.ShapeEnrich), fmt.Sprintf(`"v%d"`, last), r.ProfileID)
	}
	require.Empty(t, h.RejectedRecords())
}

// Transactional producers leave control records at the end of logs, which are not messages. The lag still
// becomes 0 and replays end.
func TestReplay_EndsAfterTransactionMarkers(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	for _, id := range []string{"p_1", "p_2"} {
		bustest.Transact(
			t,
			h.Kafka,
			true,
			projectortest.Message(projectortest.Person(t, id, "2024", `"username":"`+id+`"`)),
		)
	}
	h.CaughtUp()
	require.EqualValues(t, 2, h.Count("SELECT count() FROM network_people"))

	cfg, deps := h.ReplayConfig("lookups", "network_people")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	report, err := replay.Tables(ctx, cfg, deps)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Tables[1].After)
}
