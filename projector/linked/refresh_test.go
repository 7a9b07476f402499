package linked_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/projector/linked"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// hookedConn calls do before one of the statements that read or insert.
type hookedConn struct {
	driver.Conn
	until int // number of statements before
	do    func()
}

func (c *hookedConn) next() {
	if c.until--; c.until == -1 {
		c.do()
	}
}

func (c *hookedConn) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	c.next()
	return c.Conn.Query(ctx, query, args...)
}

func (c *hookedConn) PrepareBatch(
	ctx context.Context, query string, opts ...driver.PrepareBatchOption,
) (driver.Batch, error) {
	c.next()
	return c.Conn.PrepareBatch(ctx, query, opts...)
}

// A link is withdrawn, and the person refreshed, before each statement of a slower refresh.
func TestRefresher_NewestLinksWinOverASlowerRefresh(t *testing.T) {
	s := projectortest.OpenStore(t)
	s.Insert("account", projectortest.AccountRecord(t, 7, "2020", "ada"))
	future := uint64(time.Now().AddDate(100, 0, 0).UnixMicro())
	began := time.Now()
	person := 0
	cases := []struct {
		name string
		ver  uint64 // of the row before; 0: there is none
		now  func() time.Time
	}{
		{"no row before", 0, time.Now},
		{"a row before", 1, time.Now},
		{"a row of the future before", future, time.Now},
		{"a row before, both begin at the same time", 1, func() time.Time { return began }},
		{"the clock goes back", 0, func() time.Time { began = began.Add(-time.Hour); return began }},
	}
	if testing.Short() {
		cases = cases[:2]
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			for statement, interrupted := 0, true; interrupted; statement++ {
				person++
				id := fmt.Sprint("p", person)
				link := func(observed, members string) *record.Record {
					return projectortest.Decode(t, record.KindAccountLink, fmt.Sprintf(
						`{"a":{"platform":"codehost","username":"ada"},"b":{"platform":"network","username":%q},`+
							`"source":"x","observed_at":%q%s}`, id, observed, members))
				}
				s.Insert(id, projectortest.Person(t, id, "2020", fmt.Sprintf(`"username":%q`, id)), link("2021", ""))
				if tt.ver > 0 {
					row := readmodel.LinkedRow{ProfileID: id, Ver: tt.ver, Account: readmodel.Unlinked()}
					row.Account.UserID = 99
					require.NoError(t, readmodel.InsertLinked(t.Context(), s.Conn, []readmodel.LinkedRow{row}))
				}
				interrupted = false
				slow := linked.Refresher{Now: tt.now, Conn: &hookedConn{Conn: s.Conn, until: statement, do: func() {
					interrupted = true
					s.Insert(id+" withdrawn", link("2022", `,"deleted":true`))
					fast := linked.Refresher{Conn: s.Conn, Now: tt.now}
					_, err := fast.Refresh(t.Context(), []string{id})
					require.NoError(t, err)
				}}}
				changed, err := slow.Refresh(t.Context(), []string{id})
				require.NoError(t, err)
				require.LessOrEqual(t, len(changed), 1, "a person is returned once")
				want := ""
				if !interrupted {
					want = row(7, "ada", "", missing, missing)
				}
				require.Equal(t, want, rows(t, s)[id], "withdrawn before statement %d", statement)
			}
		})
	}
}
