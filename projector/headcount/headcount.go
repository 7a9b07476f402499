// Package headcount maintains the headcounts of companies by year, which company enrichment shows.
//
// [Watch] counts the people of all companies again when people or companies have changed, at most once in a while.
// Counts have no identities; deleted and erased people are not counted from the next run on. Several projectors may
// count: of a company the newest count is read.
package headcount

import (
	"context"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
)

const (
	// minInterval and maxInterval bound the interval between runs.
	minInterval, maxInterval = 15 * time.Second, time.Hour
	// share is how many times the duration of a run the next one is delayed: runs take a fiftieth of a processor.
	share = 50
)

// Watch counts again while people change, until ctx ends. Errors are logged and retried.
func Watch(ctx context.Context, conn driver.Conn, logger *slog.Logger) {
	var r Refresher
	interval := minInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		began := time.Now()
		if _, err := r.Refresh(ctx, conn, interval, began); err != nil && ctx.Err() == nil {
			logger.LogAttrs(ctx, slog.LevelWarn, "headcount: counting failed, will retry", slog.Any("error", err))
		}
		interval = min(max(minInterval, share*time.Since(began)), maxInterval)
	}
}

// Refresher counts if something has changed. It is not safe for concurrent use.
type Refresher struct {
	source  uint64 // what was counted last
	counted bool
}

// Refresh counts the people of all companies, unless nothing has changed since the last call, or a run began less than
// minAge ago, which may be that of another projector. It reports whether it counted.
func (r *Refresher) Refresh(ctx context.Context, conn driver.Conn, minAge time.Duration, now time.Time) (bool, error) {
	source, last, err := readmodel.HeadcountSource(ctx, conn)
	if err != nil {
		return false, err
	}
	// A clock that is ahead is no reason to skip.
	if age := now.Sub(last); r.counted && source == r.source && age < maxInterval || age >= 0 && age < minAge {
		return false, nil
	}
	layout, err := readmodel.FindLayout(ctx, conn)
	if err != nil {
		return false, err
	}
	if !now.After(last) {
		now = last.Add(time.Microsecond)
	}
	if err := readmodel.CountHeadcounts(ctx, conn, now); err != nil {
		return false, err
	}
	r.source, r.counted = source, true
	return true, readmodel.DropHeadcounts(ctx, conn, layout, now)
}
