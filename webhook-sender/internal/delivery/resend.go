package delivery

import (
	"time"

	"muster/schemas/event"
)

// resendRequest is an operator's request to send a delivery again. The body is read from the log at
// offset, so a deferred request holds none.
type resendRequest struct {
	round  string
	offset int64
}

// restart restarts the schedule of a pending delivery in the request's round. The request's task
// replaces the original one, which may leave the log before the new schedule ends.
func (s *Scheduler) restart(it *item, request resendRequest, now time.Time) {
	s.dequeue(it)
	it.task = nil
	if it.offsetPending {
		it.offsetPending = false
		s.finishOffset(it.state.Offset)
	}
	state := &it.state
	state.Round, state.Offset, state.Attempts, state.Error, state.FirstFailure = request.round, request.offset, 0, "",
		time.Time{}
	state.Status, state.NextAt, state.CreatedAt, state.UpdatedAt = event.WebhookPending, now, now, now
	s.recordDelivery(it)
	s.finishOffset(request.offset)
	s.schedule(it, now)
}

// deferResend keeps a request while the delivery's call runs. The last request wins. Its offset
// stays uncommitted until it is applied, so that it survives a crash.
func (s *Scheduler) deferResend(it *item, request resendRequest) {
	if it.pendingResend != nil {
		s.finishOffset(it.pendingResend.offset)
	}
	it.pendingResend = &request
}

// applyResend restarts a delivery after its call has ended, whatever the outcome.
func (s *Scheduler) applyResend(it *item, now time.Time) {
	request := *it.pendingResend
	it.pendingResend = nil
	// The delivery has ended.
	if s.items[it.key] != it {
		s.finished.remove(it.key)
		state := it.state
		it = &item{key: it.key, state: state,
			endpoint: s.endpoint(state.EndpointID, state.OrganizationID, state.Address), heapIndex: -1}
		s.add(it)
	}
	s.restart(it, request, now)
}
