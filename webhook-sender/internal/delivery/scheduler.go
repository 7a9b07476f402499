package delivery

import (
	"container/heap"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/schemas/event"
)

// Config configures a [Scheduler]. Zero fields, except Partition and Random, mean their defaults.
type Config struct {
	// Partition is the number of the task partition.
	Partition int
	// MaxPerEndpoint limits the concurrent calls to one endpoint. Default 8.
	MaxPerEndpoint int
	// MaxRunning limits all concurrent calls. Default 256.
	MaxRunning int
	// MaxHeldPerEndpoint and MaxHeld limit the queued deliveries with bodies in memory. Defaults 64
	// and 1,024.
	MaxHeldPerEndpoint, MaxHeld int
	// MaxHeldBytes limits the total size of these bodies. Default 16 MiB.
	MaxHeldBytes int
	// MaxFinished and FinishedTTL limit the finished deliveries that are remembered for
	// deduplication. Defaults 50,000 and seven days, the retention of tasks.
	MaxFinished int
	FinishedTTL time.Duration
	// OpenFor is how long a breaker stays open. Default 30 s. It also limits times set by other
	// processes, whose clocks may be ahead.
	OpenFor time.Duration
	// Random returns a number in [0, 1) for jitter. Required.
	Random func() float64
}

// item is a pending delivery.
type item struct {
	key      string // of its state record
	state    event.DeliveryState
	endpoint *endpoint
	task     *kafka.Message // body in memory, or nil
	// offsetPending means that the task's offset is not finished yet.
	offsetPending bool
	queued        bool // in its endpoint's queue
	running       bool
	pendingResend *resendRequest // requested during a call, applied when it ends
	dueAt         time.Time      // in the heap: when to queue it
	heapIndex     int            // -1 if not in the heap
}

// endpoint is a receiver of this partition.
type endpoint struct {
	id, organization, address string

	host         *host
	queue        []*item // ready to send, in order
	running      int
	held         int // queued items with bodies in memory
	items        int // pending deliveries
	failing      bool
	congested    bool
	stoppedAt    time.Time
	blockedUntil time.Time // the breaker is open until then
	persisted    bool      // has a record on the state topic
	persistedAt  time.Time // time of that record
	isRunnable   bool      // in Scheduler.runnable or host.parked
	wakeTimer    *item     // in the heap while the breaker is open
}

// host is a host name of one organization. Its endpoints may be many and may fail together.
type host struct {
	key            string
	endpoints      int
	running        int
	healthyRunning int         // calls to endpoints that are not failing
	failing        bool        // the last call failed
	parked         []*endpoint // runnable endpoints that wait for one of the host's calls to end, in order
}

// Scheduler is the delivery state of one partition. It is not safe for concurrent use.
type Scheduler struct {
	cfg              Config
	items            map[string]*item // by DeliveryState.Key
	endpoints        map[string]*endpoint
	hosts            map[string]*host
	runnable         []*endpoint
	spareRunnable    []*endpoint // buffer for the next runnable
	timers           timers
	running          int
	unhealthyRunning int // calls to failing endpoints or hosts
	held             int
	heldBytes        int
	finished         finished
	lastSweep        time.Time
	change           StateChange
}

// New returns an empty scheduler.
func New(cfg Config) *Scheduler {
	setDefault(&cfg.MaxPerEndpoint, 8)
	setDefault(&cfg.MaxRunning, 256)
	setDefault(&cfg.MaxHeldPerEndpoint, 64)
	setDefault(&cfg.MaxHeld, 1024)
	setDefault(&cfg.MaxHeldBytes, 16<<20)
	setDefault(&cfg.OpenFor, 30*time.Second)
	setDefault(&cfg.MaxFinished, 50_000)
	setDefault(&cfg.FinishedTTL, 7*24*time.Hour)
	return &Scheduler{
		cfg: cfg, items: make(map[string]*item), endpoints: make(map[string]*endpoint), hosts: make(map[string]*host),
		finished: finished{byKey: make(map[string]finishedRound)},
	}
}

func setDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Restore applies one message of the state topic. Messages are restored in order, before any other
// call.
func (s *Scheduler) Restore(key, value []byte) error {
	state, endpointState, removed, err := event.DecodeWebhookState(key, value)
	if err != nil {
		return err
	}
	if endpointState != nil {
		e := s.endpoint(endpointState.EndpointID, endpointState.OrganizationID, endpointState.Address)
		e.stoppedAt, e.blockedUntil, e.persistedAt = endpointState.StoppedAt, endpointState.BlockedUntil,
			endpointState.UpdatedAt
		e.persisted = !removed
		e.failing = !removed
		s.dropIfIdle(e)
		return nil
	}
	k := state.Key()
	if it := s.items[k]; it != nil {
		s.remove(it)
	}
	s.finished.remove(k)
	switch {
	case removed:
	case state.Status == event.WebhookPending:
		it := &item{key: k, state: *state, endpoint: s.endpoint(state.EndpointID, state.OrganizationID, state.Address),
			heapIndex: -1}
		s.add(it)
		s.schedule(it, state.NextAt)
	default:
		s.finished.add(k, state)
	}
	return nil
}

// Enqueue adds a task for the endpoint with the given ID and address. Tasks of known deliveries are
// finished without a call, unless they name another round.
func (s *Scheduler) Enqueue(task *event.WebhookTask, id, address string, message *kafka.Message, now time.Time) {
	key := id + "/" + task.DeliveryID
	state := event.DeliveryState{
		DeliveryID: task.DeliveryID, EndpointID: id, OrganizationID: task.OrganizationID, Address: address,
		RequestID: task.RequestID, Round: task.Round, Status: event.WebhookPending, NextAt: now,
		CreatedAt: task.CreatedAt.UTC(), UpdatedAt: now, Offset: message.Offset,
	}
	// A resend request restarts the age.
	if task.Round != "" {
		state.CreatedAt = now
	}
	if finishedBefore, ok := s.finished.byKey[key]; ok {
		if task.Round == "" || finishedBefore.round == task.Round {
			s.finishOffset(message.Offset)
			return
		}
		s.finished.remove(key)
	}
	if it := s.items[key]; it != nil {
		request := resendRequest{task.Round, message.Offset}
		switch {
		case request.round == "" || request.round == it.state.Round:
			s.finishOffset(request.offset)
		case it.running:
			s.deferResend(it, request)
		default:
			s.restart(it, request, now)
		}
		return
	}
	e := s.endpoint(id, task.OrganizationID, address)
	it := &item{key: key, state: state, endpoint: e, task: message, offsetPending: true, heapIndex: -1}
	s.add(it)
	if !e.stoppedAt.IsZero() {
		if now.Sub(e.persistedAt) > stoppedRefreshInterval {
			s.recordEndpoint(e, now)
		}
		s.deadLetter(it, CodeStopped, Outcome{At: now, Task: message})
		return
	}
	s.queue(it)
}

// Resume lets a stopped or blocked endpoint receive again.
func (s *Scheduler) Resume(endpointID string, offset int64, now time.Time) {
	if e := s.endpoints[endpointID]; e != nil {
		e.stoppedAt, e.blockedUntil = time.Time{}, time.Time{}
		s.setFailing(e, false)
		s.recordEndpoint(e, now)
		s.markRunnable(e)
		s.dropIfIdle(e)
	}
	s.finishOffset(offset)
}

// OverMemoryLimit reports whether a task for the endpoint should wait, because queued bodies use
// all of their memory.
func (s *Scheduler) OverMemoryLimit(endpointID string) bool {
	if s.memoryFull() {
		return true
	}
	e := s.endpoints[endpointID]
	return e != nil && !e.congested && e.held >= s.cfg.MaxHeldPerEndpoint
}

// memoryFull reports whether queued bodies reach the limits for all endpoints.
func (s *Scheduler) memoryFull() bool {
	return s.held >= s.cfg.MaxHeld || s.heldBytes >= s.cfg.MaxHeldBytes
}

// SpillWaiting frees memory: it spills the queued deliveries of endpoints over their limit. Later
// deliveries of these endpoints are spilled too, until they have caught up.
func (s *Scheduler) SpillWaiting(now time.Time) {
	for _, e := range s.endpoints {
		if e.held >= s.cfg.MaxHeldPerEndpoint || s.memoryFull() && e.held > 0 {
			e.congested = true
			s.spillAll(e, now)
		}
	}
}

// NextSends returns the calls to make now.
func (s *Scheduler) NextSends(now time.Time) []Send {
	now = now.Round(0)
	for len(s.timers) > 0 && !s.timers[0].dueAt.After(now) {
		it := heap.Pop(&s.timers).(*item)
		if it.endpoint.wakeTimer == it {
			it.endpoint.wakeTimer = nil
			s.markRunnable(it.endpoint)
			s.dropIfIdle(it.endpoint)
			continue
		}
		s.queue(it)
	}
	s.evictFinished(now)
	s.sweepEndpoints(now)
	var sends []Send
	// One send for each endpoint and round, until none can send.
	for more := true; more && s.running < s.cfg.MaxRunning; {
		more = s.sendRound(now, &sends)
	}
	return sends
}

// sendRound lets each runnable endpoint send one delivery, within the limits, and reports whether
// another round may send more.
func (s *Scheduler) sendRound(now time.Time, sends *[]Send) (more bool) {
	list, kept := s.runnable, s.runnable[:0]
	var woken []*endpoint // replace endpoints of their host that had nothing to send
	for i, e := range list {
		if s.running >= s.cfg.MaxRunning {
			// The remaining endpoints are first in the next round.
			s.runnable = append(append(append(s.spareRunnable[:0], list[i:]...), woken...), kept...)
			clear(list)
			s.spareRunnable = list
			return false
		}
		h, result := e.host, s.sendOne(e, now, sends)
		switch result {
		case resultSent:
			more = true
			kept = append(kept, e)
		case resultNoCapacity:
			kept = append(kept, e)
		case resultHostBusy:
			h.parked = append(h.parked, e)
		case resultIdle:
			e.isRunnable = false
			s.dropIfIdle(e)
		}
		if result != resultSent && h.running < s.maxPerHost() {
			woken = h.wakeNext(woken)
		}
	}
	clear(list[len(kept):])
	s.runnable = append(kept, woken...)
	return more || len(woken) > 0
}

// maxPerHost returns the maximum of concurrent calls to one host.
func (s *Scheduler) maxPerHost() int { return max(s.cfg.MaxRunning/2, 1) }

// wakeNext appends the first parked endpoint of the host to list. It wakes only one for each ended
// call, because there may be many.
func (h *host) wakeNext(list []*endpoint) []*endpoint {
	if len(h.parked) == 0 {
		return list
	}
	list = append(list, h.parked[0])
	h.parked[0] = nil
	h.parked = h.parked[1:]
	return list
}

// sendResult is the result of sendOne.
type sendResult int

const (
	resultIdle       sendResult = iota // nothing to send until the endpoint changes
	resultSent                         // one sent, more may follow
	resultNoCapacity                   // the limit for all unhealthy endpoints is reached
	resultHostBusy                     // the limit of its host is reached
)

// sendOne sends the endpoint's next delivery, if the limits allow.
func (s *Scheduler) sendOne(e *endpoint, now time.Time, sends *[]Send) sendResult {
	limit := s.cfg.MaxPerEndpoint
	if e.failing {
		limit = 1
	}
	switch {
	case len(e.queue) == 0:
		return resultIdle
	// The delivery was running or waiting for a retry when the endpoint stopped.
	case !e.stoppedAt.IsZero():
		it := s.takeFirst(e)
		s.deadLetter(it, CodeStopped, Outcome{At: now, Task: it.task})
		return resultSent
	case e.running >= limit:
		return resultIdle
	case now.Before(e.blockedUntil):
		s.wakeAfterBreaker(e, now)
		return resultIdle
	case (e.failing || e.host.failing) && s.unhealthyRunning >= s.maxPerHost():
		s.spillAll(e, now)
		return resultNoCapacity
	case e.host.running >= s.maxPerHost():
		return resultHostBusy
	}
	it := s.takeFirst(e)
	if now.Sub(it.state.CreatedAt) > MaxAge {
		s.deadLetter(it, CodeExpired, Outcome{At: now, Task: it.task})
		return resultSent
	}
	it.running = true
	s.countCall(e, 1)
	*sends = append(*sends, Send{EndpointID: e.id, DeliveryID: it.state.DeliveryID, Task: it.task,
		Offset: it.state.Offset, item: it})
	return resultSent
}

// takeFirst removes the first item from an endpoint's queue.
func (s *Scheduler) takeFirst(e *endpoint) *item {
	it := e.queue[0]
	e.queue[0] = nil
	e.queue = e.queue[1:]
	it.queued = false
	s.uncountHeld(it)
	return it
}

// NextWake returns the latest time at which NextSends must be called. ok is false if nothing waits
// for a time.
func (s *Scheduler) NextWake() (at time.Time, ok bool) {
	if len(s.timers) == 0 {
		return at, false
	}
	return s.timers[0].dueAt, true
}

// Complete applies the outcome of a send.
func (s *Scheduler) Complete(send Send, o Outcome, now time.Time) {
	it, e := send.item, send.item.endpoint
	if o.Task == nil {
		o.Task = it.task
	}
	it.running = false
	s.countCall(e, -1)
	s.runnable = e.host.wakeNext(s.runnable)
	s.markRunnable(e)
	s.applyOutcome(it, o, now)
	if it.pendingResend != nil {
		s.applyResend(it, now)
	}
}

// applyOutcome updates a delivery and its endpoint after a call.
func (s *Scheduler) applyOutcome(it *item, o Outcome, now time.Time) {
	e := it.endpoint
	switch {
	case o.Abandoned:
		s.schedule(it, now.Add(max(o.RetryAfter, time.Second)))
		return
	case o.BreakerOpen:
		s.openBreaker(e, now.Add(o.RetryAfter), now)
		e.queue = append([]*item{it}, e.queue...)
		it.queued = true
		s.countHeld(it)
		s.spill(it, now)
		s.markRunnable(e)
		return
	}
	it.state.Attempts++
	it.state.UpdatedAt = now
	if !o.Unsent {
		// A 410 is a healthy answer.
		s.recordCallResult(e, !o.OK && !o.Gone, now)
	}
	switch {
	case o.OK:
		it.state.Status, it.state.Error, it.state.NextAt = event.WebhookDelivered, "", time.Time{}
		s.recordAttempt(it, o)
		s.finishDelivery(it)
	case o.Gone:
		s.disable(e, now)
		s.deadLetter(it, CodeGone, o)
		s.deadLetterWaiting(e, now)
	case o.Permanent:
		s.deadLetter(it, o.Error, o)
	case !e.stoppedAt.IsZero():
		s.deadLetter(it, CodeStopped, o)
	default:
		s.retry(it, o, now)
	}
}

// retry schedules the next attempt, or dead-letters the delivery.
func (s *Scheduler) retry(it *item, o Outcome, now time.Time) {
	if it.state.FirstFailure.IsZero() {
		it.state.FirstFailure = o.At
	}
	it.state.Error = o.Error
	delay, ok := NextDelay(it.state.Attempts, o.RetryAfter, s.cfg.Random())
	if !ok {
		s.deadLetter(it, CodeExhausted, o)
		return
	}
	if now.Add(delay).Sub(it.state.CreatedAt) > MaxAge {
		s.deadLetter(it, CodeExpired, o)
		return
	}
	it.state.NextAt = now.Add(delay)
	it.task = nil
	s.recordAttempt(it, o)
	s.recordDelivery(it)
	s.schedule(it, it.state.NextAt)
}

// TakeStateChange returns and clears the state change since the last call.
func (s *Scheduler) TakeStateChange() StateChange {
	e := s.change
	s.change = StateChange{}
	return e
}

// PendingWrites returns the number of records and offsets in the next state change.
func (s *Scheduler) PendingWrites() int {
	e := &s.change
	return len(e.States) + len(e.Attempts) + len(e.Dead) + len(e.Finished)
}

// MaxRunning returns the maximum of concurrent calls.
func (s *Scheduler) MaxRunning() int { return s.cfg.MaxRunning }

// Pending returns the number of deliveries that have not ended.
func (s *Scheduler) Pending() int { return len(s.items) }

// Running returns the number of running calls.
func (s *Scheduler) Running() int { return s.running }

// Skip finishes the offset of a message that was handled before.
func (s *Scheduler) Skip(offset int64) { s.finishOffset(offset) }

// Reject dead-letters a message that is not a valid task.
func (s *Scheduler) Reject(message *kafka.Message, code, reason string, now time.Time) {
	s.change.Dead = append(s.change.Dead, DeadLetter{
		State: event.DeliveryState{Status: event.WebhookDead, Error: code, FirstFailure: now, UpdatedAt: now,
			Offset: message.Offset, Attempts: 1},
		Task: message, reason: reason,
	})
	s.finishOffset(message.Offset)
}
