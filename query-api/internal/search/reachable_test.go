package search

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/cursor"
)

// silent stands for a server that answers no statement, and a ping only if it is there.
type silent struct {
	driver.Conn
	there bool
}

func (*silent) Query(ctx context.Context, _ string, _ ...any) (driver.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *silent) Ping(ctx context.Context) error {
	if s.there {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// A store that hangs is not the fault of the query.
func TestHungStore(t *testing.T) {
	for name, there := range map[string]bool{"a query whose words take long to read": true, "a store that hangs": false} {
		t.Run(name, func(t *testing.T) {
			conn := &silent{there: there}
			logger, tracer := slog.New(slog.DiscardHandler), noop.NewTracerProvider().Tracer("")
			store, err := readstore.New(t.Context(), readstore.Config{}, readstore.Deps{Conn: conn, Logger: logger, Registerer: prometheus.NewRegistry(), Tracer: tracer})
			require.NoError(t, err)
			t.Cleanup(store.Close)
			s, err := New(Config{Timeout: 20 * time.Millisecond, Deadline: 20 * time.Millisecond}, Deps{Conn: conn, Store: store, Key: make([]byte, cursor.KeySize), Logger: logger, Tracer: tracer, Now: time.Now})
			require.NoError(t, err)
			prepared, err := s.Prepare(Request{Query: []byte(`{"match":{"profile.headline":"data"}}`), Size: 1})
			require.NoError(t, err)
			_, err = prepared.Run(t.Context())
			var busy *Busy
			if there { // it was read for the first time: the same query may be answered later
				require.ErrorAs(t, err, &busy)
				return
			}
			require.ErrorIs(t, err, readstore.ErrUnavailable)
			require.NotErrorAs(t, err, &busy)
		})
	}
}
