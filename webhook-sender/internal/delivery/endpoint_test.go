package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
)

// fixture is a scheduler with a settable clock.
type fixture struct {
	*testing.T
	*delivery.Scheduler
	now    time.Time
	offset int64
}

func newFixture(t *testing.T, cfg delivery.Config) *fixture {
	cfg.Random = func() float64 { return 0.5 }
	return &fixture{T: t, Scheduler: delivery.New(cfg), now: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}
}

// enqueue adds a task and returns its endpoint ID.
func (f *fixture) enqueue(organization, url string) string {
	f.Helper()
	task := &event.WebhookTask{DeliveryID: fmt.Sprint("d", f.offset), OrganizationID: organization, URL: url,
		CreatedAt: f.now}
	to, err := task.Receiver()
	require.NoError(f, err)
	f.Enqueue(task, to.ID(), to.Address, &kafka.Message{Offset: f.offset, Value: make([]byte, 100)}, f.now)
	f.offset++
	return to.ID()
}

// enqueueRound adds a task with the given ID and round.
func (f *fixture) enqueueRound(id, round string) {
	f.Helper()
	task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: "https://h/", CreatedAt: f.now, Round: round}
	to, err := task.Receiver()
	require.NoError(f, err)
	f.Enqueue(task, to.ID(), to.Address, &kafka.Message{Offset: f.offset}, f.now)
	f.offset++
}

// completeAll completes the sends with the same outcome.
func (f *fixture) completeAll(sends []delivery.Send, o delivery.Outcome) {
	o.At = f.now
	for _, s := range sends {
		f.Complete(s, o, f.now)
	}
}

// endpointStates returns the endpoint states to be written since the last call. Nil is a tombstone.
func (f *fixture) endpointStates() map[string]*event.EndpointState {
	out := make(map[string]*event.EndpointState)
	e := f.TakeStateChange()
	states, _ := e.SplitStates()
	for _, s := range states {
		out[s.Key] = s.Endpoint
	}
	return out
}

// sendsFrom returns the sends of n deliveries whose numbers start at first.
func (f *fixture) sendsFrom(sends []delivery.Send, first, n int) []delivery.Send {
	f.Helper()
	var out []delivery.Send
	for _, s := range sends {
		var id int
		_, err := fmt.Sscanf(s.DeliveryID, "d%d", &id)
		require.NoError(f, err)
		if id >= first && len(out) < n {
			out = append(out, s)
		}
	}
	require.Len(f, out, n)
	return out
}

func TestScheduler_FailingEndpointDoesNotBlockOffsets(t *testing.T) {
	f := newFixture(t, delivery.Config{})
	for range 60 {
		f.enqueue("o", "https://down/")
	}
	sends := f.NextSends(f.now)
	require.Len(t, sends, 8)
	f.completeAll(sends, failedOutcome())
	e := f.TakeStateChange()
	require.Len(t, e.Finished, 60)
	f.enqueue("o", "https://down/")
	e = f.TakeStateChange()
	require.Equal(t, []int64{60}, e.Finished)
}

// A few large bodies reach the limit like many small ones.
func TestScheduler_LimitsBodyBytesInMemory(t *testing.T) {
	f := newFixture(t, delivery.Config{MaxHeldBytes: 250})
	id := f.enqueue("o", "https://h/")
	f.enqueue("o", "https://h/")
	require.False(t, f.OverMemoryLimit(id))
	f.enqueue("o", "https://h/")
	require.True(t, f.OverMemoryLimit(id))
	f.SpillWaiting(f.now)
	require.False(t, f.OverMemoryLimit(id))
	sends := f.NextSends(f.now)
	require.Len(t, sends, 3)
	for _, s := range sends {
		require.Nil(t, s.Task, "spilled")
	}
	f.enqueue("o", "https://h/")
	f.completeAll(f.NextSends(f.now), delivery.Outcome{OK: true})
	f.enqueue("o", "https://h/")
	sends = f.NextSends(f.now)
	require.Len(t, sends, 1)
	require.NotNil(t, sends[0].Task, "endpoint has caught up")
}

func TestScheduler_SpillsOnlyEndpointsOverLimit(t *testing.T) {
	f := newFixture(t, delivery.Config{MaxHeldPerEndpoint: 2})
	full, other := f.enqueue("o", "https://full/"), f.enqueue("o", "https://other/")
	require.False(t, f.OverMemoryLimit(full))
	f.enqueue("o", "https://full/")
	require.True(t, f.OverMemoryLimit(full))
	require.False(t, f.OverMemoryLimit(other))
	f.SpillWaiting(f.now)
	for _, s := range f.NextSends(f.now) {
		require.Equal(t, s.EndpointID == other, s.Task != nil)
	}
}

// A delivery expires when it is due, or if its next attempt would be too late.
func TestScheduler_DeadLettersExpiredDeliveries(t *testing.T) {
	for name, c := range map[string]struct {
		waits, retryAfter time.Duration
		code              string
	}{
		"sent in time":     {waits: delivery.MaxAge},
		"waits too long":   {waits: delivery.MaxAge + 1, code: delivery.CodeExpired},
		"retried in time":  {retryAfter: delivery.MaxAge},
		"retried too late": {retryAfter: delivery.MaxAge + 1, code: delivery.CodeExpired},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, delivery.Config{})
			f.enqueue("o", "https://h/")
			begin := f.now
			f.now = f.now.Add(c.waits)
			out := delivery.Outcome{OK: true}
			if c.retryAfter > 0 {
				out = delivery.Outcome{Error: "status", HTTPStatus: 429, RetryAfter: c.retryAfter}
			}
			f.completeAll(f.NextSends(f.now), out)
			e := f.TakeStateChange()
			require.Equal(t, []int64{0}, e.Finished)
			require.Len(t, e.Attempts, 1)
			require.Equal(t, begin, e.Attempts[0].CreatedAt)
			if c.code == "" {
				require.Empty(t, e.Dead)
				return
			}
			require.Len(t, e.Dead, 1)
			require.Equal(t, c.code, e.Dead[0].Code())
			require.Equal(t, event.WebhookDead, e.Attempts[0].Status)
			require.NotNil(t, e.Dead[0].Task)
			require.Zero(t, f.Pending())
		})
	}
}

func TestScheduler_DeadLetterHasFirstAndLastFailure(t *testing.T) {
	f := newFixture(t, delivery.Config{})
	f.enqueue("o", "https://h/")
	first := f.now
	f.completeAll(f.NextSends(f.now), failedOutcome())
	require.Equal(t, 1, f.Pending())
	f.now, _ = f.NextWake()
	f.completeAll(f.NextSends(f.now), delivery.Outcome{Permanent: true, Error: "redirect", HTTPStatus: 302})
	e := f.TakeStateChange()
	require.Len(t, e.Dead, 1)
	require.Equal(t, "status", e.Attempts[0].Error)
	require.Equal(t, first, e.Dead[0].State.FirstFailure)
	require.Equal(t, f.now, e.Dead[0].State.UpdatedAt)
	require.Equal(t, 2, e.Dead[0].State.Attempts)
	require.Equal(t, "redirect", e.Dead[0].Code())
}

// A resent delivery counts from its last end.
func TestScheduler_EvictsOldestFinishedDelivery(t *testing.T) {
	f := newFixture(t, delivery.Config{MaxFinished: 2})
	for _, m := range [][2]string{{"a"}, {"b"}, {"a", "r1"}, {"c"}} {
		f.enqueueRound(m[0], m[1])
		sends := f.NextSends(f.now)
		require.Len(t, sends, 1, m)
		f.completeAll(sends, delivery.Outcome{OK: true})
	}
	require.Empty(t, f.NextSends(f.now))
	f.enqueueRound("a", "")
	f.enqueueRound("c", "")
	require.Empty(t, f.NextSends(f.now), "both are deduplicated")
	e := f.TakeStateChange()
	require.Subset(t, e.Finished, []int64{4, 5})
	f.enqueueRound("b", "")
	require.Len(t, f.NextSends(f.now), 1)
}

// Every call of the organization has its own path on a silent host. They get half of the calls from
// the start, and share it with all unhealthy endpoints.
func TestScheduler_SilentHostGetsHalfOfCalls(t *testing.T) {
	f := newFixture(t, delivery.Config{MaxRunning: 64})
	comes := func(n int) {
		for range n {
			f.enqueue("o", fmt.Sprintf("https://silent/hooks/%d", f.offset))
		}
	}
	comes(100)
	f.enqueue("o", "https://up/")
	f.enqueue("other", "https://silent/")
	sends := f.NextSends(f.now)
	require.Len(t, sends, 34)
	silent := f.sendsFrom(sends, 0, 32)
	rest := f.sendsFrom(sends, 100, 2)
	f.now = f.now.Add(15 * time.Second)
	f.completeAll(rest, delivery.Outcome{OK: true})
	f.completeAll(silent, delivery.Outcome{Error: "timeout"})
	comes(100)
	// These belong to another organization and are unhealthy too.
	for i := range 20 {
		f.enqueue("unhealthy", fmt.Sprintf("https://down%d/", i))
	}
	f.completeAll(f.sendsFrom(f.NextSends(f.now), 202, 20), failedOutcome())
	for i := range 20 {
		f.enqueue("unhealthy", fmt.Sprintf("https://down%d/", i))
	}
	require.Empty(t, f.NextSends(f.now), "the silent host has its 32 calls")
	f.enqueue("o", "https://up/")
	require.Len(t, f.NextSends(f.now), 1)
	e := f.TakeStateChange()
	require.Contains(t, e.Finished, int64(201), "waiting deliveries are durable")
}

// They also take turns if an endpoint has nothing left to send on its turn. Other hosts do not wait
// for them.
func TestScheduler_EndpointsOfBusyHostTakeTurns(t *testing.T) {
	const n = 50
	f := newFixture(t, delivery.Config{MaxRunning: 8})
	for i := range n {
		f.enqueue("o", fmt.Sprintf("https://slow/hooks/%d", i))
		if i >= 4 && i < 14 {
			f.enqueue("o", "https://slow/hooks/0") // stopped before their turn
		}
	}
	running := f.NextSends(f.now)
	require.Len(t, running, 4)
	other := f.enqueue("o", "https://other/")
	sends := f.NextSends(f.now)
	require.Len(t, sends, 1)
	require.Equal(t, other, sends[0].EndpointID)
	f.completeAll(sends, delivery.Outcome{OK: true})
	f.completeAll(running[:1], delivery.Outcome{Gone: true, HTTPStatus: 410})
	running = running[1:]
	sent := 4
	for sent < n {
		sends := f.NextSends(f.now)
		require.NotEmpty(t, sends, "%d of %d were sent", sent, n)
		sent += len(sends)
		running = append(running, sends...)
		require.Len(t, running, min(4, len(running)), "running calls to the host")
		f.completeAll(running[:1], delivery.Outcome{OK: true})
		running = running[1:]
	}
	require.Equal(t, n, sent)
	f.completeAll(running, delivery.Outcome{OK: true})
	require.Empty(t, f.NextSends(f.now))
}

func TestScheduler_SpillsWaitingDeliveriesOfFailingHost(t *testing.T) {
	f := newFixture(t, delivery.Config{MaxRunning: 8})
	for i := range 20 {
		f.enqueue("o", fmt.Sprintf("https://slow/hooks/%d", i))
	}
	sends := f.NextSends(f.now)
	require.Len(t, sends, 4)
	f.completeAll(sends[:1], delivery.Outcome{Error: "timeout"})
	f.NextSends(f.now)
	f.completeAll(sends[1:], delivery.Outcome{Error: "timeout"})
	f.NextSends(f.now)
	e := f.TakeStateChange()
	require.Len(t, e.Finished, 19, "all but the running one")
}

// Many endpoints of one host answer 410.
func BenchmarkScheduler_Gone(b *testing.B) {
	for _, n := range []int{1000, 30000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				m := delivery.New(delivery.Config{MaxHeld: n + 1, MaxHeldBytes: 1 << 30})
				now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
				for i := range n {
					task := &event.WebhookTask{DeliveryID: fmt.Sprint(i), OrganizationID: "o",
						URL: fmt.Sprintf("https://slow/hooks/%d", i), CreatedAt: now}
					to, err := task.Receiver()
					require.NoError(b, err)
					m.Enqueue(task, to.ID(), to.Address, &kafka.Message{Offset: int64(i), Value: make([]byte, 100)},
						now)
				}
				for running := m.NextSends(now); len(running) > 0; running = append(running[1:], m.NextSends(now)...) {
					m.Complete(running[0], delivery.Outcome{Gone: true, HTTPStatus: 410, At: now}, now)
				}
				m.TakeStateChange()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/delivery")
		})
	}
}

// The record of an open breaker is removed soon, that of a stop 90 days after the last task.
func TestScheduler_RemovesIdleEndpointRecords(t *testing.T) {
	const day = 24 * time.Hour
	f := newFixture(t, delivery.Config{})
	blocked, stopped := f.enqueue("o", "https://h/blocked"), f.enqueue("o", "https://h/stopped")
	sends := f.NextSends(f.now)
	f.completeAll(sends[:1], delivery.Outcome{BreakerOpen: true, RetryAfter: 30 * time.Second})
	f.completeAll(sends[1:], delivery.Outcome{Gone: true, HTTPStatus: 410})
	require.Equal(t, map[string]*event.EndpointState{
		blocked: {EndpointID: blocked, OrganizationID: "o", Address: "https://h:443/blocked",
			BlockedUntil: f.now.Add(30 * time.Second), UpdatedAt: f.now},
		stopped: {EndpointID: stopped, OrganizationID: "o", Address: "https://h:443/stopped", StoppedAt: f.now,
			UpdatedAt: f.now},
	}, f.endpointStates())
	f.now = f.now.Add(time.Minute)
	f.completeAll(f.NextSends(f.now), delivery.Outcome{Unsent: true, Permanent: true, Error: "subject_erased"})
	require.Empty(t, f.endpointStates())
	f.now = f.now.Add(time.Hour)
	require.Empty(t, f.NextSends(f.now))
	states := f.endpointStates()
	require.Len(t, states, 1)
	require.Contains(t, states, blocked)
	require.Nil(t, states[blocked])

	f.now = f.now.Add(80 * day)
	f.enqueue("o", "https://h/stopped")
	require.Empty(t, f.NextSends(f.now))
	states = f.endpointStates()
	require.Equal(t, f.now, states[stopped].UpdatedAt, "a restart knows the last task")
	value, err := json.Marshal(states[stopped])
	require.NoError(t, err)
	f.Scheduler = delivery.New(delivery.Config{Random: func() float64 { return 0.5 }})
	require.NoError(t, f.Restore([]byte(stopped), value))
	f.now = f.now.Add(80 * day)
	require.Empty(t, f.NextSends(f.now))
	require.Empty(t, f.endpointStates())
	f.now = f.now.Add(11 * day)
	require.Empty(t, f.NextSends(f.now))
	states = f.endpointStates()
	require.Contains(t, states, stopped)
	require.Nil(t, states[stopped])
	f.enqueue("o", "https://h/stopped")
	require.Len(t, f.NextSends(f.now), 1)
}

func TestScheduler_SuccessRemovesBreakerRecord(t *testing.T) {
	f := newFixture(t, delivery.Config{})
	id := f.enqueue("o", "https://h/")
	f.completeAll(f.NextSends(f.now), failedOutcome())
	f.now, _ = f.NextWake()
	f.completeAll(f.NextSends(f.now), delivery.Outcome{BreakerOpen: true, RetryAfter: 30 * time.Second})
	require.NotNil(t, f.endpointStates()[id])
	require.Empty(t, f.NextSends(f.now))
	f.now, _ = f.NextWake()
	f.completeAll(f.NextSends(f.now), delivery.Outcome{OK: true})
	require.Equal(t, map[string]*event.EndpointState{id: nil}, f.endpointStates())
	f.enqueue("o", "https://h/")
	f.completeAll(f.NextSends(f.now), delivery.Outcome{OK: true})
	require.Empty(t, f.endpointStates())
}

func TestScheduler_ResumedEndpointIsHealthy(t *testing.T) {
	f := newFixture(t, delivery.Config{})
	id := f.enqueue("o", "https://h/")
	for range 15 {
		f.enqueue("o", "https://h/")
	}
	sends := f.NextSends(f.now)
	f.completeAll(sends, delivery.Outcome{Error: "timeout"})
	require.Len(t, f.NextSends(f.now), 1)
	f.Resume(id, f.offset, f.now)
	require.Len(t, f.NextSends(f.now), 7)
	f.RequireConsistent(t)
}

func TestScheduler_ResentDeliveryIsNotEvicted(t *testing.T) {
	for name, first := range map[string]func(*fixture){
		"ordered while it runs":   func(f *fixture) { f.enqueueRound("a", "r1") },
		"ordered when it is over": func(*fixture) {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, delivery.Config{FinishedTTL: time.Minute})
			f.enqueueRound("a", "")
			sends := f.NextSends(f.now)
			first(f)
			f.completeAll(sends, delivery.Outcome{OK: true})
			f.enqueueRound("a", "r1")
			f.completeAll(f.NextSends(f.now), failedOutcome())
			f.now = f.now.Add(2 * time.Second)
			f.completeAll(f.NextSends(f.now), failedOutcome())
			f.now = f.now.Add(2 * time.Minute)
			f.completeAll(f.NextSends(f.now), failedOutcome())
			require.Equal(t, 1, f.Pending())
			e := f.TakeStateChange()
			for _, s := range e.States {
				require.NotNil(t, s.Delivery, "no tombstone")
			}
		})
	}
}

// This includes deliveries that wait for a retry.
func TestScheduler_GoneDeadLettersWaitingInOrder(t *testing.T) {
	f := newFixture(t, delivery.Config{MaxPerEndpoint: 4})
	for range 12 {
		f.enqueue("o", "https://h/")
	}
	sends := f.NextSends(f.now)
	require.Len(t, sends, 4)
	f.completeAll(sends[1:], failedOutcome())
	f.completeAll(sends[:1], goneOutcome())
	require.Zero(t, f.Pending())
	e := f.TakeStateChange()
	require.Len(t, e.Dead, 12)
	for i, l := range e.Dead {
		require.EqualValues(t, i, l.State.Offset)
		require.Equal(t, f.now, l.State.FirstFailure)
	}
	f.RequireConsistent(t)
}

// The time until which a breaker is open may come from a process whose clock is ahead.
func TestScheduler_LimitsBreakerTimeFromOtherClock(t *testing.T) {
	f := newFixture(t, delivery.Config{OpenFor: 30 * time.Second})
	id := f.enqueue("o", "https://h/")
	value, err := json.Marshal(event.EndpointState{EndpointID: id, OrganizationID: "o", Address: "https://h:443/",
		BlockedUntil: f.now.Add(2 * time.Hour), UpdatedAt: f.now})
	require.NoError(t, err)
	f.Scheduler = delivery.New(delivery.Config{OpenFor: 30 * time.Second, Random: func() float64 { return 0.5 }})
	require.NoError(t, f.Restore([]byte(id), value))
	f.enqueue("o", "https://h/")
	require.Empty(t, f.NextSends(f.now))
	next, ok := f.NextWake()
	require.True(t, ok)
	require.Equal(t, f.now.Add(30*time.Second), next)
	require.Len(t, f.NextSends(next), 1)
}
