package recount_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/projector/recount"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// person has the titles of a person's jobs.
func person(t *testing.T, id int, version string, titles ...string) *record.Record {
	t.Helper()
	jobs := ""
	for i, title := range titles {
		quoted, err := json.Marshal(title)
		require.NoError(t, err)
		if i > 0 {
			jobs += ","
		}
		jobs += fmt.Sprintf(`{"title":%s,"start":"2020"}`, quoted)
	}
	return projectortest.Decode(t, record.KindNetworkPerson, fmt.Sprintf(
		`{"profile_id":"p%d","username":"p%[1]d","last_updated":%q,"full_name":"Ann Lee","experience":[%s]}`,
		id, version, jobs))
}

func suggest(t *testing.T, s *projectortest.Store, prefix string, limit int) []readmodel.Suggestion {
	t.Helper()
	found, err := readmodel.Suggest(t.Context(), s.Conn, "experience.title", prefix, limit)
	require.NoError(t, err)
	return found
}

func refresh(t *testing.T, s *projectortest.Store) bool {
	t.Helper()
	done, err := recount.RefreshSuggestions(t.Context(), s.Conn, 0, time.Now())
	require.NoError(t, err)
	return done
}

func insertPeople(t *testing.T, s *projectortest.Store) {
	t.Helper()
	var recs []*record.Record
	for i := range 5 {
		recs = append(recs, person(t, i, "2024", "Écrivain", "Écrivain"))
	}
	for i := range 4 {
		recs = append(recs, person(t, 10+i, "2024", "écrivain", "Editor's \\ \"aide\"\t100%", "ECB"))
	}
	for i := range 2 {
		recs = append(recs, person(t, 20+i, "2024", "Eccentric"))
	}
	s.Insert("people", recs...)
}

func checkPeople(t *testing.T, s *projectortest.Store) {
	t.Helper()
	require.Equal(t, []readmodel.Suggestion{
		{Value: "Écrivain", Count: 5}, {Value: "ECB", Count: 4}, {Value: "écrivain", Count: 4},
	}, suggest(t, s, "EC", 50), "most frequent first, then by value, without values of fewer than 3 people")
	require.Equal(t, []readmodel.Suggestion{{Value: "Écrivain", Count: 5}}, suggest(t, s, "éç", 1))
	require.Equal(t, []readmodel.Suggestion{{Value: "Editor's \\ \"aide\"\t100%", Count: 4}},
		suggest(t, s, "editor's \\ \"AIDE\"\t1", 5))
	require.Len(t, suggest(t, s, "", 50), 4)
	require.Empty(t, suggest(t, s, "%", 50))
	require.NotNil(t, suggest(t, s, "nothing", 50))
}

func TestSuggestions_CountPeopleWithEachValue(t *testing.T) {
	s := projectortest.OpenStore(t)
	insertPeople(t, s)
	require.Empty(t, suggest(t, s, "", 50), "nothing is counted yet")
	require.True(t, refresh(t, s))
	checkPeople(t, s)
	found, err := readmodel.Suggest(t.Context(), s.Conn, "profile.full_name", "", 50)
	require.NoError(t, err)
	require.Empty(t, found, "names are not suggested")
}

func TestSuggestions_CountPeopleOfAllShardsOnce(t *testing.T) {
	s, nodes := projectortest.OpenCluster(t)
	insertPeople(t, s)
	require.True(t, refresh(t, s))
	checkPeople(t, s)
	require.False(t, refresh(t, s))
	s.Insert("more", person(t, 22, "2024", "Eccentric"))
	for range 2 {
		require.True(t, refresh(t, s))
		s.Insert(time.Now().String(), person(t, 23, time.Now().Format(time.RFC3339Nano), "Other"))
	}
	require.Len(t, suggest(t, s, "ec", 50), 4)
	for _, node := range nodes {
		var runs uint64
		require.NoError(t, node.QueryRow(t.Context(), "SELECT uniqExact(run) FROM suggestions_local").Scan(&runs))
		require.LessOrEqual(t, runs, uint64(2), "older runs are dropped")
	}
}

func TestSuggestions_LeaveOutWithdrawnAndErasedPeople(t *testing.T) {
	s := projectortest.OpenStore(t)
	insertPeople(t, s)
	require.True(t, refresh(t, s))
	require.False(t, refresh(t, s), "nothing has changed")
	s.Insert("withdrawn", projectortest.Decode(t, record.KindNetworkPerson,
		`{"profile_id":"p0","last_updated":"2025","deleted":true}`), person(t, 1, "2025", "Editor"))
	require.True(t, refresh(t, s))
	require.Equal(t, readmodel.Suggestion{Value: "Écrivain", Count: 3}, suggest(t, s, "écrivain", 50)[1])
	require.NoError(t, s.Conn.Exec(t.Context(), "DELETE FROM search_people WHERE profile_id = 'p2'"))
	require.True(t, refresh(t, s))
	require.Equal(t, []readmodel.Suggestion{{Value: "écrivain", Count: 4}}, suggest(t, s, "écrivain", 50))
	require.EqualValues(t, 2, s.Count("SELECT uniqExact(run) FROM suggestions"), "older runs are dropped")
}

// An interrupted run leaves rows without the one that completes it.
func TestSuggestions_CountLanguagesOfLinkedAccounts(t *testing.T) {
	s := projectortest.OpenStore(t)
	insertPeople(t, s)
	link := func(ver uint64, languages ...string) {
		var rows []readmodel.LinkedRow
		for i := range 4 {
			a := readmodel.Unlinked()
			a.UserID, a.Username, a.Languages = int64(i), "octo", languages
			rows = append(rows, readmodel.LinkedRow{ProfileID: fmt.Sprint("p", i), Ver: ver, Account: a})
		}
		require.NoError(t, readmodel.InsertLinked(t.Context(), s.Conn, rows))
	}
	link(1, "Go", "Zig", "Zig")
	link(2, "Go")
	s.Insert("withdrawn", projectortest.Person(t, "p0", "2025", `"deleted":true`))
	require.True(t, refresh(t, s))
	for prefix, want := range map[string][]readmodel.Suggestion{"g": {{Value: "Go", Count: 3}}, "z": {}} {
		found, err := readmodel.Suggest(t.Context(), s.Conn, "codehost.languages", prefix, 5)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	require.False(t, refresh(t, s))
	link(3, "Zig")
	require.True(t, refresh(t, s), "accounts have changed, people have not")
	for _, f := range readmodel.SuggestedFields() {
		require.NotEqual(t, "codehost.username", f.Path)
	}
}

func TestSuggestions_IncompleteRunsAreNotRead(t *testing.T) {
	s := projectortest.OpenStore(t)
	insertPeople(t, s)
	require.True(t, refresh(t, s))
	require.NoError(t, s.Conn.Exec(t.Context(), "INSERT INTO suggestions SELECT field, folded, value, people + 1, "+
		"run + 1 FROM suggestions WHERE field != ''"))
	checkPeople(t, s)
	s.Insert("more", person(t, 22, "2024", "Eccentric"))
	require.True(t, refresh(t, s))
	require.Len(t, suggest(t, s, "ec", 50), 4)
	s.Insert("again", person(t, 24, "2024", "Eccentric"))
	require.True(t, refresh(t, s))
	require.EqualValues(t, 2, s.Count("SELECT uniqExact(run) FROM suggestions"), "the rest of it is dropped")
}

func TestSuggestions_ReplicasSkipWhatAnotherHasJustCounted(t *testing.T) {
	s := projectortest.OpenStore(t)
	insertPeople(t, s)
	require.True(t, refresh(t, s))
	s.Insert("more", person(t, 22, "2024", "Eccentric"))
	done, err := recount.RefreshSuggestions(t.Context(), s.Conn, time.Hour, time.Now())
	require.NoError(t, err)
	require.False(t, done)
	ahead := readmodel.SuggestionState{Run: readmodel.NewSuggestionRun(time.Now().Add(time.Hour), 0)}
	require.NoError(t, readmodel.CountSuggestions(t.Context(), s.Conn, ahead))
	require.True(t, refresh(t, s), "a run of a clock that is ahead is no reason to skip")
	newest, err := readmodel.NewestSuggestions(t.Context(), s.Conn)
	require.NoError(t, err)
	require.Greater(t, newest.Run, ahead.Run)
}

func TestProjector_MaintainsSuggestions(t *testing.T) {
	h := projectortest.New(t)
	var recs []*record.Record
	for i := range 3 {
		recs = append(recs, person(t, i, "2024", "Editor"))
	}
	h.PublishRecords(recs...)
	h.Start(nil)
	projectortest.Eventually(t, func(context.Context) bool { return len(suggest(t, h.Store, "e", 1)) == 1 },
		"the title is suggested")
}
