package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// AnswersReport is the result of ReplayAnswers.
type AnswersReport struct {
	Accounts uint64 `json:"accounts"` // accounts with answers, including deleted ones
	Built    uint64 `json:"built"`    // builds, including repeated ones
}

// ReplayAnswers rebuilds the answers of all accounts from the base tables, in a table next to the live one,
// and then exchanges the two. Builders write to both in the meantime. The exchange happens once each account
// has an answer that was built from its newest rows. An interrupted run starts over.
func ReplayAnswers(ctx context.Context, deps ReplayDeps) (report AnswersReport, err error) {
	if deps.Conn == nil || deps.Logger == nil {
		return report, errors.New("replay answers: no connection to ClickHouse, or no logger")
	}
	if deps.Progress == nil {
		deps.Progress = noProgress{}
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	err = withMigrationLock(ctx, deps.Conn, deps.Logger, func(ctx context.Context, layout readmodel.Layout) error {
		r := answersReplay{deps: deps, layout: layout}
		err := r.run(ctx)
		report = r.report
		return err
	})
	if err != nil {
		return report, fmt.Errorf("replay answers: %w", err)
	}
	return report, nil
}

type answersReplay struct {
	deps       ReplayDeps
	layout     readmodel.Layout
	table      readmodel.Rebuild
	generation uint32
	report     AnswersReport
}

func answersRebuild(layout readmodel.Layout, id string) readmodel.Rebuild {
	model := readmodel.Model{Table: readmodel.AnswersTable, Key: []string{"user_id"}}
	return readmodel.Rebuild{Model: model, Layout: layout, ID: id}
}

func (r *answersReplay) run(ctx context.Context) error {
	left, err := shadowAnswers(ctx, r.deps.Conn, r.layout)
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := execAll(ctx, r.deps.Conn, answersRebuild(r.layout, "x").Drop(name)...); err != nil {
			return err
		}
	}
	id := strings.Replace(strings.ToLower(r.deps.Now().UTC().Format("20060102T150405.000")), ".", "", 1)
	r.table = answersRebuild(r.layout, id)
	existing, err := createQuery(ctx, r.deps.Conn, r.layout, readmodel.AnswersTable)
	if err != nil {
		return err
	}
	statements, err := r.table.Create(existing)
	if err != nil {
		return err
	}
	if err := execAll(ctx, r.deps.Conn, statements...); err != nil {
		return err
	}
	if r.generation, _, err = readmodel.AnswersGeneration(ctx, r.deps.Conn); err != nil {
		return err
	}
	if err := r.build(ctx); err != nil {
		return err
	}
	if err := r.complete(ctx); err != nil {
		return err
	}
	// The shadow table's name then refers to the previous live table.
	statements = append([]string{r.table.Exchange()}, r.table.Drop(r.table.ShadowTable())...)
	return execAll(ctx, r.deps.Conn, statements...)
}

// build builds the answers of all accounts, in the order of their ids.
func (r *answersReplay) build(ctx context.Context) error {
	row := r.deps.Conn.QueryRow(ctx, "SELECT uniqExact(user_id) FROM codehost_people")
	if err := row.Scan(&r.report.Accounts); err != nil {
		return fmt.Errorf("count the accounts: %w", err)
	}
	r.deps.Progress.Begin("Building answers", int64(r.report.Accounts)) //nolint:gosec // a number of rows
	defer r.deps.Progress.End()
	for after := int64(math.MinInt64); ; {
		ids, err := readmodel.AccountsAfter(ctx, r.deps.Conn, after, buildAccounts)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := r.buildSome(ctx, ids, 1); err != nil {
			return err
		}
		after = ids[len(ids)-1]
		r.deps.Progress.Set(int64(r.report.Built)) //nolint:gosec // as above
	}
}

// buildSome builds answers for the touches of the live ones, so that concurrent builds from newer touches
// win.
func (r *answersReplay) buildSome(ctx context.Context, ids []int64, try uint32) error {
	states, err := readmodel.AnswerStates(ctx, r.deps.Conn, ids)
	if err != nil {
		return err
	}
	var due, large []*buildTarget
	for _, id := range ids {
		s := states[id]
		t := &buildTarget{
			Touch:      readmodel.Touch{UserID: id, Partition: s.Partition, Offset: s.Touch, Rebuilt: s.Rebuilt + try},
			generation: s.Generation, rows: s.Rows,
		}
		if !s.Has {
			t.generation = r.generation
		}
		if t.rows > largeAccount {
			large = append(large, t)
		} else {
			due = append(due, t)
		}
	}
	r.report.Built += uint64(len(ids))
	return eachBuild(due, large, func(builds readmodel.Builds, touches []readmodel.Touch) error {
		builds.Table = r.table.ShadowTable()
		return readmodel.BuildAnswers(ctx, r.deps.Conn, builds, touches)
	})
}

// complete rebuilds answers that differ from their rows until none does. The regular builders handle later
// ingests.
func (r *answersReplay) complete(ctx context.Context) error {
	var differing []int64
	err := scanAnswers(ctx, r.deps.Conn, r.table.ShadowTable(), func(ids []int64) error {
		differing = append(differing, ids...)
		return nil
	})
	const tries = 60
	for try := uint32(2); err == nil && len(differing) > 0; try++ {
		if try > tries {
			return fmt.Errorf("%d answers still differ from their rows: run the command again when less is ingested",
				len(differing))
		}
		var left []int64
		for part := range slices.Chunk(differing, scanSlice) {
			if err := r.buildSome(ctx, part, try); err != nil {
				return err
			}
			found, err := readmodel.DifferingAmong(ctx, r.deps.Conn, r.table.ShadowTable(), part)
			if err != nil {
				return err
			}
			left = append(left, found...)
		}
		if differing = left; len(left) == 0 {
			break
		}
		select { // By then the touches of concurrent inserts are published.
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	return err
}

// shadowAnswers returns the shadow tables of answers, including those of interrupted runs.
func shadowAnswers(ctx context.Context, conn driver.Conn, layout readmodel.Layout) ([]string, error) {
	var out []string
	query := "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, '" +
		readmodel.AnswersTable + "__')"
	err := ch.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		if name, ok := layout.Logical(name); ok {
			if _, _, _, ok := readmodel.ParseRebuilt(name); ok {
				out = append(out, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find tables of answers: %w", err)
	}
	return out, nil
}

// fillingAnswers returns the complete shadow tables that a replay fills. Builders write to them, too.
func fillingAnswers(ctx context.Context, conn driver.Conn, layout readmodel.Layout) ([]string, error) {
	names, err := shadowAnswers(ctx, conn, layout)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	var out []string
	for _, name := range names {
		var there bool
		row := conn.QueryRow(ctx, "SELECT count() > 0 FROM system.tables WHERE database = currentDatabase() AND "+
			"name = $1", name)
		if err := row.Scan(&there); err != nil {
			return nil, fmt.Errorf("find tables of answers: %w", err)
		}
		if _, _, old, _ := readmodel.ParseRebuilt(name); there && !old {
			out = append(out, name)
		}
	}
	return out, nil
}

// scanSlice is the number of accounts compared at a time.
const scanSlice = 20_000

// scanAnswers calls differing with the accounts whose answers were not built from their newest rows.
func scanAnswers(ctx context.Context, conn driver.Conn, table string, differing func([]int64) error) error {
	for after := int64(math.MinInt64); ; {
		ids, err := readmodel.AccountsAfter(ctx, conn, after, scanSlice)
		if err != nil || len(ids) == 0 {
			return err
		}
		last := ids[len(ids)-1]
		found, err := readmodel.DifferingAnswers(ctx, conn, table, after, last)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			if err := differing(found); err != nil {
				return err
			}
		}
		after = last
	}
}

// touchDiffering requests builds of the answers that were not built from their newest rows.
func touchDiffering(ctx context.Context, conn driver.Conn, w *bus.Writer) (n int, err error) {
	err = scanAnswers(ctx, conn, readmodel.AnswersTable, func(ids []int64) error {
		tasks := make([]event.AnswerTask, len(ids))
		for i, id := range ids {
			tasks[i] = event.AnswerTask{Kind: record.KindCodehostPerson, ID: itoa(id)}
		}
		n += len(ids)
		return publishTouches(ctx, w, event.TopicAnswerTask, tasks)
	})
	return n, err
}

const (
	// scanAfter and scanEvery are the delay and the interval of comparisons of answers with their source
	// rows.
	scanAfter = 10 * time.Second
	scanEvery = time.Hour
)

// watchAnswers periodically requests builds of answers that differ from their source rows, until ctx ends.
// Errors are logged and retried.
func (p *Projector) watchAnswers(ctx context.Context) {
	for wait := scanAfter; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = scanAfter
		behind, err := p.answersLag(ctx)
		if err == nil && behind > 0 {
			continue // Their builds are already requested.
		}
		n := 0
		if err == nil {
			n, err = touchDiffering(ctx, p.deps.Conn, p.writer)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "answers: comparison failed, will retry",
				slog.Any("error", redactedError(err)))
		default:
			wait = scanEvery
			if n > 0 {
				p.deps.Logger.LogAttrs(ctx, slog.LevelInfo, "answers: rebuilding outdated answers",
					slog.Int("accounts", n))
			}
		}
	}
}

// answersLag returns the number of touches without a build.
func (p *Projector) answersLag(ctx context.Context) (n int64, err error) {
	lags, err := bus.Lag(ctx, p.cfg.Kafka, p.answersGroup(false), []string{event.TopicAnswerTask})
	if err != nil {
		return 0, fmt.Errorf("read the lag of answers: %w", err)
	}
	for _, l := range lags {
		n += l.Lag
	}
	return n, nil
}
