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
	"muster/schemas/readmodel"
)

// hungConn is a server that answers no statement, and a ping only if it is up.
type hungConn struct {
	driver.Conn
	up bool
}

func (*hungConn) Query(ctx context.Context, _ string, _ ...any) (driver.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*hungConn) Select(ctx context.Context, _ any, _ string, _ ...any) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *hungConn) Ping(ctx context.Context) error {
	if s.up {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestSearch_DistinguishesSlowReadsFromHungStore(t *testing.T) {
	for name, up := range map[string]bool{"words that take long to read": true, "a store that hangs": false} {
		t.Run(name, func(t *testing.T) {
			conn := &hungConn{up: up}
			logger, tracer := slog.New(slog.DiscardHandler), noop.NewTracerProvider().Tracer("")
			store, err := readstore.New(t.Context(), readstore.Config{}, readstore.Deps{
				Conn: conn, Logger: logger, Registerer: prometheus.NewRegistry(), Tracer: tracer,
			})
			require.NoError(t, err)
			t.Cleanup(store.Close)
			s, err := New(Config{Timeout: 20 * time.Millisecond, Deadline: 20 * time.Millisecond}, Deps{
				Collection: readmodel.PeopleCollection(), Conn: conn, Store: store, Key: make([]byte, cursor.KeySize),
				Logger: logger, Tracer: tracer, Now: time.Now,
			})
			require.NoError(t, err)
			prepared, err := s.Prepare(Request{Query: []byte(`{"match":{"profile.headline":"data"}}`), Size: 1})
			require.NoError(t, err)
			_, err = prepared.Run(t.Context())
			var overloaded *OverloadedError
			if up {
				require.ErrorAs(t, err, &overloaded)
				return
			}
			require.ErrorIs(t, err, readstore.ErrUnavailable)
			require.NotErrorAs(t, err, &overloaded)
		})
	}
}
