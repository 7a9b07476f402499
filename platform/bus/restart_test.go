package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// What was finished behind a message that was not comes again after a restart: it is
// bounded how much that is.
func TestSubscriberRunsAheadWithinBounds(t *testing.T) {
	const bound = 256 // twice 128
	_, cfg := own(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, bound+100)
	sub, err := bus.NewSubscriber(bus.SubscriberConfig{Config: cfg, Group: "g", MaxInFlight: 2, Timing: bustest.Timing()})
	require.NoError(t, err)
	out, err := sub.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	slow := <-out
	for range bound - 1 {
		(<-out).Ack()
	}
	select {
	case m := <-out:
		t.Fatalf("%s is delivered, %d behind the unfinished one", m.Payload, bound)
	case <-time.After(200 * time.Millisecond):
	}
	slow.Ack()
	for i := range 100 {
		m := <-out
		require.Equal(t, fmt.Sprintf("v%d", bound+i), string(m.Payload))
		m.Ack()
	}
	require.NoError(t, sub.Close())
	bustest.RequireNoLag(t, cfg, "g", topic)
}
