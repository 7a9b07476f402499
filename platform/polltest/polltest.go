// Package polltest waits, in tests, for the effects of other goroutines or processes.
package polltest

import (
	"fmt"
	"testing"
	"time"
)

// The pause between two polls grows from firstPause to lastPause.
const (
	firstPause = time.Millisecond
	lastPause  = 20 * time.Millisecond
)

// Until polls until done returns true, and fails the test if it does not within the given time. It polls in the test's
// own goroutine, so done may fail the test. A condition of require.Eventually must not: there the cause is hidden, or
// the test binary panics if the test has already ended. It polls once more after the time is over, because a process
// that was paused may see both at once.
//
// why is a format and its arguments. An argument of type func() any is called when the test fails, to report the final
// state.
func Until(tb testing.TB, within time.Duration, done func() bool, why ...any) {
	tb.Helper()
	started, pause := time.Now(), firstPause
	for polls := 1; ; polls++ {
		over := time.Since(started) >= within
		if done() {
			return
		}
		if over {
			tb.Fatalf("condition not met after %s and %d polls%s",
				time.Since(started).Round(time.Millisecond), polls, reason(why))
		}
		<-time.After(pause)
		pause = min(pause*3/2, lastPause)
	}
}

func reason(why []any) string {
	if len(why) == 0 {
		return ""
	}
	args := make([]any, len(why)-1)
	for i, a := range why[1:] {
		if last, ok := a.(func() any); ok {
			a = last()
		}
		args[i] = a
	}
	return ": " + fmt.Sprintf(fmt.Sprint(why[0]), args...)
}
