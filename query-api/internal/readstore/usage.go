package readstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Usage returns the ledger's event of a request that an organization made at about a time; nil if there is none, or it
// is not projected yet.
func (s *Store) Usage(ctx context.Context, organization, requestID string, at time.Time) (*event.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.queryTimeout)
	defer cancel()
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		readmodel.ParameterOrganization: organization, readmodel.ParameterRequest: requestID,
		// The month may change between the beginning of a call and its ID.
		readmodel.ParameterPeriod:     event.PeriodOf(at.Add(-time.Minute)),
		readmodel.ParameterNextPeriod: event.PeriodOf(at.Add(time.Minute)),
	}))
	var found *event.Usage
	err := ch.ReadRows(ctx, s.conn, readmodel.UsageEventQuery(), func(rows driver.Rows) error {
		u, err := readmodel.ScanUsageEvent(rows)
		u.RequestID, u.OrganizationID = requestID, organization
		found = &u
		return err
	})
	return found, unavailable("usage", err)
}

// unavailable wraps an error of a read, unless the caller has gone.
func unavailable(what string, err error) error {
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
	}
	return err
}

// WebhookPage returns the last attempts of a page of deliveries (readmodel.WebhookPage).
func (s *Store) WebhookPage(ctx context.Context, f readmodel.WebhookFilter) ([]event.WebhookAttempt, error) {
	ctx, cancel := context.WithTimeout(ctx, s.queryTimeout)
	defer cancel()
	page, err := readmodel.WebhookPage(ctx, s.conn, f)
	return page, unavailable("webhook deliveries", err)
}

// WebhookAttempts returns attempts of deliveries (readmodel.WebhookAttempts).
func (s *Store) WebhookAttempts(ctx context.Context, f readmodel.WebhookFilter) ([]event.WebhookAttempt, error) {
	ctx, cancel := context.WithTimeout(ctx, s.queryTimeout)
	defer cancel()
	attempts, err := readmodel.WebhookAttempts(ctx, s.conn, f)
	return attempts, unavailable("webhook attempts", err)
}
