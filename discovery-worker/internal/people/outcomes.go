package people

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// HasOutcome reports whether a context call has an outcome in the read models.
func (r *Reader) HasOutcome(ctx context.Context, requestID string) (bool, error) {
	ended := false
	err := r.query(ctx, readmodel.ContextsQuery(), keysParameter([]uint64{readmodel.ContextHash(requestID)}),
		func(rows driver.Rows) error {
			var row readmodel.ContextRow
			err := rows.Scan(row.ScanDest()...)
			ended = ended || row.RequestID == requestID && row.Status != string(event.ContextProcessing)
			return err
		})
	if err != nil {
		return false, fmt.Errorf("read context outcome: %w", err)
	}
	return ended, nil
}

// LastDiscovered returns the time of the newest discovery of an account, or the zero time if there
// is none.
func (r *Reader) LastDiscovered(ctx context.Context, a event.Account) (at time.Time, err error) {
	key := identity.NormalizeUsername(a.Username)
	err = r.query(ctx, readmodel.DiscoveriesQuery(), keysParameter([]uint64{readmodel.DiscoveryHash(a.Platform, key)}),
		func(rows driver.Rows) error {
			var row readmodel.DiscoveryRow
			err := rows.Scan(row.ScanDest()...)
			if row.Platform == a.Platform && row.UsernameKey == key {
				at = row.At
			}
			return err
		})
	if err != nil {
		return time.Time{}, fmt.Errorf("read last discovery: %w", err)
	}
	return at, nil
}
