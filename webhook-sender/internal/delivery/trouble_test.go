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

// desk is a machine with a clock that tests set.
type desk struct {
	*testing.T
	*delivery.Machine
	now    time.Time
	offset int64
}

func newDesk(t *testing.T, cfg delivery.Config) *desk {
	cfg.Random = func() float64 { return 0.5 }
	return &desk{T: t, Machine: delivery.New(cfg), now: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}
}

// comes takes a task and returns the id of its endpoint.
func (d *desk) comes(organization, url string) string {
	d.Helper()
	task := &event.WebhookTask{DeliveryID: fmt.Sprint("d", d.offset), OrganizationID: organization, URL: url, CreatedAt: d.now}
	to, err := task.Receiver()
	require.NoError(d, err)
	d.Take(task, to.ID(), to.Address, &kafka.Message{Offset: d.offset, Value: make([]byte, 100)}, d.now)
	d.offset++
	return to.ID()
}

// orders takes a task of a name, or an order to make it again.
func (d *desk) orders(id, round string) {
	d.Helper()
	task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: "https://h/", CreatedAt: d.now, Round: round}
	to, err := task.Receiver()
	require.NoError(d, err)
	d.Take(task, to.ID(), to.Address, &kafka.Message{Offset: d.offset}, d.now)
	d.offset++
}

// ends has calls end in one way.
func (d *desk) ends(sends []delivery.Send, o delivery.Outcome) {
	o.At = d.now
	for _, s := range sends {
		d.Done(s, o, d.now)
	}
}

// endpoints are the last states of endpoints that are to be written; nil: a tombstone.
func (d *desk) endpoints() map[string]*event.EndpointState {
	out := make(map[string]*event.EndpointState)
	e := d.Effect()
	states, _ := e.SplitStates()
	for _, s := range states {
		out[s.Key] = s.Endpoint
	}
	return out
}

// of returns the sends of n deliveries from one on.
func (d *desk) of(sends []delivery.Send, first, n int) []delivery.Send {
	d.Helper()
	var out []delivery.Send
	for _, s := range sends {
		var id int
		_, err := fmt.Sscanf(s.DeliveryID, "d%d", &id)
		require.NoError(d, err)
		if id >= first && len(out) < n {
			out = append(out, s)
		}
	}
	require.Len(d, out, n)
	return out
}

// What waits for an endpoint that fails does not keep the tasks behind it unfinished.
func TestFailingEndpointHoldsNothingBack(t *testing.T) {
	d := newDesk(t, delivery.Config{})
	for range 60 {
		d.comes("o", "https://down/")
	}
	sends := d.Due(d.now)
	require.Len(t, sends, 8)
	d.ends(sends, failure())
	e := d.Effect()
	require.Len(t, e.Finished, 60)
	d.comes("o", "https://down/")
	e = d.Effect()
	require.Equal(t, []int64{60}, e.Finished)
}

// Few large bodies fill the memory as well as many small ones.
func TestHeldBytes(t *testing.T) {
	d := newDesk(t, delivery.Config{HeldBytes: 250})
	id := d.comes("o", "https://h/")
	d.comes("o", "https://h/")
	require.False(t, d.Full(id))
	d.comes("o", "https://h/")
	require.True(t, d.Full(id))
	d.Relieve(d.now)
	require.False(t, d.Full(id))
	sends := d.Due(d.now)
	require.Len(t, sends, 3)
	for _, s := range sends {
		require.Nil(t, s.Task, "it was put off")
	}
	d.comes("o", "https://h/")
	d.ends(d.Due(d.now), delivery.Outcome{OK: true})
	d.comes("o", "https://h/")
	sends = d.Due(d.now)
	require.Len(t, sends, 1)
	require.NotNil(t, sends[0].Task, "it has caught up")
}

// Only those whose bodies fill their part of the memory are put off.
func TestRelieveOfOne(t *testing.T) {
	d := newDesk(t, delivery.Config{HeldPerEndpoint: 2})
	full, other := d.comes("o", "https://full/"), d.comes("o", "https://other/")
	require.False(t, d.Full(full))
	d.comes("o", "https://full/")
	require.True(t, d.Full(full))
	require.False(t, d.Full(other))
	d.Relieve(d.now)
	for _, s := range d.Due(d.now) {
		require.Equal(t, s.EndpointID == other, s.Task != nil)
	}
}

// What is older than a delivery may get is given up, with its body: when its turn comes,
// and when the next attempt would be later than that.
func TestExpires(t *testing.T) {
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
			d := newDesk(t, delivery.Config{})
			d.comes("o", "https://h/")
			begin := d.now
			d.now = d.now.Add(c.waits)
			out := delivery.Outcome{OK: true}
			if c.retryAfter > 0 {
				out = delivery.Outcome{Error: "status", HTTPStatus: 429, RetryAfter: c.retryAfter}
			}
			d.ends(d.Due(d.now), out)
			e := d.Effect()
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
			require.Zero(t, d.Waiting())
		})
	}
}

// A dead letter tells when the delivery failed first, and what it failed of last.
func TestLetterTellsTheFirstFailure(t *testing.T) {
	d := newDesk(t, delivery.Config{})
	d.comes("o", "https://h/")
	first := d.now
	d.ends(d.Due(d.now), failure())
	require.Equal(t, 1, d.Waiting())
	d.now, _ = d.Next()
	d.ends(d.Due(d.now), delivery.Outcome{Permanent: true, Error: "redirect", HTTPStatus: 302})
	e := d.Effect()
	require.Len(t, e.Dead, 1)
	require.Equal(t, "status", e.Attempts[0].Error)
	require.Equal(t, first, e.Dead[0].State.FirstFailure)
	require.Equal(t, d.now, e.Dead[0].State.UpdatedAt)
	require.Equal(t, 2, e.Dead[0].State.Attempts)
	require.Equal(t, "redirect", e.Dead[0].Code())
}

// Of the deliveries that are over the one that ended first is forgotten, by its last end.
func TestForgetsWhatEndedFirst(t *testing.T) {
	d := newDesk(t, delivery.Config{Finished: 2})
	for _, m := range [][2]string{{"a"}, {"b"}, {"a", "r1"}, {"c"}} {
		d.orders(m[0], m[1])
		sends := d.Due(d.now)
		require.Len(t, sends, 1, m)
		d.ends(sends, delivery.Outcome{OK: true})
	}
	require.Empty(t, d.Due(d.now))
	d.orders("a", "")
	d.orders("c", "")
	require.Empty(t, d.Due(d.now), "they are known")
	e := d.Effect()
	require.Subset(t, e.Finished, []int64{4, 5})
	d.orders("b", "")
	require.Len(t, d.Due(d.now), 1)
}

// An organization whose calls each name a path of their own on a host that is silent has
// half of the calls, from the first one on, and shares them with all that are in trouble.
func TestManyPathsOfOneHost(t *testing.T) {
	d := newDesk(t, delivery.Config{Running: 64})
	comes := func(n int) {
		for range n {
			d.comes("o", fmt.Sprintf("https://silent/hooks/%d", d.offset))
		}
	}
	comes(100)
	d.comes("o", "https://up/")
	d.comes("other", "https://silent/")
	sends := d.Due(d.now)
	require.Len(t, sends, 34)
	silent := d.of(sends, 0, 32)
	rest := d.of(sends, 100, 2)
	d.now = d.now.Add(15 * time.Second)
	d.ends(rest, delivery.Outcome{OK: true})
	d.ends(silent, delivery.Outcome{Error: "timeout"})
	comes(100)
	for i := range 20 { // of others, in trouble too
		d.comes("troubled", fmt.Sprintf("https://down%d/", i))
	}
	d.ends(d.of(d.Due(d.now), 202, 20), failure())
	for i := range 20 {
		d.comes("troubled", fmt.Sprintf("https://down%d/", i))
	}
	require.Empty(t, d.Due(d.now), "32 calls to the silent host run")
	d.comes("o", "https://up/")
	require.Len(t, d.Due(d.now), 1)
	e := d.Effect()
	require.Contains(t, e.Finished, int64(201), "what waits meanwhile is durable")
}

// Endpoints of one host take turns as its calls end, also when one of them has nothing to
// send any more when its turn comes, and other hosts' do not wait for them.
func TestEndpointsOfAFullHostTakeTurns(t *testing.T) {
	const n = 50
	d := newDesk(t, delivery.Config{Running: 8})
	for i := range n {
		d.comes("o", fmt.Sprintf("https://slow/hooks/%d", i))
		if i >= 4 && i < 14 {
			d.comes("o", "https://slow/hooks/0") // it is stopped before their turn comes
		}
	}
	running := d.Due(d.now)
	require.Len(t, running, 4)
	other := d.comes("o", "https://other/")
	sends := d.Due(d.now)
	require.Len(t, sends, 1)
	require.Equal(t, other, sends[0].EndpointID)
	d.ends(sends, delivery.Outcome{OK: true})
	d.ends(running[:1], delivery.Outcome{Gone: true, HTTPStatus: 410})
	running = running[1:]
	sent := 4
	for sent < n {
		sends := d.Due(d.now)
		require.NotEmpty(t, sends, "%d of %d were sent", sent, n)
		sent += len(sends)
		running = append(running, sends...)
		require.Len(t, running, min(4, len(running)), "half of the calls")
		d.ends(running[:1], delivery.Outcome{OK: true})
		running = running[1:]
	}
	require.Equal(t, n, sent)
	d.ends(running, delivery.Outcome{OK: true})
	require.Empty(t, d.Due(d.now))
}

// What waits for its turn at a host is put off when the host falls silent.
func TestAFullHostThatFails(t *testing.T) {
	d := newDesk(t, delivery.Config{Running: 8})
	for i := range 20 {
		d.comes("o", fmt.Sprintf("https://slow/hooks/%d", i))
	}
	sends := d.Due(d.now)
	require.Len(t, sends, 4)
	d.ends(sends[:1], delivery.Outcome{Error: "timeout"})
	d.Due(d.now)
	d.ends(sends[1:], delivery.Outcome{Error: "timeout"})
	d.Due(d.now)
	e := d.Effect()
	require.Len(t, e.Finished, 19, "all but the one whose call runs")
}

// A receiver may say of each of many addresses that it is gone.
func BenchmarkGone(b *testing.B) {
	for _, n := range []int{1000, 30000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				m := delivery.New(delivery.Config{Held: n + 1, HeldBytes: 1 << 30})
				now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
				for i := range n {
					task := &event.WebhookTask{DeliveryID: fmt.Sprint(i), OrganizationID: "o", URL: fmt.Sprintf("https://slow/hooks/%d", i), CreatedAt: now}
					to, err := task.Receiver()
					require.NoError(b, err)
					m.Take(task, to.ID(), to.Address, &kafka.Message{Offset: int64(i), Value: make([]byte, 100)}, now)
				}
				for running := m.Due(now); len(running) > 0; running = append(running[1:], m.Due(now)...) {
					m.Done(running[0], delivery.Outcome{Gone: true, HTTPStatus: 410, At: now}, now)
				}
				m.Effect()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/delivery")
		})
	}
}

// An endpoint's record goes when it has no deliveries any more: that of a breaker soon, a
// stop when nothing was to be sent there for 90 days.
func TestEndpointsAreForgotten(t *testing.T) {
	const day = 24 * time.Hour
	d := newDesk(t, delivery.Config{})
	blocked, stopped := d.comes("o", "https://h/blocked"), d.comes("o", "https://h/stopped")
	sends := d.Due(d.now)
	d.ends(sends[:1], delivery.Outcome{Refused: true, RetryAfter: 30 * time.Second})
	d.ends(sends[1:], delivery.Outcome{Gone: true, HTTPStatus: 410})
	require.Equal(t, map[string]*event.EndpointState{
		blocked: {EndpointID: blocked, OrganizationID: "o", Address: "https://h:443/blocked", BlockedUntil: d.now.Add(30 * time.Second), UpdatedAt: d.now},
		stopped: {EndpointID: stopped, OrganizationID: "o", Address: "https://h:443/stopped", StoppedAt: d.now, UpdatedAt: d.now},
	}, d.endpoints())
	d.now = d.now.Add(time.Minute)
	d.ends(d.Due(d.now), delivery.Outcome{Unsent: true, Permanent: true, Error: "subject_erased"})
	require.Empty(t, d.endpoints())
	d.now = d.now.Add(time.Hour)
	require.Empty(t, d.Due(d.now))
	states := d.endpoints()
	require.Len(t, states, 1)
	require.Contains(t, states, blocked)
	require.Nil(t, states[blocked])

	d.now = d.now.Add(80 * day)
	d.comes("o", "https://h/stopped")
	require.Empty(t, d.Due(d.now))
	states = d.endpoints()
	require.Equal(t, d.now, states[stopped].UpdatedAt, "a restart knows that a task came")
	value, err := json.Marshal(states[stopped])
	require.NoError(t, err)
	d.Machine = delivery.New(delivery.Config{Random: func() float64 { return 0.5 }})
	require.NoError(t, d.Restore([]byte(stopped), value))
	d.now = d.now.Add(80 * day)
	require.Empty(t, d.Due(d.now))
	require.Empty(t, d.endpoints())
	d.now = d.now.Add(11 * day)
	require.Empty(t, d.Due(d.now))
	states = d.endpoints()
	require.Contains(t, states, stopped)
	require.Nil(t, states[stopped])
	d.comes("o", "https://h/stopped")
	require.Len(t, d.Due(d.now), 1)
}

// A call that succeeds takes the word of an open breaker off the topic, with the first of
// them.
func TestBlockedNoMore(t *testing.T) {
	d := newDesk(t, delivery.Config{})
	id := d.comes("o", "https://h/")
	d.ends(d.Due(d.now), failure())
	d.now, _ = d.Next()
	d.ends(d.Due(d.now), delivery.Outcome{Refused: true, RetryAfter: 30 * time.Second})
	require.NotNil(t, d.endpoints()[id])
	require.Empty(t, d.Due(d.now))
	d.now, _ = d.Next()
	d.ends(d.Due(d.now), delivery.Outcome{OK: true})
	require.Equal(t, map[string]*event.EndpointState{id: nil}, d.endpoints())
	d.comes("o", "https://h/")
	d.ends(d.Due(d.now), delivery.Outcome{OK: true})
	require.Empty(t, d.endpoints())
}

// An endpoint that is resumed receives as many calls as one that was never in trouble.
func TestResumedIsInNoTrouble(t *testing.T) {
	d := newDesk(t, delivery.Config{})
	id := d.comes("o", "https://h/")
	for range 15 {
		d.comes("o", "https://h/")
	}
	sends := d.Due(d.now)
	d.ends(sends, delivery.Outcome{Error: "timeout"})
	require.Len(t, d.Due(d.now), 1)
	d.Resume(id, d.offset, d.now)
	require.Len(t, d.Due(d.now), 7)
	d.Whole(t)
}

// A delivery that is made again is not forgotten as the one that is over.
func TestMadeAgainIsNotForgotten(t *testing.T) {
	for name, first := range map[string]func(*desk){
		"ordered while it runs":   func(d *desk) { d.orders("a", "r1") },
		"ordered when it is over": func(*desk) {},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, delivery.Config{Remember: time.Minute})
			d.orders("a", "")
			sends := d.Due(d.now)
			first(d)
			d.ends(sends, delivery.Outcome{OK: true})
			d.orders("a", "r1")
			d.ends(d.Due(d.now), failure())
			d.now = d.now.Add(2 * time.Second)
			d.ends(d.Due(d.now), failure())
			d.now = d.now.Add(2 * time.Minute)
			d.ends(d.Due(d.now), failure())
			require.Equal(t, 1, d.Waiting())
			e := d.Effect()
			for _, s := range e.States {
				require.NotNil(t, s.Delivery, "its state is taken off the topic")
			}
		})
	}
}

// What waits for an endpoint that is gone, for a turn or for its time, is given up at
// once, in the order of the tasks.
func TestGoneGivesUpWhatWaits(t *testing.T) {
	d := newDesk(t, delivery.Config{PerEndpoint: 4})
	for range 12 {
		d.comes("o", "https://h/")
	}
	sends := d.Due(d.now)
	require.Len(t, sends, 4)
	d.ends(sends[1:], failure())
	d.ends(sends[:1], gone())
	require.Zero(t, d.Waiting())
	e := d.Effect()
	require.Len(t, e.Dead, 12)
	for i, l := range e.Dead {
		require.EqualValues(t, i, l.State.Offset)
		require.Equal(t, d.now, l.State.FirstFailure)
	}
	d.Whole(t)
}

// Until when a breaker is open was said by another process, whose clock may be ahead.
func TestBlockedByAnotherClock(t *testing.T) {
	d := newDesk(t, delivery.Config{OpenFor: 30 * time.Second})
	id := d.comes("o", "https://h/")
	value, err := json.Marshal(event.EndpointState{EndpointID: id, OrganizationID: "o", Address: "https://h:443/", BlockedUntil: d.now.Add(2 * time.Hour), UpdatedAt: d.now})
	require.NoError(t, err)
	d.Machine = delivery.New(delivery.Config{OpenFor: 30 * time.Second, Random: func() float64 { return 0.5 }})
	require.NoError(t, d.Restore([]byte(id), value))
	d.comes("o", "https://h/")
	require.Empty(t, d.Due(d.now))
	next, ok := d.Next()
	require.True(t, ok)
	require.Equal(t, d.now.Add(30*time.Second), next)
	require.Len(t, d.Due(next), 1)
}
