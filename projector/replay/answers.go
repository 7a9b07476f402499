package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"muster/projector/answers"
	"muster/projector/linked"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

// AnswersReport is the result of Answers.
type AnswersReport struct {
	Accounts uint64 `json:"accounts"` // accounts with answers, including deleted ones
	Built    uint64 `json:"built"`    // builds, including repeated ones
	Linked   uint64 `json:"linked"`   // people whose linked account changed
}

// Answers rebuilds the answers of all accounts from the base tables, in a table next to the live one,
// and then exchanges the two. Builders write to both in the meantime. The exchange happens once each account
// has an answer that was built from its newest rows. Then it refreshes the linked accounts of people. An interrupted run
// starts over.
func Answers(ctx context.Context, deps Deps) (report AnswersReport, err error) {
	if deps.Conn == nil || deps.Logger == nil {
		return report, errors.New("replay answers: no connection to ClickHouse, or no logger")
	}
	deps = deps.withDefaults()
	err = migrations.WithLock(ctx, deps.Conn, deps.Logger, func(ctx context.Context, layout readmodel.Layout) error {
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
	deps       Deps
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
	left, err := answers.ShadowTables(ctx, r.deps.Conn, r.layout)
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := execAll(ctx, r.deps.Conn, answersRebuild(r.layout, "x").Drop(name)...); err != nil {
			return err
		}
	}
	r.table = answersRebuild(r.layout, newID(r.deps.Now()))
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
	if err := execAll(ctx, r.deps.Conn, statements...); err != nil {
		return err
	}
	r.report.Linked, err = refreshLinked(ctx, r.deps, nil)
	return err
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
		ids, err := readmodel.AccountsAfter(ctx, r.deps.Conn, after, answers.BuildAccounts)
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

// refreshLinked refreshes the linked accounts of all people, and returns how many changed. It calls announce, unless it
// is nil, before it writes.
func refreshLinked(
	ctx context.Context, deps Deps, announce func(context.Context, []string) error,
) (changed uint64, err error) {
	var people uint64
	if err := deps.Conn.QueryRow(ctx, "SELECT uniq(profile_hash) FROM network_people").Scan(&people); err != nil {
		return 0, fmt.Errorf("count the people: %w", err)
	}
	total := int64(people) // an estimate if there are more than 65,536 people
	deps.Progress.Begin("Refreshing linked accounts", total)
	defer deps.Progress.End()
	var refreshed int64
	r := linked.Refresher{Conn: deps.Conn, Suppressed: deps.Suppressed, Now: deps.Now, Announce: announce}
	err = r.RefreshAll(ctx, func(n int, some []string) error {
		refreshed += int64(n)
		changed += uint64(len(some))
		deps.Progress.Set(min(refreshed, total))
		return nil
	})
	return changed, err
}

// buildSome builds answers in the shadow table.
func (r *answersReplay) buildSome(ctx context.Context, ids []int64, try uint32) error {
	r.report.Built += uint64(len(ids))
	return answers.Rebuild(ctx, r.deps.Conn, ids, answers.Rebuilding{
		Tables: []string{r.table.ShadowTable()}, Attempt: try, Generation: r.generation,
	})
}

// complete rebuilds answers that differ from their rows until none does. The regular builders handle later
// ingests.
func (r *answersReplay) complete(ctx context.Context) error {
	var differing []int64
	err := answers.Scan(ctx, r.deps.Conn, r.table.ShadowTable(), func(ids []int64) error {
		differing = append(differing, ids...)
		return nil
	})
	for try := uint32(2); err == nil && len(differing) > 0; try++ {
		if try > maxAnswerAttempts {
			return fmt.Errorf("%d answers still differ from their rows: run the command again when less is ingested",
				len(differing))
		}
		var left []int64
		for part := range slices.Chunk(differing, answers.ScanSlice) {
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
		case <-time.After(answersRetryInterval):
		}
	}
	return err
}
