package contexts

import (
	"context"
	"fmt"
	"time"

	"muster/schemas/event"
)

// Get returns the state of a call of an organization. It returns nil if there is no such call, it has expired, or its
// profile is about an erased person.
func (d *CallTracker) Get(ctx context.Context, organization, requestID string) (*event.Context, error) {
	state, err := d.find(ctx, organization, requestID)
	if err != nil || state == nil || d.isGone(state) {
		return nil, err
	}
	return state, nil
}

// CannotResume reports whether a call of an organization cannot be resumed: it has failed or expired, or its profile is
// about an erased person. It returns false for unknown calls, which may not have arrived yet.
func (d *CallTracker) CannotResume(ctx context.Context, organization, requestID string) (bool, error) {
	state, err := d.find(ctx, organization, requestID)
	if err != nil || state == nil {
		return false, err
	}
	return state.Status == event.ContextFailed || d.isGone(state), nil
}

// find looks a call up, in memory and then in the read model.
func (d *CallTracker) find(ctx context.Context, organization, requestID string) (*event.Context, error) {
	d.mu.Lock()
	var state *event.Context
	if c := d.known[requestID]; c != nil {
		state = c.state
	}
	d.mu.Unlock()
	if state == nil || state.Status == event.ContextProcessing {
		// The read model may be newer: this process may have started after the result.
		stored, err := d.cfg.Store.Context(ctx, organization, requestID)
		if err != nil && state == nil {
			return nil, err
		}
		if stored != nil {
			state = stored
		}
	}
	if state == nil || state.Call.OrganizationID != organization {
		return nil, nil
	}
	return state, nil
}

// isGone reports whether the result of a call is no longer served.
func (d *CallTracker) isGone(state *event.Context) bool {
	return d.cfg.Now().Sub(state.Call.RequestedAt) > event.ContextRetention ||
		d.cfg.Erased != nil && state.Status == event.ContextComplete && d.cfg.Erased(state)
}

// pollInterval is how often a waiting call checks the read model for a result that may have arrived before this process
// started.
const pollInterval = time.Second

// Wait waits up to timeout for the result of a call in progress. It returns nil, or a state without a result, if none
// has arrived.
func (d *CallTracker) Wait(
	ctx context.Context, organization, requestID string, timeout time.Duration,
) (*event.Context, error) {
	timer, ticker := time.NewTimer(timeout), time.NewTicker(pollInterval)
	defer timer.Stop()
	defer ticker.Stop()
	done, stop := d.listen(requestID)
	defer stop()
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
			done = nil // read the state again
		case <-ticker.C:
		case <-timer.C:
			ended = true
		case <-d.stopping.Done():
			ended = true
		case <-ctx.Done():
			return nil, fmt.Errorf("context: %w", context.Cause(ctx))
		}
	}
}

// listen returns a channel that is closed with the result of a call, and a function to stop listening.
func (d *CallTracker) listen(requestID string) (done <-chan struct{}, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, _ := d.lookUp(requestID)
	if c.done != nil || c.state != nil && c.state.Status != event.ContextProcessing {
		return nil, func() {} // another call listens; the read model is polled
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
