package answers_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// largeBuilds is a connection that changes the statements that build large accounts.
type largeBuilds struct {
	driver.Conn
	n      atomic.Int32
	change func(ctx context.Context, statement string) (string, error)
}

func (c *largeBuilds) Exec(ctx context.Context, query string, args ...any) error {
	if strings.HasPrefix(query, "INSERT INTO codehost_answers ") && strings.Contains(query, "codehost_commits FINAL") {
		c.n.Add(1)
		var err error
		if query, err = c.change(ctx, query); err != nil {
			return err
		}
	}
	return c.Conn.Exec(ctx, query, args...)
}

// One account is changed by every batch of a run. While it is built, which may take long, others are built.
func TestAnswers_LargeBuildDelaysNoOthers(t *testing.T) {
	const repos, batches = 5500, 15
	h := projectortest.New(t)
	var recs []*record.Record
	for i := range repos {
		recs = append(recs, projectortest.Repo(t, 7, i, "2024", ""))
	}
	h.Insert("before", append(recs, projectortest.AccountRecord(t, 7, "2024", "ann"))...)
	release := make(chan struct{})
	conn := &largeBuilds{Conn: h.Conn, change: func(ctx context.Context, statement string) (string, error) {
		select {
		case <-release:
			return statement, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}}
	h.Start(func(c *projector.Config, d *project.Deps) {
		c.LargeAge, d.Conn = 200*time.Millisecond, conn
	})
	for i := range batches {
		h.PublishRecords(projectortest.Repo(t, 7, repos+i, "2025", ""), projectortest.Repo(t, 8, i, "2025", ""),
			projectortest.AccountRecord(t, 8, fmt.Sprint(2000+i), "bob"))
		projectortest.Eventually(t, func(context.Context) bool {
			rows := h.Answers(8)
			return len(rows) == 1 && rows[0].Repos == uint64(i+1)
		}, "the other account")
	}
	projectortest.Eventually(t, func(context.Context) bool { return conn.n.Load() > 0 }, "a large build")
	require.EqualValues(t, repos, h.Answers(7)[0].Repos, "it is being built")
	close(release)
	projectortest.Eventually(t, func(context.Context) bool { return h.Answers(7)[0].Repos == repos+batches },
		"the large account")
	require.Less(t, conn.n.Load(), int32(batches), "changes are built together")
}

// Readers see nothing but the newest entries of such an account, whose build must not need the memory of all.
func TestAnswers_LargeAccountIsBuiltInBoundedMemory(t *testing.T) {
	repos, commits := 10_000, 1_000_000
	if testing.Short() {
		commits = 100_000
	}
	const memory = 256 << 20
	s := projectortest.OpenStore(t)
	s.Insert("owner", projectortest.AccountRecord(t, 7, "2024", "ann"))
	for table, rows := range map[string]string{
		"codehost_repos (user_id, repo_id, version, content)": fmt.Sprintf(
			`SELECT 7, number, 1000000 + number, concat('L', toString(number %% 40), char(0), char(30), 'O{"id":',
				toString(number), ',"description":"', hex(randomString(150)), '"}') FROM numbers(%d)`, repos),
		"codehost_commits (user_id, sha, version, content)": fmt.Sprintf(
			`SELECT 7, lower(hex(SHA1(toString(number)))), 1000000 + number, concat('', char(0),
				'Author ', toString(number %% 5000), char(0), 'a', toString(number %% 5000), '@x.example', char(0),
				'A', toString(number %% 5000), '@x.example', char(0), char(30), 'O{"sha":"', toString(number),
				'","message":"', hex(randomString(150)), '"}') FROM numbers(%d)`, commits),
	} {
		require.NoError(t, s.Conn.Exec(t.Context(), "INSERT INTO "+table+" "+rows))
	}
	conn := &largeBuilds{Conn: s.Conn, change: func(_ context.Context, statement string) (string, error) {
		return fmt.Sprintf("%s, max_memory_usage = %d", statement, memory), nil
	}}
	began := time.Now()
	require.NoError(t, readmodel.BuildAnswers(t.Context(), conn, readmodel.Builds{Large: true},
		[]readmodel.Touch{{UserID: 7, Offset: time.Now().UnixNano()}}))
	require.EqualValues(t, 1, conn.n.Load())
	t.Logf("%d repositories and %d commits in %s", repos, commits, time.Since(began).Round(time.Millisecond))
	row := s.Answers(7)[0]
	require.EqualValues(t, repos, row.Repos)
	require.EqualValues(t, commits, row.Commits)
	entries := s.Entries("commits", readmodel.ShapeWebset, row)
	require.Len(t, entries, readmodel.MaxEntries)
	require.True(t, strings.HasPrefix(entries[0], fmt.Sprintf(`"sha":"%d"`, commits-1)), entries[0])
	require.Len(t, row.DerivedEmailKeys(), readmodel.MaxEntries)
}
