package projector_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	chplatform "muster/platform/clickhouse"
	"muster/platform/engine/nativetest"
	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// onCluster is a connection to one node of a cluster without Keeper. It emulates ON CLUSTER by running the
// statement on every node.
type onCluster struct {
	driver.Conn
	nodes []driver.Conn
	fail  error // returned for every ON CLUSTER statement
}

func (c onCluster) Exec(ctx context.Context, query string, args ...any) error {
	if !strings.Contains(query, " ON CLUSTER ") {
		return c.Conn.Exec(ctx, query, args...)
	}
	var whole string // without ON CLUSTER where the statement does not support it
	if err := c.QueryRow(ctx, "SELECT formatQuery({query:String})",
		clickhouse.Named("query", query)).Scan(&whole); err != nil {
		return err
	}
	if !strings.Contains(whole, " ON CLUSTER ") {
		return fmt.Errorf("not for a cluster: %s", whole)
	}
	if c.fail != nil {
		return c.fail
	}
	for i, node := range c.nodes {
		if err := node.Exec(ctx, nativetest.Unreplicated(query), args...); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	return nil
}

// openCluster returns a migrated store of two shards, connected to the first.
func openCluster(t *testing.T) (*store, []driver.Conn) {
	t.Helper()
	return openClusterAs(t, "muster")
}

// openClusterAs is openCluster with another cluster name in migrations.
func openClusterAs(t *testing.T, name string) (*store, []driver.Conn) {
	t.Helper()
	const database = "muster"
	cluster := nativetest.StartCluster(t, "muster", database, 2)
	var nodes []driver.Conn
	for i := range cluster.Engines {
		conn, err := chplatform.Open(t.Context(), chplatform.Config{DSN: cluster.DSN(i, database)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		nodes = append(nodes, conn)
	}
	s := &store{tb: t, conn: onCluster{Conn: nodes[0], nodes: nodes}}
	_, err := projector.Migrate(t.Context(), s.conn, readmodel.Layout{Cluster: name}, chplatform.MigrateConfig{})
	require.NoError(t, err)
	return s, nodes
}

// people returns records of an erased person and of others, on both shards.
func people(ghost string) map[record.Kind][]string {
	out := map[record.Kind][]string{
		record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"` + ghost + `","last_updated":"2026"}`},
		record.KindCodehostRepo:   {`{"user_id":42,"id":1,"name":"x","updated_at":"2026"}`},
	}
	for i := range 20 {
		out[record.KindCodehostPerson] = append(out[record.KindCodehostPerson],
			fmt.Sprintf(`{"user_id":%d,"codehost_username":"alive-%d","last_updated":"2026"}`, 100+i, i))
		out[record.KindCodehostRepo] = append(out[record.KindCodehostRepo],
			fmt.Sprintf(`{"user_id":%d,"id":1,"name":"x","updated_at":"2026"}`, 100+i))
	}
	return out
}

// A replay finds the cluster by itself, and leaves nothing on the nodes after it was aborted or completed.
func TestReplayOnACluster(t *testing.T) {
	s, nodes := openCluster(t)
	h := harnessOver(t, s)
	for kind, raws := range people("alive") {
		for _, raw := range raws {
			h.publishRecords(decode(t, kind, raw))
			if kind == record.KindCodehostPerson {
				h.publish(pair(t, decode(t, kind, strings.Replace(raw, "2026", "2027", 1))))
			}
		}
	}
	// A row that only the live table has.
	insertAll(t, h, "live", map[record.Kind][]string{record.KindCodehostPerson: {`{"user_id":7,"codehost_username":"kept","last_updated":"2026"}`}})
	report := h.replay("codehost_people", "lookups", "seen_versions")
	require.Len(t, report.Tables, 3)
	require.EqualValues(t, 22, s.count("SELECT count() FROM codehost_people FINAL"))
	require.EqualValues(t, 1, s.count("SELECT count() FROM "+report.Tables[1].Kept))
	for i, conn := range nodes {
		node := &store{tb: t, conn: conn}
		require.EqualValues(t, 3, node.count("SELECT count() FROM system.tables WHERE database = currentDatabase() "+
			"AND name LIKE '%__old_%_local'"), "node %d", i)
		require.NotZero(t, node.count("SELECT count() FROM codehost_people_local"), "node %d", i)
		require.NotZero(t, node.count("SELECT count() FROM seen_versions_local"), "node %d", i)
	}
	_, err := projector.AbortReplay(t.Context(), h.kafka, s.conn, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	dropped, err := projector.DropOld(t.Context(), s.conn, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Len(t, dropped, 3)
	for i, conn := range nodes {
		node := &store{tb: t, conn: conn}
		require.Zero(t, node.count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name "+
			"LIKE '%__old_%'"), "node %d", i)
	}
}

// Erased data is deleted on every node, including shadow and retired tables, and from their files.
func TestEraserOnACluster(t *testing.T) {
	s, nodes := openCluster(t)
	h := harnessOver(t, s)
	insertAll(t, h, "before", people("Ghost"))
	// A killed replay: the retired table has no Distributed one.
	for _, node := range nodes {
		require.NoError(t, node.Exec(t.Context(),
			"CREATE TABLE codehost_people__old_x1_local AS codehost_people_local"))
		require.NoError(t, node.Exec(t.Context(), "INSERT INTO codehost_people__old_x1_local SELECT * FROM "+
			"codehost_people_local"))
	}
	e := startEraser(t, h, suppressed(t, "ghost"))
	e.await(t, event.ErasureSuppressed)
	require.Zero(t, s.count("SELECT count() FROM codehost_people WHERE user_id = 42"))
	e.await(t, event.ErasureDeleted)
	var people, repos uint64
	for i, conn := range nodes {
		node := &store{tb: t, conn: conn}
		for table, where := range map[string]string{
			"codehost_people_local": "user_id = 42", "codehost_people__old_x1_local": "user_id = 42",
			"codehost_repos_local": "user_id = 42", "lookups_local": "target = '42'",
		} {
			require.Zero(t, node.count("SELECT count() FROM "+table+" WHERE "+where), "%s of node %d", table, i)
		}
		require.Zero(t, node.count("SELECT count() FROM system.parts WHERE database = currentDatabase() AND "+
			"has_lightweight_delete"), "the deleted rows are still in parts of node %d", i)
		require.Zero(t, node.count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND "+
			"position(engine_full, 'old_parts_lifetime') > 0"), "the setting stays on node %d", i)
		people += node.count("SELECT count() FROM codehost_people_local")
		repos += node.count("SELECT count() FROM codehost_repos_local")
	}
	require.EqualValues(t, 20, people, "who was not erased stays")
	require.EqualValues(t, 20, repos)
}

func TestFindLayout_RejectsInconsistentTables(t *testing.T) {
	layout, err := readmodel.FindLayout(t.Context(), openStore(t).conn)
	require.NoError(t, err)
	require.Zero(t, layout)
	s, nodes := openCluster(t)
	layout, err = readmodel.FindLayout(t.Context(), s.conn)
	require.NoError(t, err)
	require.Equal(t, readmodel.Layout{Cluster: "muster"}, layout)
	exec := func(statement string) {
		t.Helper()
		require.NoError(t, nodes[0].Exec(t.Context(), statement))
	}
	exec("CREATE TABLE mine AS lookups ENGINE = Distributed(muster, currentDatabase(), mine_too)")
	exec("EXCHANGE TABLES mine AND lookups")
	_, err = readmodel.FindLayout(t.Context(), s.conn)
	require.ErrorContains(t, err, "lookups was not created by muster migrate")
	exec("EXCHANGE TABLES lookups_local AND lookups")
	_, err = readmodel.FindLayout(t.Context(), s.conn)
	require.ErrorContains(t, err, `only some are on a cluster: ["" "muster"]`)
	exec("DROP DATABASE muster SYNC")
	exec("CREATE DATABASE muster")
	_, err = readmodel.FindLayout(t.Context(), s.conn)
	require.ErrorIs(t, err, readmodel.ErrNoTables)
}

// Kubernetes operators name a cluster by a macro; replays must support it, too.
func TestReplay_SupportsClusterNameByMacro(t *testing.T) {
	s, nodes := openClusterAs(t, "{cluster}")
	layout, err := readmodel.FindLayout(t.Context(), s.conn)
	require.NoError(t, err)
	require.Equal(t, readmodel.Layout{Cluster: "{cluster}"}, layout)
	h := harnessOver(t, s)
	insertAll(t, h, "before", people("alive"))
	rows := s.count("SELECT count() FROM codehost_people")
	kept := h.replay("codehost_people").Tables[0].Kept
	require.Equal(t, rows, s.count("SELECT count() FROM codehost_people"))
	require.Equal(t, rows, s.count("SELECT count() FROM "+layout.From(kept)))
	for _, statement := range []string{"DROP DATABASE muster SYNC", "CREATE DATABASE muster"} {
		require.NoError(t, nodes[1].Exec(t.Context(), statement))
	}
	_, err = projector.Migrate(t.Context(), s.conn, layout, chplatform.MigrateConfig{})
	require.NoError(t, err)
	require.Zero(t, (&store{tb: t, conn: nodes[1]}).count("SELECT count() FROM codehost_people_local"))
}

// A node that joins later, or lost its disk, gets the current tables of the others, including shadow and
// retired ones, and nothing else.
func TestMigrateCompletesANode(t *testing.T) {
	s, nodes := openCluster(t)
	h := harnessOver(t, s)
	insertAll(t, h, "before", people("alive"))
	kept := h.replay("codehost_people").Tables[0].Kept
	require.NoError(t, nodes[0].Exec(t.Context(), "CREATE TABLE unrelated_table (n UInt8) ENGINE = Memory"))
	empty := func() {
		for _, statement := range []string{"DROP DATABASE muster SYNC", "CREATE DATABASE muster",
			"DROP DATABASE muster_views SYNC"} {
			require.NoError(t, nodes[1].Exec(t.Context(), statement))
		}
	}
	empty()
	for range 2 {
		applied, err := projector.Migrate(t.Context(), s.conn, readmodel.Layout{Cluster: "muster"},
			chplatform.MigrateConfig{})
		require.NoError(t, err)
		require.Empty(t, applied)
	}
	tables := make([]map[string]string, len(nodes))
	for i, node := range nodes {
		tables[i] = make(map[string]string)
		rows, err := node.Query(t.Context(), "SELECT concat(database, '.', name), create_table_query FROM "+
			"system.tables WHERE startsWith(database, 'muster') AND name != 'unrelated_table'")
		require.NoError(t, err)
		for rows.Next() {
			var name, create string
			require.NoError(t, rows.Scan(&name, &create))
			tables[i][name] = create
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
	require.Contains(t, tables[0], "muster."+kept+"_local")
	require.Contains(t, tables[0], "muster.usage_monthly")
	require.Equal(t, tables[0], tables[1])
	require.Zero(t, (&store{tb: t, conn: nodes[1]}).count("SELECT count() FROM system.tables WHERE name = "+
		"'unrelated_table'"))
	lost := onCluster{Conn: nodes[0], nodes: nodes, fail: &clickhouse.Exception{Code: 253,
		Name: "REPLICA_ALREADY_EXISTS"}}
	_, err := projector.Migrate(t.Context(), lost, readmodel.Layout{Cluster: "muster"}, chplatform.MigrateConfig{})
	require.ErrorContains(t, err, "SYSTEM DROP REPLICA")
	insertAll(t, h, "after", people("alive"))
	require.EqualValues(t, 21, s.count("SELECT count() FROM codehost_people FINAL"))

	// The running projector does the same.
	empty()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		projector.ReconcileNodes(ctx, s.conn, slog.New(slog.DiscardHandler))
	}()
	node := &store{tb: t, conn: nodes[1]}
	eventually(t, func(context.Context) bool {
		return node.count("SELECT count() FROM system.tables WHERE startsWith(database, 'muster')") == uint64(len(tables[0]))
	}, "a node lacks tables")
	stop()
	<-done
}

// A replica that lags behind shows a builder older rows than those that were touched: here they come after the touch.
func TestAnswers_LaggingReplicaIsReadAgain(t *testing.T) {
	s, _ := openCluster(t)
	h := harnessOver(t, s)
	h.start(nil)
	for user := 100; user < 104; user++ { // on both shards
		h.publishRecords(accountRecord(t, user, "2024", "old"))
	}
	h.caughtUp()
	touch := func(user int, rec *record.Record) kafka.Message {
		task := event.AnswerTask{Kind: record.KindCodehostPerson, ID: strconv.Itoa(user), Version: int64(rec.Version)}
		value, err := json.Marshal(task)
		require.NoError(t, err)
		return kafka.Message{Topic: event.TopicAnswerTask, Key: []byte(task.MessageKey()), Value: value}
	}
	var newer []*record.Record
	for user := 100; user < 104; user++ {
		rec := accountRecord(t, user, "2026", "new")
		newer = append(newer, rec)
		h.publish(touch(user, rec))
	}
	pending := func() int64 {
		lags, err := bus.Lag(t.Context(), h.kafka, projector.AnswersGroup, []string{event.TopicAnswerTask})
		require.NoError(t, err)
		return totalLag(lags)
	}
	eventually(t, func(context.Context) bool { return h.answers(100)[0].Rebuilt > 0 }, "it is built again")
	require.NotZero(t, pending(), "the touches are not committed")
	require.Equal(t, "old", h.answers(100)[0].UsernameKey)
	var batch readmodel.Batch
	renderer := readmodel.NewRenderer(identity.Default())
	for i, rec := range newer {
		require.NoError(t, renderer.Rows(&batch, rec, readmodel.Position{Topic: rec.Kind.Topic(), Offset: int64(1000 + i)}))
	}
	require.NoError(t, readmodel.Insert(t.Context(), s.conn, "late", &batch))
	h.caughtUp()
	for user := int64(100); user < 104; user++ {
		require.Equal(t, "new", h.answers(user)[0].UsernameKey, user)
	}
}
