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

// Request is what a [Call] needs to know of an HTTP request.
type Request struct {
	ID        string
	Method    string
	Endpoint  string // the path
	Principal account.Principal
	// Price is what a unit costs; nil: the endpoint is free.
	Price func(event.Prices) int64
	// Counted endpoints have a monthly number of requests.
	Counted bool
	// Sized says how a caller makes a call smaller, for the text of a refusal.
	Sized string
	// None says that it may be made so small that it costs nothing.
	None bool
	// Quota: a 200 of the endpoint states the period's credits.
	Quota bool
}

// Call is one authenticated request. It is used by one goroutine at a time. The
// zero value is one that is not counted, and may do everything.
type Call struct {
	meter   *Meter
	request Request
	began   time.Time
	limits  event.Limits
	key     string // Idempotency-Key; empty: none
	body    []byte // for it
	// outcome is set for a call that ends without a reservation and is in the
	// ledger all the same: refused or replayed.
	outcome event.Outcome
	// counted is 1 for a call that was refused and counts as a monthly request.
	counted int64

	mu          sync.Mutex
	reservation *Reservation
	identities  []string                      // that were returned
	accounts    []string                      // that were named
	identifiers []string                      // of what was returned
	claim       *idempotency.Claim            // of the Idempotency-Key
	renewed     func()                        // ends the renewing of claim
	undo        []func(context.Context) error // of what was perhaps done
	stored      bool                          // the answer is
	passing     bool                          // the answer is not to be stored
	work        *idempotency.Claim            // of what is begun under the key
	begun       bool                          // it is bound to the key
	owed        int64                         // of a detached reservation
}

type callKey struct{}

// With returns a context that carries the call.
func With(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the context's call. There is one wherever the interface runs
// an endpoint that needs a key.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// Rate takes one request from the key's rate. Without a decision (the limits
// cannot be reached) the request passes, as if it were the first.
func (c *Call) Rate(ctx context.Context) limits.Decision {
	perMinute := c.limits.RequestsPerMinute
	d, err := c.meter.limits.Take(ctx, c.request.Principal.Key.ID, perMinute)
	if err != nil {
		c.meter.rateUnknown(ctx, err)
		return limits.Decision{Allowed: true, Limit: perMinute, Remaining: max(0, perMinute-1)}
	}
	return d
}

// RateRefused is the refusal of a request over the rate.
func (c *Call) RateRefused(d limits.Decision) *Refused {
	c.outcome = event.OutcomeRefusedRate
	seconds := max(1, int64((d.RetryAfter+time.Second-1)/time.Second))
	unit := "seconds"
	if seconds == 1 {
		unit = "second"
	}
	return &Refused{
		Outcome: c.outcome, RetryAfter: d.RetryAfter,
		Detail: fmt.Sprintf("rate limit exceeded: the plan allows %d requests a minute for each key: call again in %d %s", d.Limit, seconds, unit),
	}
}

// addressCountsPerMinute is how many free counts that depend on e-mail addresses a key has in a minute (rulings.md, Search).
const addressCountsPerMinute = 10

// TakeAddressCount takes one of the key's free counts that depend on e-mail addresses. The error is a [*Refused], or
// [ErrUnavailable]: without a decision none is given, because the limit protects the addresses.
func (c *Call) TakeAddressCount(ctx context.Context) error {
	if c.meter == nil {
		return nil
	}
	d, err := c.meter.limits.TakeInMinute(ctx, c.request.Principal.Key.ID, addressCountsPerMinute)
	switch {
	case err != nil:
		return unavailable(err)
	case d.Allowed:
		return nil
	}
	c.outcome = event.OutcomeRefusedRate
	seconds := max(1, int64((d.RetryAfter+time.Second-1)/time.Second))
	return &Refused{
		Outcome: c.outcome, RetryAfter: d.RetryAfter,
		Detail: fmt.Sprintf("a size of 0 with a query that looks at e-mail addresses is limited to %d calls a minute for each key: "+
			"ask for results, name fields without addresses, or call again in %d seconds", addressCountsPerMinute, seconds),
	}
}

// Quota is the state of the period's credits after a call, and what the call
// cost (interface.md, Limits: X-Quota-* and X-Credits-Charged).
type Quota struct {
	Used, Limit, Remaining int64
	Charged                int64
}

// Used is what a call has used.
type Used struct {
	// Units is the number of results, records or matches; no more than were
	// reserved.
	Units int64
	// Identities are those that are returned, as "<kind> <identity>": the ledger
	// keeps keyed hashes of them. Groups are the groups of fields.
	Identities []string
	Groups     []string
	// Accounts are those that are named beside them, as "<platform> <comparison form
	// of the username>": a stored answer that names one of somebody who was erased is
	// not given again. The ledger does not have them.
	Accounts []string
	// Identifiers are what the records of Identities, and the people who are named beside them, go by, as "<platform> id
	// <id>", "<platform> username <comparison form>" and "<platform> email <comparison form>", for the same.
	Identifiers []string
}

// ErrUnavailable is the error of a call that cannot be counted at present. It
// may pass.
var ErrUnavailable = errors.New("calls cannot be counted at present")

// Refused is the error of a call that is over a limit (429).
type Refused struct {
	Outcome event.Outcome
	// Detail is meant for the caller.
	Detail string
	// RetryAfter is when a call may succeed.
	RetryAfter time.Duration
}

// Error returns the detail.
func (e *Refused) Error() string { return e.Detail }

// UnitPrice is what a unit costs the call's organization.
func (c *Call) UnitPrice() int64 {
	if c.request.Price == nil {
		return 0
	}
	return c.request.Price(c.limits.Prices)
}

// Prices are those of the organization's plan.
func (c *Call) Prices() event.Prices { return c.limits.Prices }

// Affordable is how many of the units may be used if the call must not cost
// more than maxCredits.
func (c *Call) Affordable(units, maxCredits int64) int64 {
	if price := c.UnitPrice(); price > 0 {
		return min(units, maxCredits/price)
	}
	return units
}

// Estimate is what a call costs at most, and the credits of the period, without
// reserving anything: the answer to a dry run.
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

// Reserve holds what so many units cost, and a monthly request where the
// endpoint counts them. It is called once a call, when the input is known to be
// valid. The error is a [*Refused], [ErrUnavailable], or one of those of an
// Idempotency-Key: [*Replay], [ErrRunning], [ErrOtherBody].
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
		claim.Requests = 1
	}
	balance, err := c.meter.reserve(ctx, claim)
	var exceeded *credits.Exceeded
	switch {
	case errors.As(err, &exceeded):
		if !exceeded.Requests {
			if err := c.countRefused(ctx, claim); err != nil {
				return nil, err
			}
		}
		refused := c.refusal(claim, exceeded)
		c.outcome = refused.Outcome
		return nil, refused
	case err != nil:
		c.perhaps(c.releases(claim))
		return nil, unavailable(err)
	}
	r := &Reservation{call: c, claim: claim, quota: c.quota(balance, 0)}
	r.release = func() error { return c.releases(claim)(context.WithoutCancel(ctx)) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reservation = r
	return r, nil
}

// countRefused has a call that there are too few credits for count as a monthly
// request, as every valid one does where they are counted.
func (c *Call) countRefused(ctx context.Context, claim credits.Claim) error {
	if claim.Requests == 0 {
		return nil
	}
	claim.Credits = 0
	_, err := c.meter.reserve(ctx, claim)
	if errors.As(err, new(*credits.Exceeded)) { // by others, in between
		return nil
	}
	if err == nil {
		_, err = c.meter.credits.Commit(ctx, claim, claim.Requests, 0)
	}
	if err != nil {
		c.perhaps(c.releases(claim))
		return unavailable(err)
	}
	c.counted = claim.Requests
	return nil
}

// perhaps notes how to undo what failed and may have been done all the same, such as by
// a server whose reply did not come in time.
func (c *Call) perhaps(undo func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, undo)
}

func (c *Call) releases(claim credits.Claim) func(context.Context) error {
	return func(ctx context.Context) error { return c.meter.credits.Release(ctx, []credits.Claim{claim}) }
}

// unavailable hides what is away behind [ErrUnavailable].
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

func (c *Call) quota(b credits.Balance, charged int64) Quota {
	return Quota{
		Used: b.Credits, Limit: c.limits.Credits, Remaining: max(0, c.limits.Credits-b.Credits), Charged: charged,
	}
}

// heldPause is when it is worth asking again for credits that other calls hold.
const heldPause = 5 * time.Second

// refusal words what is missing (interface.md, Errors).
func (c *Call) refusal(claim credits.Claim, e *credits.Exceeded) *Refused {
	_, end, err := event.PeriodBounds(claim.Period)
	if err != nil { // it was made from a time
		end = c.began
	}
	next, wait := end.Format("2006-01-02"), end.Sub(c.began)
	if e.Requests {
		return &Refused{
			Outcome: event.OutcomeRefusedRequests, RetryAfter: wait,
			Detail: fmt.Sprintf("monthly request limit exceeded: the plan allows %d requests a month, and they are used up: upgrade the plan, or call again from %s",
				claim.RequestLimit, next),
		}
	}
	if e.Balance.Credits+claim.Credits <= claim.CreditLimit {
		return &Refused{
			Outcome: event.OutcomeRefusedCredits, RetryAfter: heldPause,
			Detail: fmt.Sprintf("insufficient credits: %d credits are held, and this call needs up to %d: other calls that still run have set %d aside, which come back as far as they are not used: call again in %d seconds",
				max(0, claim.CreditLimit-e.Balance.Credits-e.Balance.HeldCredits), claim.Credits, e.Balance.HeldCredits, int(heldPause.Seconds())),
		}
	}
	held := max(0, claim.CreditLimit-e.Balance.Credits-e.Balance.HeldCredits)
	advice := "upgrade the plan"
	if price := c.UnitPrice(); c.request.Sized != "" && price > 0 && (held >= price || c.request.None) {
		advice = fmt.Sprintf("reduce %s to at most %d or upgrade the plan", c.request.Sized, held/price)
	}
	return &Refused{
		Outcome: event.OutcomeRefusedCredits, RetryAfter: wait,
		Detail: fmt.Sprintf("insufficient credits: %d credits are held, and this call needs up to %d: %s; new credits come on %s",
			held, claim.Credits, advice, next),
	}
}

// Quota is the state of the period's credits after the call, for the headers of
// a 200; ok is false for a call that has nothing to do with credits.
func (c *Call) Quota() (quota Quota, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reservation == nil {
		return Quota{Charged: c.owed}, false
	}
	return c.reservation.quota, true
}

// Reservation is what a call holds.
type Reservation struct {
	call      *Call
	claim     credits.Claim
	quota     Quota
	entry     ledger.Entry
	committed bool
	voided    bool // its event is, since it is not known whether it is committed
	ended     bool // nothing may be committed any more
	detached  bool
	release   func() error
}

// Commit says what the call has used. The usage event is durable when it
// returns; the answer may be sent. An error, which matches [ErrUnavailable],
// means that nothing is charged and the answer must not be sent.
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
	u.Returned = c.meter.hashes.Hashes(used.Identities)
	entry, err := c.meter.ledger.Prepare(&u)
	if err != nil {
		return Quota{}, unavailable(err)
	}
	balance, err := c.meter.credits.Commit(ctx, r.claim, r.claim.Requests, charged)
	if err != nil {
		r.voided = true
		return Quota{}, errors.Join(unavailable(err), entry.Void())
	}
	c.Tells(used)
	r.committed, r.entry = true, entry
	r.quota = c.quota(balance, charged)
	if r.detached {
		if err := entry.Answered(); err != nil {
			return r.quota, unavailable(err)
		}
	}
	return r.quota, nil
}

// Release gives back what is reserved and not committed. A call's end does so
// too, unless the reservation is detached.
func (r *Reservation) Release() {
	r.ended = r.ended || !r.committed
	if r.detached && !r.committed {
		if err := r.release(); err != nil {
			r.call.meter.logger.Warn("a reservation is not released before its lease ends", slog.String("request_id", r.claim.ID), slog.Any("error", err))
		}
	}
}

// Prolong has what is reserved held for so long from now on, for work that goes on when
// the call has been answered; see [Reservation.Detach].
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

// Detach lets the reservation outlive its call, for work that is answered later:
// the call's end leaves it alone, and its Commit is final at once.
func (r *Reservation) Detach() {
	c := r.call
	c.mu.Lock()
	defer c.mu.Unlock()
	r.detached = true
	c.reservation = nil
}

// event begins the call's usage event.
func (c *Call) event(status int, outcome event.Outcome) event.Usage {
	who := c.request.Principal
	return event.Usage{
		RequestID: c.request.ID, OrganizationID: who.Organization.ID, KeyID: who.Key.ID, At: c.began.UTC(),
		Period: event.PeriodOf(c.began), Method: c.request.Method, Endpoint: c.request.Endpoint, Status: status,
		Outcome: outcome, Plan: who.Organization.Plan, DurationMicros: c.meter.now().Sub(c.began).Microseconds(),
	}
}

// Forbidden notes that the call is answered with 403.
func (c *Call) Forbidden() { c.outcome = event.OutcomeRefusedForbidden }

// Sent counts the units of an answer that were handed to its connection, wholly or in part.
type Sent int64

// Answers that were handed to their connection as a whole, and not at all.
const (
	Whole   Sent = -1
	Nothing Sent = 0
)

// End finishes the call, of which so much has left with the given status.
func (c *Call) End(ctx context.Context, status int, sent Sent) error {
	c.mu.Lock()
	r, claim, stored, work, renewed, undo := c.reservation, c.claim, c.stored, c.work, c.renewed, c.undo
	if c.begun {
		work = nil
	}
	c.mu.Unlock()
	if renewed != nil {
		renewed()
	}
	for _, f := range undo {
		if err := f(ctx); err != nil { // it ends with its lease
			c.meter.logger.LogAttrs(ctx, slog.LevelDebug, "what was perhaps taken is not given back", slog.String("request_id", c.request.ID), slog.Any("error", err))
		}
	}
	var left error
	if work != nil {
		_, left = work.GiveUp(ctx)
	}
	if stored && sent != Nothing {
		sent = Whole // its caller takes the rest of it under the key, without another charge
	}
	if claim != nil && (!stored || sent != Whole) {
		given, err := claim.GiveUp(ctx)
		// A stored answer that another call was given, or may be, has left with that one.
		if given || err != nil && stored {
			sent = Whole
		}
		left = errors.Join(left, err)
	}
	return errors.Join(left, c.end(ctx, r, status, sent))
}

func (c *Call) end(ctx context.Context, r *Reservation, status int, sent Sent) error {
	if c.outcome != "" {
		u := c.event(status, c.outcome)
		u.Requests = c.counted
		err := c.meter.ledger.Record(&u)
		if errors.Is(err, ledger.ErrFull) && u.Refused() && u.Requests == 0 {
			return nil // it counts nothing, and there are as many as callers like
		}
		return err
	}
	if r == nil || r.claim.ID == "" {
		return nil
	}
	answered := r.committed && status >= http.StatusOK && status < http.StatusMultipleChoices
	switch {
	case answered && sent == Whole:
		return r.entry.Answered() // what publishes it settles the claim
	case answered && sent > Nothing:
		return c.brokenOff(ctx, r, int64(sent))
	case r.committed:
		return errors.Join(r.entry.Void(), c.uncharge(ctx, r))
	case r.voided:
		return c.uncharge(ctx, r)
	case r.claim.Requests > 0 && (sent != Whole || status >= http.StatusInternalServerError):
		return c.failed(ctx, r, status, sent == Whole)
	}
	return c.releases(r.claim)(ctx)
}

// brokenOff charges a call whose answer broke off for the units that were handed to its connection, as far as they
// exceed what its organization is forgiven.
func (c *Call) brokenOff(ctx context.Context, r *Reservation, units int64) error {
	owed := min(units*c.UnitPrice(), r.quota.Charged)
	owed -= c.meter.broken.forgive(c.request.Principal.Organization.ID, c.meter.now(), owed)
	if owed == 0 {
		return errors.Join(r.entry.Void(), c.uncharge(ctx, r))
	}
	_, err := c.meter.credits.Commit(ctx, r.claim, r.claim.Requests, owed)
	if err != nil && !errors.Is(err, credits.ErrLost) && !errors.Is(err, credits.ErrNotLoaded) {
		return errors.Join(err, r.entry.Void()) // what publishes that gives the credits back
	}
	return r.entry.Reduced(owed)
}

// uncharge leaves of a call that is in the ledger as unanswered what it counts there.
func (c *Call) uncharge(ctx context.Context, r *Reservation) error {
	if r.claim.Requests == 0 {
		return c.releases(r.claim)(ctx)
	}
	_, err := c.meter.credits.Commit(ctx, r.claim, r.claim.Requests, 0)
	if errors.Is(err, credits.ErrLost) { // what publishes the event was faster
		return nil
	}
	return err
}

// failed counts a call as a request that was answered with a 5xx, or whose caller left
// before there was an answer.
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
		return errors.Join(err, c.releases(r.claim)(ctx)) // no event will settle it
	}
	return nil
}
