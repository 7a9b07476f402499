package delivery_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
)

// walk runs random events on a scheduler. The seed does not determine the order in which endpoints
// are spilled when the memory is full, which is that of a map. A failing test logs the steps.
type walk struct {
	*fixture
	cfg      delivery.Config
	random   *rand.Rand
	tasks    []event.WebhookTask // by offset
	rounds   map[string]string   // last round, by delivery
	ends     map[string]int      // by delivery and round
	finished map[int64]int
	states   [][2][]byte
	calls    []delivery.Send
	steps    []string
}

func (w *walk) logStep(format string, args ...any) {
	w.steps = append(w.steps, w.now.Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

func (w *walk) enqueueOffset(offset int64) {
	task := w.tasks[offset]
	to, err := task.Receiver()
	require.NoError(w, err)
	if w.OverMemoryLimit(to.ID()) {
		w.logStep("spill")
		w.SpillWaiting(w.now)
		require.False(w, w.OverMemoryLimit(to.ID()))
	}
	w.Enqueue(&task, to.ID(), to.Address, &kafka.Message{Offset: offset, Value: make([]byte, 100)}, w.now)
}

// enqueueRandom adds a new task, or a resend request for an earlier one.
func (w *walk) enqueueRandom() {
	offset := int64(len(w.tasks))
	task := event.WebhookTask{
		DeliveryID: fmt.Sprint("d", offset), OrganizationID: fmt.Sprint("o", w.random.IntN(2)),
		URL: fmt.Sprintf("https://h%d/%d", w.random.IntN(4), w.random.IntN(3)), CreatedAt: w.now,
	}
	if offset > 0 && w.random.IntN(5) == 0 {
		task = w.tasks[w.random.Int64N(offset)]
		task.Round = fmt.Sprint("r", offset)
	}
	w.tasks = append(w.tasks, task)
	w.rounds[task.DeliveryID] = task.Round
	w.logStep("enqueue %s of %s to %s, round %q", task.DeliveryID, task.OrganizationID, task.URL, task.Round)
	w.enqueueOffset(offset)
}

// randomOutcome returns a random outcome.
func (w *walk) randomOutcome() delivery.Outcome {
	switch n := w.random.IntN(100); {
	case n < 40:
		return delivery.Outcome{OK: true, HTTPStatus: 200}
	case n < 70:
		return failedOutcome()
	case n < 80:
		return delivery.Outcome{BreakerOpen: true, RetryAfter: 20 * time.Second}
	case n < 88:
		return delivery.Outcome{Abandoned: true}
	case n < 92:
		return goneOutcome()
	case n < 96:
		return delivery.Outcome{Permanent: true, Error: "redirect", HTTPStatus: 302}
	default:
		return delivery.Outcome{Unsent: true, Permanent: n%2 == 0, Error: "subject_erased"}
	}
}

// applyStateChange records what would be written.
func (w *walk) applyStateChange() {
	e := w.TakeStateChange()
	for _, a := range e.Attempts {
		if a.Status != event.WebhookPending {
			w.ends[a.DeliveryID+" "+a.Round]++
		}
	}
	for _, s := range e.States {
		var value []byte
		var err error
		switch {
		case s.Delivery != nil:
			value, err = json.Marshal(s.Delivery)
		case s.Endpoint != nil:
			value, err = json.Marshal(s.Endpoint)
		}
		require.NoError(w, err)
		w.states = append(w.states, [2][]byte{[]byte(s.Key), value})
	}
	for _, o := range e.Finished {
		w.finished[o]++
	}
}

// sendDue starts the calls that are due.
func (w *walk) sendDue() {
	sends := w.NextSends(w.now)
	for _, s := range sends {
		w.logStep("send %s", s.DeliveryID)
	}
	w.calls = append(w.calls, sends...)
}

// restart rebuilds the scheduler from the written states. The results of running calls are lost.
func (w *walk) restart() {
	w.logStep("restart")
	w.Scheduler, w.calls = delivery.New(w.cfg), nil
	for _, state := range w.states {
		require.NoError(w, w.Restore(state[0], state[1]))
	}
	for offset := range w.tasks {
		if w.finished[int64(offset)] == 0 {
			w.enqueueOffset(int64(offset))
		}
	}
}

// completeRandom completes a random running call.
func (w *walk) completeRandom(o delivery.Outcome) {
	i := w.random.IntN(len(w.calls))
	w.logStep("complete %s: %+v", w.calls[i].DeliveryID, o)
	o.At = w.now
	w.Complete(w.calls[i], o, w.now)
	w.calls = append(w.calls[:i], w.calls[i+1:]...)
}

// Each delivery ends once in its last round, each offset is finished once, the limits hold, and no
// memory leaks, with events and restarts in any order.
func TestScheduler_InvariantsHoldInRandomWalk(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cfg := delivery.Config{MaxPerEndpoint: 2, MaxRunning: 6, MaxHeldPerEndpoint: 4, MaxHeld: 10,
				FinishedTTL: 2 * time.Hour, Random: func() float64 { return 0.5 }}
			w := &walk{
				fixture: newFixture(t, cfg), cfg: cfg, random: rand.New(rand.NewPCG(seed, 0)),
				rounds: make(map[string]string), ends: make(map[string]int), finished: make(map[int64]int),
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(strings.Join(w.steps, "\n"))
				}
			})
			w.restart()
			for range 400 {
				switch n := w.random.IntN(100); {
				case n < 35:
					w.enqueueRandom()
				case n < 60:
					w.sendDue()
					require.LessOrEqual(t, len(w.calls), cfg.MaxRunning)
					require.Len(t, w.calls, w.Running())
				case n < 85:
					if len(w.calls) > 0 {
						w.completeRandom(w.randomOutcome())
					}
				case n < 97:
					w.now = w.now.Add(time.Duration(w.random.Int64N(int64(20 * time.Minute))))
				case n < 99:
					w.restart()
				default:
					w.applyStateChange()
					id := w.randomEndpoint()
					w.logStep("resume %s", id)
					w.Resume(id, -1, w.now)
				}
				w.RequireConsistent(t)
				w.applyStateChange()
			}
			for rounds := 0; w.Pending() > 0; rounds++ {
				require.Less(t, rounds, 10_000, "the walk does not end")
				w.sendDue()
				if len(w.calls) > 0 {
					w.completeRandom(delivery.Outcome{OK: true, HTTPStatus: 200})
				} else {
					next, ok := w.NextWake()
					require.True(t, ok, "%d deliveries are stuck", w.Pending())
					w.now = next
				}
				w.RequireConsistent(t)
				w.applyStateChange()
			}
			delete(w.finished, -1)
			require.Len(t, w.finished, len(w.tasks))
			for offset, n := range w.finished {
				require.Equal(t, 1, n, "offset %d", offset)
			}
			for id, round := range w.rounds {
				require.Equal(t, 1, w.ends[id+" "+round], "ends of %s in its last round", id)
			}
			for round, n := range w.ends {
				require.Equal(t, 1, n, round)
			}
			// A restored endpoint is removed one sweep later.
			for range 2 {
				w.now = w.now.Add(delivery.StoppedRetention)
				require.Empty(t, w.NextSends(w.now))
			}
			w.RequireEmpty(t)
			w.applyStateChange()
			w.restart()
			require.Empty(t, w.NextSends(w.now))
			w.RequireEmpty(t)
		})
	}
}

// randomEndpoint returns the endpoint of a random task.
func (w *walk) randomEndpoint() string {
	if len(w.tasks) == 0 {
		return "none"
	}
	task := w.tasks[w.random.IntN(len(w.tasks))]
	to, err := task.Receiver()
	require.NoError(w, err)
	return to.ID()
}
