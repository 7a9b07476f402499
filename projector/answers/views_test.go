package answers_test

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// Views show what the API derives from the records of an account, and the same repositories and commits.
func TestViews_EqualAnswers(t *testing.T) {
	s := projectortest.OpenStore(t)
	account := func(id int, members string) *record.Record {
		return projectortest.Decode(t, record.KindCodehostPerson,
			fmt.Sprintf(`{"user_id":%d,"last_updated":"2025","codehost_username":"Ann-%[1]d"%s}`, id, members))
	}
	commit := func(id int, sha, members string) *record.Record {
		return projectortest.Decode(t, record.KindCodehostCommit,
			fmt.Sprintf(`{"user_id":%d,"sha":%q,"author_date":"2024"%s}`, id, sha, members))
	}
	list := func(id int, list, items string) *record.Record {
		return projectortest.Decode(t, record.KindCodehostList,
			fmt.Sprintf(`{"user_id":%d,"list":%q,"last_updated":"2025","items":[%s]}`, id, list, items))
	}
	s.Insert("1",
		account(1, ``),
		account(2, `,"full_name":"Ann Bo","names":["Ann B."],"emails":["a@x.example","b@x.example"],`+
			`"network_username":"ann","social_accounts":["https://network.example/in/other"]`),
		commit(2, "a", `,"author_name":"A. Bo","author_email":"c@x.example"`), commit(2, "b", `,"author_name":"Ann B."`),
		commit(2, "c", `,"author_name":"Other","author_login":"other"`), commit(2, "d", `,"deleted":true`),
		projectortest.Repo(t, 2, 1, "2024", `,"language":"Go"`), projectortest.Repo(t, 2, 2, "2024", `,"language":"C"`),
		projectortest.Repo(t, 2, 3, "2024", `,"language":"C"`), projectortest.Repo(t, 2, 4, "2024", ``),
		account(3, `,"commit_count":9,"repo_languages":["Ada","Zig"]`), commit(3, "a", ``),
		projectortest.Repo(t, 3, 1, "2024", `,"language":"Go"`),
		account(4, ``), list(4, "repos", `"1"`), list(4, "commits", `"b","gone"`),
		projectortest.Repo(t, 4, 1, "2024", `,"language":"Go"`), projectortest.Repo(t, 4, 2, "2024", `,"language":"C"`),
		projectortest.Repo(t, 4, 3, "2026", ``),
		commit(4, "a", ""), commit(4, "b", ""),
		account(5, `,"deleted":true`), commit(6, "a", ``),
		account(7, ``), commit(7, "a", `,"author_name":"Bob <b@x.example>"`),
	)
	require.NoError(t, readmodel.CreateViews(t.Context(), s.Conn, readmodel.Layout{}))
	var database string
	require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT currentDatabase()").Scan(&database))
	views := readmodel.ViewsDatabase(database)
	for id := int64(1); id <= 4; id++ {
		row := s.Answers(id)[0]
		var want struct {
			Names     []string `json:"names"`
			Languages []string `json:"repo_languages"`
			Commits   *int64   `json:"commit_count"`
		}
		require.NoError(t, json.Unmarshal([]byte(projectortest.Account(row, readmodel.ShapeEnrich)), &want))
		var names, languages []string
		var commits *int64
		require.NoError(t, s.Conn.QueryRow(t.Context(), fmt.Sprintf("SELECT names, languages, commit_count FROM %s.accounts "+
			"WHERE user_id = %d", views, id)).Scan(&names, &languages, &commits))
		require.Equal(t, fmt.Sprint(want.Names), fmt.Sprint(names), id)
		require.Equal(t, fmt.Sprint(want.Languages), fmt.Sprint(languages), id)
		require.Equal(t, want.Commits, commits, id)
		for view, n := range map[string]uint64{"repositories": row.Repos, "commits": row.Commits} {
			require.Equal(t, n, s.Count(fmt.Sprintf("SELECT count() FROM %s.%s WHERE user_id = %d", views, view, id)),
				"%s of %d", view, id)
		}
	}
	require.EqualValues(t, 5, s.Count("SELECT count() FROM "+views+".accounts"))
	require.EqualValues(t, 1, s.Count("SELECT count() FROM "+views+".accounts WHERE names = ['Bob <[e-mail removed]>']"))
	require.EqualValues(t, 1, s.Count("SELECT count() FROM "+views+".repositories WHERE user_id = 4 AND repo_id = 1"))
	require.EqualValues(t, 1, s.Count("SELECT count() FROM "+views+".commits WHERE user_id = 4 AND sha = 'b'"))
}
