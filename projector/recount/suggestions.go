package recount

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
)

// RefreshSuggestions counts the values of all people and writes them as a new run, unless the newest run counted the
// same rows or began less than minAge ago. It reports whether it counted. Only complete runs are read, so an interrupted
// one has no effect; those before the last but one are dropped.
func RefreshSuggestions(
	ctx context.Context, conn driver.Conn, minAge time.Duration, now time.Time,
) (done bool, err error) {
	newest, err := readmodel.NewestSuggestions(ctx, conn)
	if err != nil || isRecent(newest.Run.Began(), now, minAge) {
		return false, err
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
