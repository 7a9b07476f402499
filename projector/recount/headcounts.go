package recount

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
)

// maxHeadcountAge is the age at which headcounts are counted again although nothing has changed: they depend on the date.
const maxHeadcountAge = time.Hour

// Headcounts counts the people of companies if something has changed. It is not safe for concurrent use.
type Headcounts struct {
	source  uint64 // what was counted last
	counted bool
}

// Refresh counts the people of all companies, unless nothing has changed since the last call, or a run began less than
// minAge ago, which may be that of another projector. It reports whether it counted.
func (h *Headcounts) Refresh(ctx context.Context, conn driver.Conn, minAge time.Duration, now time.Time) (bool, error) {
	source, last, err := readmodel.HeadcountSource(ctx, conn)
	if err != nil {
		return false, err
	}
	if h.counted && source == h.source && now.Sub(last) < maxHeadcountAge || isRecent(last, now, minAge) {
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
	h.source, h.counted = source, true
	return true, readmodel.DropHeadcounts(ctx, conn, layout, now)
}
