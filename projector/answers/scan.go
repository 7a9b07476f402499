package answers

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// HasNone reports whether there are accounts but no answer, as after an upgrade or in a restored backup.
func HasNone(ctx context.Context, conn driver.Conn) (bool, error) {
	return ask(ctx, conn, "SELECT (SELECT count() FROM codehost_people) > 0 AND (SELECT count() FROM "+
		readmodel.AnswersTable+") = 0")
}

// IsIncomplete reports whether more than a tenth of the accounts have no answer.
func IsIncomplete(ctx context.Context, conn driver.Conn) (bool, error) {
	return ask(ctx, conn, "SELECT (SELECT uniqExact(user_id) FROM codehost_people) * 0.9 > "+
		"(SELECT uniqExact(user_id) FROM "+readmodel.AnswersTable+")")
}

func ask(ctx context.Context, conn driver.Conn, query string) (yes bool, err error) {
	if err := conn.QueryRow(ctx, query).Scan(&yes); err != nil {
		return false, fmt.Errorf("count answers: %w", err)
	}
	return yes, nil
}

// Scan calls differing with the accounts whose answers were not built from their newest rows.
func Scan(ctx context.Context, conn driver.Conn, table string, differing func([]int64) error) error {
	for after := int64(math.MinInt64); ; {
		ids, err := readmodel.AccountsAfter(ctx, conn, after, ScanSlice)
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

// TouchDiffering requests builds of the answers that were not built from their newest rows, and that people are linked
// with their accounts again. It returns their number.
func TouchDiffering(ctx context.Context, conn driver.Conn, w *bus.Writer) (n int, err error) {
	err = Scan(ctx, conn, readmodel.AnswersTable, func(ids []int64) error {
		accounts := make(map[int64]int64, len(ids))
		for _, id := range ids {
			accounts[id] = 0
		}
		n += len(ids)
		if err := Touch(ctx, w, accounts); err != nil {
			return err
		}
		return TouchLinks(ctx, w, ids)
	})
	return n, err
}

// Watch periodically requests builds of answers that differ from their source rows, until ctx ends. Errors are logged
// and retried.
func Watch(ctx context.Context, cfg Config, deps Deps) {
	for wait := scanAfter; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = scanAfter
		behind, err := lag(ctx, cfg)
		if err == nil && behind > 0 {
			continue // Their builds are already requested.
		}
		n := 0
		if err == nil {
			n, err = TouchDiffering(ctx, deps.Conn, deps.Writer)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			deps.Logger.LogAttrs(ctx, slog.LevelWarn, "answers: comparison failed, will retry",
				slog.Any("error", RedactError(err)))
		default:
			wait = scanEvery
			if n > 0 {
				deps.Logger.LogAttrs(ctx, slog.LevelInfo, "answers: rebuilding outdated answers",
					slog.Int("accounts", n))
			}
		}
	}
}

// lag returns the number of touches without a build.
func lag(ctx context.Context, cfg Config) (n int64, err error) {
	lags, err := bus.Lag(ctx, cfg.Consumer.Config, cfg.Group, []string{event.TopicAnswerTask})
	if err != nil {
		return 0, fmt.Errorf("read the lag of answers: %w", err)
	}
	for _, l := range lags {
		n += l.Lag
	}
	return n, nil
}
