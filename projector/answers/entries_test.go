package answers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestAnswers_ShowVisibleEntries(t *testing.T) {
	tests := []struct {
		name    string
		records func(tb testing.TB, user int) []*record.Record
		want    string
	}{
		{"newest first, then by id", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				projectortest.Repo(tb, u, 3, "2024", ""),
				projectortest.Repo(tb, u, 1, "2025", ""),
				projectortest.Repo(tb, u, 2, "2024", ""),
			}
		}, "1 2 3"},
		{"deleted", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{projectortest.Repo(tb, u, 1, "2024", ""), projectortest.Repo(tb, u, 2, "2024", ""),
				projectortest.Repo(tb, u, 1, "2025", `,"deleted":true`)}
		}, "2"},
		{"a complete list withdraws what it lacks", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{projectortest.Repo(tb, u, 1, "2024", ""), projectortest.Repo(tb, u, 2, "2024", ""),
				projectortest.RepoList(tb, u, "2025", "2")}
		}, "2"},
		{"but not what is newer", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{projectortest.Repo(tb, u, 1, "2026", ""), projectortest.Repo(tb, u, 2, "2024", ""),
				projectortest.RepoList(tb, u, "2025", "9")}
		}, "1"},
		{"an entry as old as the list is withdrawn", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				projectortest.Repo(tb, u, 1, "2025", ""),
				projectortest.RepoList(tb, u, "2025", "2"),
			}
		}, ""},
		{"an empty list withdraws all", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{projectortest.Repo(tb, u, 1, "2024", ""), projectortest.RepoList(tb, u, "2025")}
		}, ""},
		{"only the newest list counts", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				projectortest.Repo(tb, u, 1, "2024", ""),
				projectortest.RepoList(tb, u, "2026", "1"),
				projectortest.RepoList(tb, u, "2025", "2"),
			}
		}, "1"},
		{"a deleted entry stays away though the list has it", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				projectortest.Repo(tb, u, 1, "2024", `,"deleted":true`),
				projectortest.RepoList(tb, u, "2026", "1"),
			}
		}, ""},
		{"a withdrawn list states nothing", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				projectortest.Repo(tb, u, 1, "2024", ""), projectortest.RepoList(tb, u, "2025", "2"),
				projectortest.Decode(tb, record.KindCodehostList,
					fmt.Sprintf(`{"user_id":%d,"list":"repos","last_updated":"2026","deleted":true}`, u)),
			}
		}, "1"},
		{"a list of commits is another list", func(tb testing.TB, u int) []*record.Record {
			return []*record.Record{
				projectortest.Repo(tb, u, 1, "2024", ""),
				projectortest.Decode(tb, record.KindCodehostList,
					fmt.Sprintf(`{"user_id":%d,"list":"commits","last_updated":"2026","items":[]}`, u)),
			}
		}, "1"},
	}
	s := projectortest.OpenStore(t)
	users := make([]int64, len(tests))
	for i, tt := range tests { // All in the same tables and queries, to detect mixed-up accounts.
		users[i] = int64(i + 1)
		s.Insert(fmt.Sprint(i), projectortest.Owner(t, i+1))
		for n, rec := range tt.records(t, i+1) {
			s.Insert(fmt.Sprint(i, " ", n), rec)
		}
	}
	byUser := map[int64]readmodel.AnswerRow{}
	for _, r := range s.Answers(users...) {
		byUser[r.UserID] = r
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			row := byUser[users[i]]
			require.Equal(t, tt.want, projectortest.IDs(s.Entries("repos", readmodel.ShapeWebset, row)))
			require.EqualValues(t, len(strings.Fields(tt.want)), row.Repos)
		})
	}
}

func TestAnswers_ShowEntriesByShape(t *testing.T) {
	s := projectortest.OpenStore(t)
	s.Insert(
		"1",
		projectortest.Owner(t, 7),
		projectortest.Repo(
			t,
			7,
			1,
			"2024",
			`,"description":"a@b.example"`,
		),
		projectortest.Repo(t, 7, 2, "2023", `,"description":"none"`),
		projectortest.Decode(t, record.KindCodehostCommit,
			`{"user_id":7,"sha":"b","author_date":"2024","author_email":"a@b.example"}`),
		projectortest.Decode(t, record.KindCodehostCommit, `{"user_id":7,"sha":"a","author_date":"2024"}`),
	)
	row := s.Answers(7)[0]
	full := []string{`"id":1,"description":"a@b.example","updated_at":"2024"`,
		`"id":2,"description":"none","updated_at":"2023"`}
	require.Equal(t, full, s.Entries("repos", readmodel.ShapeWebset, row))
	require.Equal(t, full, s.Entries("repos", readmodel.ShapeOpen, row))
	require.Equal(t, []string{`"id":1,"description":"[e-mail removed]","updated_at":"2024"`, full[1]},
		s.Entries("repos", readmodel.ShapeAddon, row))
	const shown = `,"owner":{"user_id":7,"codehost_username":"ann"`
	require.Equal(t, []string{
		`"repo_id":1,"description":"a@b.example","updated_at":"2024-01-01"` + shown,
		`"repo_id":2,"description":"none","updated_at":"2023-01-01"` + shown,
	}, s.Entries("repos", readmodel.ShapeEnrich, row))
	full = []string{`"sha":"a","author_date":"2024"`, `"sha":"b","author_email":"a@b.example","author_date":"2024"`}
	for _, shape := range []readmodel.Shape{readmodel.ShapeEnrich, readmodel.ShapeWebset, readmodel.ShapeOpen} {
		require.Equal(t, full, s.Entries("commits", shape, row))
	}
	require.Equal(t, []string{full[0], `"sha":"b","author_date":"2024"`}, s.Entries("commits", readmodel.ShapeAddon,
		row))
}

// An account of 10,000 repositories, 9,000 of them on its complete list.
func TestAnswers_BuildLargeAccount(t *testing.T) {
	s := projectortest.OpenStore(t)
	var recs []*record.Record
	var items []string
	for i := range 10_000 {
		recs = append(
			recs,
			projectortest.Repo(t, 7, i, fmt.Sprintf("2020-01-01T%02d:%02d:%02dZ", i/3600, i/60%60, i%60),
				`,"description":"`+strings.Repeat("d", 300)+`"`),
		)
		if i < 9_000 {
			items = append(items, fmt.Sprint(i))
		}
	}
	s.Insert("1", append(recs, projectortest.Owner(t, 7), projectortest.RepoList(t, 7, "2021", items...))...)
	for _, large := range []bool{false, true} {
		touch := readmodel.Touch{UserID: 7, Offset: time.Now().UnixNano()}
		require.NoError(t, readmodel.BuildAnswers(t.Context(), s.Conn, readmodel.Builds{Large: large},
			[]readmodel.Touch{touch}))
		row := s.Answers(7)[0]
		require.Equal(t, touch.Offset, row.Touch)
		require.EqualValues(t, 9_000, row.Repos)
		shown := s.Entries("repos", readmodel.ShapeWebset, row)
		require.Len(t, shown, readmodel.MaxEntries)
		require.True(t, strings.HasPrefix(shown[0], `"id":8999,`), shown[0])
		require.True(t, strings.HasPrefix(shown[99], `"id":8900,`))
	}
}
