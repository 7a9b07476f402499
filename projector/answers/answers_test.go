package answers_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func TestAnswers_ReflectAccountsRepositoriesCommitsAndLists(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	commit := projectortest.Decode(t, record.KindCodehostCommit, `{"user_id":7,"sha":"a","author_date":"2024"}`)
	for _, step := range []struct {
		what  string
		rec   *record.Record
		want  string
		total string
	}{
		{"a repository of no account", projectortest.Repo(t, 7, 1, "2024", ""), "", ""},
		{"its account", projectortest.AccountRecord(t, 7, "2024", "ann"), "ann 1", "1 0"},
		{"a commit", commit, "ann 1", "1 1"},
		{"a second repository", projectortest.Repo(t, 7, 2, "2025", ""), "ann 2 1", "2 1"},
		{"a new name", projectortest.AccountRecord(t, 7, "2025", "bob"), "bob 2 1", "2 1"},
		{"an old name", projectortest.AccountRecord(t, 7, "2023", "old"), "bob 2 1", "2 1"},
		{"a complete list", projectortest.RepoList(t, 7, "2026", "1"), "bob 1", "1 1"},
	} {
		h.PublishRecords(step.rec)
		h.CaughtUp()
		rows := h.Answers(7)
		if step.want == "" {
			require.Empty(t, rows, step.what)
			continue
		}
		got := rows[0].UsernameKey + " " + projectortest.IDs(h.Entries("repos", readmodel.ShapeWebset, rows[0]))
		require.Equal(t, step.want, got, step.what)
		require.Equal(t, step.total, fmt.Sprint(rows[0].Repos, rows[0].Commits), step.what)
	}
	h.PublishRecords(
		projectortest.Decode(t, record.KindCodehostPerson, `{"user_id":7,"last_updated":"2027","deleted":true}`),
	)
	h.CaughtUp()
	require.True(t, h.Answers(7)[0].Deleted)
	require.Empty(t, h.Answers(7)[0].AppendEntries(nil, readmodel.ShapeWebset))
	require.Empty(t, h.RejectedRecords())
}

func TestAnswers_RejectInvalidTouch(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	h.Publish(
		kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("x"), Value: []byte(`{"kind":"cat","id":"7"}`)},
		kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("x"),
			Value: []byte(`{"kind":"codehost-person","id":"ann"}`)},
		kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("x"), Value: []byte(`nothing`)},
	)
	h.CaughtUp()
	require.Len(t, h.RejectedRecords(), 3)
}

// Touches of a recreated topic have small offsets again, but win.
func TestAnswers_RecreatedTopicStartsGeneration(t *testing.T) {
	s := projectortest.OpenStore(t)
	first := projectortest.Over(t, s)
	stop := first.Start(nil)
	for i := range 20 {
		first.PublishRecords(projectortest.AccountRecord(t, 7, strconv.Itoa(2000+i), "ann"))
		first.CaughtUp()
	}
	stop()
	before := s.Answers(7)[0]
	require.EqualValues(t, 1, before.Generation)

	second := projectortest.Over(t, s)
	second.Start(nil)
	second.PublishRecords(projectortest.AccountRecord(t, 7, "2025", "bob"))
	second.CaughtUp()
	row := s.Answers(7)[0]
	require.Equal(t, "bob", row.UsernameKey)
	require.EqualValues(t, 2, row.Generation)
	require.Less(t, row.Touch, before.Touch)
}

// Offsets of different partitions do not say which touch is newer. While the number of partitions changes, touches of one
// account are in two.
func TestAnswers_TouchInAnotherPartitionIsBuilt(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	w := bus.NewWriter(h.Kafka, bus.WithFixedPartition)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	value, err := json.Marshal(event.AnswerTask{Kind: record.KindCodehostPerson, ID: "7"})
	require.NoError(t, err)
	for i, partition := range []int{3, 3, 3, 5, 5, 3, 5, 3, 3} {
		name := fmt.Sprint("ann-", i)
		var batch readmodel.Batch
		require.NoError(t, readmodel.NewRenderer(identity.Default()).Rows(&batch,
			projectortest.AccountRecord(t, 7, strconv.Itoa(2000+i), name), readmodel.Position{Offset: int64(i)}))
		require.NoError(t, readmodel.Insert(t.Context(), h.Conn, name, &batch))
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: event.TopicAnswerTask,
			Key: []byte("codehost-person/7"), Value: value, WriterData: partition}}))
		h.CaughtUp()
		require.Equal(t, name, h.Answers(7)[0].UsernameKey)
	}
	require.EqualValues(t, 1, h.Answers(7)[0].Generation)
}

// Builds of other accounts do not wait for the large one.
func TestAnswers_LargeAccountsAreBuiltSeparately(t *testing.T) {
	h := projectortest.New(t)
	h.Start(func(c *projector.Config, _ *project.Deps) { c.LargeAge = 2 * time.Second })
	recs := []*record.Record{
		projectortest.AccountRecord(t, 7, "2024", "ann"),
		projectortest.AccountRecord(t, 8, "2024", "bob"),
	}
	const repos = 5500
	for i := range repos {
		recs = append(recs, projectortest.Repo(t, 7, i, "2024", ""))
	}
	h.PublishRecords(recs...)
	h.CaughtUp()
	projectortest.Eventually(t, func(context.Context) bool {
		rows := h.Answers(7)
		return len(rows) == 1 && rows[0].Repos == repos
	}, "all of its repositories")
	h.PublishRecords(projectortest.Repo(t, 7, repos, "2025", ""), projectortest.Repo(t, 8, 1, "2025", ""))
	h.CaughtUp()
	require.EqualValues(t, repos, h.Answers(7)[0].Repos, "it waits")
	require.EqualValues(t, 1, h.Answers(8)[0].Repos)
	projectortest.Eventually(
		t,
		func(context.Context) bool { return h.Answers(7)[0].Repos == repos+1 },
		"the new repository",
	)
	require.Equal(
		t,
		strconv.Itoa(repos),
		projectortest.IDs(h.Entries("repos", readmodel.ShapeWebset, h.Answers(7)[0])[:1]),
	)
}

// The account is erased while its answer is built.
func TestAnswers_ErasedDuringBuildAreDeleted(t *testing.T) {
	h := projectortest.New(t)
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{record.KindCodehostPerson: {
		`{"user_id":42,"codehost_username":"ghost","last_updated":"2026"}`,
		`{"user_id":43,"codehost_username":"alive","last_updated":"2026"}`,
	}})
	require.NoError(t, h.Conn.Exec(t.Context(), "TRUNCATE TABLE codehost_answers"))
	h.Start(func(_ *projector.Config, d *project.Deps) {
		d.Suppressed = projectortest.SuppressedBy(t, suppress.CodehostUsername, "ghost")
	})
	for _, id := range []string{"42", "43"} {
		value, err := json.Marshal(event.AnswerTask{Kind: record.KindCodehostPerson, ID: id})
		require.NoError(t, err)
		h.Publish(kafka.Message{Topic: event.TopicAnswerTask, Key: []byte("codehost-person/" + id), Value: value})
	}
	h.CaughtUp()
	require.Len(t, h.Answers(42, 43), 1)
	require.EqualValues(t, 43, h.Answers(42, 43)[0].UserID)
}

func TestAnswers_DeriveValuesOfRepositoriesAndCommits(t *testing.T) {
	commit := func(sha, members string) *record.Record {
		return projectortest.Decode(
			t,
			record.KindCodehostCommit,
			`{"user_id":7,"sha":"`+sha+`","author_date":"2024"`+members+`}`,
		)
	}
	given := `"full_name":"Ann Bo","names":["Ann B."],"emails":["Own@x.example"]`
	for _, c := range []struct {
		name, account string
		records       []*record.Record
		enrich, open  string // members that the answer adds
	}{
		{"none", given, nil, `"names":["Ann Bo","Ann B."],"names_count":2,"emails":["Own@x.example"],"emails_count":1,"email":"Own@x.example","derived":["first_name","last_name","url"]`, `"derived":["url"]`},
		{"languages by number of repositories, then by name", given, []*record.Record{
			projectortest.Repo(t, 7, 1, "2024", `,"language":"Go"`), projectortest.Repo(t, 7, 2, "2024", `,"language":"Rust"`),
			projectortest.Repo(t, 7, 3, "2024", `,"language":"C"`),
			projectortest.Repo(t, 7, 4, "2024", `,"language":"Rust"`), projectortest.Repo(t, 7, 5, "2024", ``),
			projectortest.Repo(t, 7, 6, "2024", `,"deleted":true,"language":"Go"`),
		}, `"repo_languages":["Rust","C","Go"],"repo_languages_count":3,"derived":["first_name","last_name","repo_languages","url"]`,
			`"repo_languages":["Rust","C","Go"],"repo_languages_count":3,"derived":["repo_languages","url"]`},
		{"those of the record win", given + `,"commit_count":9,"repo_languages":["Ada"]`, []*record.Record{
			projectortest.Repo(t, 7, 1, "2024", `,"language":"Go"`), commit("a", ""),
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
			s := projectortest.OpenStore(t)
			s.Insert("1", append(c.records, projectortest.Decode(t, record.KindCodehostPerson,
				`{"user_id":7,"last_updated":"2025","codehost_username":"Ann",`+c.account+`}`))...)
			rows := s.Answers(7)
			require.Len(t, rows, 1)
			for shape, want := range map[readmodel.Shape]string{readmodel.ShapeEnrich: c.enrich,
				readmodel.ShapeOpen: c.open} {
				var got, members map[string]any
				require.NoError(t, json.Unmarshal([]byte(projectortest.Account(rows[0], shape)), &got))
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
	s := projectortest.OpenStore(t)
	s.Insert(
		"1",
		projectortest.Decode(
			t,
			record.KindCodehostPerson,
			`{"user_id":7,"last_updated":"2025","codehost_username":"ann"}`,
		),
		projectortest.Decode(t, record.KindCodehostCommit,
			`{"user_id":7,"sha":"a","author_date":"2024","author_email":"Ann@X.example"}`),
	)
	found := s.Lookup(readmodel.LookupCodehostEmail, "ann@x.example")
	require.Len(t, found, 1)
	require.Equal(t, "7", found[0].Target)
	row := s.Answers(7)[0]
	require.Equal(t, []string{"ann@x.example"}, row.DerivedEmailKeys())
	emails, _ := readmodel.CodehostFieldMask("emails")
	require.NotZero(t, row.FieldMask()&emails)
	shown := row.WithoutSuppressed(func(key string) bool { return key == "ann@x.example" })
	require.NotContains(t, projectortest.Account(*shown, readmodel.ShapeEnrich), "nn@")
	require.Zero(t, shown.FieldMask()&emails)
}
