package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/projector/replay"
	"muster/schemas/readmodel"
)

// progress records what is displayed.
type progress []string

func (p *progress) Begin(label string, total int64) {
	*p = append(*p, fmt.Sprint(label, " of ", total))
}
func (p *progress) Set(done int64) { *p = append(*p, fmt.Sprint(done)) }
func (p *progress) End()           { *p = append(*p, "done") }

// Records arrive in the meantime. A projector without answers is not ready.
func TestReplayAnswers_RebuildsFromTables(t *testing.T) {
	h := projectortest.New(t)
	stop := h.Start(nil)
	recs := projectortest.WorldRecords(t, 60, 7)
	h.PublishRecords(recs...)
	h.CaughtUp()
	stop()
	const content = "SELECT sum(cityHash64(user_id, base_version, base_rows, base_hash, " +
		"arraySlice(splitByChar(char(0), content), 4))) FROM codehost_answers FINAL"
	accounts, want := h.Count("SELECT count() FROM codehost_people FINAL"), h.Count(content)
	require.NotZero(t, accounts)
	require.NoError(t, h.Conn.Exec(t.Context(), "TRUNCATE TABLE codehost_answers"))

	var log bytes.Buffer
	p, err := projector.New(projector.Config{Config: project.Config{Kafka: h.Kafka}}, project.Deps{Conn: h.Conn,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	projectortest.Eventually(t, func(ctx context.Context) bool { return p.Check(ctx) != nil },
		"not ready without answers")
	require.ErrorContains(t, p.Check(t.Context()), "muster replay answers")

	var news atomic.Int64
	var shown progress
	replayed := make(chan error, 1)
	go func() {
		report, err := replay.Answers(context.WithoutCancel(t.Context()),
			replay.Deps{Deps: project.Deps{Conn: h.Conn, Logger: slog.New(slog.DiscardHandler)}, Progress: &shown})
		news.Store(int64(report.Accounts))
		replayed <- err
	}()
	require.NoError(t, <-replayed)
	require.EqualValues(t, accounts, news.Load())
	require.NoError(t, p.Check(t.Context()))
	require.Equal(t, want, h.Count(content))
	people := h.Count("SELECT count() FROM network_people FINAL")
	require.NotZero(t, people)
	require.Equal(t, progress{
		fmt.Sprint("Building answers of ", accounts), fmt.Sprint(accounts), "done",
		fmt.Sprint("Refreshing linked accounts of ", people), fmt.Sprint(people), "done",
	}, shown)
	require.Equal(t, accounts, h.Count("SELECT count() FROM codehost_answers FINAL"))
	require.Zero(t, h.Count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND "+
		"startsWith(name, 'codehost_answers__')"))

	h.PublishRecords(projectortest.AccountRecord(t, 999_999_999, "2026", "late"))
	h.CaughtUp()
	require.Equal(t, "late", h.Answers(999_999_999)[0].UsernameKey)
	cancel()
	require.NoError(t, <-ended)
}

// Covers answers that differ after a replay, and lost answers.
func TestReplay_RebuildsDifferingAnswers(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	h.PublishRecords(
		projectortest.AccountRecord(t, 7, "2024", "ann"),
		projectortest.AccountRecord(t, 8, "2024", "bob"),
		projectortest.Repo(t, 7, 1, "2024", ""),
	)
	h.CaughtUp()
	require.NoError(t, h.Conn.Exec(t.Context(), "DELETE FROM codehost_answers WHERE user_id = 8"))
	require.NoError(t, h.Conn.Exec(t.Context(), "DELETE FROM codehost_repos WHERE user_id = 7"))
	found, err := readmodel.DifferingAnswers(t.Context(), h.Conn, readmodel.AnswersTable, 0, 100)
	require.NoError(t, err)
	require.Equal(t, []int64{7, 8}, found)
	h.Replay("codehost_repos") // the topic has it
	h.CaughtUp()
	require.Equal(t, "1", projectortest.IDs(h.Entries("repos", readmodel.ShapeWebset, h.Answers(7)[0])))
	require.Len(t, h.Answers(8), 1)
	found, err = readmodel.DifferingAnswers(t.Context(), h.Conn, readmodel.AnswersTable, 0, 100)
	require.NoError(t, err)
	require.Empty(t, found)
}
