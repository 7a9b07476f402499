package metering

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/idempotency"
	"muster/schemas/event"
)

// Work is work that a call started under its Idempotency-Key and that continues independently:
// after a broken connection, a timeout or the death of the process. A repeated call with the key
// continues it.
type Work struct {
	ID string `json:"id"`
	// Published reports whether the task is known to be published. If not, the process ended about that time, and the
	// task must be published again under the same ID.
	Published bool `json:"asked,omitempty"`
}

// workOwner owns all bindings of work, so that one attempt can continue the work of another. The claim of the response
// ensures that only one attempt runs at a time.
const workOwner = "work"

// ClaimWork claims the Idempotency-Key and returns the work bound to it. It returns nil if there is none or if
// cannotResume reports true; [Call.BindWork] then binds new work. It returns an error of the Idempotency-Key,
// [ErrUnavailable], or the error of cannotResume.
func (c *Call) ClaimWork(ctx context.Context, cannotResume func(Work) (bool, error)) (*Work, error) {
	if c.meter == nil || c.key == "" {
		return nil, nil
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	var resumeErr error
	bound := c.keyed()
	bound.Part, bound.Owner = workOwner, workOwner
	bound.Erased = func(a idempotency.Answer) bool {
		var w Work
		var ended bool
		if resumeErr = json.Unmarshal(a.Body, &w); resumeErr == nil {
			ended, resumeErr = cannotResume(w)
		}
		return ended && resumeErr == nil
	}
	state, answer, claim, err := c.meter.answers.Begin(ctx, bound)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case resumeErr != nil:
		return nil, resumeErr
	case state == idempotency.Mismatch:
		// Release the claim: this error must not become the stored response of the key.
		c.mu.Lock()
		refused := c.claim
		c.claim = nil
		c.mu.Unlock()
		if _, err := refused.Release(ctx); err != nil {
			return nil, unavailable(err)
		}
		return nil, ErrOtherBody
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work = &claim
	if state == idempotency.New {
		return nil, nil
	}
	c.workBound = true
	var w Work
	if err := json.Unmarshal(answer.Body, &w); err != nil {
		return nil, fmt.Errorf("decode work of an Idempotency-Key: %w", err)
	}
	return &w, nil
}

// BindWork binds the Idempotency-Key to the work. It must be called before the task is published, and may be repeated.
// It returns [ErrUnavailable] on failure.
func (c *Call) BindWork(ctx context.Context, w Work) error {
	c.mu.Lock()
	claim := c.work
	c.mu.Unlock()
	if claim == nil {
		return nil
	}
	body, err := json.Marshal(w, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode work of an Idempotency-Key: %w", err)
	}
	if err := claim.Complete(context.WithoutCancel(ctx),
		idempotency.Answer{Body: body, Endpoint: workOwner}); err != nil {
		return unavailable(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workBound = true
	return nil
}

// UnbindWork undoes BindWork at the end of the call, for work that was not started: a repeated call starts new work.
func (c *Call) UnbindWork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workBound = false
}

// MarkReplayed records that the call returns the result of another call's work.
func (c *Call) MarkReplayed() { c.outcome = event.OutcomeReplayed }
