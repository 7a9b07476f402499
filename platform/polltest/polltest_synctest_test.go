package polltest_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
)

// recorder records the failure of a test.
type recorder struct {
	testing.TB

	message string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns the failure message of Until, or "".
func failure(within time.Duration, done func() bool, why ...any) string {
	r := &recorder{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		polltest.Until(r, within, done, why...)
	}()
	<-ended
	return r.message
}

func TestUntil_PollsUntilConditionOrTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, n := time.Now(), 0
		require.Empty(t, failure(0, func() bool { return true }))
		require.Zero(t, time.Since(started), "the first poll is immediate")

		require.Empty(t, failure(time.Minute, func() bool { n++; return n == 100 }))
		require.Less(t, time.Since(started), 3*time.Second)

		message := failure(time.Second, func() bool { n++; return false }, "%d is not %v", 7, func() any { return n })
		require.Contains(t, message, "condition not met after 1.0")
		require.Contains(t, message, fmt.Sprintf(": 7 is not %d", n), "reports the final state")
		require.Contains(t, failure(time.Second, func() bool { return false }), "polls")
	})
}

// If a poll takes longer than the timeout, the condition may have become true in the meantime.
func TestUntil_PollsAgainAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		require.Empty(t, failure(time.Second, func() bool {
			polls++
			if polls == 1 {
				time.Sleep(time.Minute)
			}
			return polls == 2
		}))
	})
}

// The condition runs in the test's goroutine.
func TestUntil_LetsConditionFailTheTest(t *testing.T) {
	r := &recorder{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		polltest.Until(r, time.Minute, func() bool { r.Fatalf("the cause"); return false })
	}()
	<-ended
	require.Equal(t, "the cause", r.message)
}
