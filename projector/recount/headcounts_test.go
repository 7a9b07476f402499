package recount_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/projector/recount"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// now is the time of the counts.
func now() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

// employee has positions as JSON.
func employee(t *testing.T, id int, version, positions string) *record.Record {
	t.Helper()
	return projectortest.Decode(t, record.KindNetworkPerson, fmt.Sprintf(
		`{"profile_id":"p%d","username":"p%[1]d","last_updated":%q,"experience":[%s]}`, id, version, positions))
}

func position(company, start, end string) string {
	if end != "" {
		return fmt.Sprintf(`{"title":"x","company":{%s},"start":%q,"end":%q}`, company, start, end)
	}
	return fmt.Sprintf(`{"title":"x","company":{%s},"start":%q,"current":true}`, company, start)
}

const (
	byID  = `"company_id":"c1"`
	byURL = `"name":"Acme","network_url":"https://www.network.example/company/Acm%C3%89/about?x=1"`
)

// staff are seven people of c1, of whom one is also counted for c2, with four people.
func staff(t *testing.T, s *projectortest.Store) {
	t.Helper()
	recs := []*record.Record{
		projectortest.Decode(t, record.KindNetworkCompany,
			`{"company_id":"c1","network_slug":"acmé","last_updated":"2024"}`),
		// Until the end of 2019, in either form; twice at a time counts once.
		employee(t, 1, "2024", position(byID, "2017-03", "2019-12-31")+","+position(byURL, "2018", "2019-12-31")),
		employee(t, 2, "2024", position(byURL, "2017-01-01", "2020-01-01")),
		// Ongoing ones; the partial end date is its first day.
		employee(t, 3, "2024", position(byURL, "2018-06-01", "")),
		employee(t, 4, "2024", position(byID, "2019-12-31", "")),
		employee(t, 5, "2024", position(byID, "2018", "2020")),
		employee(t, 6, "2024", position(byID, "2019-01-01", "2019-06-01")+","+position(byID, "2025-01-01", "")),
		employee(t, 7, "2024", position(byURL, "1901", "")+","+position(`"company_id":"c2"`, "2018", "")),
		// Without a start, without a company that is known, and in the future.
		employee(t, 8, "2024", `{"title":"x","company":{`+byID+`},"current":true},`+
			position(`"name":"Acme"`, "2018", "")+","+
			position(byID, "2027-01-01", "")),
	}
	for i := range 3 {
		recs = append(recs, employee(t, 20+i, "2024", position(`"company_id":"c2"`, "2018", "")))
	}
	s.Insert("staff", recs...)
}

func headcounts(t *testing.T, conn driver.Conn) (out []readmodel.HeadcountRow) {
	t.Helper()
	keys := []uint64{readmodel.CompanyHash("c1"), readmodel.CompanyHash("c2")}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithParameters(clickhouse.Parameters{
		readmodel.ParameterKeys: readmodel.FormatKeys(keys),
	}))
	rows, err := conn.Query(ctx, readmodel.HeadcountsQuery())
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var r readmodel.HeadcountRow
		require.NoError(t, rows.Scan(r.ScanDest()...))
		out = append(out, r)
	}
	require.NoError(t, rows.Err())
	return out
}

func check(t *testing.T, s *projectortest.Store) {
	t.Helper()
	done, err := recount.RefreshHeadcounts(t.Context(), s.Conn, time.Minute, now())
	require.NoError(t, err)
	require.True(t, done)
	got := headcounts(t, s.Conn)
	require.Len(t, got, 1, "c2 has fewer than 5 people")
	require.Equal(t, "c1", got[0].CompanyID)
	require.Equal(t, now(), got[0].At())
	require.EqualValues(t, 7, got[0].Sample)
	// 2018: 1, 2, 3, 5, 7; 2019: these and 4; 2020 to 2024: 3, 4, 7.
	require.Equal(t, []uint16{2018, 2019}, got[0].Years)
	require.Equal(t, []uint32{5, 6}, got[0].People)
}

func TestHeadcounts_CountPeopleOnTheLastDayOfEachYear(t *testing.T) {
	s := projectortest.OpenStore(t)
	staff(t, s)
	check(t, s)
	// The present year counts as of today.
	for i := range 2 {
		s.Insert(fmt.Sprint("more", i), employee(t, 30+i, "2024", position(byID, "2026-05-01", "")))
	}
	_, err := recount.RefreshHeadcounts(t.Context(), s.Conn, 0, now().Add(time.Hour))
	require.NoError(t, err)
	got := headcounts(t, s.Conn)
	require.Len(t, got, 1, "older runs are dropped")
	require.Equal(t, []uint16{2018, 2019, 2026}, got[0].Years)
	require.Equal(t, []uint32{5, 6, 6}, got[0].People)
}

func TestHeadcounts_CountPeopleOfAllShardsOnce(t *testing.T) {
	s, nodes := projectortest.OpenCluster(t)
	staff(t, s)
	check(t, s)
	_, err := recount.RefreshHeadcounts(t.Context(), s.Conn, 0, now().Add(time.Hour))
	require.NoError(t, err)
	for _, node := range nodes {
		var runs uint64
		require.NoError(t, node.QueryRow(t.Context(), "SELECT uniqExact(run) FROM company_headcounts_local").Scan(&runs))
		require.LessOrEqual(t, runs, uint64(1), "older runs are dropped")
	}
}

func TestHeadcounts_LeaveOutDeletedAndErasedPeople(t *testing.T) {
	s := projectortest.OpenStore(t)
	staff(t, s)
	check(t, s)
	s.Insert("deleted", projectortest.Decode(t, record.KindNetworkPerson,
		`{"profile_id":"p1","last_updated":"2025","deleted":true}`))
	refresh := func(after time.Duration) bool {
		t.Helper()
		done, err := recount.RefreshHeadcounts(t.Context(), s.Conn, time.Minute, now().Add(after))
		require.NoError(t, err)
		return done
	}
	require.False(t, refresh(time.Second), "another projector has just counted")
	require.True(t, refresh(2*time.Minute))
	require.False(t, refresh(10*time.Minute), "nothing has changed, whichever projector counted")
	got := headcounts(t, s.Conn)
	require.Equal(t, []uint16{2019}, got[0].Years)
	require.Equal(t, []uint32{5}, got[0].People)
	require.NoError(t, s.Conn.Exec(t.Context(), "DELETE FROM search_people WHERE profile_id = 'p2'"))
	require.True(t, refresh(20*time.Minute))
	require.Empty(t, headcounts(t, s.Conn), "a company without years falls out")
	// A clock that was ahead does not stop the counts.
	require.NoError(t, readmodel.CountHeadcounts(t.Context(), s.Conn,
		readmodel.HeadcountState{At: now().Add(48 * time.Hour)}))
	s.Insert("more", employee(t, 40, "2024", position(byID, "2018", "")), employee(t, 41, "2024", position(byID, "2018", "")))
	require.True(t, refresh(30*time.Minute))
	require.NotEmpty(t, headcounts(t, s.Conn))
	require.False(t, refresh(48*time.Hour+30*time.Minute), "nothing has changed")
	require.True(t, refresh(50*time.Hour), "the date has changed")
}
