package erasure_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector/internal/projectortest"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// gate is a connection that blocks the first matching query.
type gate struct {
	driver.Conn
	says          string
	once          sync.Once
	reached, goOn chan struct{}
}

func (g *gate) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if strings.Contains(query, g.says) {
		g.once.Do(func() {
			close(g.reached)
			<-g.goOn
		})
	}
	return g.Conn.Query(ctx, query, args...)
}

// A person's erasure is withdrawn during a sweep and their data is ingested again. It stays; other matches
// are deleted.
func TestEraser_KeepsPersonWithdrawnDuringSweep(t *testing.T) {
	for name, c := range map[string]struct {
		says   string
		buried bool
	}{
		"found":                {"FROM microblog_people", false},
		"suppressed by the id": {"FROM discovered_links", false},
		"buried":               {"AS h, toInt64(count()) FROM codehost_people", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := projectortest.New(t)
			set := projectortest.Suppressed(t, "ghost")
			apply := func(username string, lifted bool) {
				value, err := json.Marshal(suppress.Entry{Type: suppress.CodehostUsername, Scope: suppress.All,
					RequestedAt: "2026-11-21", Key: set.Key().ID(), Unsuppressed: lifted})
				require.NoError(t, err)
				require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.CodehostUsername, username).String()), value))
			}
			apply("gone", false)
			projectortest.InsertAll(t, h, "before", map[record.Kind][]string{record.KindCodehostPerson: {
				`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`,
				`{"user_id":43,"codehost_username":"gone","last_updated":"2026"}`,
			}})
			g := &gate{Conn: h.Conn, says: c.says, reached: make(chan struct{}), goOn: make(chan struct{})}
			gated := *h
			gated.Store = &projectortest.Store{TB: t, Conn: g}
			e := startEraser(t, &gated, set)
			select {
			case <-g.reached:
			case <-time.After(5 * time.Minute):
				t.Fatal("the sweep did not reach the query")
			}
			apply("ghost", true)
			projectortest.InsertAll(
				t,
				h,
				"again",
				map[record.Kind][]string{
					record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"ghost","last_updated":"2026-11"}`},
				},
			)
			close(g.goOn)
			e.await(t, event.ErasureSuppressed)
			require.EqualValues(t, 1, h.Count("SELECT uniqExact(user_id) FROM codehost_people WHERE user_id = 42"))
			require.Zero(t, h.Count("SELECT count() FROM codehost_people WHERE user_id = 43"))
			_, hit := set.ID(identity.Codehost, "42")
			require.False(t, hit)
			_, hit = set.ID(identity.Codehost, "43")
			require.True(t, hit)
			buried := map[string]bool{}
			require.NoError(t, bus.Scan(t.Context(), h.Kafka, []string{record.KindCodehostPerson.Topic()},
				func(m kafka.Message) error {
					buried[string(m.Key)] = true
					return nil
				}))
			require.Equal(t, c.buried, buried["42"])
			require.True(t, buried["43"])
		})
	}
}

// deletions counts the DELETE statements of a table.
type deletions struct {
	driver.Conn
	from string
	n    atomic.Int32
}

func (d *deletions) Exec(ctx context.Context, query string, args ...any) error {
	if strings.HasPrefix(query, "DELETE FROM "+d.from+" ") {
		d.n.Add(1)
	}
	return d.Conn.Exec(ctx, query, args...)
}

// People in several queries are deleted with one statement per table.
func TestEraser_DeletesWithOneStatementPerTable(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	var people []string
	for i := range 1200 {
		name := fmt.Sprint("gone-", i)
		value, err := json.Marshal(suppress.Entry{Type: suppress.CodehostUsername, Scope: suppress.All,
			RequestedAt: "2026-11-21", Key: set.Key().ID()})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.CodehostUsername, name).String()), value))
		people = append(people, fmt.Sprintf(`{"user_id":%d,"codehost_username":"%s","last_updated":"2026"}`, 1000+i,
			name))
	}
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{record.KindCodehostPerson: append(people,
		`{"user_id":1,"codehost_username":"stays","last_updated":"2026"}`)})
	d := &deletions{Conn: h.Conn, from: "codehost_people"}
	counted := *h
	counted.Store = &projectortest.Store{TB: t, Conn: d}
	startEraser(t, &counted, set).await(t, event.ErasureSuppressed)
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people"))
	require.EqualValues(t, 1, d.n.Load())
}
