package delivery

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"muster/schemas/event"
)

// timers is a heap of items by time.
type timers []*item

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	it := x.(*item)
	it.index = len(*t)
	*t = append(*t, it)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := len(*t) - 1
	it := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	it.index = -1
	return it
}

// finished remembers deliveries after their end, oldest first.
type finished struct {
	ended map[string]ended
	order []place // may name some that were removed, or ended again later
	last  uint64
}

type ended struct {
	round string
	at    time.Time
	place uint64
}

type place struct {
	key    string
	number uint64
}

func (f *finished) add(key string, s *event.DeliveryState) {
	f.last++
	f.ended[key] = ended{s.Round, s.UpdatedAt, f.last}
	f.order = append(f.order, place{key, f.last})
}

func (f *finished) remove(key string) { delete(f.ended, key) }

// forget lets go of the deliveries that ended long ago, and of the oldest beyond
// the bound.
func (m *Machine) forget(now time.Time) {
	f := &m.finished
	for len(f.order) > 0 {
		first := f.order[0]
		e, ok := f.ended[first.key]
		switch {
		case !ok || e.place != first.number:
		case now.Sub(e.at) > m.cfg.Remember || len(f.ended) > m.cfg.Finished:
			delete(f.ended, first.key)
			m.effect.States = append(m.effect.States, State{Key: first.key})
		default:
			return
		}
		f.order = f.order[1:]
	}
}

func (m *Machine) endpoint(id, organization, address string) *endpoint {
	e := m.endpoints[id]
	if e == nil {
		e = &endpoint{id: id}
		m.endpoints[id] = e
	}
	if e.address == "" { // a tombstone does not tell it
		e.organization, e.address = organization, address
		m.leave(e.host)
		e.host = m.host(organization, address)
	}
	return e
}

// host returns that of an address, with one endpoint more.
func (m *Machine) host(organization, address string) *host {
	scheme, rest, _ := strings.Cut(address, "://")
	name, _, _ := strings.Cut(rest, "/")
	key := organization + "\x00" + scheme + "\x00" + name
	h := m.hosts[key]
	if h == nil {
		h = &host{key: key}
		m.hosts[key] = h
	}
	h.endpoints++
	return h
}

// leave forgets a host with its last endpoint.
func (m *Machine) leave(h *host) {
	if h == nil {
		return
	}
	if h.endpoints--; h.endpoints == 0 {
		delete(m.hosts, h.key)
	}
}

const (
	// sweepEvery is how often endpoints without deliveries are looked through.
	sweepEvery = time.Hour
	// KeepStopped is how long an endpoint stays stopped to which nothing more was to be
	// sent; stopNews how exactly that is known after a restart.
	KeepStopped = 90 * 24 * time.Hour
	stopNews    = 24 * time.Hour
)

// sweep takes endpoints off the topic of states that have no deliveries any more: an
// organization may give each call an address of its own.
func (m *Machine) sweep(now time.Time) {
	if now.Sub(m.swept) < sweepEvery {
		return
	}
	m.swept = now
	for _, e := range m.endpoints {
		stopped := !e.stopped.IsZero()
		if !e.recorded || e.items > 0 || now.Before(e.blocked) && now.Before(e.updated.Add(m.cfg.OpenFor)) || stopped && now.Sub(e.updated) < KeepStopped {
			continue
		}
		e.stopped, e.blocked = time.Time{}, time.Time{}
		m.record(e, now)
		m.drop(e)
	}
}

// drop forgets an endpoint that nothing is known or waiting of.
func (m *Machine) drop(e *endpoint) {
	if e.items == 0 && !e.recorded && !e.listed && e.wake == nil {
		delete(m.endpoints, e.id)
		m.leave(e.host)
	}
}

func (m *Machine) add(it *item) {
	it.share()
	m.items[it.key] = it
	it.endpoint.items++
}

// share has an item hold no second copy of what its key and its endpoint hold: very many may wait,
// for days, and an address may have 2,048 bytes. The id is made of the others, so they are equal.
func (it *item) share() {
	s, e := &it.state, it.endpoint
	s.EndpointID, s.OrganizationID, s.Address = e.id, e.organization, e.address
	s.DeliveryID = it.key[len(e.id)+1:]
	if s.RequestID == s.DeliveryID {
		s.RequestID = s.DeliveryID
	}
}

// remove takes an item out of everything but what runs.
func (m *Machine) remove(it *item) {
	m.unwait(it)
	delete(m.items, it.key)
	it.endpoint.items--
	m.drop(it.endpoint)
}

// unwait takes an item out of its endpoint's queue and the timers.
func (m *Machine) unwait(it *item) {
	if it.index >= 0 {
		heap.Remove(&m.timers, it.index)
	}
	if !it.queued {
		return
	}
	it.queued = false
	e := it.endpoint
	if i := slices.Index(e.waiting, it); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	m.release(it)
}

// hold counts an item that waits with its body in memory, if it does; release that it
// waits no more.
func (m *Machine) hold(it *item) {
	if it.task != nil {
		it.endpoint.held++
		m.held++
		m.heldBytes += len(it.task.Value)
	}
}

func (m *Machine) release(it *item) {
	if it.task != nil {
		it.endpoint.held--
		m.held--
		m.heldBytes -= len(it.task.Value)
	}
}

// wait puts an item at the end of its endpoint's queue.
func (m *Machine) wait(it *item) {
	e := it.endpoint
	e.waiting = append(e.waiting, it)
	it.queued = true
	m.hold(it)
	if e.congested || e.failing { // it may wait for long
		m.putOff(it, it.state.UpdatedAt)
	}
	m.list(e)
}

// list notes that an endpoint may be able to send.
func (m *Machine) list(e *endpoint) {
	if len(e.waiting) == 0 {
		e.congested = false
		return
	}
	if !e.listed {
		e.listed = true
		m.runnable = append(m.runnable, e)
	}
}

// sleep has an endpoint looked at again when its breaker lets calls through.
func (m *Machine) sleep(e *endpoint, now time.Time) {
	if e.wake != nil {
		return
	}
	if last := now.Add(m.cfg.OpenFor); e.blocked.After(last) { // by another's clock
		e.blocked = last
	}
	e.wake = &item{endpoint: e, at: e.blocked.Round(0), index: -1}
	heap.Push(&m.timers, e.wake)
}

// schedule has an item wait for its time. It is the wall clock's: what was restored has
// no other, and times of both clocks have no order once one of them was set.
func (m *Machine) schedule(it *item, at time.Time) {
	it.at = at.Round(0)
	heap.Push(&m.timers, it)
}

// putOff makes an item that waits durable and lets its body and its task's offset
// go.
func (m *Machine) putOff(it *item, now time.Time) {
	if it.task == nil {
		return
	}
	m.release(it)
	it.task = nil
	it.state.UpdatedAt = now
	m.put(it)
}

// putOffAll puts off what waits for an endpoint.
func (m *Machine) putOffAll(e *endpoint, now time.Time) {
	for i := 0; i < len(e.waiting) && e.held > 0; i++ {
		m.putOff(e.waiting[i], now)
	}
}

// put states the item's state, and finishes its task: the state now stands for it.
func (m *Machine) put(it *item) {
	state := it.state
	m.effect.States = append(m.effect.States, State{Key: it.key, Delivery: &state})
	if it.unfinished {
		it.unfinished = false
		m.finish(it.state.Offset)
	}
}

func (m *Machine) finish(offset int64) { m.effect.Finished = append(m.effect.Finished, offset) }

// report states an attempt.
func (m *Machine) report(it *item, o Outcome) {
	s := &it.state
	m.effect.Attempts = append(m.effect.Attempts, event.WebhookAttempt{
		DeliveryID: s.DeliveryID, Round: s.Round, Attempt: max(s.Attempts, 1), EndpointID: s.EndpointID, OrganizationID: s.OrganizationID,
		RequestID: s.RequestID, Address: s.Address, At: o.At, DurationMicros: o.Duration.Microseconds(), HTTPStatus: o.HTTPStatus,
		Status: s.Status, Error: s.Error, Response: o.Response, NextAt: s.NextAt, CreatedAt: s.CreatedAt,
		TaskPartition: m.cfg.Partition, TaskOffset: s.Offset,
	})
}

// giveUp ends a delivery that was not made.
func (m *Machine) giveUp(it *item, code string, o Outcome) {
	s := &it.state
	if s.FirstFailure.IsZero() {
		s.FirstFailure = o.At
	}
	if o.HTTPStatus == 0 && o.Error == "" { // decided without a call
		s.Attempts++
	}
	s.Status, s.Error, s.NextAt, s.UpdatedAt = event.WebhookDead, code, time.Time{}, o.At
	m.report(it, o)
	m.effect.Dead = append(m.effect.Dead, DeadLetter{State: *s, LastError: o.Error, Task: o.Task})
	m.end(it)
}

// end remembers a delivery that is over.
func (m *Machine) end(it *item) {
	m.put(it)
	m.finished.add(it.key, &it.state)
	m.remove(it)
}

// mark notes how an endpoint's last call went.
func (m *Machine) mark(e *endpoint, failed bool, now time.Time) {
	if h := e.host; failed != h.failing {
		h.failing = failed
		if failed {
			m.troubled += h.sound
			m.runnable, h.parked = append(m.runnable, h.parked...), nil // what waits for a host in trouble is put off
		} else {
			m.troubled -= h.sound
		}
	}
	if failed == e.failing {
		return
	}
	m.setFailing(e, failed)
	if failed {
		// What waits for it may wait for long: the tasks behind it must not.
		m.putOffAll(e, now)
		return
	}
	if e.recorded && e.stopped.IsZero() {
		e.blocked = time.Time{}
		m.record(e, now)
	}
}

// setFailing keeps count of the calls to endpoints in trouble.
func (m *Machine) setFailing(e *endpoint, failing bool) {
	if failing == e.failing {
		return
	}
	n := e.running
	if !failing {
		n = -n
	}
	e.failing = failing
	e.host.sound -= n
	if !e.host.failing {
		m.troubled += n
	}
}

// count notes that a call to an endpoint begins, or has ended.
func (m *Machine) count(e *endpoint, n int) {
	e.running += n
	e.host.running += n
	m.running += n
	if !e.failing {
		e.host.sound += n
	}
	if e.failing || e.host.failing {
		m.troubled += n
	}
}

// block has an endpoint's deliveries wait for its breaker.
func (m *Machine) block(e *endpoint, until, now time.Time) {
	// Others may have been refused by the same breaker at the same time.
	if until.Sub(e.blocked) < time.Second && e.recorded {
		e.blocked = maxTime(e.blocked, until)
		return
	}
	e.blocked = until
	m.record(e, now)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// halt stops an endpoint: nothing is sent there until it is resumed. Its state comes
// before those of the deliveries that are given up for it: however much of them is
// written, a restart knows that it is stopped. And an endpoint that stands on the topic
// is not forgotten with its last delivery.
func (m *Machine) halt(e *endpoint, now time.Time) {
	if e.stopped.IsZero() {
		e.stopped = now
		m.record(e, now)
	}
}

// giveUpWaiting gives up what waits for a stopped endpoint. What runs is given up when
// its call has failed.
func (m *Machine) giveUpWaiting(e *endpoint, now time.Time) {
	if e.items == 0 { // the one whose answer stopped it was its last: all deliveries are not looked through for others
		return
	}
	for _, it := range e.waiting {
		it.queued = false
		m.release(it)
	}
	e.waiting = nil
	var pending []*item
	for _, it := range m.items {
		if it.endpoint == e && !it.running {
			pending = append(pending, it)
		}
	}
	slices.SortFunc(pending, func(a, b *item) int { return cmp.Compare(a.state.Offset, b.state.Offset) })
	for _, it := range pending {
		m.giveUp(it, CodeStopped, Outcome{At: now, Task: it.task})
	}
}

// record states an endpoint's trouble, or that it is well.
func (m *Machine) record(e *endpoint, now time.Time) {
	well := e.stopped.IsZero() && e.blocked.IsZero()
	if well && !e.recorded {
		return
	}
	e.recorded, e.updated = !well, now
	if well {
		m.effect.States = append(m.effect.States, State{Key: e.id})
		return
	}
	m.effect.States = append(m.effect.States, State{Key: e.id, Endpoint: &event.EndpointState{
		EndpointID: e.id, OrganizationID: e.organization, Address: e.address,
		StoppedAt: e.stopped, BlockedUntil: e.blocked, UpdatedAt: now,
	}})
}
