package metering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"muster/query-api/internal/credits"
	"muster/query-api/internal/limits"
)

// Config configures a [Meter].
type Config struct {
	// Lease is how long a reservation holds without a commit: longer than the
	// longest work on a call.
	Lease time.Duration
}

// Deps is what a Meter works with.
type Deps struct {
	Credits credits.Store
	Limits  limits.Limiter
	// Sums adds up a period of the ledger.
	Sums   func(ctx context.Context, period string) (credits.Sums, error)
	Now    func() time.Time
	Logger *slog.Logger
}

// Meter counts and charges calls.
type Meter struct {
	cfg     Config
	credits credits.Store
	limits  limits.Limiter
	logger  *slog.Logger
	sums    func(ctx context.Context, period string) (credits.Sums, error)
	now     func() time.Time
	loading singleflight.Group
}

// New returns a Meter.
func New(cfg Config, deps Deps) *Meter {
	return &Meter{cfg: cfg, credits: deps.Credits, limits: deps.Limits, logger: deps.Logger, sums: deps.Sums, now: deps.Now}
}

// Begin begins a call.
func (m *Meter) Begin(r Request) *Call {
	return &Call{meter: m, request: r, began: m.now(), limits: r.Principal.Organization.LimitsOf()}
}

// Load gives the store the balances of a period if it has none: at the start,
// when a month begins, and when the store has lost what it had.
func (m *Meter) Load(ctx context.Context, period string) error {
	// Whoever waits here does not end the work of the others.
	done := m.loading.DoChan(period, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		sums, err := m.sums(ctx, period)
		if err != nil {
			return nil, err
		}
		_, err = m.credits.Load(ctx, period, sums)
		return nil, err
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return fmt.Errorf("load the balances of %s: %w", period, r.Err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("load the balances of %s: %w", period, context.Cause(ctx))
	}
}

// loaded runs do, and again when it needs a period that had to be loaded.
func loaded[T any](ctx context.Context, m *Meter, period string, do func() (T, error)) (T, error) {
	out, err := do()
	if !errors.Is(err, credits.ErrNotLoaded) {
		return out, err
	}
	if err := m.Load(ctx, period); err != nil {
		return out, err
	}
	return do()
}

// rateUnknown reports that a request passed without a decision.
func (m *Meter) rateUnknown(ctx context.Context, err error) {
	m.logger.LogAttrs(ctx, slog.LevelWarn, "rate limits cannot be reached, a request passes", slog.Any("error", err))
}

func (m *Meter) reserve(ctx context.Context, claim credits.Claim) (credits.Balance, error) {
	return loaded(ctx, m, claim.Period, func() (credits.Balance, error) { return m.credits.Reserve(ctx, claim) })
}

func (m *Meter) usage(ctx context.Context, organization, period string) (credits.Totals, error) {
	totals, err := loaded(ctx, m, period, func() (credits.Totals, error) { return m.credits.Usage(ctx, organization, period) })
	if err != nil {
		return totals, unavailable(err)
	}
	return totals, nil
}
