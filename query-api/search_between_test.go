package queryapi_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
)

func TestSearch_LaterPagesUseAbsentTermsOfOtherSearches(t *testing.T) {
	for name, c := range map[string]struct{ first, second, counted string }{
		"nothing was counted": {
			first: `"query":{"match":{"profile.headline":"data zzzz"}},"sort":["profile.connections"]`, counted: "zzzz",
		},
		"no word that was counted was absent": {
			first: `"query":{"bool":{"must":{"match":{"profile.last_name":"doe"}},"filter":{"match":` +
				`{"profile.headline":"data yyyy"}}}},"sort":["_score"]`, counted: "yyyy",
		},
		"another absent word": {
			first: `"query":{"bool":{"must":{"match":{"profile.last_name":"doe xxxx"}},"filter":{"match":` +
				`{"profile.headline":"data vvvv"}}}},"sort":["_score"]`, counted: "vvvv",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			var people []string
			for i := range 6 {
				people = append(people,
					fmt.Sprintf(
						`{"profile_id":"p%d","last_updated":"2026","username":"p%d","last_name":"Doe",`+
							`"headline":"data","connections":%d}`, i, i, 10*i))
			}
			f.insert(record.KindNetworkPerson, people...)
			page := f.search(`{` + c.first + `,"size":2}`)
			require.Len(t, ids(page), 2)
			// The term is absent.
			require.Zero(t, f.search(fmt.Sprintf(`{"query":{"match":{"profile.headline":%q}}}`, c.counted))["total"])
			next := fmt.Sprintf(`{%s,"size":2,"cursor":%q}`, c.first, page["next_cursor"])
			require.Len(t, ids(f.search(next)), 2)

			// One person has that word instead of the common one.
			f.insert(record.KindNetworkPerson,
				fmt.Sprintf(
					`{"profile_id":"p5","last_updated":"2027","username":"p5","last_name":"Doe","headline":"%s",`+
						`"connections":50}`, c.counted))
			all := ids(page)
			for cursor := page["next_cursor"]; cursor != nil; {
				page := f.search(fmt.Sprintf(`{%s,"size":2,"cursor":%q}`, c.first, cursor))
				all = append(all, ids(page)...)
				cursor = page["next_cursor"]
			}
			require.Len(t, all, 6)
			require.Contains(t, all, "p5")
		})
	}
}

// between runs a function before a statement of some kind is sent, after the parts of the table were listed.
type between struct {
	driver.Conn
	looked chan struct{} // closed when the parts are listed
	at     string
	do     atomic.Pointer[func()]
}

func (b *between) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if do := b.do.Load(); do != nil && strings.Contains(query, b.at) && b.do.CompareAndSwap(do, nil) {
		select {
		case <-b.looked:
			(*do)()
		case <-ctx.Done():
		}
	}
	rows, err := b.Conn.Query(ctx, query, args...)
	if err == nil && strings.Contains(query, "system.parts") {
		rows = lookedRows{rows, b.looked}
	}
	return rows, err
}

// lookedRows signals when the rows have been read.
type lookedRows struct {
	driver.Rows
	looked chan<- struct{}
}

func (r lookedRows) Close() error {
	err := r.Rows.Close()
	select {
	case r.looked <- struct{}{}:
	default:
	}
	return err
}

func TestSearch_FindsTermsThatChangeDuringTheSearch(t *testing.T) {
	conn := &between{at: "mergeTreeTextIndex", looked: make(chan struct{}, 1)}
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		conn.Conn = d.ClickHouse
		d.ClickHouse = conn
	})
	f.insert(record.KindNetworkPerson,
		append(searchPeople(), `{"profile_id":"f","last_updated":"2026","username":"f","headline":"foobar"}`)...)
	require.Len(t, ids(f.search(`{"query":{"match":{"profile.headline":"data"}}}`)), 2, "parts listed")
	change := func() {
		f.insert(record.KindNetworkPerson,
			`{"profile_id":"f","last_updated":"2027","username":"f","headline":"foobaz"}`)
	}
	<-conn.looked
	conn.do.Store(&change)
	require.Equal(t, []string{"f"}, ids(f.search(`{"query":{"match_phrase_prefix":{"profile.headline":"fooba"}}}`)))
	require.Nil(t, conn.do.Load(), "changed during the search")
}
