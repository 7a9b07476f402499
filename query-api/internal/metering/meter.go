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
	"muster/query-api/internal/redisbreaker"
	"muster/schemas/event"
)

// Config configures a [Meter].
type Config struct {
	// Lease is how long an uncommitted reservation lasts. It must exceed the duration of any call.
	Lease time.Duration
}

// Deps holds the dependencies of a [Meter].
type Deps struct {
	Credits credits.Store
	Limits  limits.Limiter
	Ledger  *ledger.Outbox
	Answers *idempotency.Answers
	// Disclosed returns the people of the returned records, "<kind> <identity>", as the ledger has them; nil: none.
	Disclosed func(identities []string) []string
	// Balances sums up a period of the ledger.
	Balances func(ctx context.Context, period string) (credits.Balances, error)
	// Erased reports whether a stored response is about a person who was erased since, so that it
	// must not be returned again; nil means never.
	Erased func(idempotency.Answer) bool
	// Charged returns which calls the ledger has.
	Charged func(ctx context.Context, organization, period string, requestIDs []string) (map[string]bool, error)
	Now     func() time.Time
	Logger  *slog.Logger
}

// Meter counts and charges calls. It is safe for concurrent use.
type Meter struct {
	cfg      Config
	credits  credits.Store
	limits   limits.Limiter
	ledger   *ledger.Outbox
	answers  *idempotency.Answers
	disclose func(identities []string) []string
	logger   *slog.Logger
	balances func(ctx context.Context, period string) (credits.Balances, error)
	inLedger func(ctx context.Context, organization, period string, requestIDs []string) (map[string]bool, error)
	now      func() time.Time
	loads    chan load
	erased   func(idempotency.Answer) bool

	warnedTimeout atomic.Int64 // time of the last warning about limiter timeouts, in Unix nanoseconds; 0: never

	allowances allowances

	charging sync.Mutex
	charged  chargedCalls // guarded by charging
}

// New returns a Meter.
func New(cfg Config, deps Deps) *Meter {
	return &Meter{
		cfg: cfg, credits: deps.Credits, limits: deps.Limits, ledger: deps.Ledger, answers: deps.Answers,
		disclose: deps.Disclosed, logger: deps.Logger, balances: deps.Balances,
		inLedger: deps.Charged, now: deps.Now, loads: make(chan load), erased: deps.Erased,
	}
}

// returned returns the people of the returned records for the ledger.
func (m *Meter) returned(identities []string) []string {
	if m.disclose == nil {
		return nil
	}
	return m.disclose(identities)
}

// Begin starts a call.
func (m *Meter) Begin(r Request) *Call {
	return &Call{meter: m, request: r, began: m.now(), limits: r.Principal.Organization.LimitsOf()}
}

// load is a request to load a period.
type load struct {
	period string
	done   chan error // buffered, for one result
}

// Run loads requested balances until ctx ends. Without it no period is loaded, and nothing can be
// charged.
func (m *Meter) Run(ctx context.Context) {
	for {
		select {
		case l := <-m.loads:
			err := m.load(ctx, l.period)
			l.done <- err
			m.completeLoads(l.period, err)
		case <-ctx.Done():
			return
		}
	}
}

// completeLoads completes other pending requests for the same period.
func (m *Meter) completeLoads(period string, err error) {
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
	// Requests for another period occur at the turn of a month; the callers retry.
	for _, l := range others {
		l.done <- credits.ErrNotLoaded
	}
}

// load loads the balances of a period into the store.
func (m *Meter) load(ctx context.Context, period string) error {
	sums, err := m.balances(ctx, period)
	if err == nil {
		_, err = m.credits.Load(ctx, period, sums)
	}
	if err != nil {
		return fmt.Errorf("load balances of %s: %w", period, err)
	}
	return nil
}

// Load loads the balances of a period into the store if it has none: at startup, at the start of a
// month, and after the store lost its data.
func (m *Meter) Load(ctx context.Context, period string) error {
	l := load{period: period, done: make(chan error, 1)}
	select {
	case m.loads <- l:
	case <-ctx.Done():
		return fmt.Errorf("load balances of %s: %w", period, context.Cause(ctx))
	}
	select {
	case err := <-l.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("load balances of %s: %w", period, context.Cause(ctx))
	}
}

// loaded calls do, and calls it again after loading the period if do returned
// [credits.ErrNotLoaded].
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

// warnInterval is the minimum interval between warnings about limiter timeouts: with a slow Redis every request may
// time out.
const warnInterval = time.Minute

// allowWithoutDecision logs that a request was allowed without a rate-limit decision.
func (m *Meter) allowWithoutDecision(ctx context.Context, err error) {
	level := slog.LevelWarn
	switch {
	case errors.Is(err, redisbreaker.ErrUnavailable): // the breaker logs the outage
		level = slog.LevelDebug
	case errors.Is(err, limits.ErrTimeout):
		now, last := m.now().UnixNano(), m.warnedTimeout.Load()
		if last != 0 && now-last < warnInterval.Nanoseconds() || !m.warnedTimeout.CompareAndSwap(last, now) {
			level = slog.LevelDebug
		}
	}
	m.logger.LogAttrs(ctx, level, "metering: rate limit not checked, request allowed", slog.Any("error", err))
}

func (m *Meter) reserve(ctx context.Context, claim credits.Claim) (credits.Balance, error) {
	return loaded(ctx, m, claim.Period, func() (credits.Balance, error) { return m.credits.Reserve(ctx, claim) })
}

func (m *Meter) usage(ctx context.Context, organization, period string) (credits.Totals, error) {
	totals, err := loaded(ctx, m, period,
		func() (credits.Totals, error) { return m.credits.Usage(ctx, organization, period) })
	if err != nil {
		return totals, unavailable(err)
	}
	return totals, nil
}

// Usage returns the usage of an organization in a period.
func (m *Meter) Usage(ctx context.Context, organization, period string) (credits.Totals, error) {
	return m.usage(ctx, organization, period)
}

// Settle makes published events final: it settles charges and releases voids, except for the
// requests that a void counts.
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
		case event.OutcomeReplayed, event.OutcomeRefusedForbidden, event.OutcomeRefusedRate,
			event.OutcomeRefusedRequests:
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
