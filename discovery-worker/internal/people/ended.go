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

// Ended says that a context call has an outcome on record.
func (r *Reader) Ended(ctx context.Context, requestID string) (bool, error) {
	ended := false
	err := r.query(ctx, readmodel.ContextsQuery(), keysParameter([]uint64{readmodel.ContextHash(requestID)}), func(rows driver.Rows) error {
		var row readmodel.ContextRow
		err := rows.Scan(row.Dest()...)
		ended = ended || row.RequestID == requestID && row.Status != string(event.ContextProcessing)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read what came of a context call: %w", err)
	}
	return ended, nil
}

// Discovered is when the newest discovery on record of an account was made; the zero
// time when there is none.
func (r *Reader) Discovered(ctx context.Context, a event.Account) (at time.Time, err error) {
	key := identity.UsernameKey(a.Username)
	err = r.query(ctx, readmodel.DiscoveriesQuery(), keysParameter([]uint64{readmodel.DiscoveryHash(a.Platform, key)}), func(rows driver.Rows) error {
		var row readmodel.DiscoveryRow
		err := rows.Scan(row.Dest()...)
		if row.Platform == a.Platform && row.UsernameKey == key {
			at = row.At
		}
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read when an account was discovered: %w", err)
	}
	return at, nil
}
