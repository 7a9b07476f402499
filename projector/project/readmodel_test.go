package project_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestReadModel_NewestVersionWinsInAnyOrder(t *testing.T) {
	s := projectortest.OpenStore(t)
	versions := []*record.Record{
		projectortest.Person(t, "p", "2024", `"username":"old","emails":["old@x.example"]`),
		projectortest.Person(t, "p", "2025-06", `"username":"newer"`),
		projectortest.Person(
			t,
			"p",
			"2025-07-01T00:00:00Z",
			`"username":"newest","headline":"H","url":"https://x.example/p"`,
		),
		projectortest.Person(t, "p", "2025-03", `"deleted":true`),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 12 {
		rec := versions[random.IntN(len(versions))]
		s.Insert(fmt.Sprint("any ", i), rec)
	}
	for i, rec := range versions {
		s.Insert(fmt.Sprint("each ", i), rec)
	}
	for range 2 {
		rows := s.NetworkPeople("p", "absent")
		require.Len(t, rows, 1)
		require.Equal(t, "newest", rows[0].UsernameKey)
		require.Equal(t, "2025-07-01T00:00:00Z", record.Version(rows[0].Version).String())
		require.False(t, rows[0].Deleted)
		require.Equal(t, int64(versions[2].Version), rows[0].Version)
		require.JSONEq(
			t,
			`{"profile_id":"p","network_username":"newest","network_url":"https://x.example/p",`+
				`"profile":{"headline":"H"}}`,
			projectortest.Members(rows[0], readmodel.ShapeEnrich),
		)
		require.JSONEq(t, `{"profile_id":"p","username":"newest","headline":"H","url":"https://x.example/p"}`,
			projectortest.Members(rows[0], readmodel.ShapeWebset))
		require.Equal(
			t,
			projectortest.Members(rows[0], readmodel.ShapeWebset),
			projectortest.Members(rows[0], readmodel.ShapeOpen),
		)
		require.NoError(t, s.Conn.Exec(t.Context(), "OPTIMIZE TABLE network_people FINAL"))
	}
	require.EqualValues(t, 1, s.Count("SELECT count() FROM network_people"))

	s.Insert("gone", projectortest.Person(t, "p", "2026", `"deleted":true`))
	rows := s.NetworkPeople("p")
	require.Len(t, rows, 1)
	require.True(t, rows[0].Deleted)
	require.Equal(t, "{}", projectortest.Members(rows[0], readmodel.ShapeEnrich))
	// An older version that arrives after the deletion restores nothing.
	s.Insert("late", versions[1])
	require.True(t, s.NetworkPeople("p")[0].Deleted)
}

func TestReadModel_GreaterHashWinsAmongEqualVersions(t *testing.T) {
	s := projectortest.OpenStore(t)
	recs := []*record.Record{
		projectortest.Person(t, "p", "2025", `"username":"a"`),
		projectortest.Person(t, "p", "2025", `"username":"b"`),
		projectortest.Person(t, "p", "2025", `"username":"c"`),
	}
	want := slices.MaxFunc(recs, func(a, b *record.Record) int {
		if a.Hash < b.Hash {
			return -1
		}
		return 1
	}).Body.(*record.NetworkPerson).Username
	for i, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		for _, n := range order {
			s.Insert(fmt.Sprint(i, n), recs[n])
			if i == 0 && n == 2 {
				require.NoError(t, s.Conn.Exec(t.Context(), "OPTIMIZE TABLE network_people FINAL"))
			}
		}
		require.Equal(t, want, s.NetworkPeople("p")[0].UsernameKey)
	}
}

func TestReadModel_OrderIsVersionRevisionDeletionHash(t *testing.T) {
	s := projectortest.OpenStore(t)
	n := len(projectortest.Ranked(t, "p"))
	id := func(newest, order int) string { return fmt.Sprintf("p-%d-%d", newest, order) }
	for step := range n {
		var recs []*record.Record
		for newest := 1; newest < n; newest++ {
			for order, at := range []int{step, n - 1 - step} {
				if at <= newest {
					recs = append(recs, projectortest.Ranked(t, id(newest, order))[at])
				}
			}
		}
		s.Insert(fmt.Sprint(step), recs...)
	}
	for _, merged := range []bool{false, true} {
		if merged {
			require.NoError(t, s.Conn.Exec(t.Context(), "OPTIMIZE TABLE network_people FINAL"))
		}
		for newest := 1; newest < n; newest++ {
			for order := range 2 {
				id := id(newest, order)
				want := projectortest.Ranked(t, id)[newest]
				row := s.NetworkPeople(id)[0]
				require.Equal(t, want.Deleted, row.Deleted, id)
				require.Equal(t, want.Hash, row.ContentHash, id)
				require.Equal(t, int64(want.Version), row.Version, id)
				require.Equal(t, want.Revision, row.Revision, id)
			}
		}
	}
}

func TestLookups_ResolveRenamesAndLinks(t *testing.T) {
	s := projectortest.OpenStore(t)
	s.Insert(
		"1",
		projectortest.Person(
			t,
			"p_1",
			"2025",
			`"username":"Ann","emails":["A@x.example"],"codehost_username":"annhub"`,
		),
		projectortest.Person(t, "p_2", "2026", `"username":"bob","emails":["a@x.example"]`),
		projectortest.Decode(t, record.KindCodehostPerson,
			`{"user_id":7,"last_updated":"2025","codehost_username":"AnnHub","network_username":"ANN"}`),
		projectortest.Decode(t, record.KindNetworkCompany,
			`{"company_id":"c","last_updated":"2025","network_slug":"Acme","network_id":"99"}`),
		projectortest.Decode(
			t,
			record.KindAccountLink,
			`{"a":{"platform":"network","username":"Bob"},"b":{"platform":"codehost","username":"BobHub"},`+
				`"source":"s","observed_at":"2025","confidence":0.25}`,
		),
	)
	s.Insert("2", // Ann was renamed, and Bob took her old username.
		projectortest.Person(t, "p_1", "2026-02", `"username":"ann-2","emails":["a@x.example"]`),
		projectortest.Person(t, "p_2", "2026-03", `"username":"ann"`),
	)
	targets := func(t readmodel.LookupType, value string) []string {
		var out []string
		for _, r := range s.Lookup(t, value) {
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
	link := s.Lookup(readmodel.LookupLinkNetwork, "bob")[0]
	require.InDelta(t, 0.25, link.Confidence, 1e-6)
	require.Equal(t, "s", link.Source)

	companies := projectortest.Query(
		s,
		readmodel.CompaniesQuery(),
		(*readmodel.CompanyRow).ScanDest,
		readmodel.CompanyHash("c"),
	)
	require.Len(t, companies, 1)
	require.JSONEq(t, `{"company_id":"c","network_slug":"Acme","network_id":"99"}`, "{"+companies[0].Company+"}")
	require.Equal(t, "acme", companies[0].SlugKey)

	s.Insert("3", projectortest.Decode(
		t,
		record.KindAccountLink,
		`{"a":{"platform":"codehost","username":"bobhub"},"b":{"platform":"network","username":"bob"},"source":"s",`+
			`"observed_at":"2026","deleted":true}`,
	))
	require.Empty(t, targets(readmodel.LookupLinkNetwork, "bob"))
	require.Empty(t, targets(readmodel.LookupLinkCodehost, "bobhub"))
}

func TestCodehostPeople_RoundTripAllFields(t *testing.T) {
	s := projectortest.OpenStore(t)
	s.Insert("1",
		projectortest.Decode(
			t,
			record.KindCodehostPerson,
			`{"user_id":7,"last_updated":"2025-02","codehost_username":"Ann","bio":"a@x.example",`+
				`"emails":["E@x.example"],"network_username":"Ann-1","microblog_username":"am",`+
				`"social_accounts":["https://network.example/in/ann-2"]}`,
		),
		projectortest.Decode(t, record.KindCodehostPerson, `{"user_id":8,"last_updated":"2025","deleted":true}`),
	)
	rows := s.Answers(7, 8, 9)
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
	require.JSONEq(
		t,
		`{"user_id":7,"username":"Ann","url":"https://codehost.example/Ann","bio":"[e-mail removed]",`+
			`"derived":["url"]}`,
		projectortest.Account(row, readmodel.ShapeAddon),
	)
	require.JSONEq(
		t,
		`{"user_id":7,"username":"Ann","url":"https://codehost.example/Ann","bio":"a@x.example","derived":["url"]}`,
		projectortest.Account(row, readmodel.ShapeOpen),
	)
	require.Contains(t, projectortest.Account(row, readmodel.ShapeEnrich), `"emails_count":1`)
	require.Contains(t, projectortest.Account(row, readmodel.ShapeWebset), `"network_username":"Ann-1"`)
	require.Empty(t, s.Entries("repos", readmodel.ShapeWebset, row))
	require.True(t, rows[1].Deleted)
	require.Equal(t, "{}", projectortest.Account(rows[1], readmodel.ShapeEnrich))
}

// Repeating a batch with the same token inserts nothing; with another token it inserts again without a change
// in results.
func TestInsert_DeduplicatesByToken(t *testing.T) {
	s := projectortest.OpenStore(t)
	rec := projectortest.Person(t, "p", "2025", `"username":"ann"`)
	s.Insert("token", rec)
	s.Insert("token", rec)
	require.EqualValues(t, 1, s.Count("SELECT count() FROM network_people"))
	require.EqualValues(t, 1, s.Count("SELECT count() FROM lookups WHERE type = 'network.username'"))
	s.Insert("other", rec)
	require.EqualValues(t, 2, s.Count("SELECT count() FROM network_people"))
	require.EqualValues(t, 1, s.Count("SELECT count() FROM network_people FINAL"))
}

// An account gets hints for the usernames that it names, whatever is inserted first or at the same time.
func TestInsert_WritesHintsInAnyOrder(t *testing.T) {
	s := projectortest.OpenStore(t)
	person := projectortest.Person(t, "p", "2025", `"username":"net","codehost_username":"dev"`)
	account := projectortest.Decode(t, record.KindCodehostPerson,
		`{"user_id":1,"codehost_username":"dev","last_updated":"2025"}`)
	named := projectortest.Decode(t, record.KindCodehostPerson,
		`{"user_id":2,"codehost_username":"other","network_username":"net","last_updated":"2025"}`)
	link := projectortest.Decode(t, record.KindAccountLink, `{"a":{"platform":"codehost","username":"third"},`+
		`"b":{"platform":"network","username":"net"},"source":"s","observed_at":"2025"}`)
	withdrawn := projectortest.Decode(t, record.KindAccountLink, `{"a":{"platform":"codehost","username":"fourth"},`+
		`"b":{"platform":"network","username":"net"},"source":"s","observed_at":"2026","deleted":true}`)
	records := []*record.Record{person, account, named, link, withdrawn}
	want := []string{"hint.codehost dev > 1 of net p", "hint.network net > p of fourth",
		"hint.network net > p of other 2", "hint.network net > p of third"}
	requireHints := func() {
		t.Helper()
		var got []string
		query := "SELECT arraySort(groupArray(concat(type, ' ', value, ' > ', target, ' of ', source))) " +
			"FROM lookups FINAL WHERE startsWith(type, 'hint.') AND NOT deleted AND key_hash = xxHash64(concat(" +
			"if(type = 'hint.network', 'codehost', 'network'), ' username', char(0), splitByChar(' ', source)[1]))"
		require.NoError(t, s.Conn.QueryRow(t.Context(), query).Scan(&got))
		require.Equal(t, want, got)
		require.NoError(t, s.Conn.Exec(t.Context(), "DELETE FROM lookups WHERE 1"))
	}
	s.Insert("together", records...)
	requireHints()
	for _, rec := range records {
		s.Insert("one "+string(rec.Kind)+rec.Key, rec)
	}
	requireHints()
	slices.Reverse(records)
	for _, rec := range records {
		s.Insert("reverse "+string(rec.Kind)+rec.Key, rec)
	}
	requireHints()
	for round := range 5 {
		var inserting sync.WaitGroup
		for _, rec := range records {
			inserting.Go(func() { s.Insert(fmt.Sprint("parallel ", round, rec.Kind, rec.Key), rec) })
		}
		inserting.Wait()
		requireHints()
	}
}

func TestCounts_ExcludeDeletedRows(t *testing.T) {
	s := projectortest.OpenStore(t)
	s.Insert(
		"1",
		projectortest.Person(t, "p", "2025", `"username":"ann"`),
		projectortest.Person(t, "q", "2026", `"deleted":true`),
		projectortest.Person(t, "r", "2024", `"username":"r"`),
	)
	s.Insert("2", projectortest.Person(t, "p", "2025-02", `"username":"ann"`))
	counts, err := readmodel.Counts(t.Context(), s.Conn)
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
	s := projectortest.OpenStore(t)
	s.Insert("1",
		projectortest.Decode(
			t,
			record.KindMicroblogPerson,
			`{"user_id":"m1","last_updated":"2025","username":"Ann","name":"A","bio":"B","location":"L",`+
				`"website":"W","avatar_url":"V","followers":3,"created_at":"2011","account_type":"personal"}`,
		),
		projectortest.Decode(t, record.KindMicroblogPerson, `{"user_id":"m2","last_updated":"2025","deleted":true}`),
	)
	var text string
	require.NoError(t, s.Conn.QueryRow(
		t.Context(),
		`SELECT concat(user_id, username, username_key, name, bio, location, website, avatar_url,
			toString(followers), ifNull(toString(following), '-'), created_at, account_type)
		FROM microblog_people FINAL WHERE NOT deleted AND user_hash = `+fmt.Sprint(
			readmodel.MicroblogHash("m1"),
		),
	).Scan(&text))
	require.Equal(t, "m1AnnannABLWV3-2011personal", text)
}
