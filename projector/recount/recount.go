// Package recount maintains the tables of counts over all people: the headcounts of companies by year, which company
// enrichment shows, and the suggested values, which GET /v1/suggest reads.
//
// [Watch] counts again when people or companies have changed since the newest complete run, also one before a restart.
// Counts have no identities. Deleted and erased people are not counted from the next run on. Replicas skip a run if
// another one has just begun one.
package recount

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
)

// table is a table of counts.
type table struct {
	name string
	// The next run waits share times as long as the last one took, at least min and at most max.
	min, max time.Duration
	share    int
	refresh  func(ctx context.Context, conn driver.Conn, minAge time.Duration, now time.Time) (bool, error)
}

// Watch counts again while people change, until ctx ends. Errors are logged and retried.
func Watch(ctx context.Context, conn driver.Conn, logger *slog.Logger) {
	var running sync.WaitGroup
	for _, t := range []table{
		{readmodel.HeadcountTable, 15 * time.Second, maxHeadcountAge, 50, RefreshHeadcounts},
		// Suggestions are at most 5 minutes old (rulings.md, Search), which leaves a minute for a run.
		{readmodel.SuggestionsTable, 10 * time.Second, 4 * time.Minute, 20, RefreshSuggestions},
	} {
		running.Go(func() { t.watch(ctx, conn, logger) })
	}
	running.Wait()
}

func (t table) watch(ctx context.Context, conn driver.Conn, logger *slog.Logger) {
	for interval := t.min; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		began := time.Now()
		if _, err := t.refresh(ctx, conn, interval, began); err != nil && ctx.Err() == nil {
			logger.LogAttrs(ctx, slog.LevelWarn, "recount: counting failed, will retry", slog.String("table", t.name),
				slog.Any("error", err))
		}
		interval = min(max(t.min, time.Duration(t.share)*time.Since(began)), t.max)
	}
}

// isRecent reports whether a run began less than minAge ago. One that began in the future, by a clock that is ahead, is
// no reason to skip a run.
func isRecent(began, now time.Time, minAge time.Duration) bool {
	age := now.Sub(began)
	return age >= 0 && age < minAge
}
