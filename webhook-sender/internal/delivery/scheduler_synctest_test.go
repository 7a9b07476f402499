package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/breaker"
	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
)

// sim runs a scheduler and circuit breakers on the fake clock of a synctest bubble.
type sim struct {
	t                 *testing.T
	scheduler         *delivery.Scheduler
	breakers          *breaker.Set
	answer            func(delivery string) delivery.Outcome
	begin             time.Time
	attempts          map[string][]event.WebhookAttempt
	dead              map[string]string
	states            [][2][]byte // records of the state topic
	finished          map[int64]int
	calls             int
	breakerRejections int
	tasks             []func() // enqueue each task of the log, by offset
}

func newSim(t *testing.T, answer func(string) delivery.Outcome) *sim {
	t.Helper()
	set, err := breaker.NewSet(breaker.Config{Name: "t"})
	require.NoError(t, err)
	return &sim{
		t: t, scheduler: delivery.New(delivery.Config{Random: func() float64 { return 0.5 }}), breakers: set,
		answer: answer, begin: time.Now(), attempts: make(map[string][]event.WebhookAttempt),
		dead: make(map[string]string), finished: make(map[int64]int),
	}
}

func (s *sim) enqueue(id, url string) {
	task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: url, CreatedAt: time.Now()}
	to, err := task.Endpoint()
	require.NoError(s.t, err)
	offset := int64(len(s.tasks))
	s.tasks = append(s.tasks, func() {
		s.scheduler.Enqueue(task, to.ID(), to.Address, &kafka.Message{Offset: offset}, time.Now())
	})
	s.tasks[offset]()
}

// applyStateChange records what would be written.
func (s *sim) applyStateChange() {
	e := s.scheduler.TakeStateChange()
	for _, a := range e.Attempts {
		s.attempts[a.DeliveryID] = append(s.attempts[a.DeliveryID], a)
	}
	for _, d := range e.Dead {
		s.dead[d.State.DeliveryID] = d.Code()
	}
	for _, st := range e.States {
		var value []byte
		var err error
		switch {
		case st.Delivery != nil:
			value, err = json.Marshal(st.Delivery)
		case st.Endpoint != nil:
			value, err = json.Marshal(st.Endpoint)
		}
		require.NoError(s.t, err)
		s.states = append(s.states, [2][]byte{[]byte(st.Key), value})
	}
	for _, o := range e.Finished {
		s.finished[o]++
	}
}

// restart rebuilds the scheduler from the written states, as another replica does, and enqueues the
// tasks that are not finished. The new breakers are closed.
func (s *sim) restart() {
	s.scheduler = delivery.New(delivery.Config{Random: func() float64 { return 0.5 }})
	for _, st := range s.states {
		require.NoError(s.t, s.scheduler.Restore(st[0], st[1]))
	}
	set, err := breaker.NewSet(breaker.Config{Name: "t"})
	require.NoError(s.t, err)
	s.breakers = set
	for offset, enqueue := range s.tasks {
		if s.finished[int64(offset)] == 0 {
			enqueue()
		}
	}
}

// run advances the simulation to the given time after its start.
func (s *sim) run(until time.Duration) {
	end := s.begin.Add(until)
	for {
		sends := s.scheduler.NextSends(time.Now())
		for _, send := range sends {
			var out delivery.Outcome
			err := s.breakers.Do(context.Background(), send.EndpointID, func(context.Context) error {
				s.calls++
				out = s.answer(send.EndpointID)
				if !out.OK && !out.Gone {
					return errors.New("failed")
				}
				return nil
			})
			var open *breaker.OpenError
			if errors.As(err, &open) {
				s.breakerRejections++
				out = delivery.Outcome{BreakerOpen: true, RetryAfter: open.RetryAfter}
			}
			out.At = time.Now()
			s.scheduler.Complete(send, out, time.Now())
		}
		s.applyStateChange()
		if len(sends) > 0 {
			continue
		}
		at, ok := s.scheduler.NextWake()
		if !ok || at.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(max(time.Until(at), time.Millisecond))
	}
}

func failedOutcome() delivery.Outcome { return delivery.Outcome{Error: "status", HTTPStatus: 500} }

func TestScheduler_FollowsScheduleAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return failedOutcome() })
		s.enqueue("d", "https://h/")
		s.run(time.Hour)
		s.restart()
		s.run(20 * time.Hour)
		s.restart()
		s.run(100 * time.Hour)
		attempts := s.attempts["d"]
		want := []time.Duration{0}
		for _, d := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
			5 * time.Hour, 10 * time.Hour,
			14 * time.Hour, 20 * time.Hour, 24 * time.Hour} {
			want = append(want, want[len(want)-1]+d)
		}
		require.Len(t, attempts, len(want))
		for i, a := range attempts {
			require.InDelta(t, want[i].Seconds(), a.At.Sub(s.begin).Seconds(), 60, "attempt %d", i+1)
			require.Equal(t, i+1, a.Attempt)
		}
		require.Equal(t, map[string]string{"d": "exhausted"}, s.dead)
		require.Equal(t, map[int64]int{0: 1}, s.finished)
		require.Zero(t, s.scheduler.Pending())
	})
}

// The receiver is down for an hour. Few attempts are made in that time, and an open breaker uses
// none.
func TestScheduler_DeliversAllAfterReceiverOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := newSim(t, func(string) delivery.Outcome {
			if time.Since(begin) < time.Hour {
				return failedOutcome()
			}
			return delivery.Outcome{OK: true, HTTPStatus: 200}
		})
		const n = 200
		for i := range n {
			s.enqueue(fmt.Sprintf("d%d", i), "https://h/")
		}
		s.run(59 * time.Minute)
		require.Less(t, s.calls, 150, "one probe per 30 s")
		require.Positive(t, s.breakerRejections)
		s.restart()
		s.run(8 * time.Hour)
		require.Empty(t, s.dead)
		for i := range n {
			attempts := s.attempts[fmt.Sprintf("d%d", i)]
			require.NotEmpty(t, attempts)
			require.Equal(t, event.WebhookDelivered, attempts[len(attempts)-1].Status)
			require.LessOrEqual(t, len(attempts), 5)
		}
		require.Zero(t, s.scheduler.Pending())
		require.Len(t, s.finished, n)
	})
}

func TestScheduler_DeadEndpointDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, err := event.ParseEndpoint("o", "https://dead/")
		require.NoError(t, err)
		s := newSim(t, func(id string) delivery.Outcome {
			if id == dead.ID() {
				return failedOutcome()
			}
			return delivery.Outcome{OK: true}
		})
		for i := range 500 {
			s.enqueue(fmt.Sprintf("x%d", i), "https://dead/")
			s.enqueue(fmt.Sprintf("d%d", i), fmt.Sprintf("https://h%d/", i%99))
		}
		s.run(time.Second)
		for i := range 500 {
			require.Len(t, s.attempts[fmt.Sprintf("d%d", i)], 1)
		}
	})
}

func TestScheduler_GoneStopsEndpointAndRetryAfterIsHonored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []delivery.Outcome{
			{Error: "status", HTTPStatus: 429, RetryAfter: time.Hour}, {Gone: true, Error: "gone", HTTPStatus: 410},
		}
		s := newSim(t, func(string) delivery.Outcome {
			a := answers[0]
			answers = answers[1:]
			return a
		})
		s.enqueue("a", "https://h/")
		s.run(59 * time.Minute)
		require.Len(t, s.attempts["a"], 1)
		s.enqueue("b", "https://h/")
		s.run(61 * time.Minute)
		require.Equal(t, map[string]string{"a": "endpoint_stopped", "b": "gone"}, s.dead)
		require.Equal(t, 1, s.attempts["b"][0].Attempt)
		require.Len(t, s.attempts["a"], 2)
		require.Equal(t, 2, s.attempts["a"][1].Attempt, "a decision without a call has the next attempt number")
		s.restart()
		s.enqueue("c", "https://h/")
		s.applyStateChange()
		require.Equal(t, "endpoint_stopped", s.dead["c"])
		to, err := event.ParseEndpoint("o", "https://h/")
		require.NoError(t, err)
		s.scheduler.Resume(to.ID(), 99, time.Now())
		answers = []delivery.Outcome{{OK: true}}
		s.enqueue("d", "https://h/")
		s.run(62 * time.Minute)
		require.Equal(t, event.WebhookDelivered, s.attempts["d"][0].Status)
	})
}

// The limits of bodies, calls and calls per endpoint hold. Spilled deliveries are finished and
// delivered too.
func TestScheduler_EnforcesLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := delivery.New(delivery.Config{MaxPerEndpoint: 2, MaxRunning: 6, MaxHeldPerEndpoint: 4, MaxHeld: 10,
			Random: func() float64 { return 0 }})
		take := func(id, url string, offset int64) {
			task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: url, CreatedAt: time.Now()}
			to, err := task.Endpoint()
			require.NoError(t, err)
			if m.OverMemoryLimit(to.ID()) {
				m.SpillWaiting(time.Now())
			}
			require.False(t, m.OverMemoryLimit(to.ID()))
			m.Enqueue(task, to.ID(), to.Address, &kafka.Message{Offset: offset}, time.Now())
		}
		for i := range 50 {
			take(fmt.Sprintf("d%d", i), fmt.Sprintf("https://h%d/", i%5), int64(i))
		}
		delivered := 0
		perEndpoint := make(map[string]int)
		for delivered < 50 {
			sends := m.NextSends(time.Now())
			require.NotEmpty(t, sends)
			require.LessOrEqual(t, m.Running(), 6)
			clear(perEndpoint)
			for _, send := range sends {
				perEndpoint[send.EndpointID]++
				require.LessOrEqual(t, perEndpoint[send.EndpointID], 2)
			}
			for _, send := range sends {
				m.Complete(send, delivery.Outcome{OK: true, At: time.Now()}, time.Now())
				delivered++
			}
		}
		finished := make(map[int64]int)
		effect := m.TakeStateChange()
		for _, o := range effect.Finished {
			finished[o]++
		}
		require.Len(t, finished, 50)
		for o, n := range finished {
			require.Equal(t, 1, n, "offset %d", o)
		}
		require.Zero(t, m.Pending())

		// Repeated deliveries are recognized until they are evicted.
		take("d0", "https://h0/", 50)
		require.Empty(t, m.NextSends(time.Now()))
		time.Sleep(6 * 24 * time.Hour)
		require.Empty(t, m.NextSends(time.Now()))
		take("d0", "https://h0/", 51)
		require.Empty(t, m.NextSends(time.Now()), "tasks are still retained")
		time.Sleep(25 * time.Hour)
		require.Empty(t, m.NextSends(time.Now()))
		take("d0", "https://h0/", 52)
		require.Len(t, m.NextSends(time.Now()), 1)
	})
}

func TestNextDelay_AddsJitterAndHonorsRetryAfter(t *testing.T) {
	for attempts, base := range []time.Duration{0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		5 * time.Hour, 10 * time.Hour,
		14 * time.Hour, 20 * time.Hour, 24 * time.Hour} {
		low, ok := delivery.NextDelay(attempts, 0, 0)
		require.Equal(t, attempts > 0, ok)
		high, _ := delivery.NextDelay(attempts, 0, 0.999999)
		require.InDelta(t, 0.8*base.Seconds(), low.Seconds(), 0.01*base.Seconds())
		require.InDelta(t, 1.2*base.Seconds(), high.Seconds(), 0.01*base.Seconds())
	}
	_, ok := delivery.NextDelay(10, 0, 0)
	require.False(t, ok)
	requested, _ := delivery.NextDelay(1, time.Hour, 0)
	require.Equal(t, time.Hour, requested)
	scheduled, _ := delivery.NextDelay(4, time.Second, 0.5)
	require.Equal(t, 2*time.Hour, scheduled)
}

// goneOutcome returns the outcome that stops an endpoint.
func goneOutcome() delivery.Outcome {
	return delivery.Outcome{Gone: true, Error: "gone", HTTPStatus: 410}
}

// One of two calls gets a 410. The other, with an unknown result or an open breaker, is
// dead-lettered immediately and not repeated.
func TestScheduler_GoneDeadLettersConcurrentCall(t *testing.T) {
	for name, otherOutcome := range map[string]delivery.Outcome{
		"breaker open": {BreakerOpen: true, RetryAfter: 30 * time.Second},
		"abandoned":    {Abandoned: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true} })
				s.enqueue("a", "https://h/")
				s.enqueue("b", "https://h/")
				sends := s.scheduler.NextSends(time.Now())
				require.Len(t, sends, 2)
				answer := goneOutcome()
				answer.At, otherOutcome.At = time.Now(), time.Now()
				s.scheduler.Complete(sends[0], answer, time.Now())
				s.scheduler.Complete(sends[1], otherOutcome, time.Now())
				s.run(time.Hour)
				require.Zero(t, s.calls)
				require.Equal(t, map[string]string{"a": "gone", "b": "endpoint_stopped"}, s.dead)
				require.Zero(t, s.scheduler.Pending())
				require.Equal(t, map[int64]int{0: 1, 1: 1}, s.finished)
			})
		})
	}
}

// A process may be killed after any prefix of a stop is written. The endpoint's state is the first
// record, so nothing is sent afterwards.
func TestScheduler_PartlyWrittenStopSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := failedOutcome()
		s := newSim(t, func(string) delivery.Outcome { return answer })
		for i := range 3 {
			s.enqueue(fmt.Sprintf("d%d", i), "https://h/")
		}
		s.run(time.Second)
		before, calls := len(s.states), s.calls
		answer = goneOutcome()
		s.run(10 * time.Minute)
		require.Equal(t, calls+1, s.calls)
		all := s.states
		require.Len(t, all, before+4)
		answer = delivery.Outcome{OK: true}
		for n := before + 1; n <= len(all); n++ {
			s.states = all[:n]
			s.restart()
			s.enqueue(fmt.Sprintf("x%d", n), "https://h/")
			s.run(time.Duration(n) * time.Hour)
			require.Equal(t, calls+1, s.calls, "with %d of its states", n-before)
			require.Zero(t, s.scheduler.Pending())
		}
	})
}

// The endpoint's only delivery got a 410. A resume request is durable.
func TestScheduler_StopOutlivesLastDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return goneOutcome() })
		s.enqueue("a", "https://h/")
		s.run(time.Second)
		s.enqueue("b", "https://h/")
		s.run(time.Minute)
		require.Equal(t, 1, s.calls)
		require.Equal(t, map[string]string{"a": "gone", "b": "endpoint_stopped"}, s.dead)
		to, err := event.ParseEndpoint("o", "https://h/")
		require.NoError(t, err)
		s.scheduler.Resume(to.ID(), 99, time.Now())
		s.applyStateChange()
		s.restart()
		s.enqueue("c", "https://h/")
		s.run(time.Hour)
		require.Equal(t, 2, s.calls)
	})
}

// Neither a dead-lettered nor a retried delivery counts as a failure, if no request was made.
func TestScheduler_UnsentDeliveryLeavesEndpointHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true, HTTPStatus: 200} })
		for i := range 20 {
			s.enqueue(fmt.Sprintf("d%d", i), "https://h/")
		}
		sends := s.scheduler.NextSends(time.Now())
		require.Len(t, sends, 8)
		now := time.Now()
		for i, send := range sends {
			s.scheduler.Complete(send, delivery.Outcome{Unsent: true, Permanent: i%2 == 0, Error: "subject_erased",
				At: now}, now)
		}
		require.Len(t, s.scheduler.NextSends(now), 8, "concurrent calls")
		s.applyStateChange()
		for i := range 8 {
			attempts := s.attempts[fmt.Sprintf("d%d", i)]
			require.Len(t, attempts, 1)
			require.Equal(t, 1, attempts[0].Attempt)
		}
		require.Len(t, s.dead, 4)
	})
}
