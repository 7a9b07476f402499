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
	asked int
}

func (d *denying) Query(context.Context, string, ...any) (driver.Rows, error) {
	d.asked++
	return nil, &ch.Exception{Code: 497, Name: "DB::Exception", Message: "muster: Not enough privileges"}
}

// A user who may not read system.parts searches on, is told once, and is not asked again.
func TestPartsDenied(t *testing.T) {
	var log bytes.Buffer
	conn := new(denying)
	now := time.Now()
	s, err := New(Config{}, Deps{
		Conn: conn, Key: make([]byte, cursor.KeySize), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Tracer: noop.NewTracerProvider().Tracer(""), Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	for range 3 {
		large, err := s.largeAtRest(t.Context())
		require.NoError(t, err)
		require.False(t, large)
		now = now.Add(time.Hour)
	}
	require.Equal(t, 1, conn.asked)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "system.parts")
}

// A user who may not read the indexes of repeats searches on, and they are not asked again for a while.
func TestTimesDenied(t *testing.T) {
	conn := new(denying)
	now := time.Now()
	s, err := New(Config{}, Deps{
		Conn: conn, Key: make([]byte, cursor.KeySize), Logger: slog.New(slog.DiscardHandler),
		Tracer: noop.NewTracerProvider().Tracer(""), Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	prepared, err := s.Prepare(Request{Query: []byte(`{"match":{"profile.headline":"data"}}`)})
	require.NoError(t, err)
	for range 3 {
		stats := planner.NewStats()
		require.NoError(t, s.countTimes(t.Context(), prepared.node, stats))
		require.Empty(t, stats.Bits)
	}
	require.Equal(t, 1, conn.asked)
	now = now.Add(2 * time.Minute)
	require.NoError(t, s.countTimes(t.Context(), prepared.node, planner.NewStats()))
	require.Equal(t, 2, conn.asked)
}
