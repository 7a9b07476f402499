package bustest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

// reconnects tests that every message that is published while the cluster restarts twice is delivered, and no other.
//
// It replaces Watermill's TestReconnect, which ends when the last message is delivered and compares with the messages
// whose Publish has returned by then. A message can be delivered before its acknowledgment reaches the publisher, above
// all if a restart cut the connection in between, so that TestReconnect failed on busy machines. It also reads the list
// of published messages while publishers append to it. This test waits for all of them, and runs with the race
// detector.
func reconnects(t *testing.T, p profile) {
	const publishers = 100
	n := 10_000
	if raceEnabled {
		n = 2_000
	}
	pub, sub := p.pubSub(t)
	topic := newID("reconnect")
	require.NoError(t, sub.(message.SubscribeInitializer).SubscribeInitialize(topic))
	messages, err := sub.Subscribe(t.Context(), topic)
	require.NoError(t, err)

	var mu sync.Mutex
	missing, unknown := make(map[string]bool), make(map[string]bool)
	for i := range n {
		missing[fmt.Sprint(i)] = true
	}
	delivered := make(chan struct{}) // closed when none is missing
	var reading sync.WaitGroup
	reading.Go(func() {
		seen := make(map[string]bool)
		for m := range messages {
			mu.Lock()
			switch {
			case missing[m.UUID]:
				delete(missing, m.UUID)
				seen[m.UUID] = true
				if len(missing) == 0 {
					close(delivered)
				}
			case !seen[m.UUID]:
				unknown[m.UUID] = true
			}
			mu.Unlock()
			m.Ack()
		}
	})

	ids := make(chan int)
	var publishing, restarting sync.WaitGroup
	for range publishers {
		publishing.Go(func() {
			for id := range ids {
				if id%10 == 0 {
					<-time.After(500 * time.Millisecond) // so that publishing outlasts the restarts
				}
				err := pub.Publish(topic, message.NewMessage(fmt.Sprint(id), []byte("x")))
				if err != nil {
					t.Errorf("publish while the cluster restarts: %v", err)
				}
			}
		})
	}
	for id := range n {
		ids <- id
		if id == n/3 || id == n/2 {
			restarting.Wait()
			restarting.Go(func() {
				if err := p.cluster.restart(t.Context()); err != nil {
					t.Errorf("restart: %v", err)
				}
			})
		}
	}
	close(ids)
	publishing.Wait()
	restarting.Wait()

	select {
	case <-delivered:
	case <-time.After(waitTimeout):
	}
	require.NoError(t, pub.Close())
	require.NoError(t, sub.Close())
	reading.Wait()
	require.Empty(t, missing, "published, not delivered")
	require.Empty(t, unknown, "delivered, not published")
}
