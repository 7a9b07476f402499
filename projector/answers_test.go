package projector_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func accountRecord(tb testing.TB, id int, version, username string) *record.Record {
	return decode(tb, record.KindCodehostPerson, fmt.Sprintf(`{"user_id":%d,"codehost_username":%q,"last_updated":%q}`,
		id, username, version))
}

func TestAnswers_ReflectAccountsRepositoriesCommitsAndLists(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	commit := decode(t, record.KindCodehostCommit, `{"user_id":7,"sha":"a","author_date":"2024"}`)
	for _, step := range []struct {
		what  string
		rec   *record.Record
		want  string
		total string
	}{
		{"a repository of no account", repo(t, 7, 1, "2024", ""), "", ""},
		{"its account", accountRecord(t, 7, "2024", "ann"), "ann 1", "1 0"},
		{"a commit", commit, "ann 1", "1 1"},
		{"a second repository", repo(t, 7, 2, "2025", ""), "ann 2 1", "2 1"},
		{"a new name", accountRecord(t, 7, "2025", "bob"), "bob 2 1", "2 1"},
		{"an old name", accountRecord(t, 7, "2023", "old"), "bob 2 1", "2 1"},
		{"a complete list", repoList(t, 7, "2026", "1"), "bob 1", "1 1"},
	} {
		h.publishRecords(step.rec)
		h.caughtUp()
		rows := h.answers(7)
		if step.want == "" {
			require.Empty(t, rows, step.what)
			continue
		}
		got := rows[0].UsernameKey + " " + ids(h.entries("repos", readmodel.ShapeWebset, rows[0]))
		require.Equal(t, step.want, got, step.what)
		require.Equal(t, step.total, fmt.Sprint(rows[0].Repos, rows[0].Commits), step.what)
	}
	h.publishRecords(decode(t, record.KindCodehostPerson, `{"user_id":7,"last_updated":"2027","deleted":true}`))
	h.caughtUp()
	require.True(t, h.answers(7)[0].Deleted)
	require.Empty(t, h.answers(7)[0].AppendEntries(nil, readmodel.ShapeWebset))
	require.Empty(t, h.rejectedRecords())
}

func TestAnswers_RejectInvalidTouch(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.publish(
		kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("x"), Value: []byte(`{"kind":"cat","id":"7"}`)},
		kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("x"),
			Value: []byte(`{"kind":"codehost-person","id":"ann"}`)},
		kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("x"), Value: []byte(`nothing`)},
	)
	h.caughtUp()
	require.Len(t, h.rejectedRecords(), 3)
}

// Touches of a recreated topic have small offsets again, but win.
func TestAnswers_RecreatedTopicStartsGeneration(t *testing.T) {
	s := openStore(t)
	first := harnessOver(t, s)
	stop := first.start(nil)
	for i := range 20 {
		first.publishRecords(accountRecord(t, 7, strconv.Itoa(2000+i), "ann"))
		first.caughtUp()
	}
	stop()
	before := s.answers(7)[0]
	require.EqualValues(t, 1, before.Generation)

	second := harnessOver(t, s)
	second.start(nil)
	second.publishRecords(accountRecord(t, 7, "2025", "bob"))
	second.caughtUp()
	row := s.answers(7)[0]
	require.Equal(t, "bob", row.UsernameKey)
	require.EqualValues(t, 2, row.Generation)
	require.Less(t, row.Touch, before.Touch)
}

// Builds of other accounts do not wait for the large one.
func TestAnswers_LargeAccountsAreBuiltSeparately(t *testing.T) {
	h := newHarness(t)
	h.start(func(c *projector.Config, _ *projector.Deps) { c.LargeAge = 2 * time.Second })
	recs := []*record.Record{accountRecord(t, 7, "2024", "ann"), accountRecord(t, 8, "2024", "bob")}
	const repos = 5500
	for i := range repos {
		recs = append(recs, repo(t, 7, i, "2024", ""))
	}
	h.publishRecords(recs...)
	h.caughtUp()
	eventually(t, func(context.Context) bool {
		rows := h.answers(7)
		return len(rows) == 1 && rows[0].Repos == repos
	}, "all of its repositories")
	h.publishRecords(repo(t, 7, repos, "2025", ""), repo(t, 8, 1, "2025", ""))
	h.caughtUp()
	require.EqualValues(t, repos, h.answers(7)[0].Repos, "it waits")
	require.EqualValues(t, 1, h.answers(8)[0].Repos)
	eventually(t, func(context.Context) bool { return h.answers(7)[0].Repos == repos+1 }, "the new repository")
	require.Equal(t, strconv.Itoa(repos), ids(h.entries("repos", readmodel.ShapeWebset, h.answers(7)[0])[:1]))
}

// The account is erased while its answer is built.
func TestAnswers_ErasedDuringBuildAreDeleted(t *testing.T) {
	h := newHarness(t)
	insertAll(t, h, "before", map[record.Kind][]string{record.KindCodehostPerson: {
		`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`,
		`{"user_id":43,"codehost_username":"alive","last_updated":"2026"}`,
	}})
	require.NoError(t, h.conn.Exec(t.Context(), "TRUNCATE TABLE codehost_answers"))
	h.start(func(_ *projector.Config, d *projector.Deps) {
		d.Suppressed = suppressedBy(t, suppress.CodehostUsername, "ghost")
	})
	for _, id := range []string{"42", "43"} {
		value, err := json.Marshal(event.AnswerTask{Kind: record.KindCodehostPerson, ID: id})
		require.NoError(t, err)
		h.publish(kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("codehost-person/" + id), Value: value})
	}
	h.caughtUp()
	require.Len(t, h.answers(42, 43), 1)
	require.EqualValues(t, 43, h.answers(42, 43)[0].UserID)
}

// Records arrive in the meantime. A projector without answers is not ready.
func TestReplayAnswers_RebuildsFromTables(t *testing.T) {
	h := newHarness(t)
	stop := h.start(nil)
	recs := worldRecords(t, 60, 7)
	h.publishRecords(recs...)
	h.caughtUp()
	stop()
	const content = "SELECT sum(cityHash64(user_id, base_version, base_rows, base_hash, " +
		"arraySlice(splitByChar(char(0), content), 4))) FROM codehost_answers FINAL"
	accounts, want := h.count("SELECT count() FROM codehost_people FINAL"), h.count(content)
	require.NotZero(t, accounts)
	require.NoError(t, h.conn.Exec(t.Context(), "TRUNCATE TABLE codehost_answers"))

	var log bytes.Buffer
	p, err := projector.New(projector.Config{Kafka: h.kafka}, projector.Deps{Conn: h.conn,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	eventually(t, func(ctx context.Context) bool { return p.Check(ctx) != nil }, "it is not ready")
	require.ErrorContains(t, p.Check(t.Context()), "muster replay answers")

	var news atomic.Int64
	replayed := make(chan error, 1)
	go func() {
		report, err := projector.ReplayAnswers(context.WithoutCancel(t.Context()),
			projector.ReplayDeps{Deps: projector.Deps{Conn: h.conn, Logger: slog.New(slog.DiscardHandler)}})
		news.Store(int64(report.Accounts))
		replayed <- err
	}()
	require.NoError(t, <-replayed)
	require.EqualValues(t, accounts, news.Load())
	require.NoError(t, p.Check(t.Context()))
	require.Equal(t, want, h.count(content))
	require.Equal(t, accounts, h.count("SELECT count() FROM codehost_answers FINAL"))
	require.Zero(t, h.count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND "+
		"startsWith(name, 'codehost_answers__')"))

	h.publishRecords(accountRecord(t, 999_999_999, "2026", "late"))
	h.caughtUp()
	require.Equal(t, "late", h.answers(999_999_999)[0].UsernameKey)
	cancel()
	require.NoError(t, <-ended)
}

// Covers answers that differ after a replay, and lost answers.
func TestReplay_RebuildsDifferingAnswers(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.publishRecords(accountRecord(t, 7, "2024", "ann"), accountRecord(t, 8, "2024", "bob"), repo(t, 7, 1, "2024", ""))
	h.caughtUp()
	require.NoError(t, h.conn.Exec(t.Context(), "DELETE FROM codehost_answers WHERE user_id = 8"))
	require.NoError(t, h.conn.Exec(t.Context(), "DELETE FROM codehost_repos WHERE user_id = 7"))
	found, err := readmodel.DifferingAnswers(t.Context(), h.conn, readmodel.AnswersTable, 0, 100)
	require.NoError(t, err)
	require.Equal(t, []int64{7, 8}, found)
	h.replay("codehost_repos") // the topic has it
	h.caughtUp()
	require.Equal(t, "1", ids(h.entries("repos", readmodel.ShapeWebset, h.answers(7)[0])))
	require.Len(t, h.answers(8), 1)
	found, err = readmodel.DifferingAnswers(t.Context(), h.conn, readmodel.AnswersTable, 0, 100)
	require.NoError(t, err)
	require.Empty(t, found)
}

// A killed eraser may leave answers that contain deleted commits. The next one rebuilds them before it
// reports the request as suppressed.
func TestEraser_RebuildsAnswersAfterKill(t *testing.T) {
	h := newHarness(t)
	insertAll(t, h, "before", map[record.Kind][]string{
		record.KindCodehostPerson: {`{"user_id":7,"codehost_username":"bob","last_updated":"2026"}`},
		record.KindCodehostCommit: {
			`{"user_id":7,"sha":"a","message":"hers","author_email":"ada@example.com","author_date":"2026"}`,
			`{"user_id":7,"sha":"b","message":"his","author_email":"bob@example.com","author_date":"2026"}`,
		},
	})
	require.NoError(t, h.conn.Exec(t.Context(), "DELETE FROM codehost_commits WHERE sha = 'a'"))
	require.EqualValues(t, 2, h.answers(7)[0].Commits)
	startEraser(t, h, suppressedBy(t, suppress.Email, "ada@example.com")).await(t, event.ErasureSuppressed)
	require.EqualValues(t, 1, h.answers(7)[0].Commits)
	require.Zero(t, h.count("SELECT count() FROM codehost_answers WHERE position(content, 'hers') > 0"))
}

func TestAnswers_DeriveValuesOfRepositoriesAndCommits(t *testing.T) {
	commit := func(sha, members string) *record.Record {
		return decode(t, record.KindCodehostCommit, `{"user_id":7,"sha":"`+sha+`","author_date":"2024"`+members+`}`)
	}
	given := `"full_name":"Ann Bo","names":["Ann B."],"emails":["Own@x.example"]`
	for _, c := range []struct {
		name, account string
		records       []*record.Record
		enrich, open  string // members that the answer adds
	}{
		{"none", given, nil, `"names":["Ann Bo","Ann B."],"names_count":2,"emails":["Own@x.example"],"emails_count":1,"email":"Own@x.example","derived":["first_name","last_name","url"]`, `"derived":["url"]`},
		{"languages by number of repositories, then by name", given, []*record.Record{
			repo(t, 7, 1, "2024", `,"language":"Go"`), repo(t, 7, 2, "2024", `,"language":"Rust"`),
			repo(t, 7, 3, "2024", `,"language":"C"`),
			repo(t, 7, 4, "2024", `,"language":"Rust"`), repo(t, 7, 5, "2024", ``),
			repo(t, 7, 6, "2024", `,"deleted":true,"language":"Go"`),
		}, `"repo_languages":["Rust","C","Go"],"repo_languages_count":3,"derived":["first_name","last_name","repo_languages","url"]`,
			`"repo_languages":["Rust","C","Go"],"repo_languages_count":3,"derived":["repo_languages","url"]`},
		{"those of the record win", given + `,"commit_count":9,"repo_languages":["Ada"]`, []*record.Record{
			repo(t, 7, 1, "2024", `,"language":"Go"`), commit("a", ""),
		}, `"repo_languages":["Ada"],"repo_languages_count":1,"commit_count":9,"derived":["first_name","last_name","url"]`, `"commit_count":9,"derived":["url"]`},
		{"authors of its own commits, the frequent ones first", given, []*record.Record{
			commit("a", `,"author_name":"A. Bo","author_email":"second@x.example"`),
			commit("b", `,"author_name":"Bo, Ann","author_email":"First@x.example","author_login":"ANN"`),
			commit("c", `,"author_name":"Bo, Ann","author_email":"First@x.example"`),
			commit("d", `,"author_name":"Ann B.","author_email":"own@X.example"`),
			commit("e", `,"author_name":"Other","author_email":"other@x.example","author_login":"other"`),
			commit("f", `,"author_name":"Gone","author_email":"gone@x.example","deleted":true`),
			commit("g", `,"author_email":"7+ann@users.noreply.codehost.example"`),
		}, `"names":["Ann Bo","Ann B.","Bo, Ann","A. Bo"],"names_count":4,"emails":["Own@x.example","First@x.example","second@x.example"],"emails_count":3,
			"email":"Own@x.example","commit_count":6,"derived":["commit_count","emails","first_name","last_name","names","url"]`,
			`"commit_count":6,"derived":["commit_count","url"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t)
			s.insert("1", append(c.records, decode(t, record.KindCodehostPerson,
				`{"user_id":7,"last_updated":"2025","codehost_username":"Ann",`+c.account+`}`))...)
			rows := s.answers(7)
			require.Len(t, rows, 1)
			for shape, want := range map[readmodel.Shape]string{readmodel.ShapeEnrich: c.enrich,
				readmodel.ShapeOpen: c.open} {
				var got, members map[string]any
				require.NoError(t, json.Unmarshal([]byte(account(rows[0], shape)), &got))
				require.NoError(t, json.Unmarshal([]byte("{"+want+"}"), &members))
				for name, value := range members {
					require.Equal(t, value, got[name], name)
				}
				if c.name == "none" {
					require.NotContains(t, got, "commit_count")
					require.NotContains(t, got, "repo_languages")
				}
			}
		})
	}
}

func TestAnswers_AddressesOfCommitsFindTheAccount(t *testing.T) {
	s := openStore(t)
	s.insert("1",
		decode(t, record.KindCodehostPerson, `{"user_id":7,"last_updated":"2025","codehost_username":"ann"}`),
		decode(t, record.KindCodehostCommit,
			`{"user_id":7,"sha":"a","author_date":"2024","author_email":"Ann@X.example"}`),
	)
	found := s.lookup(readmodel.LookupCodehostEmail, "ann@x.example")
	require.Len(t, found, 1)
	require.Equal(t, "7", found[0].Target)
	row := s.answers(7)[0]
	require.Equal(t, []string{"ann@x.example"}, row.DerivedEmailKeys())
	emails, _ := readmodel.CodehostFieldMask("emails")
	require.NotZero(t, row.FieldMask()&emails)
	shown := row.WithoutAddresses(func(key string) bool { return key == "ann@x.example" })
	require.NotContains(t, account(*shown, readmodel.ShapeEnrich), "nn@")
	require.Zero(t, shown.FieldMask()&emails)
}
