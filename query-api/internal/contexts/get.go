package contexts

import (
	"context"
	"fmt"
	"time"

	"muster/schemas/event"
)

// Get returns how far a call of an organization is; nil when there is none of that
// id, or it is too old, or tells of somebody who was erased since.
func (d *Desk) Get(ctx context.Context, organization, requestID string) (*event.Context, error) {
	state, err := d.find(ctx, organization, requestID)
	if err != nil || state == nil || d.gone(state) {
		return nil, err
	}
	return state, nil
}

// Over says that a call of an organization is not to be gone on with: it has failed, is
// too old, or tells of somebody who was erased since. One that is not known may only be
// not known yet.
func (d *Desk) Over(ctx context.Context, organization, requestID string) (bool, error) {
	state, err := d.find(ctx, organization, requestID)
	if err != nil || state == nil {
		return false, err
	}
	return state.Status == event.ContextFailed || d.gone(state), nil
}

// find looks a call up, in memory and then in the read model.
func (d *Desk) find(ctx context.Context, organization, requestID string) (*event.Context, error) {
	d.mu.Lock()
	var state *event.Context
	if c := d.known[requestID]; c != nil {
		state = c.state
	}
	d.mu.Unlock()
	if state == nil || state.Status == event.ContextProcessing {
		// It may be known better there: this process may have begun after the outcome.
		kept, err := d.cfg.Store.Context(ctx, organization, requestID)
		if err != nil && state == nil {
			return nil, err
		}
		if kept != nil {
			state = kept
		}
	}
	if state == nil || state.Call.OrganizationID != organization {
		return nil, nil
	}
	return state, nil
}

// gone says that what came of a call is not served any more.
func (d *Desk) gone(state *event.Context) bool {
	return d.cfg.Now().Sub(state.Call.RequestedAt) > event.ContextKept ||
		d.cfg.Erased != nil && state.Status == event.ContextComplete && d.cfg.Erased(state)
}

// lookAgain is how often the read model is asked for an outcome that is waited for and
// that may have come before this process began.
const lookAgain = time.Second

// Wait waits so long for the outcome of a call of an organization that goes on already;
// nil says that it has not come.
func (d *Desk) Wait(ctx context.Context, organization, requestID string, timeout time.Duration) (*event.Context, error) {
	timer, ticker := time.NewTimer(timeout), time.NewTicker(lookAgain)
	defer timer.Stop()
	defer ticker.Stop()
	done, leave := d.listen(requestID)
	defer leave()
	for ended := false; ; {
		state, err := d.Get(ctx, organization, requestID)
		if err != nil || state != nil && state.Status != event.ContextProcessing {
			return state, err
		}
		if ended {
			return nil, nil
		}
		select {
		case <-done:
			done = nil // it is read once more
		case <-ticker.C:
		case <-timer.C:
			ended = true
		case <-d.leaving.Done():
			ended = true
		case <-ctx.Done():
			return nil, fmt.Errorf("context: %w", context.Cause(ctx))
		}
	}
}

// listen returns what closes with a call's outcome, until it is left.
func (d *Desk) listen(requestID string) (done <-chan struct{}, leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, _ := d.of(requestID)
	if c.done != nil || c.state != nil && c.state.Status != event.ContextProcessing {
		return nil, func() {} // somebody else listens: the read model is asked
	}
	own := make(chan struct{})
	c.done = own
	d.place(c)
	return own, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c.done == own {
			c.done = nil
			d.place(c)
		}
	}
}
