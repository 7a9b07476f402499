package metering

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"muster/query-api/internal/idempotency"
	"muster/schemas/event"
)

// Idempotent sets the Idempotency-Key, the path and the body of the call.
func (c *Call) Idempotent(key, path string, body []byte) { c.key, c.path, c.body = key, path, body }

// Once claims the Idempotency-Key of a free call, which reserves nothing. It returns an error of
// the Idempotency-Key, or [ErrUnavailable].
func (c *Call) Once(ctx context.Context) error {
	if c.meter == nil {
		return nil
	}
	return c.begin(ctx)
}

// keyed returns the call under its Idempotency-Key.
func (c *Call) keyed() idempotency.Call {
	return idempotency.Call{
		Organization: c.request.Principal.Organization.ID, Method: c.request.Method, Path: c.path,
		Key: c.key, Body: c.body, Owner: c.request.ID, Lease: claimLease, Erased: c.meter.erased,
	}
}

// begin claims the Idempotency-Key. Repeated calls do nothing.
func (c *Call) begin(ctx context.Context) error {
	if c.key == "" || c.claim != nil {
		return nil
	}
	state, answer, claim, err := c.meter.answers.Begin(ctx, c.keyed())
	switch {
	case err != nil:
		c.addCompensation(releaseClaim(claim))
		return unavailable(err)
	case state == idempotency.Running:
		return ErrRunning
	case state == idempotency.Mismatch:
		return ErrOtherBody
	case state == idempotency.Stored:
		// The quota headers state the current credits.
		if c.request.Quota {
			if _, _, err := c.Estimate(ctx, 0); err != nil {
				return err
			}
		}
		c.outcome = event.OutcomeReplayed
		c.RecordSubjects(Used{Identities: answer.Identities})
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
	c.stopRenewal = func() {
		stop()
		<-ended
	}
	return nil
}

// claimLease is how long the claim of an Idempotency-Key outlives a killed process. A running call
// renews its claim.
const claimLease = 30 * time.Second

// renew renews a claim until ctx ends, at most for the maximum duration of a call.
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
			m.logger.LogAttrs(ctx, slog.LevelDebug, "metering: claim renewal failed", slog.Any("error", err))
		}
	}
}

// releaseClaim returns the undo of a claim with uncertain outcome.
func releaseClaim(claim idempotency.Claim) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := claim.Release(ctx)
		return err
	}
}

// Replay is returned if the response of a call is already stored.
type Replay struct{ Answer idempotency.Answer }

func (*Replay) Error() string { return "the response is stored under the Idempotency-Key" }

// Errors of a call with an Idempotency-Key: another call with the key is running, or had another body.
var (
	ErrRunning   = errors.New("a call with this Idempotency-Key is still running")
	ErrOtherBody = errors.New("the Idempotency-Key was used with another body or other parameters")
)

// Storable reports whether the response will be stored under an Idempotency-Key.
func (c *Call) Storable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claim != nil && !c.stored && !c.transient
}

// MarkTransient excludes the response from idempotency storage.
func (c *Call) MarkTransient() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transient = true
}

// RecordSubjects sets the people and accounts in the response, which are stored with it. Commit
// does so, too.
func (c *Call) RecordSubjects(used Used) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.identities, c.accounts, c.identifiers = used.Identities, used.Accounts, used.Identifiers
}

// StoreResponse stores a response that is about to be sent. If it cannot be stored, it is sent
// anyway.
func (c *Call) StoreResponse(ctx context.Context, answer idempotency.Answer) {
	c.mu.Lock()
	claim := c.claim
	answer.Endpoint, answer.Identities = c.request.Endpoint, c.identities
	answer.Accounts, answer.Identifiers = c.accounts, c.identifiers
	c.mu.Unlock()
	if claim == nil {
		return
	}
	if err := claim.Complete(ctx, answer); err != nil {
		c.meter.logger.LogAttrs(ctx, slog.LevelWarn, "metering: response not stored for its Idempotency-Key",
			slog.String("request_id", c.request.ID), slog.Any("error", err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = true
}
