package metering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"muster/query-api/internal/credits"
	"muster/schemas/event"
)

// Hold is a part of a job, whose price is reserved until it is charged or released. Its rows are charged together, but
// each has its own event in the ledger.
type Hold struct {
	// ID is the request ID of the last of its rows: its event settles the reservation. All earlier ones are in the
	// ledger before it.
	ID    string
	Units int64
}

// ReserveHolds reserves the price of all units of a job, and a monthly request for each if the endpoint counts them,
// for lease. Either all holds are reserved or none. The end of the call does not release them. It returns the errors
// of [Call.Reserve]. It must not be repeated with the same holds: those that are charged would be reserved again.
func (c *Call) ReserveHolds(ctx context.Context, holds []Hold, lease time.Duration) error {
	if c.meter == nil {
		return nil
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	// The sum is reserved first, within the limits, and then divided.
	whole := c.holdClaim(Hold{ID: c.request.ID}, c.meter.cfg.Lease)
	for _, h := range holds {
		part := c.holdClaim(h, lease)
		whole.Requests, whole.Credits = whole.Requests+part.Requests, whole.Credits+part.Credits
	}
	whole.RequestLimit, whole.CreditLimit = c.limits.MonthlyRequests, c.limits.Credits
	balance, err := c.meter.reserve(ctx, whole)
	release := c.releases(whole)
	var exceeded *credits.Exceeded
	switch {
	case errors.As(err, &exceeded):
		refused := c.limitError(whole, &credits.Exceeded{Requests: exceeded.Requests, Balance: balance})
		c.outcome = refused.Outcome
		return refused
	case err != nil:
		c.addCompensation(release)
		return unavailable(err)
	}
	parts := make([]credits.Claim, 0, len(holds))
	for _, h := range holds {
		claim := c.holdClaim(h, lease)
		parts = append(parts, claim)
		if _, err := c.meter.reserve(ctx, claim); err != nil {
			c.addCompensation(func(ctx context.Context) error {
				return c.meter.credits.Release(ctx, append(parts, whole))
			})
			return unavailable(err)
		}
	}
	if err := release(ctx); err != nil {
		c.addCompensation(release) // else the lease ends it
	}
	return nil
}

// unlimited is the limit of what was accepted within its limits: it is charged even if they are exceeded since.
const unlimited = math.MaxInt64 / 4

func (c *Call) holdClaim(h Hold, lease time.Duration) credits.Claim {
	claim := credits.Claim{
		ID: h.ID, Organization: c.request.Principal.Organization.ID, Period: event.PeriodOf(c.began),
		Key: c.request.Principal.Key.ID, Endpoint: c.request.Endpoint, Credits: h.Units * c.UnitPrice(), Calls: h.Units,
		RequestLimit: unlimited, CreditLimit: unlimited, Lease: lease,
	}
	if c.request.Counted {
		claim.Requests = h.Units
	}
	return claim
}

// ReleaseHolds releases holds that were not charged, as after a failure. what names the call that reserved them. A
// charge of the same hold, which another process may make at the same time, counts whether it comes before or after.
func (m *Meter) ReleaseHolds(ctx context.Context, what DeferredCharge, ids []string) error {
	claims := make([]credits.Claim, len(ids))
	for i, id := range ids {
		claims[i] = what.claim()
		claims[i].ID = id
	}
	err := m.credits.ReleaseReservations(ctx, claims)
	if err != nil && !errors.Is(err, credits.ErrNotLoaded) {
		return unavailable(err)
	}
	return nil
}

// ChargeHold charges the rows of a hold, which all belong to one call, and frees what they did not use. The ID of the
// last row must be that of the hold. Rows that the ledger has are not charged again. When it returns, the usage events
// are durable. Calls for the same hold must not overlap.
func (m *Meter) ChargeHold(ctx context.Context, rows []DeferredCharge) error {
	claim := sumClaim(rows)
	_, err := loaded(ctx, m, claim.Period, func() (credits.Balance, error) {
		return m.credits.Commit(ctx, claim, claim.Requests, claim.Credits)
	})
	if errors.Is(err, credits.ErrLost) {
		// The reservation has ended or was lost in a crash, or the rows are already charged and settled.
		if rows, err = m.uncharged(ctx, rows); err != nil || len(rows) == 0 {
			return err
		}
		claim = sumClaim(rows)
		if _, err := m.reserve(ctx, claim); err != nil {
			return unavailable(err)
		}
		_, err = m.credits.Commit(ctx, claim, claim.Requests, claim.Credits)
	}
	if err != nil {
		return unavailable(err)
	}
	for i := range rows {
		if err := m.ledger.Record(m.deferredEvent(&rows[i])); err != nil {
			return unavailable(fmt.Errorf("record a charge: %w", err))
		}
	}
	return nil
}

// uncharged returns the rows that the ledger does not have.
func (m *Meter) uncharged(ctx context.Context, rows []DeferredCharge) ([]DeferredCharge, error) {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].RequestID
	}
	charged, err := m.inLedger(ctx, rows[0].Organization, event.PeriodOf(rows[0].At), ids)
	if err != nil {
		return nil, unavailable(err)
	}
	var rest []DeferredCharge
	for i := range rows {
		if !charged[rows[i].RequestID] {
			rest = append(rest, rows[i])
		}
	}
	if len(rest) > 0 && len(rest) < len(rows) {
		m.logger.LogAttrs(ctx, slog.LevelInfo, "metering: rows of a hold were partly charged before",
			slog.String("request_id", rows[0].RequestID), slog.Int("rows", len(rest)))
	}
	return rest, nil
}

// sumClaim returns the claim of rows, under the ID of the last one.
func sumClaim(rows []DeferredCharge) credits.Claim {
	claim := rows[len(rows)-1].claim()
	claim.Credits, claim.Requests, claim.Calls = 0, 0, int64(len(rows))
	for i := range rows {
		claim.Credits += rows[i].Credits
		claim.Requests += rows[i].Requests
	}
	return claim
}

// deferredEvent returns the usage event of a deferred charge.
func (m *Meter) deferredEvent(o *DeferredCharge) *event.Usage {
	u := &event.Usage{
		RequestID: o.RequestID, OrganizationID: o.Organization, KeyID: o.Key, At: o.At.UTC(),
		Period: event.PeriodOf(o.At), Method: o.Method, Endpoint: o.Endpoint, Status: http.StatusOK,
		Outcome: event.OutcomeFree, Plan: o.Plan, Requests: o.Requests, Credits: o.Credits,
		DurationMicros: o.Done.Sub(o.At).Microseconds(), Returned: m.returned(o.Used.Identities),
		Groups: o.Used.Groups,
	}
	if o.Credits > 0 {
		u.Outcome = event.OutcomeCharged
	}
	return u
}
