package search

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/query-api/internal/search/cursor"
	"muster/query-api/internal/search/planner"
)

// denyingConn is a server that denies all statements. The embedded engine has no such user.
type denyingConn struct {
	driver.Conn
	statements []string
}

func (d *denyingConn) Query(_ context.Context, statement string, _ ...any) (driver.Rows, error) {
	d.statements = append(d.statements, statement)
	return nil, &ch.Exception{Code: 497, Name: "DB::Exception", Message: "muster: Not enough privileges"}
}

// newSearcher returns a Searcher of conn at the time now.
func newSearcher(t *testing.T, conn *denyingConn, log slog.Handler, now *time.Time) *Searcher {
	t.Helper()
	s, err := New(Config{}, Deps{
		Conn: conn, Key: make([]byte, cursor.KeySize), Logger: slog.New(log),
		Tracer: noop.NewTracerProvider().Tracer(""), Now: func() time.Time { return *now },
	})
	require.NoError(t, err)
	return s
}

func TestSearcher_WarnsOnceWithoutAccessToParts(t *testing.T) {
	var log bytes.Buffer
	conn, now := new(denyingConn), time.Now()
	s := newSearcher(t, conn, slog.NewTextHandler(&log, nil), &now)
	for range 3 {
		large, err := s.isLargeSinglePart(t.Context())
		require.NoError(t, err)
		require.False(t, large)
		now = now.Add(time.Hour)
	}
	require.Len(t, conn.statements, 1)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "system.parts")
}

func TestCountRepeats_RetriesLaterWithoutIndexAccess(t *testing.T) {
	conn, now := new(denyingConn), time.Now()
	s := newSearcher(t, conn, slog.DiscardHandler, &now)
	prepared, err := s.Prepare(Request{Query: []byte(`{"match":{"profile.headline":"data"}}`)})
	require.NoError(t, err)
	for range 3 {
		stats := planner.NewStats()
		require.NoError(t, s.countRepeats(t.Context(), prepared.node, stats))
		require.Empty(t, stats.Bits)
	}
	require.Len(t, conn.statements, 1)
	now = now.Add(2 * time.Minute)
	require.NoError(t, s.countRepeats(t.Context(), prepared.node, planner.NewStats()))
	require.Len(t, conn.statements, 2)
}

// A cluster's distributed table has no text indexes either.
func TestLookUpTerms_ReadsColumnsWithoutIndexAccess(t *testing.T) {
	conn, now := new(denyingConn), time.Now()
	s := newSearcher(t, conn, slog.DiscardHandler, &now)
	prepared, err := s.Prepare(Request{Query: []byte(`{"multi_match":{"query":"senior data engineer"}}`)})
	require.NoError(t, err)
	statements := planner.PresenceStatements(prepared.node, nil, firstBlend)
	require.NotEmpty(t, statements)
	words := statements[len(statements)-1]
	require.Contains(t, words.Index.SQL, "mergeTreeTextIndex")
	lookUp := func(about string, want ...string) {
		conn.statements = nil
		err := s.lookUpTerms(t.Context(), words, nil)
		var noIndex *noIndexError
		require.Error(t, err, about)
		require.NotErrorAs(t, err, &noIndex, "%s: the columns have no index", about)
		require.Equal(t, want, conn.statements, about)
	}
	lookUp("at first", words.Index.SQL, words.Columns.SQL)
	lookUp("known to be denied", words.Columns.SQL)
	now = now.Add(2 * time.Minute)
	lookUp("later", words.Index.SQL, words.Columns.SQL)
}
