package delivery

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"muster/schemas/event"
)

// timers is a heap of items by due time.
type timers []*item

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].dueAt.Before(t[j].dueAt) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].heapIndex, t[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	it := x.(*item)
	it.heapIndex = len(*t)
	*t = append(*t, it)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := len(*t) - 1
	it := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	it.heapIndex = -1
	return it
}

// finished holds the deliveries that ended, oldest first, for deduplication.
type finished struct {
	byKey        map[string]finishedRound
	order        []finishedKey // may contain keys that were removed or finished again
	lastSequence uint64
}

type finishedRound struct {
	round      string
	finishedAt time.Time
	sequence   uint64
}

type finishedKey struct {
	key      string
	sequence uint64
}

func (f *finished) add(key string, s *event.DeliveryState) {
	f.lastSequence++
	f.byKey[key] = finishedRound{s.Round, s.UpdatedAt, f.lastSequence}
	f.order = append(f.order, finishedKey{key, f.lastSequence})
}

func (f *finished) remove(key string) { delete(f.byKey, key) }

// evictFinished removes finished deliveries that are older than FinishedTTL or exceed MaxFinished,
// oldest first.
func (s *Scheduler) evictFinished(now time.Time) {
	f := &s.finished
	for len(f.order) > 0 {
		first := f.order[0]
		e, ok := f.byKey[first.key]
		switch {
		case !ok || e.sequence != first.sequence:
		case now.Sub(e.finishedAt) > s.cfg.FinishedTTL || len(f.byKey) > s.cfg.MaxFinished:
			delete(f.byKey, first.key)
			s.change.States = append(s.change.States, State{Key: first.key})
		default:
			return
		}
		f.order = f.order[1:]
	}
}

func (s *Scheduler) endpoint(id, organization, address string) *endpoint {
	e := s.endpoints[id]
	if e == nil {
		e = &endpoint{id: id}
		s.endpoints[id] = e
	}
	// A tombstone has no address.
	if e.address == "" {
		e.organization, e.address = organization, address
		s.releaseHost(e.host)
		e.host = s.host(organization, address)
	}
	return e
}

// host returns the host of an address and counts one more endpoint.
func (s *Scheduler) host(organization, address string) *host {
	scheme, rest, _ := strings.Cut(address, "://")
	name, _, _ := strings.Cut(rest, "/")
	key := organization + "\x00" + scheme + "\x00" + name
	h := s.hosts[key]
	if h == nil {
		h = &host{key: key}
		s.hosts[key] = h
	}
	h.endpoints++
	return h
}

// releaseHost removes an endpoint from a host, and the host with its last endpoint.
func (s *Scheduler) releaseHost(h *host) {
	if h == nil {
		return
	}
	if h.endpoints--; h.endpoints == 0 {
		delete(s.hosts, h.key)
	}
}

const (
	// sweepInterval is how often idle endpoints are removed.
	sweepInterval = time.Hour
	// StoppedRetention is how long an endpoint stays stopped without a task. stoppedRefreshInterval
	// is the precision of that time after a restart.
	StoppedRetention       = 90 * 24 * time.Hour
	stoppedRefreshInterval = 24 * time.Hour
)

// sweepEndpoints deletes the state records of endpoints without deliveries: an organization may use
// a new URL for each call.
func (s *Scheduler) sweepEndpoints(now time.Time) {
	if now.Sub(s.lastSweep) < sweepInterval {
		return
	}
	s.lastSweep = now
	for _, e := range s.endpoints {
		stopped := !e.stoppedAt.IsZero()
		if !e.persisted || e.items > 0 || now.Before(e.blockedUntil) && now.Before(e.persistedAt.Add(s.cfg.OpenFor)) ||
			stopped && now.Sub(e.persistedAt) < StoppedRetention {
			continue
		}
		e.stoppedAt, e.blockedUntil = time.Time{}, time.Time{}
		s.recordEndpoint(e, now)
		s.dropIfIdle(e)
	}
}

// dropIfIdle removes an endpoint without deliveries, state record, turn or timer.
func (s *Scheduler) dropIfIdle(e *endpoint) {
	if e.items == 0 && !e.persisted && !e.isRunnable && e.wakeTimer == nil {
		delete(s.endpoints, e.id)
		s.releaseHost(e.host)
	}
}

func (s *Scheduler) add(it *item) {
	it.shareStrings()
	s.items[it.key] = it
	it.endpoint.items++
}

// shareStrings lets the item's state share the strings of its key and endpoint. Very many
// deliveries may wait for days, with addresses of up to 2,048 bytes. The endpoint ID is derived
// from the other strings, so they are equal.
func (it *item) shareStrings() {
	s, e := &it.state, it.endpoint
	s.EndpointID, s.OrganizationID, s.Address = e.id, e.organization, e.address
	s.DeliveryID = it.key[len(e.id)+1:]
	if s.RequestID == s.DeliveryID {
		s.RequestID = s.DeliveryID
	}
}

// remove removes an item from everything except running calls.
func (s *Scheduler) remove(it *item) {
	s.dequeue(it)
	delete(s.items, it.key)
	it.endpoint.items--
	s.dropIfIdle(it.endpoint)
}

// dequeue removes an item from its endpoint's queue and the timers.
func (s *Scheduler) dequeue(it *item) {
	if it.heapIndex >= 0 {
		heap.Remove(&s.timers, it.heapIndex)
	}
	if !it.queued {
		return
	}
	it.queued = false
	e := it.endpoint
	if i := slices.Index(e.queue, it); i >= 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
	}
	s.uncountHeld(it)
}

// countHeld counts a queued item that has its body in memory; uncountHeld reverses it.
func (s *Scheduler) countHeld(it *item) {
	if it.task != nil {
		it.endpoint.held++
		s.held++
		s.heldBytes += len(it.task.Value)
	}
}

func (s *Scheduler) uncountHeld(it *item) {
	if it.task != nil {
		it.endpoint.held--
		s.held--
		s.heldBytes -= len(it.task.Value)
	}
}

// queue appends an item to its endpoint's queue.
func (s *Scheduler) queue(it *item) {
	e := it.endpoint
	e.queue = append(e.queue, it)
	it.queued = true
	s.countHeld(it)
	// It may wait for long.
	if e.congested || e.failing {
		s.spill(it, it.state.UpdatedAt)
	}
	s.markRunnable(e)
}

// markRunnable adds an endpoint with queued deliveries to the runnable ones.
func (s *Scheduler) markRunnable(e *endpoint) {
	if len(e.queue) == 0 {
		e.congested = false
		return
	}
	if !e.isRunnable {
		e.isRunnable = true
		s.runnable = append(s.runnable, e)
	}
}

// wakeAfterBreaker sets a timer for the end of an endpoint's open breaker.
func (s *Scheduler) wakeAfterBreaker(e *endpoint, now time.Time) {
	if e.wakeTimer != nil {
		return
	}
	// The time may come from another process's clock.
	if last := now.Add(s.cfg.OpenFor); e.blockedUntil.After(last) {
		e.blockedUntil = last
	}
	e.wakeTimer = &item{endpoint: e, dueAt: e.blockedUntil.Round(0), heapIndex: -1}
	heap.Push(&s.timers, e.wakeTimer)
}

// schedule sets the time at which an item is queued. It drops the monotonic clock: restored times
// have none, and the two are not comparable after a clock change.
func (s *Scheduler) schedule(it *item, at time.Time) {
	it.dueAt = at.Round(0)
	heap.Push(&s.timers, it)
}

// spill records a queued item's state, so that its offset can be committed, and releases its body.
func (s *Scheduler) spill(it *item, now time.Time) {
	if it.task == nil {
		return
	}
	s.uncountHeld(it)
	it.task = nil
	it.state.UpdatedAt = now
	s.recordDelivery(it)
}

// spillAll spills the queued items of an endpoint.
func (s *Scheduler) spillAll(e *endpoint, now time.Time) {
	for i := 0; i < len(e.queue) && e.held > 0; i++ {
		s.spill(e.queue[i], now)
	}
}

// recordDelivery adds the item's state to the change and finishes its task's offset.
func (s *Scheduler) recordDelivery(it *item) {
	state := it.state
	s.change.States = append(s.change.States, State{Key: it.key, Delivery: &state})
	if it.offsetPending {
		it.offsetPending = false
		s.finishOffset(it.state.Offset)
	}
}

func (s *Scheduler) finishOffset(offset int64) { s.change.Finished = append(s.change.Finished, offset) }

// recordAttempt adds an attempt to the change.
func (s *Scheduler) recordAttempt(it *item, o Outcome) {
	state := &it.state
	s.change.Attempts = append(s.change.Attempts, event.WebhookAttempt{
		DeliveryID: state.DeliveryID, Round: state.Round, Attempt: max(state.Attempts, 1), EndpointID: state.EndpointID,
		OrganizationID: state.OrganizationID, RequestID: state.RequestID, Address: state.Address, At: o.At,
		DurationMicros: o.Duration.Microseconds(), HTTPStatus: o.HTTPStatus,
		Status: state.Status, Error: state.Error, Response: o.Response, NextAt: state.NextAt,
		CreatedAt: state.CreatedAt, TaskPartition: s.cfg.Partition, TaskOffset: state.Offset,
	})
}

// deadLetter ends a delivery that failed.
func (s *Scheduler) deadLetter(it *item, code string, o Outcome) {
	state := &it.state
	if state.FirstFailure.IsZero() {
		state.FirstFailure = o.At
	}
	// Decided without a call.
	if o.HTTPStatus == 0 && o.Error == "" {
		state.Attempts++
	}
	state.Status, state.Error, state.NextAt, state.UpdatedAt = event.WebhookDead, code, time.Time{}, o.At
	s.recordAttempt(it, o)
	s.change.Dead = append(s.change.Dead, DeadLetter{State: *state, LastError: o.Error, Task: o.Task})
	s.finishDelivery(it)
}

// finishDelivery removes a delivery that has ended and remembers it for deduplication.
func (s *Scheduler) finishDelivery(it *item) {
	s.recordDelivery(it)
	s.finished.add(it.key, &it.state)
	s.remove(it)
}

// recordCallResult updates the health of an endpoint and its host after a call.
func (s *Scheduler) recordCallResult(e *endpoint, failed bool, now time.Time) {
	if h := e.host; failed != h.failing {
		h.failing = failed
		if failed {
			s.unhealthyRunning += h.healthyRunning
			// Parked deliveries of a failing host are spilled on their turn.
			s.runnable, h.parked = append(s.runnable, h.parked...), nil
		} else {
			s.unhealthyRunning -= h.healthyRunning
		}
	}
	if failed == e.failing {
		return
	}
	s.setFailing(e, failed)
	if failed {
		// They may wait for long, and must not hold back the offsets of later tasks.
		s.spillAll(e, now)
		return
	}
	if e.persisted && e.stoppedAt.IsZero() {
		e.blockedUntil = time.Time{}
		s.recordEndpoint(e, now)
	}
}

// setFailing sets an endpoint's health and updates the counts of running calls.
func (s *Scheduler) setFailing(e *endpoint, failing bool) {
	if failing == e.failing {
		return
	}
	n := e.running
	if !failing {
		n = -n
	}
	e.failing = failing
	e.host.healthyRunning -= n
	if !e.host.failing {
		s.unhealthyRunning += n
	}
}

// countCall adds n running calls of an endpoint to the counts.
func (s *Scheduler) countCall(e *endpoint, n int) {
	e.running += n
	e.host.running += n
	s.running += n
	if !e.failing {
		e.host.healthyRunning += n
	}
	if e.failing || e.host.failing {
		s.unhealthyRunning += n
	}
}

// openBreaker makes an endpoint's deliveries wait until its breaker closes.
func (s *Scheduler) openBreaker(e *endpoint, until, now time.Time) {
	// The same breaker may have rejected other deliveries at the same time.
	if until.Sub(e.blockedUntil) < time.Second && e.persisted {
		e.blockedUntil = maxTime(e.blockedUntil, until)
		return
	}
	e.blockedUntil = until
	s.recordEndpoint(e, now)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// disable stops an endpoint until it is resumed. Its state precedes those of the dead-lettered
// deliveries, so that a restart knows the stop even if only some are written. The record also keeps
// the endpoint after its last delivery.
func (s *Scheduler) disable(e *endpoint, now time.Time) {
	if e.stoppedAt.IsZero() {
		e.stoppedAt = now
		s.recordEndpoint(e, now)
	}
}

// deadLetterWaiting dead-letters the waiting deliveries of a stopped endpoint. Running ones follow
// if their call fails.
func (s *Scheduler) deadLetterWaiting(e *endpoint, now time.Time) {
	// The stopped delivery was its last; do not scan all deliveries.
	if e.items == 0 {
		return
	}
	for _, it := range e.queue {
		it.queued = false
		s.uncountHeld(it)
	}
	e.queue = nil
	var pending []*item
	for _, it := range s.items {
		if it.endpoint == e && !it.running {
			pending = append(pending, it)
		}
	}
	slices.SortFunc(pending, func(a, b *item) int { return cmp.Compare(a.state.Offset, b.state.Offset) })
	for _, it := range pending {
		s.deadLetter(it, CodeStopped, Outcome{At: now, Task: it.task})
	}
}

// recordEndpoint adds the endpoint's state to the change, or a tombstone if it is healthy.
func (s *Scheduler) recordEndpoint(e *endpoint, now time.Time) {
	healthy := e.stoppedAt.IsZero() && e.blockedUntil.IsZero()
	if healthy && !e.persisted {
		return
	}
	e.persisted, e.persistedAt = !healthy, now
	if healthy {
		s.change.States = append(s.change.States, State{Key: e.id})
		return
	}
	s.change.States = append(s.change.States, State{Key: e.id, Endpoint: &event.EndpointState{
		EndpointID: e.id, OrganizationID: e.organization, Address: e.address,
		StoppedAt: e.stoppedAt, BlockedUntil: e.blockedUntil, UpdatedAt: now,
	}})
}
