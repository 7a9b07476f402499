package metering

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/idempotency"
	"muster/schemas/event"
)

// Work is what a call has begun under its Idempotency-Key and what goes on without it:
// when its connection breaks, when it ends without the outcome, when its process is
// killed. The call that is sent again goes on with it.
type Work struct {
	ID string `json:"id"`
	// Asked says that whoever does the work was asked. Without it a process has ended
	// just before that, or just after: it is to be asked again, under the same id.
	Asked bool `json:"asked,omitempty"`
}

// workOwner owns what a key is bound to: one attempt goes on with what another one has
// begun. That there is one at a time is what the claim of the answer is for.
const workOwner = "work"

// Begun claims the Idempotency-Key and returns the work that it is bound to; nil says
// that there is none, or that over says that it is not to be gone on with: [Call.Begins]
// then binds some. The error is one of those of an Idempotency-Key, [ErrUnavailable],
// or over's.
func (c *Call) Begun(ctx context.Context, over func(Work) (bool, error)) (*Work, error) {
	if c.meter == nil || c.key == "" {
		return nil, nil
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	var looked error
	bound := c.keyed()
	bound.Part, bound.Owner = workOwner, workOwner
	bound.Erased = func(a idempotency.Answer) bool {
		var w Work
		var is bool
		if looked = json.Unmarshal(a.Body, &w); looked == nil {
			is, looked = over(w)
		}
		return is && looked == nil
	}
	state, answer, claim, err := c.meter.answers.Begin(ctx, bound)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case looked != nil:
		return nil, looked
	case state == idempotency.Mismatch:
		// The refusal is not what the key is to answer from now on.
		c.mu.Lock()
		refused := c.claim
		c.claim = nil
		c.mu.Unlock()
		if _, err := refused.GiveUp(ctx); err != nil {
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
	c.begun = true
	var w Work
	if err := json.Unmarshal(answer.Body, &w); err != nil {
		return nil, fmt.Errorf("read what is begun under an Idempotency-Key: %w", err)
	}
	return &w, nil
}

// Begins binds the Idempotency-Key to the work, which must be done before it is asked
// for and may be done again. The error is [ErrUnavailable].
func (c *Call) Begins(ctx context.Context, w Work) error {
	c.mu.Lock()
	claim := c.work
	c.mu.Unlock()
	if claim == nil {
		return nil
	}
	body, err := json.Marshal(w, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write what is begun under an Idempotency-Key: %w", err)
	}
	if err := claim.Complete(context.WithoutCancel(ctx), idempotency.Answer{Body: body, Endpoint: workOwner}); err != nil {
		return unavailable(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	return nil
}

// Replays notes that the call is answered with what another one has begun.
func (c *Call) Replays() { c.outcome = event.OutcomeReplayed }
