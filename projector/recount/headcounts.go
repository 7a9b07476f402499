package recount

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
)

// maxHeadcountAge is the age at which headcounts are counted again although nothing has changed: they depend on the date.
const maxHeadcountAge = time.Hour

// RefreshHeadcounts counts the people of all companies, unless the newest run is complete, less than an hour old, and
// counted the same rows, or began less than minAge ago, which may be that of another projector. It reports whether it
// counted.
func RefreshHeadcounts(
	ctx context.Context, conn driver.Conn, minAge time.Duration, now time.Time,
) (done bool, err error) {
	source, newest, err := readmodel.HeadcountSource(ctx, conn)
	if err != nil {
		return false, err
	}
	if source == newest.Source && now.Sub(newest.At) < maxHeadcountAge || isRecent(newest.At, now, minAge) {
		return false, nil
	}
	layout, err := readmodel.FindLayout(ctx, conn)
	if err != nil {
		return false, err
	}
	if !now.After(newest.At) {
		now = newest.At.Add(time.Microsecond)
	}
	if err := readmodel.CountHeadcounts(ctx, conn, readmodel.HeadcountState{At: now, Source: source}); err != nil {
		return false, err
	}
	return true, readmodel.DropHeadcounts(ctx, conn, layout, now)
}
