package delivery

import (
	"container/heap"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/schemas/event"
)

// Config bounds a [Machine]. Zero fields take their defaults.
type Config struct {
	// Partition is the number of the partition of tasks.
	Partition int
	// PerEndpoint bounds the calls to one endpoint at a time; default 8.
	PerEndpoint int
	// Running bounds all calls at a time; default 256.
	Running int
	// HeldPerEndpoint and Held bound the deliveries that wait with their bodies in
	// memory; defaults 64 and 1,024.
	HeldPerEndpoint, Held int
	// HeldBytes bounds their messages together; default 16 MiB.
	HeldBytes int
	// Finished bounds the deliveries that are remembered after their end, and
	// Remember for how long; defaults 50,000 and the seven days that tasks are kept.
	Finished int
	Remember time.Duration
	// OpenFor is how long a breaker stays open; default 30 s. A time that another process
	// set is not believed beyond it: its clock may be ahead.
	OpenFor time.Duration
	// Random spreads delays: a number in [0, 1). Required.
	Random func() float64
}

// item is a delivery that waits or runs.
type item struct {
	key      string // of its state
	state    event.DeliveryState
	endpoint *endpoint
	task     *kafka.Message // its body in memory, else nil
	// unfinished: the task's offset is to be finished with the next effect.
	unfinished bool
	queued     bool // in its endpoint's queue
	running    bool
	again      *order    // came while it ran, is obeyed when the call has ended
	at         time.Time // in the heap: when to look again
	index      int       // in the heap, -1 when it is not
}

// endpoint is a receiver of this partition.
type endpoint struct {
	id, organization, address string

	host      *host
	waiting   []*item // ready to be sent, in order
	running   int
	held      int // items with their bodies in memory that wait
	items     int // in all
	failing   bool
	congested bool
	stopped   time.Time
	blocked   time.Time // until when the breaker is open
	recorded  bool      // its trouble stands on the topic of states
	updated   time.Time // when that was written
	listed    bool      // it is in Machine.runnable
	wake      *item     // in the heap while it is blocked
}

// host is where endpoints of one organization are: they may be many, and out of order
// together.
type host struct {
	key       string
	endpoints int
	running   int
	sound     int         // calls that run to endpoints that are not failing
	failing   bool        // the last call failed
	parked    []*endpoint // that wait for one of the host's calls to end, in order; they are listed
}

// Machine is the state of one partition. It is not safe for concurrent use.
type Machine struct {
	cfg       Config
	items     map[string]*item // by DeliveryState.Key
	endpoints map[string]*endpoint
	hosts     map[string]*host
	runnable  []*endpoint
	spare     []*endpoint // room for the next runnable
	timers    timers
	running   int
	troubled  int // calls that run to endpoints in trouble, or to hosts in trouble
	held      int
	heldBytes int
	finished  finished
	swept     time.Time
	effect    Effect
}

// New returns an empty machine.
func New(cfg Config) *Machine {
	setDefault(&cfg.PerEndpoint, 8)
	setDefault(&cfg.Running, 256)
	setDefault(&cfg.HeldPerEndpoint, 64)
	setDefault(&cfg.Held, 1024)
	setDefault(&cfg.HeldBytes, 16<<20)
	setDefault(&cfg.OpenFor, 30*time.Second)
	setDefault(&cfg.Finished, 50_000)
	setDefault(&cfg.Remember, 7*24*time.Hour)
	return &Machine{
		cfg: cfg, items: make(map[string]*item), endpoints: make(map[string]*endpoint), hosts: make(map[string]*host),
		finished: finished{ended: make(map[string]ended)},
	}
}

func setDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Restore takes over one message of the topic of states, in order, before anything
// else.
func (m *Machine) Restore(key, value []byte) error {
	delivery, ep, removed, err := event.DecodeWebhookState(key, value)
	if err != nil {
		return err
	}
	if ep != nil {
		e := m.endpoint(ep.EndpointID, ep.OrganizationID, ep.Address)
		e.stopped, e.blocked, e.updated = ep.StoppedAt, ep.BlockedUntil, ep.UpdatedAt
		e.recorded = !removed
		e.failing = !removed
		m.drop(e)
		return nil
	}
	k := delivery.Key()
	if it := m.items[k]; it != nil {
		m.remove(it)
	}
	m.finished.remove(k)
	switch {
	case removed:
	case delivery.Status == event.WebhookPending:
		it := &item{key: k, state: *delivery, endpoint: m.endpoint(delivery.EndpointID, delivery.OrganizationID, delivery.Address), index: -1}
		m.add(it)
		m.schedule(it, delivery.NextAt)
	default:
		m.finished.add(k, delivery)
	}
	return nil
}

// Take takes a task for an endpoint, whose id and address it is given with, and the task's
// message.
func (m *Machine) Take(task *event.WebhookTask, id, address string, message *kafka.Message, now time.Time) {
	key := id + "/" + task.DeliveryID
	state := event.DeliveryState{
		DeliveryID: task.DeliveryID, EndpointID: id, OrganizationID: task.OrganizationID, Address: address,
		RequestID: task.RequestID, Round: task.Round, Status: event.WebhookPending, NextAt: now,
		CreatedAt: task.CreatedAt.UTC(), UpdatedAt: now, Offset: message.Offset,
	}
	if task.Round != "" { // the operator's order begins the time anew
		state.CreatedAt = now
	}
	if known, ok := m.finished.ended[key]; ok {
		if task.Round == "" || known.round == task.Round {
			m.finish(message.Offset)
			return
		}
		m.finished.remove(key)
	}
	if it := m.items[key]; it != nil {
		o := order{task.Round, message.Offset}
		switch {
		case o.round == "" || o.round == it.state.Round:
			m.finish(o.offset)
		case it.running:
			m.keep(it, o)
		default:
			m.anew(it, o, now)
		}
		return
	}
	e := m.endpoint(id, task.OrganizationID, address)
	it := &item{key: key, state: state, endpoint: e, task: message, unfinished: true, index: -1}
	m.add(it)
	if !e.stopped.IsZero() {
		if now.Sub(e.updated) > stopNews {
			m.record(e, now)
		}
		m.giveUp(it, CodeStopped, Outcome{At: now, Task: message})
		return
	}
	m.wait(it)
}

// Resume lets a stopped or blocked endpoint receive again.
func (m *Machine) Resume(endpointID string, offset int64, now time.Time) {
	if e := m.endpoints[endpointID]; e != nil {
		e.stopped, e.blocked = time.Time{}, time.Time{}
		m.setFailing(e, false)
		m.record(e, now)
		m.list(e)
		m.drop(e)
	}
	m.finish(offset)
}

// Full reports whether tasks should wait a moment before they are taken: bodies
// fill the memory that is meant for them.
func (m *Machine) Full(endpointID string) bool {
	if m.crowded() {
		return true
	}
	e := m.endpoints[endpointID]
	return e != nil && !e.congested && e.held >= m.cfg.HeldPerEndpoint
}

// crowded reports whether bodies fill the memory that is meant for all of them.
func (m *Machine) crowded() bool { return m.held >= m.cfg.Held || m.heldBytes >= m.cfg.HeldBytes }

// Relieve ends a wait for Full: the deliveries that wait for an endpoint with its
// bodies in memory are put off, and so is all that comes until it has caught up.
func (m *Machine) Relieve(now time.Time) {
	for _, e := range m.endpoints {
		if e.held >= m.cfg.HeldPerEndpoint || m.crowded() && e.held > 0 {
			e.congested = true
			m.putOffAll(e, now)
		}
	}
}

// Due returns what is to be sent now.
func (m *Machine) Due(now time.Time) []Send {
	now = now.Round(0)
	for len(m.timers) > 0 && !m.timers[0].at.After(now) {
		it := heap.Pop(&m.timers).(*item)
		if it.endpoint.wake == it {
			it.endpoint.wake = nil
			m.list(it.endpoint)
			m.drop(it.endpoint)
			continue
		}
		m.wait(it)
	}
	m.forget(now)
	m.sweep(now)
	var sends []Send
	for more := true; more && m.running < m.cfg.Running; { // one each, until none can send
		more = m.turn(now, &sends)
	}
	return sends
}

// turn gives each endpoint a turn to send, as far as calls may be made, and reports
// whether another round may send more.
func (m *Machine) turn(now time.Time, sends *[]Send) (more bool) {
	list, kept := m.runnable, m.runnable[:0]
	var back []*endpoint // in place of those of their host that had nothing to send
	for i, e := range list {
		if m.running >= m.cfg.Running {
			m.runnable = append(append(append(m.spare[:0], list[i:]...), back...), kept...) // theirs is the next turn
			clear(list)
			m.spare = list
			return false
		}
		h, result := e.host, m.sendOne(e, now, sends)
		switch result {
		case turnSent:
			more = true
			kept = append(kept, e)
		case turnLater:
			kept = append(kept, e)
		case turnParked:
			h.parked = append(h.parked, e)
		case turnOver:
			e.listed = false
			m.drop(e)
		}
		if result != turnSent && h.running < m.half() {
			back = h.unpark(back)
		}
	}
	clear(list[len(kept):])
	m.runnable = append(kept, back...)
	return more || len(back) > 0
}

// half is how many calls may run to one host.
func (m *Machine) half() int { return max(m.cfg.Running/2, 1) }

// unpark appends the first of the endpoints that wait for the host. All of them are not
// looked at for each call that ends: they may be many.
func (h *host) unpark(list []*endpoint) []*endpoint {
	if len(h.parked) == 0 {
		return list
	}
	list = append(list, h.parked[0])
	h.parked[0] = nil
	h.parked = h.parked[1:]
	return list
}

// turn is what came of an endpoint's turn to send.
type turn int

const (
	turnOver   turn = iota // nothing more until something changes for it
	turnSent               // one was sent, another may follow
	turnLater              // others leave no room
	turnParked             // its host leaves no room
)

// sendOne sends the endpoint's next delivery.
func (m *Machine) sendOne(e *endpoint, now time.Time, sends *[]Send) turn {
	limit := m.cfg.PerEndpoint
	if e.failing {
		limit = 1
	}
	switch {
	case len(e.waiting) == 0:
		return turnOver
	case !e.stopped.IsZero(): // it ran, or waited for its time, when the endpoint was stopped
		it := m.next(e)
		m.giveUp(it, CodeStopped, Outcome{At: now, Task: it.task})
		return turnSent
	case e.running >= limit:
		return turnOver
	case now.Before(e.blocked):
		m.sleep(e, now)
		return turnOver
	case (e.failing || e.host.failing) && m.troubled >= m.half():
		m.putOffAll(e, now)
		return turnLater
	case e.host.running >= m.half():
		return turnParked
	}
	it := m.next(e)
	if now.Sub(it.state.CreatedAt) > MaxAge {
		m.giveUp(it, CodeExpired, Outcome{At: now, Task: it.task})
		return turnSent
	}
	it.running = true
	m.count(e, 1)
	*sends = append(*sends, Send{EndpointID: e.id, DeliveryID: it.state.DeliveryID, Task: it.task, Offset: it.state.Offset, item: it})
	return turnSent
}

// next takes the first out of an endpoint's queue.
func (m *Machine) next(e *endpoint) *item {
	it := e.waiting[0]
	e.waiting[0] = nil
	e.waiting = e.waiting[1:]
	it.queued = false
	m.release(it)
	return it
}

// Next is when Due has to be called at the latest; ok is false when nothing waits
// for a time.
func (m *Machine) Next() (at time.Time, ok bool) {
	if len(m.timers) == 0 {
		return at, false
	}
	return m.timers[0].at, true
}

// Done takes what came of a send.
func (m *Machine) Done(s Send, o Outcome, now time.Time) {
	it, e := s.item, s.item.endpoint
	if o.Task == nil {
		o.Task = it.task
	}
	it.running = false
	m.count(e, -1)
	m.runnable = e.host.unpark(m.runnable)
	m.list(e)
	m.settle(it, o, now)
	if it.again != nil {
		m.obey(it, now)
	}
}

// settle does what follows from a call that has ended.
func (m *Machine) settle(it *item, o Outcome, now time.Time) {
	e := it.endpoint
	switch {
	case o.Abandoned:
		m.schedule(it, now.Add(max(o.RetryAfter, time.Second)))
		return
	case o.Refused:
		m.block(e, now.Add(o.RetryAfter), now)
		e.waiting = append([]*item{it}, e.waiting...)
		it.queued = true
		m.hold(it)
		m.putOff(it, now)
		m.list(e)
		return
	}
	it.state.Attempts++
	it.state.UpdatedAt = now
	if !o.Unsent {
		m.mark(e, !o.OK && !o.Gone, now) // who says that it is gone is not in trouble
	}
	switch {
	case o.OK:
		it.state.Status, it.state.Error, it.state.NextAt = event.WebhookDelivered, "", time.Time{}
		m.report(it, o)
		m.end(it)
	case o.Gone:
		m.halt(e, now)
		m.giveUp(it, CodeGone, o)
		m.giveUpWaiting(e, now)
	case o.Permanent:
		m.giveUp(it, o.Error, o)
	case !e.stopped.IsZero():
		m.giveUp(it, CodeStopped, o)
	default:
		m.retry(it, o, now)
	}
}

// retry plans the next attempt or gives up.
func (m *Machine) retry(it *item, o Outcome, now time.Time) {
	if it.state.FirstFailure.IsZero() {
		it.state.FirstFailure = o.At
	}
	it.state.Error = o.Error
	delay, ok := NextDelay(it.state.Attempts, o.RetryAfter, m.cfg.Random())
	if !ok {
		m.giveUp(it, CodeExhausted, o)
		return
	}
	if now.Add(delay).Sub(it.state.CreatedAt) > MaxAge {
		m.giveUp(it, CodeExpired, o)
		return
	}
	it.state.NextAt = now.Add(delay)
	it.task = nil
	m.report(it, o)
	m.put(it)
	m.schedule(it, it.state.NextAt)
}

// Effect returns what has to be made durable since the last call.
func (m *Machine) Effect() Effect {
	e := m.effect
	m.effect = Effect{}
	return e
}

// Unwritten is the number of messages, and of offsets, that the next Effect will hold.
func (m *Machine) Unwritten() int {
	e := &m.effect
	return len(e.States) + len(e.Attempts) + len(e.Dead) + len(e.Finished)
}

// Bound is how many calls may be made at a time.
func (m *Machine) Bound() int { return m.cfg.Running }

// Waiting is the number of deliveries that are not ended, Running that of calls.
func (m *Machine) Waiting() int { return len(m.items) }

// Running is the number of calls that are made.
func (m *Machine) Running() int { return m.running }

// Skip passes over a message that was finished before.
func (m *Machine) Skip(offset int64) { m.finish(offset) }

// Reject gives up a message that is no task.
func (m *Machine) Reject(message *kafka.Message, code, reason string, now time.Time) {
	m.effect.Dead = append(m.effect.Dead, DeadLetter{
		State: event.DeliveryState{Status: event.WebhookDead, Error: code, FirstFailure: now, UpdatedAt: now, Offset: message.Offset, Attempts: 1},
		Task:  message, reason: reason,
	})
	m.finish(message.Offset)
}
