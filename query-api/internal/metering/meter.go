package metering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/redisguard"
	"muster/schemas/event"
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
	Ledger  *ledger.Outbox
	Answers *idempotency.Answers
	// IdentityKey is the key of the hashes of returned identities.
	IdentityKey []byte
	// Sums adds up a period of the ledger.
	Sums func(ctx context.Context, period string) (credits.Sums, error)
	// Erased says that a stored answer tells of somebody who was erased since, so that
	// it is not given again; nil: none does.
	Erased func(idempotency.Answer) bool
	// Has reports whether the ledger counts a call.
	Has    func(ctx context.Context, organization, period, requestID string) (bool, error)
	Now    func() time.Time
	Logger *slog.Logger
}

// Meter counts and charges calls.
type Meter struct {
	cfg     Config
	credits credits.Store
	limits  limits.Limiter
	ledger  *ledger.Outbox
	answers *idempotency.Answers
	hashes  *event.Returned
	logger  *slog.Logger
	sums    func(ctx context.Context, period string) (credits.Sums, error)
	has     func(ctx context.Context, organization, period, requestID string) (bool, error)
	now     func() time.Time
	loads   chan load
	erased  func(idempotency.Answer) bool

	toldLate atomic.Int64 // when the log told that rates are late, in nanoseconds; 0: never

	broken forgiven

	owing sync.Mutex
	paid  paid // guarded by owing
}

// New returns a Meter.
func New(cfg Config, deps Deps) *Meter {
	return &Meter{cfg: cfg, credits: deps.Credits, limits: deps.Limits, ledger: deps.Ledger, answers: deps.Answers, hashes: event.NewReturned(deps.IdentityKey), logger: deps.Logger, sums: deps.Sums, has: deps.Has, now: deps.Now,
		loads: make(chan load), erased: deps.Erased,
	}
}

// Begin begins a call.
func (m *Meter) Begin(r Request) *Call {
	return &Call{meter: m, request: r, began: m.now(), limits: r.Principal.Organization.LimitsOf()}
}

// load is a period that somebody waits for.
type load struct {
	period string
	done   chan error // has room for the one answer
}

// Run loads balances that are asked for, until ctx ends. Nothing can be charged
// in a period that is not loaded, hence not without Run.
func (m *Meter) Run(ctx context.Context) {
	for {
		select {
		case l := <-m.loads:
			err := m.load(ctx, l.period)
			l.done <- err
			m.answerOthers(l.period, err)
		case <-ctx.Done():
			return
		}
	}
}

// answerOthers gives the result to those who have been waiting for the same.
func (m *Meter) answerOthers(period string, err error) {
	var others []load
	for {
		select {
		case l := <-m.loads:
			if l.period == period {
				l.done <- err
				continue
			}
			others = append(others, l)
			continue
		default:
		}
		break
	}
	for _, l := range others { // a month is turning: they try again
		l.done <- credits.ErrNotLoaded
	}
}

func (m *Meter) load(ctx context.Context, period string) error {
	sums, err := m.sums(ctx, period)
	if err == nil {
		_, err = m.credits.Load(ctx, period, sums)
	}
	if err != nil {
		return fmt.Errorf("load the balances of %s: %w", period, err)
	}
	return nil
}

// Load gives the store the balances of a period if it has none: at the start,
// when a month begins, and when the store has lost what it had.
func (m *Meter) Load(ctx context.Context, period string) error {
	l := load{period: period, done: make(chan error, 1)}
	select {
	case m.loads <- l:
	case <-ctx.Done():
		return fmt.Errorf("load the balances of %s: %w", period, context.Cause(ctx))
	}
	select {
	case err := <-l.done:
		return err
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

// tellLate is how often the log tells at most that rates are late: a slow Redis may make
// all of them so.
const tellLate = time.Minute

// rateUnknown reports that a request passed without a decision.
func (m *Meter) rateUnknown(ctx context.Context, err error) {
	level := slog.LevelWarn
	switch {
	case errors.Is(err, redisguard.ErrAway): // the log has the outage already
		level = slog.LevelDebug
	case errors.Is(err, limits.ErrLate):
		now, told := m.now().UnixNano(), m.toldLate.Load()
		if told != 0 && now-told < tellLate.Nanoseconds() || !m.toldLate.CompareAndSwap(told, now) {
			level = slog.LevelDebug
		}
	}
	m.logger.LogAttrs(ctx, level, "a request passes without its rate", slog.Any("error", err))
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

// Usage is what an organization has used in a period.
func (m *Meter) Usage(ctx context.Context, organization, period string) (credits.Totals, error) {
	return m.usage(ctx, organization, period)
}

// Settle makes what the ledger has final: published charges are settled,
// published voids released, but for the requests that they count.
func (m *Meter) Settle(ctx context.Context, events []ledger.Event) error {
	var settled, released []credits.Claim
	for i := range events {
		u := &events[i]
		c := credits.Claim{ID: u.RequestID, Organization: u.OrganizationID, Period: u.Period}
		switch u.Outcome {
		case event.OutcomeCharged, event.OutcomeFree, event.OutcomeFailed:
			settled = append(settled, c)
		case event.OutcomeUnanswered:
			if u.Requests == 0 {
				released = append(released, c)
				continue
			}
			_, err := m.credits.Commit(ctx, c, u.Requests, 0)
			if err != nil && !errors.Is(err, credits.ErrLost) && !errors.Is(err, credits.ErrNotLoaded) {
				return fmt.Errorf("settle a claim: %w", err)
			}
			settled = append(settled, c)
		case event.OutcomeRefusedCredits:
			if u.Requests > 0 {
				settled = append(settled, c)
			}
		case event.OutcomeReplayed, event.OutcomeRefusedForbidden, event.OutcomeRefusedRate, event.OutcomeRefusedRequests:
		}
	}
	if len(settled) > 0 {
		if err := m.credits.Settle(ctx, settled); err != nil {
			return fmt.Errorf("settle %d claims: %w", len(settled), err)
		}
	}
	if len(released) > 0 {
		if err := m.credits.Release(ctx, released); err != nil {
			return fmt.Errorf("release %d claims: %w", len(released), err)
		}
	}
	return nil
}
