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

// resend enqueues a resend request and returns its offset.
func (s *sim) resend(id, url, round string) int64 {
	task := &event.WebhookTask{DeliveryID: id, OrganizationID: "o", URL: url, CreatedAt: s.begin, Round: round}
	to, err := task.Endpoint()
	require.NoError(s.t, err)
	offset := int64(len(s.tasks))
	s.tasks = append(s.tasks, func() {
		s.scheduler.Enqueue(task, to.ID(), to.Address, &kafka.Message{Offset: offset}, time.Now())
	})
	s.tasks[offset]()
	return offset
}

// The new schedule has its own round and body. Repeating the same request changes nothing.
func TestResend_RestartsScheduleOfWaitingDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return failedOutcome() })
		s.enqueue("d", "https://h/")
		s.run(60 * time.Hour)
		require.Len(t, s.attempts["d"], 9)
		offset := s.resend("d", "https://h/", "r1")
		s.run(60*time.Hour + time.Second)
		s.restart()
		s.resend("d", "https://h/", "r1")
		s.run(61 * time.Hour)
		attempts := s.attempts["d"][9:]
		require.Empty(t, s.dead)
		require.Len(t, attempts, 4)
		for i, a := range attempts {
			require.Equal(t, "r1", a.Round)
			require.Equal(t, i+1, a.Attempt)
			require.Equal(t, offset, a.TaskOffset)
			require.Equal(t, event.WebhookPending, a.Status)
		}
		s.run(300 * time.Hour)
		require.Len(t, s.attempts["d"], 9+10)
		require.Equal(t, map[string]string{"d": "exhausted"}, s.dead)
		require.Equal(t, map[int64]int{0: 1, 1: 1, 2: 1}, s.finished)
	})
}

// The delivery has not been attempted, because other calls run first. Nothing of the first task
// remains.
func TestResend_RestartsQueuedDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true} })
		s.enqueue("d", "https://h/")
		s.resend("d", "https://h/", "r1")
		s.run(time.Second)
		require.Len(t, s.attempts["d"], 1)
		require.Equal(t, "r1", s.attempts["d"][0].Round)
		require.Equal(t, map[int64]int{0: 1, 1: 1}, s.finished)
		require.Zero(t, s.scheduler.Pending())
		require.False(t, s.scheduler.OverMemoryLimit("x"))
	})
}

// A request during a call is deferred, whatever the outcome. The last request wins, and survives a
// crash.
func TestResend_AppliesAfterRunningCall(t *testing.T) {
	for name, first := range map[string]delivery.Outcome{
		"delivered":    {OK: true, HTTPStatus: 200},
		"failed":       failedOutcome(),
		"permanent":    {Permanent: true, Error: "redirect", HTTPStatus: 302},
		"breaker open": {BreakerOpen: true, RetryAfter: 30 * time.Second},
		"abandoned":    {Abandoned: true},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " killed ", killed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true, HTTPStatus: 200} })
					s.enqueue("d", "https://h/")
					sends := s.scheduler.NextSends(time.Now())
					require.Len(t, sends, 1)
					s.resend("d", "https://h/", "r1")
					offset := s.resend("d", "https://h/", "r2")
					s.applyStateChange()
					require.Zero(t, s.finished[offset], "the request is not durable yet")
					if killed {
						s.restart()
					} else {
						first.At = time.Now()
						s.scheduler.Complete(sends[0], first, time.Now())
					}
					s.run(time.Hour)
					attempts := s.attempts["d"]
					last := attempts[len(attempts)-1]
					require.Equal(t, event.WebhookDelivered, last.Status)
					require.Equal(t, "r2", last.Round)
					require.Equal(t, 1, last.Attempt)
					require.Equal(t, offset, last.TaskOffset)
					require.Equal(t, map[int64]int{0: 1, 1: 1, 2: 1}, s.finished)
					require.Zero(t, s.scheduler.Pending())
					require.Zero(t, s.scheduler.Running())
				})
			})
		}
	}
}

func TestResend_StoppedEndpointIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, func(string) delivery.Outcome { return delivery.Outcome{OK: true} })
		s.enqueue("d", "https://h/")
		sends := s.scheduler.NextSends(time.Now())
		s.resend("d", "https://h/", "r1")
		answer := goneOutcome()
		answer.At = time.Now()
		s.scheduler.Complete(sends[0], answer, time.Now())
		s.run(time.Hour)
		require.Zero(t, s.calls)
		require.Equal(t, map[string]string{"d": "endpoint_stopped"}, s.dead)
		require.Equal(t, map[int64]int{0: 1, 1: 1}, s.finished)
	})
}
