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

// sim runs a machine, with breakers, on the bubble's clock.
type sim struct {
	t        *testing.T
	machine  *delivery.Machine
	breakers *breaker.Set
	answer   func(delivery string) delivery.Outcome
	begin    time.Time
	log      map[string][]event.WebhookAttempt
	dead     map[string]string
	states   [][2][]byte // what the topic of states holds
	finished map[int64]int
	calls    int
	refused  int
	tasks    []func() // takes each task from the log, by offset
}

func newSim(t *testing.T, answer func(string) delivery.Outcome) *sim {
	t.Helper()
	set, err := breaker.NewSet(breaker.Config{Name: "t"})
	require.NoError(t, err)
	return &sim{
		t: t, machine: delivery.New(delivery.Config{Random: func() float64 { return 0.5 }}), breakers: set, answer: answer, begin: time.Now(),
		log: make(map[string][]event.WebhookAttempt), dead: make(map[string]string), finished: make(map[int64]int),
	}
}

func (s *sim) take(id, url string) {
	task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: url, CreatedAt: time.Now()}
	to, err := task.Endpoint()
	require.NoError(s.t, err)
	offset := int64(len(s.tasks))
	s.tasks = append(s.tasks, func() { s.machine.Take(task, to.ID(), to.Address, &kafka.Message{Offset: offset}, time.Now()) })
	s.tasks[offset]()
}

// effect keeps what would be written.
func (s *sim) effect() {
	e := s.machine.Effect()
	for _, a := range e.Attempts {
		s.log[a.DeliveryID] = append(s.log[a.DeliveryID], a)
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

// restart builds the machine again from what was written, as another replica does,
// and takes the tasks that were not finished; its breakers know nothing.
func (s *sim) restart() {
	s.machine = delivery.New(delivery.Config{Random: func() float64 { return 0.5 }})
	for _, st := range s.states {
		require.NoError(s.t, s.machine.Restore(st[0], st[1]))
	}
	set, err := breaker.NewSet(breaker.Config{Name: "t"})
	require.NoError(s.t, err)
	s.breakers = set
	for offset, take := range s.tasks {
		if s.finished[int64(offset)] == 0 {
			take()
		}
	}
}

// run goes on until a time after the beginning.
func (s *sim) run(until time.Duration) {
	end := s.begin.Add(until)
	for {
		sends := s.machine.Due(time.Now())
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
				s.refused++
				out = delivery.Outcome{Refused: true, RetryAfter: open.RetryAfter}
			}
			out.At = time.Now()
			s.machine.Done(send, out, time.Now())
		}
		s.effect()
		if len(sends) > 0 {
			continue
		}
		at, ok := s.machine.Next()
		if !ok || at.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(max(time.Until(at), time.Millisecond))
	}
}

func failure() delivery.Outcome { return delivery.Outcome{Error: "status", HTTPStatus: 500} }

// The whole schedule, over two restarts, to the dead letters.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return failure() })
		s.take("d", "https://h/")
		s.run(time.Hour)
		s.restart()
		s.run(20 * time.Hour)
		s.restart()
		s.run(100 * time.Hour)
		attempts := s.log["d"]
		want := []time.Duration{0}
		for _, d := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
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
		require.Zero(t, s.machine.Waiting())
	})
}

// A receiver that is down for an hour: everything arrives after it, few calls are
// spent meanwhile, and an open breaker costs no attempt.
func TestDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := newSim(t, func(string) delivery.Outcome {
			if time.Since(begin) < time.Hour {
				return failure()
			}
			return delivery.Outcome{OK: true, HTTPStatus: 200}
		})
		const n = 200
		for i := range n {
			s.take(fmt.Sprintf("d%d", i), "https://h/")
		}
		s.run(59 * time.Minute)
		require.Less(t, s.calls, 150, "a probe each half minute")
		require.Positive(t, s.refused)
		s.restart()
		s.run(8 * time.Hour)
		require.Empty(t, s.dead)
		for i := range n {
			attempts := s.log[fmt.Sprintf("d%d", i)]
			require.NotEmpty(t, attempts)
			require.Equal(t, event.WebhookDelivered, attempts[len(attempts)-1].Status)
			require.LessOrEqual(t, len(attempts), 5)
		}
		require.Zero(t, s.machine.Waiting())
		require.Len(t, s.finished, n)
	})
}

// A dead endpoint delays no other.
func TestDeadAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, err := event.ParseEndpoint("o", "https://dead/")
		require.NoError(t, err)
		s := newSim(t, func(id string) delivery.Outcome {
			if id == dead.ID() {
				return failure()
			}
			return delivery.Outcome{OK: true}
		})
		for i := range 500 {
			s.take(fmt.Sprintf("x%d", i), "https://dead/")
			s.take(fmt.Sprintf("d%d", i), fmt.Sprintf("https://h%d/", i%99))
		}
		s.run(time.Second)
		for i := range 500 {
			require.Len(t, s.log[fmt.Sprintf("d%d", i)], 1)
		}
	})
}

// 410 stops the endpoint with what waits; 429 is kept to its Retry-After.
func TestGoneAndRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []delivery.Outcome{
			{Error: "status", HTTPStatus: 429, RetryAfter: time.Hour}, {Gone: true, Error: "gone", HTTPStatus: 410},
		}
		s := newSim(t, func(string) delivery.Outcome {
			a := answers[0]
			answers = answers[1:]
			return a
		})
		s.take("a", "https://h/")
		s.run(59 * time.Minute)
		require.Len(t, s.log["a"], 1)
		s.take("b", "https://h/")
		s.run(61 * time.Minute)
		require.Equal(t, map[string]string{"a": "endpoint_stopped", "b": "gone"}, s.dead)
		require.Equal(t, 1, s.log["b"][0].Attempt)
		require.Len(t, s.log["a"], 2)
		require.Equal(t, 2, s.log["a"][1].Attempt, "what was decided without a call stands beside the attempt before")
		s.restart()
		s.take("c", "https://h/")
		s.effect()
		require.Equal(t, "endpoint_stopped", s.dead["c"])
		to, err := event.ParseEndpoint("o", "https://h/")
		require.NoError(t, err)
		s.machine.Resume(to.ID(), 99, time.Now())
		answers = []delivery.Outcome{{OK: true}}
		s.take("d", "https://h/")
		s.run(62 * time.Minute)
		require.Equal(t, event.WebhookDelivered, s.log["d"][0].Status)
	})
}

// The bounds hold whatever comes: bodies in memory, calls, calls to endpoints in
// trouble; and what is put off is finished and delivered all the same.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := delivery.New(delivery.Config{PerEndpoint: 2, Running: 6, HeldPerEndpoint: 4, Held: 10, Random: func() float64 { return 0 }})
		take := func(id, url string, offset int64) {
			task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: url, CreatedAt: time.Now()}
			to, err := task.Endpoint()
			require.NoError(t, err)
			if m.Full(to.ID()) {
				m.Relieve(time.Now())
			}
			require.False(t, m.Full(to.ID()))
			m.Take(task, to.ID(), to.Address, &kafka.Message{Offset: offset}, time.Now())
		}
		for i := range 50 {
			take(fmt.Sprintf("d%d", i), fmt.Sprintf("https://h%d/", i%5), int64(i))
		}
		delivered := 0
		perEndpoint := make(map[string]int)
		for delivered < 50 {
			sends := m.Due(time.Now())
			require.NotEmpty(t, sends)
			require.LessOrEqual(t, m.Running(), 6)
			clear(perEndpoint)
			for _, send := range sends {
				perEndpoint[send.EndpointID]++
				require.LessOrEqual(t, perEndpoint[send.EndpointID], 2)
			}
			for _, send := range sends {
				m.Done(send, delivery.Outcome{OK: true, At: time.Now()}, time.Now())
				delivered++
			}
		}
		finished := make(map[int64]int)
		effect := m.Effect()
		for _, o := range effect.Finished {
			finished[o]++
		}
		require.Len(t, finished, 50)
		for o, n := range finished {
			require.Equal(t, 1, n, "offset %d", o)
		}
		require.Zero(t, m.Waiting())

		// The same deliveries again are known, until they are forgotten.
		take("d0", "https://h0/", 50)
		require.Empty(t, m.Due(time.Now()))
		time.Sleep(6 * 24 * time.Hour)
		require.Empty(t, m.Due(time.Now()))
		take("d0", "https://h0/", 51)
		require.Empty(t, m.Due(time.Now()), "as long as tasks are kept")
		time.Sleep(25 * time.Hour)
		require.Empty(t, m.Due(time.Now()))
		take("d0", "https://h0/", 52)
		require.Len(t, m.Due(time.Now()), 1)
	})
}

func TestNextDelay(t *testing.T) {
	for attempts, base := range []time.Duration{0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
		14 * time.Hour, 20 * time.Hour, 24 * time.Hour} {
		low, ok := delivery.NextDelay(attempts, 0, 0)
		require.Equal(t, attempts > 0, ok)
		high, _ := delivery.NextDelay(attempts, 0, 0.999999)
		require.InDelta(t, 0.8*base.Seconds(), low.Seconds(), 0.01*base.Seconds())
		require.InDelta(t, 1.2*base.Seconds(), high.Seconds(), 0.01*base.Seconds())
	}
	_, ok := delivery.NextDelay(10, 0, 0)
	require.False(t, ok)
	later, _ := delivery.NextDelay(1, time.Hour, 0)
	require.Equal(t, time.Hour, later)
	own, _ := delivery.NextDelay(4, time.Second, 0.5)
	require.Equal(t, 2*time.Hour, own)
}

// gone is the answer that stops an endpoint.
func gone() delivery.Outcome { return delivery.Outcome{Gone: true, Error: "gone", HTTPStatus: 410} }

// Of two calls one is answered by 410: the other, of which nothing is known or that the
// breaker refused, is not made again. It is given up at once, as all that waits.
func TestGoneBesideACall(t *testing.T) {
	for name, other := range map[string]delivery.Outcome{
		"refused":   {Refused: true, RetryAfter: 30 * time.Second},
		"abandoned": {Abandoned: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true} })
				s.take("a", "https://h/")
				s.take("b", "https://h/")
				sends := s.machine.Due(time.Now())
				require.Len(t, sends, 2)
				answer := gone()
				answer.At, other.At = time.Now(), time.Now()
				s.machine.Done(sends[0], answer, time.Now())
				s.machine.Done(sends[1], other, time.Now())
				s.run(time.Hour)
				require.Zero(t, s.calls)
				require.Equal(t, map[string]string{"a": "gone", "b": "endpoint_stopped"}, s.dead)
				require.Zero(t, s.machine.Waiting())
				require.Equal(t, map[int64]int{0: 1, 1: 1}, s.finished)
			})
		})
	}
}

// A process that was killed in the midst of writing a stop has written any beginning of
// it: from the state that says so on nothing is sent, and that is the first one.
func TestGoneIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := failure()
		s := newSim(t, func(string) delivery.Outcome { return answer })
		for i := range 3 {
			s.take(fmt.Sprintf("d%d", i), "https://h/")
		}
		s.run(time.Second)
		before, calls := len(s.states), s.calls
		answer = gone()
		s.run(10 * time.Minute)
		require.Equal(t, calls+1, s.calls)
		all := s.states
		require.Len(t, all, before+4)
		answer = delivery.Outcome{OK: true}
		for n := before + 1; n <= len(all); n++ {
			s.states = all[:n]
			s.restart()
			s.take(fmt.Sprintf("x%d", n), "https://h/")
			s.run(time.Duration(n) * time.Hour)
			require.Equal(t, calls+1, s.calls, "with %d of its states", n-before)
			require.Zero(t, s.machine.Waiting())
		}
	})
}

// An endpoint stays stopped when its only delivery was answered by 410, and an order
// resumes it for good.
func TestGoneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return gone() })
		s.take("a", "https://h/")
		s.run(time.Second)
		s.take("b", "https://h/")
		s.run(time.Minute)
		require.Equal(t, 1, s.calls)
		require.Equal(t, map[string]string{"a": "gone", "b": "endpoint_stopped"}, s.dead)
		to, err := event.ParseEndpoint("o", "https://h/")
		require.NoError(t, err)
		s.machine.Resume(to.ID(), 99, time.Now())
		s.effect()
		s.restart()
		s.take("c", "https://h/")
		s.run(time.Hour)
		require.Equal(t, 2, s.calls)
	})
}

// What is given up, or tried again, without a call says nothing about the endpoint: others
// go there as before.
func TestUnsentSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true, HTTPStatus: 200} })
		for i := range 20 {
			s.take(fmt.Sprintf("d%d", i), "https://h/")
		}
		sends := s.machine.Due(time.Now())
		require.Len(t, sends, 8)
		now := time.Now()
		for i, send := range sends {
			s.machine.Done(send, delivery.Outcome{Unsent: true, Permanent: i%2 == 0, Error: "subject_erased", At: now}, now)
		}
		require.Len(t, s.machine.Due(now), 8, "calls at a time")
		s.effect()
		for i := range 8 {
			attempts := s.log[fmt.Sprintf("d%d", i)]
			require.Len(t, attempts, 1)
			require.Equal(t, 1, attempts[0].Attempt)
		}
		require.Len(t, s.dead, 4)
	})
}
