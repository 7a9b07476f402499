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

// walk is a machine to which anything happens. Its seed does not say all: which endpoints are put off when bodies fill the
// memory of all of them is as a map has it. What happened is logged when a test fails.
type walk struct {
	*desk
	cfg      delivery.Config
	random   *rand.Rand
	tasks    []event.WebhookTask // by offset
	rounds   map[string]string   // the last, by delivery
	ends     map[string]int      // by delivery and round
	finished map[int64]int
	states   [][2][]byte
	calls    []delivery.Send
	steps    []string
}

func (w *walk) step(format string, args ...any) {
	w.steps = append(w.steps, w.now.Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

func (w *walk) take(offset int64) {
	task := w.tasks[offset]
	to, err := task.Receiver()
	require.NoError(w, err)
	if w.Full(to.ID()) {
		w.step("relieve")
		w.Relieve(w.now)
		require.False(w, w.Full(to.ID()))
	}
	w.Take(&task, to.ID(), to.Address, &kafka.Message{Offset: offset, Value: make([]byte, 100)}, w.now)
}

// comes takes a task, or an order for the delivery of an earlier one.
func (w *walk) comes() {
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
	w.step("%s of %s to %s comes, round %q", task.DeliveryID, task.OrganizationID, task.URL, task.Round)
	w.take(offset)
}

// answer draws what comes of a call.
func (w *walk) answer() delivery.Outcome {
	switch n := w.random.IntN(100); {
	case n < 40:
		return delivery.Outcome{OK: true, HTTPStatus: 200}
	case n < 70:
		return failure()
	case n < 80:
		return delivery.Outcome{Refused: true, RetryAfter: 20 * time.Second}
	case n < 88:
		return delivery.Outcome{Abandoned: true}
	case n < 92:
		return gone()
	case n < 96:
		return delivery.Outcome{Permanent: true, Error: "redirect", HTTPStatus: 302}
	default:
		return delivery.Outcome{Unsent: true, Permanent: n%2 == 0, Error: "subject_erased"}
	}
}

// write keeps what would be written.
func (w *walk) write() {
	e := w.Effect()
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

// due makes the calls that are to be made.
func (w *walk) due() {
	sends := w.Due(w.now)
	for _, s := range sends {
		w.step("%s is sent", s.DeliveryID)
	}
	w.calls = append(w.calls, sends...)
}

// restart has another process go on from what was written; nobody knows what comes of the
// calls that run.
func (w *walk) restart() {
	w.step("restart")
	w.Machine, w.calls = delivery.New(w.cfg), nil
	for _, s := range w.states {
		require.NoError(w, w.Restore(s[0], s[1]))
	}
	for offset := range w.tasks {
		if w.finished[int64(offset)] == 0 {
			w.take(int64(offset))
		}
	}
}

// ended takes one call's outcome.
func (w *walk) ended(o delivery.Outcome) {
	i := w.random.IntN(len(w.calls))
	w.step("%s ends: %+v", w.calls[i].DeliveryID, o)
	o.At = w.now
	w.Done(w.calls[i], o, w.now)
	w.calls = append(w.calls[:i], w.calls[i+1:]...)
}

// Whatever happens in whatever order, restarts among it: each delivery ends once in its
// last round, each task is finished once, the bounds hold, and nothing stays in memory.
func TestWalk(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cfg := delivery.Config{PerEndpoint: 2, Running: 6, HeldPerEndpoint: 4, Held: 10, Remember: 2 * time.Hour, Random: func() float64 { return 0.5 }}
			w := &walk{
				desk: newDesk(t, cfg), cfg: cfg, random: rand.New(rand.NewPCG(seed, 0)), rounds: make(map[string]string),
				ends: make(map[string]int), finished: make(map[int64]int),
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
					w.comes()
				case n < 60:
					w.due()
					require.LessOrEqual(t, len(w.calls), cfg.Running)
					require.Len(t, w.calls, w.Running())
				case n < 85:
					if len(w.calls) > 0 {
						w.ended(w.answer())
					}
				case n < 97:
					w.now = w.now.Add(time.Duration(w.random.Int64N(int64(20 * time.Minute))))
				case n < 99:
					w.restart()
				default:
					w.write()
					id := w.stopped()
					w.step("resume %s", id)
					w.Resume(id, -1, w.now)
				}
				w.Whole(t)
				w.write()
			}
			for rounds := 0; w.Waiting() > 0; rounds++ {
				require.Less(t, rounds, 10_000, "it goes on without an end")
				w.due()
				if len(w.calls) > 0 {
					w.ended(delivery.Outcome{OK: true, HTTPStatus: 200})
				} else {
					next, ok := w.Next()
					require.True(t, ok, "%d wait for nothing", w.Waiting())
					w.now = next
				}
				w.Whole(t)
				w.write()
			}
			delete(w.finished, -1)
			require.Len(t, w.finished, len(w.tasks))
			for offset, n := range w.finished {
				require.Equal(t, 1, n, "offset %d", offset)
			}
			for id, round := range w.rounds {
				require.Equal(t, 1, w.ends[id+" "+round], "%s in its last round", id)
			}
			for round, n := range w.ends {
				require.Equal(t, 1, n, round)
			}
			for range 2 { // what is read again is looked at one sweep later
				w.now = w.now.Add(delivery.KeepStopped)
				require.Empty(t, w.Due(w.now))
			}
			w.Empty(t)
			w.write()
			w.restart()
			require.Empty(t, w.Due(w.now))
			w.Empty(t)
		})
	}
}

// stopped is the endpoint of a task, whatever its trouble.
func (w *walk) stopped() string {
	if len(w.tasks) == 0 {
		return "none"
	}
	task := w.tasks[w.random.IntN(len(w.tasks))]
	to, err := task.Receiver()
	require.NoError(w, err)
	return to.ID()
}
