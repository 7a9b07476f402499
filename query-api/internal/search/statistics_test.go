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

// denying stands for a server whose user may not read system tables: the embedded engine has no such user.
type denying struct {
	driver.Conn
	asked []string
}

func (d *denying) Query(_ context.Context, statement string, _ ...any) (driver.Rows, error) {
	d.asked = append(d.asked, statement)
	return nil, &ch.Exception{Code: 497, Name: "DB::Exception", Message: "muster: Not enough privileges"}
}

// denied is a Searcher whose server is conn, at a time that the test says.
func denied(t *testing.T, conn *denying, log slog.Handler, now *time.Time) *Searcher {
	t.Helper()
	s, err := New(Config{}, Deps{
		Conn: conn, Key: make([]byte, cursor.KeySize), Logger: slog.New(log),
		Tracer: noop.NewTracerProvider().Tracer(""), Now: func() time.Time { return *now },
	})
	require.NoError(t, err)
	return s
}

// A user who may not read system.parts searches on, is told once, and is not asked again.
func TestPartsDenied(t *testing.T) {
	var log bytes.Buffer
	conn, now := new(denying), time.Now()
	s := denied(t, conn, slog.NewTextHandler(&log, nil), &now)
	for range 3 {
		large, err := s.largeAtRest(t.Context())
		require.NoError(t, err)
		require.False(t, large)
		now = now.Add(time.Hour)
	}
	require.Len(t, conn.asked, 1)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "system.parts")
}

// A user who may not read the indexes of repeats searches on, and they are not asked again for a while.
func TestTimesDenied(t *testing.T) {
	conn, now := new(denying), time.Now()
	s := denied(t, conn, slog.DiscardHandler, &now)
	prepared, err := s.Prepare(Request{Query: []byte(`{"match":{"profile.headline":"data"}}`)})
	require.NoError(t, err)
	for range 3 {
		stats := planner.NewStats()
		require.NoError(t, s.countTimes(t.Context(), prepared.node, stats))
		require.Empty(t, stats.Bits)
	}
	require.Len(t, conn.asked, 1)
	now = now.Add(2 * time.Minute)
	require.NoError(t, s.countTimes(t.Context(), prepared.node, planner.NewStats()))
	require.Len(t, conn.asked, 2)
}

// Who may not read indexes as tables, and a cluster, whose table has none, look for words in the columns, and ask the indexes again after a while.
func TestPresenceDenied(t *testing.T) {
	conn, now := new(denying), time.Now()
	s := denied(t, conn, slog.DiscardHandler, &now)
	prepared, err := s.Prepare(Request{Query: []byte(`{"multi_match":{"query":"senior data engineer"}}`)})
	require.NoError(t, err)
	statements := planner.PresenceStatements(prepared.node, nil, firstBlend)
	require.NotEmpty(t, statements)
	words := statements[len(statements)-1]
	require.Contains(t, words.Index.SQL, "mergeTreeTextIndex")
	ask := func(about string, want ...string) {
		conn.asked = nil
		err := s.seek(t.Context(), words, nil)
		var none *unindexedError
		require.Error(t, err, about)
		require.NotErrorAs(t, err, &none, "%s: of the columns it is an error like any", about)
		require.Equal(t, want, conn.asked, about)
	}
	ask("at first", words.Index.SQL, words.Columns.SQL)
	ask("known", words.Columns.SQL)
	now = now.Add(2 * time.Minute)
	ask("later", words.Index.SQL, words.Columns.SQL)
}
