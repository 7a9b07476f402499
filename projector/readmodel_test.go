package projector_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// These test the SQL of schemas/readmodel on the real engine. They are here because schemas opens no
// connections.

func person(tb testing.TB, id, version, members string) *record.Record {
	if members != "" {
		members = "," + members
	}
	return decode(tb, record.KindNetworkPerson, fmt.Sprintf(`{"profile_id":%q,"last_updated":%q%s}`, id, version,
		members))
}

func TestReadModel_NewestVersionWinsInAnyOrder(t *testing.T) {
	s := openStore(t)
	versions := []*record.Record{
		person(t, "p", "2024", `"username":"old","emails":["old@x.example"]`),
		person(t, "p", "2025-06", `"username":"newer"`),
		person(t, "p", "2025-07-01T00:00:00Z", `"username":"newest","headline":"H","url":"https://x.example/p"`),
		person(t, "p", "2025-03", `"deleted":true`),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 12 {
		rec := versions[random.IntN(len(versions))]
		s.insert(fmt.Sprint("any ", i), rec)
	}
	for i, rec := range versions {
		s.insert(fmt.Sprint("each ", i), rec)
	}
	for range 2 {
		rows := s.networkPeople("p", "absent")
		require.Len(t, rows, 1)
		require.Equal(t, "newest", rows[0].UsernameKey)
		require.Equal(t, "2025-07-01T00:00:00Z", record.Version(rows[0].Version).String())
		require.False(t, rows[0].Deleted)
		require.Equal(t, int64(versions[2].Version), rows[0].Version)
		require.JSONEq(t, `{"profile_id":"p","network_username":"newest","network_url":"https://x.example/p","profile":{"headline":"H"}}`, members(rows[0], readmodel.ShapeEnrich))
		require.JSONEq(t, `{"profile_id":"p","username":"newest","headline":"H","url":"https://x.example/p"}`,
			members(rows[0], readmodel.ShapeWebset))
		require.Equal(t, members(rows[0], readmodel.ShapeWebset), members(rows[0], readmodel.ShapeOpen))
		require.NoError(t, s.conn.Exec(t.Context(), "OPTIMIZE TABLE network_people FINAL"))
	}
	require.EqualValues(t, 1, s.count("SELECT count() FROM network_people"))

	s.insert("gone", person(t, "p", "2026", `"deleted":true`))
	rows := s.networkPeople("p")
	require.Len(t, rows, 1)
	require.True(t, rows[0].Deleted)
	require.Equal(t, "{}", members(rows[0], readmodel.ShapeEnrich))
	// An older version that arrives after the deletion restores nothing.
	s.insert("late", versions[1])
	require.True(t, s.networkPeople("p")[0].Deleted)
}

// members returns the object of a shape.
func members(r readmodel.NetworkPersonRow, shape readmodel.Shape) string {
	return string(append(r.Append([]byte{'{'}, shape, false), '}'))
}

func TestReadModel_GreaterHashWinsAmongEqualVersions(t *testing.T) {
	s := openStore(t)
	recs := []*record.Record{person(t, "p", "2025", `"username":"a"`), person(t, "p", "2025", `"username":"b"`),
		person(t, "p", "2025", `"username":"c"`)}
	want := slices.MaxFunc(recs, func(a, b *record.Record) int {
		if a.Hash < b.Hash {
			return -1
		}
		return 1
	}).Body.(*record.NetworkPerson).Username
	for i, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		for _, n := range order {
			s.insert(fmt.Sprint(i, n), recs[n])
			if i == 0 && n == 2 {
				require.NoError(t, s.conn.Exec(t.Context(), "OPTIMIZE TABLE network_people FINAL"))
			}
		}
		require.Equal(t, want, s.networkPeople("p")[0].UsernameKey)
	}
}

// ranked returns records of one identity in ascending order: version, mapping revision, deletion, content
// hash.
func ranked(t *testing.T, id string) []*record.Record {
	a, b := person(t, id, "2025", `"username":"a"`), person(t, id, "2025", `"username":"b"`)
	if a.Hash > b.Hash {
		a, b = b, a
	}
	again := func(r *record.Record, revision uint32) *record.Record {
		copied := *r
		copied.Revision = revision
		return &copied
	}
	gone := person(t, id, "2025", `"deleted":true`)
	return []*record.Record{
		person(t, id, "2024-12-31T23:59:59.999999Z", `"username":"before"`), a, b, gone,
		again(a, 1), again(b, 1), again(gone, 1), again(a, 2), again(a, 4294967295),
		person(t, id, "2025-01-01T00:00:00.000001Z", `"username":"after"`),
	}
}

func TestReadModel_OrderIsVersionRevisionDeletionHash(t *testing.T) {
	s := openStore(t)
	n := len(ranked(t, "p"))
	id := func(newest, order int) string { return fmt.Sprintf("p-%d-%d", newest, order) }
	for step := range n {
		var recs []*record.Record
		for newest := 1; newest < n; newest++ {
			for order, at := range []int{step, n - 1 - step} {
				if at <= newest {
					recs = append(recs, ranked(t, id(newest, order))[at])
				}
			}
		}
		s.insert(fmt.Sprint(step), recs...)
	}
	for _, merged := range []bool{false, true} {
		if merged {
			require.NoError(t, s.conn.Exec(t.Context(), "OPTIMIZE TABLE network_people FINAL"))
		}
		for newest := 1; newest < n; newest++ {
			for order := range 2 {
				id := id(newest, order)
				want := ranked(t, id)[newest]
				row := s.networkPeople(id)[0]
				require.Equal(t, want.Deleted, row.Deleted, id)
				require.Equal(t, want.Hash, row.ContentHash, id)
				require.Equal(t, int64(want.Version), row.Version, id)
				require.Equal(t, want.Revision, row.Revision, id)
			}
		}
	}
}

func TestLookups(t *testing.T) {
	s := openStore(t)
	s.insert("1",
		person(t, "p_1", "2025", `"username":"Ann","emails":["A@x.example"],"codehost_username":"annhub"`),
		person(t, "p_2", "2026", `"username":"bob","emails":["a@x.example"]`),
		decode(t, record.KindCodehostPerson,
			`{"user_id":7,"last_updated":"2025","codehost_username":"AnnHub","network_username":"ANN"}`),
		decode(t, record.KindNetworkCompany,
			`{"company_id":"c","last_updated":"2025","network_slug":"Acme","network_id":"99"}`),
		decode(t, record.KindAccountLink,
			`{"a":{"platform":"network","username":"Bob"},"b":{"platform":"codehost","username":"BobHub"},"source":"s","observed_at":"2025","confidence":0.25}`),
	)
	s.insert("2", // Ann was renamed, and Bob took her old username.
		person(t, "p_1", "2026-02", `"username":"ann-2","emails":["a@x.example"]`),
		person(t, "p_2", "2026-03", `"username":"ann"`),
	)
	targets := func(t readmodel.LookupType, value string) []string {
		var out []string
		for _, r := range s.lookup(t, value) {
			if r.Type == string(t) && r.Value == value {
				out = append(out, r.TargetKind+" "+r.Target)
			}
		}
		slices.Sort(out)
		return out
	}
	require.Equal(t, []string{"network-person p_1", "network-person p_2"}, targets(readmodel.LookupNetworkUsername,
		"ann"))
	require.Equal(t, []string{"network-person p_1"}, targets(readmodel.LookupNetworkUsername, "ann-2"))
	require.Equal(t, []string{"network-person p_1", "network-person p_2"}, targets(readmodel.LookupNetworkEmail,
		"a@x.example"))
	require.Equal(t, []string{"codehost-person 7"}, targets(readmodel.LookupCodehostUsername, "annhub"))
	require.Equal(t, []string{"codehost-person 7"}, targets(readmodel.LookupCodehostNetworkUsername, "ann"))
	require.Equal(t, []string{"network-person p_1"}, targets(readmodel.LookupNetworkCodehostUsername, "annhub"))
	require.Equal(t, []string{"network-company c"}, targets(readmodel.LookupCompanySlug, "acme"))
	require.Equal(t, []string{"network-company c"}, targets(readmodel.LookupCompanyNetworkID, "99"))
	require.Equal(t, []string{"account codehost:bobhub"}, targets(readmodel.LookupLinkNetwork, "bob"))
	require.Equal(t, []string{"account network:bob"}, targets(readmodel.LookupLink("codehost"), "bobhub"))
	link := s.lookup(readmodel.LookupLinkNetwork, "bob")[0]
	require.InDelta(t, 0.25, link.Confidence, 1e-6)
	require.Equal(t, "s", link.Source)

	companies := query(s, readmodel.CompaniesQuery(), (*readmodel.CompanyRow).ScanDest, readmodel.CompanyHash("c"))
	require.Len(t, companies, 1)
	require.JSONEq(t, `{"company_id":"c","network_slug":"Acme","network_id":"99"}`, "{"+companies[0].Company+"}")
	require.Equal(t, "acme", companies[0].SlugKey)

	s.insert("3", decode(t, record.KindAccountLink,
		`{"a":{"platform":"codehost","username":"bobhub"},"b":{"platform":"network","username":"bob"},"source":"s","observed_at":"2026","deleted":true}`))
	require.Empty(t, targets(readmodel.LookupLinkNetwork, "bob"))
	require.Empty(t, targets(readmodel.LookupLinkCodehost, "bobhub"))
}

func TestCodehostPeople(t *testing.T) {
	s := openStore(t)
	s.insert("1",
		decode(t, record.KindCodehostPerson,
			`{"user_id":7,"last_updated":"2025-02","codehost_username":"Ann","bio":"a@x.example","emails":["E@x.example"],"network_username":"Ann-1","microblog_username":"am","social_accounts":["https://network.example/in/ann-2"]}`),
		decode(t, record.KindCodehostPerson, `{"user_id":8,"last_updated":"2025","deleted":true}`),
	)
	rows := s.answers(7, 8, 9)
	require.Len(t, rows, 2)
	slices.SortFunc(rows, func(a, b readmodel.AnswerRow) int { return int(a.UserID - b.UserID) })
	row := rows[0]
	require.Equal(t, "2025-02-01T00:00:00Z", record.Version(row.Version).String())
	require.Equal(t, []string{"Ann", "ann", "Ann-1"}, []string{row.CodehostUsername, row.UsernameKey,
		row.NetworkUsername})
	require.Equal(t, []string{"e@x.example"}, row.EmailKeys)
	require.Equal(t, []string{"ann-1", "ann-2"}, row.NetworkUsernameKeys)
	bio, _ := readmodel.CodehostFieldMask("bio")
	blog, _ := readmodel.CodehostFieldMask("blog")
	require.NotZero(t, row.FieldMask()&bio)
	require.Zero(t, row.FieldMask()&blog)
	require.JSONEq(t, `{"user_id":7,"username":"Ann","url":"https://codehost.example/Ann","bio":"[e-mail removed]","derived":["url"]}`, account(row, readmodel.ShapeAddon))
	require.JSONEq(t, `{"user_id":7,"username":"Ann","url":"https://codehost.example/Ann","bio":"a@x.example","derived":["url"]}`, account(row, readmodel.ShapeOpen))
	require.Contains(t, account(row, readmodel.ShapeEnrich), `"emails_count":1`)
	require.Contains(t, account(row, readmodel.ShapeWebset), `"network_username":"Ann-1"`)
	require.Empty(t, s.entries("repos", readmodel.ShapeWebset, row))
	require.True(t, rows[1].Deleted)
	require.Equal(t, "{}", account(rows[1], readmodel.ShapeEnrich))
}

// owner returns the record of an account without other fields than its lists.
func owner(tb testing.TB, user int) *record.Record {
	return decode(tb, record.KindCodehostPerson,
		fmt.Sprintf(`{"user_id":%d,"last_updated":"2020","codehost_username":"ann"}`, user))
}

func repo(tb testing.TB, user, id int, updated, members string) *record.Record {
	return decode(tb, record.KindCodehostRepo, fmt.Sprintf(`{"user_id":%d,"id":%d,"updated_at":%q%s}`, user, id,
		updated, members))
}

func repoList(tb testing.TB, user int, updated string, ids ...string) *record.Record {
	items := ""
	if len(ids) > 0 {
		items = `,"items":["` + strings.Join(ids, `","`) + `"]`
	}
	return decode(tb, record.KindCodehostList, fmt.Sprintf(`{"user_id":%d,"list":"repos","last_updated":%q%s}`, user,
		updated, items))
}

// ids lists the "id" members of entries.
func ids(entries []string) string {
	var out []string
	for _, e := range entries {
		id, _, _ := strings.Cut(strings.TrimPrefix(e, `"id":`), ",")
		out = append(out, id)
	}
	return strings.Join(out, " ")
}

func TestAnswers_ShowVisibleEntries(t *testing.T) {
	tests := []struct {
		name    string
		records func(tb testing.TB, user int) []*record.Record
		want    string
	}{
		{"newest first, then by id", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 3, "2024", ""), repo(tb, u, 1, "2025", ""), repo(tb, u, 2, "2024", "")}
		}, "1 2 3"},
		{"deleted", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 1, "2024", ""), repo(tb, u, 2, "2024", ""),
				repo(tb, u, 1, "2025", `,"deleted":true`)}
		}, "2"},
		{"a complete list withdraws what it lacks", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 1, "2024", ""), repo(tb, u, 2, "2024", ""),
				repoList(tb, u, "2025", "2")}
		}, "2"},
		{"but not what is newer", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 1, "2026", ""), repo(tb, u, 2, "2024", ""),
				repoList(tb, u, "2025", "9")}
		}, "1"},
		{"an entry as old as the list is withdrawn", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 1, "2025", ""), repoList(tb, u, "2025", "2")}
		}, ""},
		{"an empty list withdraws all", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 1, "2024", ""), repoList(tb, u, "2025")}
		}, ""},
		{"only the newest list counts", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 1, "2024", ""), repoList(tb, u, "2026", "1"),
				repoList(tb, u, "2025", "2")}
		}, "1"},
		{"a deleted entry stays away though the list has it", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{repo(tb, u, 1, "2024", `,"deleted":true`), repoList(tb, u, "2026", "1")}
		}, ""},
		{"a withdrawn list states nothing", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				repo(tb, u, 1, "2024", ""), repoList(tb, u, "2025", "2"),
				decode(tb, record.KindCodehostList,
					fmt.Sprintf(`{"user_id":%d,"list":"repos","last_updated":"2026","deleted":true}`, u)),
			}
		}, "1"},
		{"a list of commits is another list", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				repo(tb, u, 1, "2024", ""),
				decode(tb, record.KindCodehostList,
					fmt.Sprintf(`{"user_id":%d,"list":"commits","last_updated":"2026","items":[]}`, u)),
			}
		}, "1"},
	}
	s := openStore(t)
	users := make([]int64, len(tests))
	for i, tt := range tests { // All in the same tables and queries, to detect mixed-up accounts.
		users[i] = int64(i + 1)
		s.insert(fmt.Sprint(i), owner(t, i+1))
		for n, rec := range tt.records(t, i+1) {
			s.insert(fmt.Sprint(i, " ", n), rec)
		}
	}
	byUser := map[int64]readmodel.AnswerRow{}
	for _, r := range s.answers(users...) {
		byUser[r.UserID] = r
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			row := byUser[users[i]]
			require.Equal(t, tt.want, ids(s.entries("repos", readmodel.ShapeWebset, row)))
			require.EqualValues(t, len(strings.Fields(tt.want)), row.Repos)
		})
	}
}

func TestAnswers_ShowEntriesByShape(t *testing.T) {
	s := openStore(t)
	s.insert("1", owner(t, 7),
		repo(t, 7, 1, "2024", `,"description":"a@b.example"`), repo(t, 7, 2, "2023", `,"description":"none"`),
		decode(t, record.KindCodehostCommit,
			`{"user_id":7,"sha":"b","author_date":"2024","author_email":"a@b.example"}`),
		decode(t, record.KindCodehostCommit, `{"user_id":7,"sha":"a","author_date":"2024"}`),
	)
	row := s.answers(7)[0]
	full := []string{`"id":1,"description":"a@b.example","updated_at":"2024"`,
		`"id":2,"description":"none","updated_at":"2023"`}
	require.Equal(t, full, s.entries("repos", readmodel.ShapeWebset, row))
	require.Equal(t, full, s.entries("repos", readmodel.ShapeOpen, row))
	require.Equal(t, []string{`"id":1,"description":"[e-mail removed]","updated_at":"2024"`, full[1]},
		s.entries("repos", readmodel.ShapeAddon, row))
	const shown = `,"owner":{"user_id":7,"codehost_username":"ann"`
	require.Equal(t, []string{
		`"repo_id":1,"description":"a@b.example","updated_at":"2024-01-01"` + shown,
		`"repo_id":2,"description":"none","updated_at":"2023-01-01"` + shown,
	}, s.entries("repos", readmodel.ShapeEnrich, row))
	full = []string{`"sha":"a","author_date":"2024"`, `"sha":"b","author_email":"a@b.example","author_date":"2024"`}
	for _, shape := range []readmodel.Shape{readmodel.ShapeEnrich, readmodel.ShapeWebset, readmodel.ShapeOpen} {
		require.Equal(t, full, s.entries("commits", shape, row))
	}
	require.Equal(t, []string{full[0], `"sha":"b","author_date":"2024"`}, s.entries("commits", readmodel.ShapeAddon,
		row))
}

// An account of 10,000 repositories, 9,000 of them on its complete list.
func TestAnswers_BuildLargeAccount(t *testing.T) {
	s := openStore(t)
	var recs []*record.Record
	var items []string
	for i := range 10_000 {
		recs = append(recs, repo(t, 7, i, fmt.Sprintf("2020-01-01T%02d:%02d:%02dZ", i/3600, i/60%60, i%60),
			`,"description":"`+strings.Repeat("d", 300)+`"`))
		if i < 9_000 {
			items = append(items, fmt.Sprint(i))
		}
	}
	s.insert("1", append(recs, owner(t, 7), repoList(t, 7, "2021", items...))...)
	for _, large := range []bool{false, true} {
		touch := readmodel.Touch{UserID: 7, Offset: time.Now().UnixNano()}
		require.NoError(t, readmodel.BuildAnswers(t.Context(), s.conn, readmodel.Builds{Large: large},
			[]readmodel.Touch{touch}))
		row := s.answers(7)[0]
		require.Equal(t, touch.Offset, row.Touch)
		require.EqualValues(t, 9_000, row.Repos)
		shown := s.entries("repos", readmodel.ShapeWebset, row)
		require.Len(t, shown, readmodel.MaxEntries)
		require.True(t, strings.HasPrefix(shown[0], `"id":8999,`), shown[0])
		require.True(t, strings.HasPrefix(shown[99], `"id":8900,`))
	}
}

// Repeating a batch with the same token inserts nothing; with another token it inserts again without a change
// in results.
func TestInsert_DeduplicatesByToken(t *testing.T) {
	s := openStore(t)
	rec := person(t, "p", "2025", `"username":"ann"`)
	s.insert("token", rec)
	s.insert("token", rec)
	require.EqualValues(t, 1, s.count("SELECT count() FROM network_people"))
	require.EqualValues(t, 1, s.count("SELECT count() FROM lookups WHERE type = 'network.username'"))
	s.insert("other", rec)
	require.EqualValues(t, 2, s.count("SELECT count() FROM network_people"))
	require.EqualValues(t, 1, s.count("SELECT count() FROM network_people FINAL"))
}

func TestCounts(t *testing.T) {
	s := openStore(t)
	s.insert("1", person(t, "p", "2025", `"username":"ann"`), person(t, "q", "2026", `"deleted":true`),
		person(t, "r", "2024", `"username":"r"`))
	s.insert("2", person(t, "p", "2025-02", `"username":"ann"`))
	counts, err := readmodel.Counts(t.Context(), s.conn)
	require.NoError(t, err)
	require.Len(t, counts, len(readmodel.Tables()))
	for _, c := range counts {
		switch c.Table {
		case "network_people":
			require.EqualValues(t, 2, c.Rows)
			require.NotZero(t, c.Parts)
			require.NotZero(t, c.Bytes)
			require.Equal(t, "2025-02-01T00:00:00Z", record.Version(c.Current).String())
		case "lookups":
			require.EqualValues(t, 3, c.Rows) // two usernames, and the blocking key of the longer one
		case "search_people":
			require.EqualValues(t, 2, c.Rows)
		default:
			require.Zero(t, c.Rows, c.Table)
		}
	}
}

// Rows of every table are read back as rendered.
func TestInsert_RoundTripsRowsOfAllTables(t *testing.T) {
	s := openStore(t)
	s.insert("1",
		decode(t, record.KindMicroblogPerson,
			`{"user_id":"m1","last_updated":"2025","username":"Ann","name":"A","bio":"B","location":"L","website":"W","avatar_url":"V","followers":3,"created_at":"2011","account_type":"personal"}`),
		decode(t, record.KindMicroblogPerson, `{"user_id":"m2","last_updated":"2025","deleted":true}`),
	)
	var text string
	require.NoError(t, s.conn.QueryRow(t.Context(),
		`SELECT concat(user_id, username, username_key, name, bio, location, website, avatar_url, toString(followers), ifNull(toString(following), '-'), created_at, account_type)
		FROM microblog_people FINAL WHERE NOT deleted AND user_hash = `+fmt.Sprint(readmodel.MicroblogHash("m1"))).Scan(&text))
	require.Equal(t, "m1AnnannABLWV3-2011personal", text)
}
