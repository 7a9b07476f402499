package replay_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/projector/internal/projectortest"
	"muster/projector/migrations"
	"muster/projector/replay"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// A replay finds the cluster by itself, and leaves nothing on the nodes after it was aborted or completed.
func TestReplay_RunsOnACluster(t *testing.T) {
	s, nodes := projectortest.OpenCluster(t)
	h := projectortest.Over(t, s)
	for kind, raws := range projectortest.People("alive") {
		for _, raw := range raws {
			h.PublishRecords(projectortest.Decode(t, kind, raw))
			if kind == record.KindCodehostPerson {
				h.Publish(projectortest.Pair(t, projectortest.Decode(t, kind, strings.Replace(raw, "2026", "2027", 1))))
			}
		}
	}
	// A row that only the live table has.
	projectortest.InsertAll(
		t,
		h,
		"live",
		map[record.Kind][]string{
			record.KindCodehostPerson: {`{"user_id":7,"codehost_username":"kept","last_updated":"2026"}`},
		},
	)
	report := h.Replay("codehost_people", "lookups", "seen_versions")
	require.Len(t, report.Tables, 3)
	require.EqualValues(t, 22, s.Count("SELECT count() FROM codehost_people FINAL"))
	require.EqualValues(t, 1, s.Count("SELECT count() FROM "+report.Tables[1].Kept))
	for i, conn := range nodes {
		node := &projectortest.Store{TB: t, Conn: conn}
		require.EqualValues(t, 3, node.Count("SELECT count() FROM system.tables WHERE database = currentDatabase() "+
			"AND name LIKE '%__old_%_local'"), "node %d", i)
		require.NotZero(t, node.Count("SELECT count() FROM codehost_people_local"), "node %d", i)
		require.NotZero(t, node.Count("SELECT count() FROM seen_versions_local"), "node %d", i)
	}
	_, err := replay.Abort(t.Context(), h.Kafka, s.Conn, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	dropped, err := replay.DropRetired(t.Context(), s.Conn, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Len(t, dropped, 3)
	for i, conn := range nodes {
		node := &projectortest.Store{TB: t, Conn: conn}
		require.Zero(t, node.Count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name "+
			"LIKE '%__old_%'"), "node %d", i)
	}
}

// Kubernetes operators name a cluster by a macro; replays must support it, too.
func TestReplay_SupportsClusterNameByMacro(t *testing.T) {
	s, nodes := projectortest.OpenClusterAs(t, "{cluster}")
	layout, err := readmodel.FindLayout(t.Context(), s.Conn)
	require.NoError(t, err)
	require.Equal(t, readmodel.Layout{Cluster: "{cluster}"}, layout)
	h := projectortest.Over(t, s)
	projectortest.InsertAll(t, h, "before", projectortest.People("alive"))
	rows := s.Count("SELECT count() FROM codehost_people")
	kept := h.Replay("codehost_people").Tables[0].Kept
	require.Equal(t, rows, s.Count("SELECT count() FROM codehost_people"))
	require.Equal(t, rows, s.Count("SELECT count() FROM "+layout.From(kept)))
	for _, statement := range []string{"DROP DATABASE muster SYNC", "CREATE DATABASE muster"} {
		require.NoError(t, nodes[1].Exec(t.Context(), statement))
	}
	_, err = migrations.Apply(t.Context(), s.Conn, layout, chplatform.MigrateConfig{})
	require.NoError(t, err)
	require.Zero(t, (&projectortest.Store{TB: t, Conn: nodes[1]}).Count("SELECT count() FROM codehost_people_local"))
}
