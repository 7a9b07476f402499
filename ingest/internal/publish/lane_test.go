package publish

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A group larger than the limit is queued alone.
func TestLane_LimitsQueuedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane()
		put := 0
		go func() {
			for range 20 {
				l.enqueue(group{items: make([]item, maxQueuedMessages/3)})
				put++
			}
			l.enqueue(group{items: make([]item, 2*maxQueuedMessages)})
			put++
			close(l.groups)
		}()
		synctest.Wait()
		require.Equal(t, 3, put)
		taken, messages := 0, 0
		for g := range l.groups {
			l.release(g)
			taken++
			synctest.Wait()
			l.mu.Lock()
			messages = max(messages, l.queued)
			l.mu.Unlock()
			require.LessOrEqual(t, put-taken, 3)
		}
		require.Equal(t, 21, taken)
		require.LessOrEqual(t, messages, 2*maxQueuedMessages)
		require.Zero(t, l.queued)
	})
}
