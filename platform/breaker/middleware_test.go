package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"muster/platform/breaker"
)

func TestMayDeadLetter(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"none":           {nil, false},
		"bad message":    {errors.New("cannot decode"), true},
		"breaker open":   {fmt.Errorf("call: %w", &breaker.OpenError{Key: "a"}), false},
		"shutdown":       {fmt.Errorf("call: %w", context.Canceled), false},
		"handler's time": {context.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, breaker.MayDeadLetter(tc.err)) })
	}
}

// An outage behind a router with a poison queue: no healthy message may land there, and every one is handled. The
// in-memory Pub/Sub is enough here, since only the order of middlewares is in question.
func TestMiddlewareOutageDeadLettersNothing(t *testing.T) {
	const messages, outage = 50, 200 * time.Millisecond
	pubsub := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: messages}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	set := newSet(t, breaker.Config{Failures: 2, OpenFor: 20 * time.Millisecond})
	poison, err := middleware.PoisonQueueWithFilter(pubsub, "dead", func(err error) bool {
		return breaker.MayDeadLetter(err) && !errors.Is(err, errDown)
	})
	require.NoError(t, err)
	router.AddMiddleware(poison, breaker.Middleware(set, func(*message.Message) string { return "provider" }))

	dead, err := pubsub.Subscribe(t.Context(), "dead")
	require.NoError(t, err)
	var healthyAgain time.Time
	var handled, attempts atomic.Int64
	done := make(chan struct{})
	router.AddConsumerHandler("h", "tasks", pubsub, func(*message.Message) error {
		attempts.Add(1)
		if time.Now().Before(healthyAgain) {
			return errDown
		}
		if handled.Add(1) == messages {
			close(done)
		}
		return nil
	})
	healthyAgain = time.Now().Add(outage)
	ran := make(chan error, 1)
	go func() { ran <- router.Run(t.Context()) }()
	<-router.Running()
	for range messages {
		require.NoError(t, pubsub.Publish("tasks", message.NewMessage(watermill.NewUUID(), nil)))
	}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%d of %d handled", handled.Load(), messages)
	}
	require.NoError(t, router.Close())
	require.NoError(t, <-ran)
	require.NoError(t, pubsub.Close())
	for msg := range dead {
		t.Errorf("dead-lettered: %s", msg.UUID)
	}
	// The outage cost a few probes, not a call a message and moment.
	require.Less(t, attempts.Load(), int64(2*messages))
}

func TestMiddlewareEndsWithTheMessage(t *testing.T) {
	set := newSet(t, breaker.Config{Failures: 1, OpenFor: time.Hour})
	require.Error(t, set.Do(t.Context(), "a", fail))
	h := breaker.Middleware(set, func(*message.Message) string { return "a" })(func(*message.Message) ([]*message.Message, error) {
		t.Error("called")
		return nil, nil
	})
	msg := message.NewMessage("1", nil)
	ctx, cancel := context.WithCancel(t.Context())
	msg.SetContext(ctx)
	cancel()
	_, err := h(msg)
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.False(t, breaker.MayDeadLetter(err))
}
