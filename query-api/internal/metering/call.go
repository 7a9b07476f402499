package metering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"muster/query-api/internal/account"
	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/schemas/event"
)

// Request describes the HTTP request of a [Call].
type Request struct {
	ID        string
	Method    string
	Endpoint  string // the path
	Principal account.Principal
	// Price returns the price of a unit; nil if the endpoint is free.
	Price func(event.Prices) int64
	// Counted reports whether calls count towards the monthly request limit.
	Counted bool
	// Sized is the request parameter that makes a call cheaper, for error messages.
	Sized string
	// None reports whether that parameter can make the call free.
	None bool
	// Quota reports whether a 200 response states the credits of the period.
	Quota bool
}

// Call is one authenticated request. It must be used by one goroutine at a time. The zero value is
// an unmetered call without limits.
type Call struct {
	meter   *Meter
	request Request
	began   time.Time
	limits  event.Limits
	key     string // Idempotency-Key; empty: none
	path    string // request path, if key is set
	body    []byte // request body, if key is set
	// outcome is set for a call that is in the ledger without a reservation: rejected or replayed.
	outcome event.Outcome
	// counted is the number of monthly requests of a rejected call.
	counted int64

	mu          sync.Mutex
	reservation *Reservation
	identities  []string                      // records in the response
	accounts    []string                      // accounts named in the response
	identifiers []string                      // identifiers of the records
	claim       *idempotency.Claim            // claim of the Idempotency-Key
	stopRenewal func()                        // stops renewing claim
	undo        []func(context.Context) error // compensations of writes with uncertain outcome
	stored      bool                          // the response is stored
	transient   bool                          // the response must not be stored
	work        *idempotency.Claim            // claim of the work started under the key
	workBound   bool                          // the work is bound to the key
	owed        int64                         // deferred charge of a detached reservation
}

type callKey struct{}

// NewContext returns a context that carries the call.
func NewContext(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// FromContext returns the call of a context. Endpoints that need a key always have one.
func FromContext(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// Rate counts the request against the key's rate limit. If the limiter is unavailable, the request
// is allowed as if it were the first.
func (c *Call) Rate(ctx context.Context) limits.Decision {
	perMinute := c.limits.RequestsPerMinute
	d, err := c.meter.limits.Allow(ctx, c.request.Principal.Key.ID, perMinute)
	if err != nil {
		c.meter.allowWithoutDecision(ctx, err)
		return limits.Decision{Allowed: true, Limit: perMinute, Remaining: max(0, perMinute-1)}
	}
	return d
}

// RateLimitError returns the error of a request over the rate limit.
func (c *Call) RateLimitError(d limits.Decision) *LimitError {
	c.outcome = event.OutcomeRefusedRate
	seconds := max(1, int64((d.RetryAfter+time.Second-1)/time.Second))
	unit := "seconds"
	if seconds == 1 {
		unit = "second"
	}
	return &LimitError{
		Outcome: c.outcome, RetryAfter: d.RetryAfter,
		Detail: fmt.Sprintf("rate limit exceeded: the plan allows %d requests a minute for each key: call again in "+
			"%d %s",
			d.Limit, seconds, unit),
	}
}

// aggregationsPerMinute is the limit, per key and minute, of searches with aggregations, which are free (rulings.md,
// Search).
const aggregationsPerMinute = 60

// AllowAggregations counts a search with aggregations against the key's limit. Its errors are those of
// AllowAddressCount.
func (c *Call) AllowAggregations(ctx context.Context) error {
	return c.allowInWindow(ctx, "aggregations/", aggregationsPerMinute,
		"searches with aggregations are limited to %d calls a minute for each key: omit aggs, or call again in %d seconds")
}

// addressCountsPerMinute is the limit, per key and minute, of free counts that depend on email addresses (rulings.md,
// Search).
const addressCountsPerMinute = 10

// AllowAddressCount counts a free count that depends on email addresses against the key's limit. It
// returns a [*LimitError], or [ErrUnavailable] if the limiter is unavailable: this limit protects
// addresses and fails closed.
func (c *Call) AllowAddressCount(ctx context.Context) error {
	return c.allowInWindow(ctx, "", addressCountsPerMinute, "a size of 0, from, or an explanation, with a query on "+
		"fields with e-mail addresses is limited to %d calls a minute for each key: ask for results, name fields without "+
		"addresses, or call again in %d seconds")
}

// allowInWindow counts a call against a limit of the key. The detail has the limit and the seconds to wait.
func (c *Call) allowInWindow(ctx context.Context, prefix string, most int64, detail string) error {
	if c.meter == nil {
		return nil
	}
	d, err := c.meter.limits.AllowInWindow(ctx, prefix+c.request.Principal.Key.ID, most)
	switch {
	case err != nil:
		return unavailable(err)
	case d.Allowed:
		return nil
	}
	c.outcome = event.OutcomeRefusedRate
	seconds := max(1, int64((d.RetryAfter+time.Second-1)/time.Second))
	return &LimitError{Outcome: c.outcome, RetryAfter: d.RetryAfter, Detail: fmt.Sprintf(detail, most, seconds)}
}

// Quota is the credits of the period after a call, and the price of the
// call (interface.md, Limits: X-Quota-* and X-Credits-Charged).
type Quota struct {
	Used, Limit, Remaining int64
	Charged                int64
}

// Used is what a call returned.
type Used struct {
	// Units is the number of results, records or matches; at most the reserved number.
	Units int64
	// Identities are the returned records, as "<kind> <identity>"; the ledger stores encrypted hashes of those of
	// people. Groups are the groups of fields.
	Identities []string
	Groups     []string
	// Accounts are other accounts named in the response, as "<platform> <comparison form of the
	// username>". A stored response that names an account of an erased person is not returned
	// again. The ledger does not store them.
	Accounts []string
	// Identifiers are the identifiers of the returned records and of people named with them, for
	// the same check: "<platform> id <id>", "<platform> username <comparison form>" and "<platform>
	// email <comparison form>".
	Identifiers []string
}

// ErrUnavailable is returned if a call cannot be metered at the moment. It is retryable.
var ErrUnavailable = errors.New("metering unavailable")

// LimitError is returned for a call over a limit (429).
type LimitError struct {
	Outcome event.Outcome
	// Detail is the message for the client.
	Detail string
	// RetryAfter is the time after which a call may succeed.
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return e.Detail }

// UnitPrice returns the price of a unit for the call's organization.
func (c *Call) UnitPrice() int64 {
	if c.request.Price == nil {
		return 0
	}
	return c.request.Price(c.limits.Prices)
}

// Prices returns the prices of the organization's plan.
func (c *Call) Prices() event.Prices { return c.limits.Prices }

// Affordable returns how many of the units the call may use without costing more than maxCredits.
func (c *Call) Affordable(units, maxCredits int64) int64 {
	if price := c.UnitPrice(); price > 0 {
		return min(units, maxCredits/price)
	}
	return units
}

// Estimate returns the maximum cost of a call and the credits of the period, without reserving
// anything. It serves dry runs.
func (c *Call) Estimate(ctx context.Context, units int64) (maxCredits int64, quota Quota, err error) {
	totals, err := c.meter.usage(ctx, c.request.Principal.Organization.ID, event.PeriodOf(c.began))
	if err != nil {
		return 0, Quota{}, err
	}
	q := c.quota(totals.Balance, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reservation = &Reservation{call: c, quota: q, ended: true}
	return units * c.UnitPrice(), q, nil
}

// Reserve holds the price of a number of units, and a monthly request for each if the endpoint counts them.
// It must be called once per call, after the input is validated. It returns a [*LimitError],
// [ErrUnavailable], or an error of the Idempotency-Key: [*Replay], [ErrRunning], [ErrOtherBody].
func (c *Call) Reserve(ctx context.Context, units int64) (*Reservation, error) {
	if c.meter == nil {
		return &Reservation{call: c, ended: true}, nil
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	claim := credits.Claim{
		ID: c.request.ID, Organization: c.request.Principal.Organization.ID, Period: event.PeriodOf(c.began),
		Key: c.request.Principal.Key.ID, Endpoint: c.request.Endpoint,
		Credits: units * c.UnitPrice(), RequestLimit: c.limits.MonthlyRequests, CreditLimit: c.limits.Credits,
		Lease: c.meter.cfg.Lease,
	}
	if c.request.Counted {
		claim.Requests = units
	}
	balance, err := c.meter.reserve(ctx, claim)
	var exceeded *credits.Exceeded
	switch {
	case errors.As(err, &exceeded):
		if !exceeded.Requests {
			if err := c.countRejected(ctx, claim); err != nil {
				return nil, err
			}
		}
		refused := c.limitError(claim, exceeded)
		c.outcome = refused.Outcome
		return nil, refused
	case err != nil:
		c.addCompensation(c.releases(claim))
		return nil, unavailable(err)
	}
	r := &Reservation{call: c, claim: claim, quota: c.quota(balance, 0)}
	r.release = func() error { return c.releases(claim)(context.WithoutCancel(ctx)) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reservation = r
	return r, nil
}

// countRejected counts a call rejected for lack of credits as a monthly request, like every valid call of a counted
// endpoint.
func (c *Call) countRejected(ctx context.Context, claim credits.Claim) error {
	if claim.Requests == 0 {
		return nil
	}
	claim.Credits = 0
	_, err := c.meter.reserve(ctx, claim)
	// Concurrent calls used up the requests.
	if errors.As(err, new(*credits.Exceeded)) {
		return nil
	}
	if err == nil {
		_, err = c.meter.credits.Commit(ctx, claim, claim.Requests, 0)
	}
	if err != nil {
		c.addCompensation(c.releases(claim))
		return unavailable(err)
	}
	c.counted = claim.Requests
	return nil
}

// addCompensation registers the undo of a failed write that may have been applied, such as by a server whose reply
// timed out.
func (c *Call) addCompensation(undo func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, undo)
}

func (c *Call) releases(claim credits.Claim) func(context.Context) error {
	return func(ctx context.Context) error { return c.meter.credits.Release(ctx, []credits.Claim{claim}) }
}

// unavailable wraps an error of a dependency in [ErrUnavailable].
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

func (c *Call) quota(b credits.Balance, charged int64) Quota {
	return Quota{
		Used: b.Credits, Limit: c.limits.Credits, Remaining: max(0, c.limits.Credits-b.Credits), Charged: charged,
	}
}

// heldPause is the retry interval for credits held by other calls.
const heldPause = 5 * time.Second

// limitError returns the error for missing requests or credits (interface.md, Errors).
func (c *Call) limitError(claim credits.Claim, e *credits.Exceeded) *LimitError {
	_, end, err := event.PeriodBounds(claim.Period)
	if err != nil { // impossible: the period was derived from a time
		end = c.began
	}
	next, wait := end.Format("2006-01-02"), end.Sub(c.began)
	if left := claim.RequestLimit - e.Balance.Requests - e.Balance.HeldRequests; e.Requests && left > 0 {
		return &LimitError{
			Outcome: event.OutcomeRefusedRequests, RetryAfter: wait,
			Detail: fmt.Sprintf("monthly request limit exceeded: %d of the %d requests a month that the plan allows "+
				"are left, and this call counts %d: reduce %s to at most %d, upgrade the plan, or call again from %s",
				left, claim.RequestLimit, claim.Requests, c.request.Sized, left, next),
		}
	}
	if e.Requests {
		return &LimitError{
			Outcome: event.OutcomeRefusedRequests, RetryAfter: wait,
			Detail: fmt.Sprintf("monthly request limit exceeded: the plan allows %d requests a month, and they are "+
				"used up: "+
				"upgrade the plan, or call again from %s", claim.RequestLimit, next),
		}
	}
	if e.Balance.Credits+claim.Credits <= claim.CreditLimit {
		return &LimitError{
			Outcome: event.OutcomeRefusedCredits, RetryAfter: heldPause,
			Detail: fmt.Sprintf("insufficient credits: %d credits are held, and this call needs up to %d: "+
				"running calls have reserved %d, of which the unused part is returned: call again in %d seconds",
				max(0, claim.CreditLimit-e.Balance.Credits-e.Balance.HeldCredits), claim.Credits, e.Balance.HeldCredits,
				int(heldPause.Seconds())),
		}
	}
	held := max(0, claim.CreditLimit-e.Balance.Credits-e.Balance.HeldCredits)
	advice := "upgrade the plan"
	if price := c.UnitPrice(); c.request.Sized != "" && price > 0 && (held >= price || c.request.None) {
		advice = fmt.Sprintf("reduce %s to at most %d or upgrade the plan", c.request.Sized, held/price)
	}
	return &LimitError{
		Outcome: event.OutcomeRefusedCredits, RetryAfter: wait,
		Detail: fmt.Sprintf("insufficient credits: %d credits are held, and this call needs up to %d: %s; new "+
			"credits come on %s",
			held, claim.Credits, advice, next),
	}
}

// Quota returns the credits of the period after the call, for the headers of a 200; ok is false if
// the call does not use credits.
func (c *Call) Quota() (quota Quota, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reservation == nil {
		return Quota{Charged: c.owed}, false
	}
	return c.reservation.quota, true
}

// Reservation is what a call has reserved.
type Reservation struct {
	call      *Call
	claim     credits.Claim
	quota     Quota
	entry     ledger.Entry
	committed bool
	voided    bool // the event is void, because the commit has an uncertain outcome
	ended     bool // commits are no longer allowed
	detached  bool
	release   func() error
}

// Commit records what the call used. When it returns, the usage event is durable and the response
// may be sent. After an error, which matches [ErrUnavailable], nothing is charged and the response
// must not be sent.
func (r *Reservation) Commit(ctx context.Context, used Used) (Quota, error) {
	c := r.call
	if r.committed || r.ended {
		return r.quota, nil
	}
	charged := min(used.Units*c.UnitPrice(), r.claim.Credits)
	u := c.event(http.StatusOK, event.OutcomeFree)
	if charged > 0 {
		u.Outcome = event.OutcomeCharged
	}
	u.Requests, u.Credits, u.Groups = r.claim.Requests, charged, used.Groups
	u.Returned = c.meter.returned(used.Identities)
	entry, err := c.meter.ledger.Prepare(&u)
	if err != nil {
		return Quota{}, unavailable(err)
	}
	balance, err := c.meter.credits.Commit(ctx, r.claim, r.claim.Requests, charged)
	if err != nil {
		r.voided = true
		return Quota{}, errors.Join(unavailable(err), entry.Void())
	}
	c.RecordSubjects(used)
	r.committed, r.entry = true, entry
	r.quota = c.quota(balance, charged)
	if r.detached {
		if err := entry.Confirm(); err != nil {
			return r.quota, unavailable(err)
		}
	}
	return r.quota, nil
}

// Release releases an uncommitted reservation. The end of the call does so, too, unless the
// reservation is detached.
func (r *Reservation) Release() {
	r.ended = r.ended || !r.committed
	if r.detached && !r.committed {
		if err := r.release(); err != nil {
			r.call.meter.logger.Warn("metering: release failed, reservation is held until its lease ends",
				slog.String("request_id", r.claim.ID), slog.Any("error", err))
		}
	}
}

// Prolong extends the reservation to lease from now, for work that continues after the response;
// see [Reservation.Detach].
func (r *Reservation) Prolong(ctx context.Context, lease time.Duration) error {
	if r.claim.ID == "" {
		return nil
	}
	claim := r.claim
	claim.Lease = lease
	if _, err := r.call.meter.credits.Reserve(ctx, claim); err != nil {
		return unavailable(err)
	}
	return nil
}

// Detach separates the reservation from its call, for work that finishes after the response. The
// end of the call does not release it, and its Commit is final immediately.
func (r *Reservation) Detach() {
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	r.detached = true
	c.reservation = nil
}

// event returns the usage event of the call, without usage.
func (c *Call) event(status int, outcome event.Outcome) event.Usage {
	who := c.request.Principal
	return event.Usage{
		RequestID: c.request.ID, OrganizationID: who.Organization.ID, KeyID: who.Key.ID, At: c.began.UTC(),
		Period: event.PeriodOf(c.began), Method: c.request.Method, Endpoint: c.request.Endpoint, Status: status,
		Outcome: outcome, Plan: who.Organization.Plan, DurationMicros: c.meter.now().Sub(c.began).Microseconds(),
	}
}

// Forbidden records that the call got a 403.
func (c *Call) Forbidden() { c.outcome = event.OutcomeRefusedForbidden }

// Sent is the number of units of a response that were written to its connection, completely or in
// part.
type Sent int64

// Special values of Sent: the whole response, or nothing of it, was written.
const (
	Whole   Sent = -1
	Nothing Sent = 0
)

// End finishes the call, given the status of its response and how much of it was written.
func (c *Call) End(ctx context.Context, status int, sent Sent) error {
	c.mu.Lock()
	r, claim, stored, work, stopRenewal, undo := c.reservation, c.claim, c.stored, c.work, c.stopRenewal, c.undo
	if c.workBound {
		work = nil
	}
	c.mu.Unlock()
	if stopRenewal != nil {
		stopRenewal()
	}
	for _, f := range undo {
		// If this fails, the lease ends it.
		if err := f(ctx); err != nil {
			c.meter.logger.LogAttrs(ctx, slog.LevelDebug, "metering: compensation failed",
				slog.String("request_id", c.request.ID), slog.Any("error", err))
		}
	}
	var releaseErr error
	if work != nil {
		_, releaseErr = work.Release(ctx)
	}
	if stored && sent != Nothing {
		sent = Whole // the client can fetch the rest with the key, free of charge
	}
	if claim != nil && (!stored || sent != Whole) {
		served, err := claim.Release(ctx)
		// Another call has received, or may receive, the stored response.
		if served || err != nil && stored {
			sent = Whole
		}
		releaseErr = errors.Join(releaseErr, err)
	}
	return errors.Join(releaseErr, c.end(ctx, r, status, sent))
}

func (c *Call) end(ctx context.Context, r *Reservation, status int, sent Sent) error {
	if c.outcome != "" {
		u := c.event(status, c.outcome)
		c.mu.Lock()
		u.Requests, u.Returned = c.counted, c.meter.returned(c.identities) // those of a replayed response
		c.mu.Unlock()
		err := c.meter.ledger.Record(&u)
		if errors.Is(err, ledger.ErrFull) && u.Refused() && u.Requests == 0 {
			return nil // not counted, and their number is unbounded
		}
		return err
	}
	if r == nil || r.claim.ID == "" {
		return nil
	}
	answered := r.committed && status >= http.StatusOK && status < http.StatusMultipleChoices
	switch {
	case answered && sent == Whole:
		return r.entry.Confirm() // publishing settles the claim
	case answered && sent > Nothing:
		return c.chargePartial(ctx, r, int64(sent))
	case r.committed:
		return errors.Join(r.entry.Void(), c.uncharge(ctx, r))
	case r.voided:
		return c.uncharge(ctx, r)
	case r.claim.Requests > 0 && (sent != Whole || status >= http.StatusInternalServerError):
		return c.failed(ctx, r, status, sent == Whole)
	}
	return c.releases(r.claim)(ctx)
}

// chargePartial charges a call whose response broke off for the units that were written, less the allowance of its
// organization.
func (c *Call) chargePartial(ctx context.Context, r *Reservation, units int64) error {
	owed := min(units*c.UnitPrice(), r.quota.Charged)
	owed -= c.meter.allowances.grant(c.request.Principal.Organization.ID, c.meter.now(), owed)
	if owed == 0 {
		return errors.Join(r.entry.Void(), c.uncharge(ctx, r))
	}
	_, err := c.meter.credits.Commit(ctx, r.claim, r.claim.Requests, owed)
	if err != nil && !errors.Is(err, credits.ErrLost) && !errors.Is(err, credits.ErrNotLoaded) {
		return errors.Join(err, r.entry.Void()) // publishing the void event releases the credits
	}
	return r.entry.ConfirmPartial(owed)
}

// uncharge reduces the charge of a call that is unanswered in the ledger to the request it counts.
func (c *Call) uncharge(ctx context.Context, r *Reservation) error {
	if r.claim.Requests == 0 {
		return c.releases(r.claim)(ctx)
	}
	_, err := c.meter.credits.Commit(ctx, r.claim, r.claim.Requests, 0)
	// Publishing the event was faster.
	if errors.Is(err, credits.ErrLost) {
		return nil
	}
	return err
}

// failed counts a call as a request if it got a 5xx, or its client left before the response.
func (c *Call) failed(ctx context.Context, r *Reservation, status int, sent bool) error {
	if _, err := c.meter.credits.Commit(ctx, r.claim, r.claim.Requests, 0); err != nil {
		return err
	}
	outcome := event.OutcomeFailed
	if !sent {
		outcome = event.OutcomeUnanswered
	}
	u := c.event(status, outcome)
	u.Requests = r.claim.Requests
	if err := c.meter.ledger.Record(&u); err != nil {
		return errors.Join(err, c.releases(r.claim)(ctx)) // no event would settle it
	}
	return nil
}
