package metering

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"muster/query-api/internal/idempotency"
	"muster/schemas/event"
)

// Idempotent says that the call came with an Idempotency-Key and this body.
func (c *Call) Idempotent(key string, body []byte) { c.key, c.body = key, body }

// Once claims the Idempotency-Key of a call that holds nothing because it is free.
// The error is one of those of an Idempotency-Key, or [ErrUnavailable].
func (c *Call) Once(ctx context.Context) error {
	if c.meter == nil {
		return nil
	}
	return c.begin(ctx)
}

// keyed is the call under its Idempotency-Key.
func (c *Call) keyed() idempotency.Call {
	return idempotency.Call{
		Organization: c.request.Principal.Organization.ID, Method: c.request.Method, Path: c.request.Endpoint,
		Key: c.key, Body: c.body, Owner: c.request.ID, Lease: claimLease, Erased: c.meter.erased,
	}
}

// begin claims the Idempotency-Key, once a call.
func (c *Call) begin(ctx context.Context) error {
	if c.key == "" || c.claim != nil {
		return nil
	}
	state, answer, claim, err := c.meter.answers.Begin(ctx, c.keyed())
	switch {
	case err != nil:
		c.perhaps(giveUp(claim))
		return unavailable(err)
	case state == idempotency.Running:
		return ErrRunning
	case state == idempotency.Mismatch:
		return ErrOtherBody
	case state == idempotency.Stored:
		if c.request.Quota { // the headers tell the credits of now
			if _, _, err := c.Estimate(ctx, 0); err != nil {
				return err
			}
		}
		c.outcome = event.OutcomeReplayed
		return &Replay{Answer: answer}
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.meter.renew(renewing, claim)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claim = &claim
	c.renewed = func() {
		stop()
		<-ended
	}
	return nil
}

// claimLease is how long an Idempotency-Key is claimed for by a process that was killed.
// One that runs renews its claims, as long as calls take.
const claimLease = 30 * time.Second

// renew keeps a claim until ctx ends, or for as long as a call takes at most.
func (m *Meter) renew(ctx context.Context, claim idempotency.Claim) {
	ticker := time.NewTicker(claimLease / 3)
	defer ticker.Stop()
	for range m.cfg.Lease / (claimLease / 3) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := claim.Renew(ctx, claimLease); err != nil && ctx.Err() == nil {
			m.logger.LogAttrs(ctx, slog.LevelDebug, "the claim of an Idempotency-Key is not renewed", slog.Any("error", err))
		}
	}
}

// giveUp undoes a claim of which it is not known whether it was made.
func giveUp(claim idempotency.Claim) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := claim.GiveUp(ctx)
		return err
	}
}

// Replay is the error of a call whose answer is stored already.
type Replay struct{ Answer idempotency.Answer }

// Error says so.
func (*Replay) Error() string { return "the answer is stored under the Idempotency-Key" }

// Errors of a call with an Idempotency-Key.
var (
	ErrRunning   = errors.New("a call with this Idempotency-Key is still running")
	ErrOtherBody = errors.New("the Idempotency-Key was used with another body")
)

// Keeps reports whether the answer is to be kept under an Idempotency-Key.
func (c *Call) Keeps() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claim != nil && !c.stored && !c.passing
}

// Passes says that the answer may be another one a moment later, so that it is not kept.
func (c *Call) Passes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passing = true
}

// Tells notes whom the call's answer tells of, which is stored with it. A commit does
// so too.
func (c *Call) Tells(used Used) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.identities, c.accounts, c.identifiers = used.Identities, used.Accounts, used.Identifiers
}

// Keep stores an answer that is about to be sent. An answer that cannot be
// stored is sent all the same.
func (c *Call) Keep(ctx context.Context, answer idempotency.Answer) {
	c.mu.Lock()
	claim := c.claim
	answer.Endpoint, answer.Identities, answer.Accounts, answer.Identifiers = c.request.Endpoint, c.identities, c.accounts, c.identifiers
	c.mu.Unlock()
	if claim == nil {
		return
	}
	if err := claim.Complete(ctx, answer); err != nil {
		c.meter.logger.LogAttrs(ctx, slog.LevelWarn, "an answer is not kept for its Idempotency-Key", slog.String("request_id", c.request.ID), slog.Any("error", err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = true
}
