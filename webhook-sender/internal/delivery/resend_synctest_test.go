package delivery_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
)

// resend orders a delivery to be made again, and returns the order's offset.
func (s *sim) resend(id, url, round string) int64 {
	task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: url, CreatedAt: s.begin, Round: round}
	to, err := task.Endpoint()
	require.NoError(s.t, err)
	offset := int64(len(s.tasks))
	s.tasks = append(s.tasks, func() { s.machine.Take(task, to.ID(), to.Address, &kafka.Message{Offset: offset}, time.Now()) })
	s.tasks[offset]()
	return offset
}

// An order to send a delivery again that waits begins its schedule anew, in its own
// round, with its own body in the log. The same order again changes nothing.
func TestResendOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return failure() })
		s.take("d", "https://h/")
		s.run(60 * time.Hour)
		require.Len(t, s.log["d"], 9)
		offset := s.resend("d", "https://h/", "r1")
		s.run(60*time.Hour + time.Second)
		s.restart()
		s.resend("d", "https://h/", "r1")
		s.run(61 * time.Hour)
		attempts := s.log["d"][9:]
		require.Empty(t, s.dead)
		require.Len(t, attempts, 4)
		for i, a := range attempts {
			require.Equal(t, "r1", a.Round)
			require.Equal(t, i+1, a.Attempt)
			require.Equal(t, offset, a.TaskOffset)
			require.Equal(t, event.WebhookPending, a.Status)
		}
		s.run(300 * time.Hour)
		require.Len(t, s.log["d"], 9+10)
		require.Equal(t, map[string]string{"d": "exhausted"}, s.dead)
		require.Equal(t, map[int64]int{0: 1, 1: 1, 2: 1}, s.finished)
	})
}

// A delivery that has not been tried, since calls run before it, is begun anew as well;
// nothing of the first task is left behind.
func TestResendOfQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true} })
		s.take("d", "https://h/")
		s.resend("d", "https://h/", "r1")
		s.run(time.Second)
		require.Len(t, s.log["d"], 1)
		require.Equal(t, "r1", s.log["d"][0].Round)
		require.Equal(t, map[int64]int{0: 1, 1: 1}, s.finished)
		require.Zero(t, s.machine.Waiting())
		require.False(t, s.machine.Full("x"))
	})
}

// An order that comes while a call runs is kept until the call has ended, whatever comes
// of it; of several the last one counts. A process that is killed before takes it again.
func TestResendWhileRunning(t *testing.T) {
	for name, first := range map[string]delivery.Outcome{
		"delivered": {OK: true, HTTPStatus: 200},
		"failed":    failure(),
		"permanent": {Permanent: true, Error: "redirect", HTTPStatus: 302},
		"refused":   {Refused: true, RetryAfter: 30 * time.Second},
		"abandoned": {Abandoned: true},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " killed ", killed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true, HTTPStatus: 200} })
					s.take("d", "https://h/")
					sends := s.machine.Due(time.Now())
					require.Len(t, sends, 1)
					s.resend("d", "https://h/", "r1")
					offset := s.resend("d", "https://h/", "r2")
					s.effect()
					require.Zero(t, s.finished[offset], "nothing that is written stands for it")
					if killed {
						s.restart()
					} else {
						first.At = time.Now()
						s.machine.Done(sends[0], first, time.Now())
					}
					s.run(time.Hour)
					attempts := s.log["d"]
					last := attempts[len(attempts)-1]
					require.Equal(t, event.WebhookDelivered, last.Status)
					require.Equal(t, "r2", last.Round)
					require.Equal(t, 1, last.Attempt)
					require.Equal(t, offset, last.TaskOffset)
					require.Equal(t, map[int64]int{0: 1, 1: 1, 2: 1}, s.finished)
					require.Zero(t, s.machine.Waiting())
					require.Zero(t, s.machine.Running())
				})
			})
		}
	}
}

// An order for an endpoint that is stopped by the call that ran does not reach it.
func TestResendWhileGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true} })
		s.take("d", "https://h/")
		sends := s.machine.Due(time.Now())
		s.resend("d", "https://h/", "r1")
		answer := gone()
		answer.At = time.Now()
		s.machine.Done(sends[0], answer, time.Now())
		s.run(time.Hour)
		require.Zero(t, s.calls)
		require.Equal(t, map[string]string{"d": "endpoint_stopped"}, s.dead)
		require.Equal(t, map[int64]int{0: 1, 1: 1}, s.finished)
	})
}
