package suggestions

import (
	"context"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
)

const (
	// minInterval and maxInterval bound the interval between runs. Suggestions are at most 5 minutes old (rulings.md,
	// Search), which leaves a minute for a run.
	minInterval, maxInterval = 10 * time.Second, 4 * time.Minute
	// share is how many times the duration of a run the next one is delayed: runs take a twentieth of a processor.
	share = 20
)

// Watch counts the suggested values again while people change, until ctx ends. Errors are logged and retried.
func Watch(ctx context.Context, conn driver.Conn, logger *slog.Logger) {
	var interval time.Duration
	for {
		began := time.Now()
		if _, err := Refresh(ctx, conn, interval); err != nil && ctx.Err() == nil {
			logger.LogAttrs(ctx, slog.LevelWarn, "suggestions: counting failed, will retry", slog.Any("error", err))
		}
		interval = min(max(minInterval, share*time.Since(began)), maxInterval)
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// Refresh writes a run, unless the newest one counted the same rows or began less than minAge ago. It reports whether
// it did.
func Refresh(ctx context.Context, conn driver.Conn, minAge time.Duration) (done bool, err error) {
	newest, err := readmodel.NewestSuggestions(ctx, conn)
	if err != nil {
		return false, err
	}
	now := time.Now()
	// Another replica's clock may be ahead: its runs count as old.
	if age := now.Sub(newest.Run.Began()); newest.Run > 0 && age >= 0 && age < minAge {
		return false, nil
	}
	source, err := readmodel.SuggestionSource(ctx, conn)
	if err != nil || source == newest.Source { // without a run, no people
		return false, err
	}
	layout, err := readmodel.FindLayout(ctx, conn)
	if err != nil {
		return false, err
	}
	next := readmodel.SuggestionState{Run: readmodel.NewSuggestionRun(now, newest.Run), Source: source}
	if err := readmodel.CountSuggestions(ctx, conn, next); err != nil {
		return false, err
	}
	// Statements that read the last run may still begin.
	return true, readmodel.DropSuggestions(ctx, conn, layout, newest.Run)
}
