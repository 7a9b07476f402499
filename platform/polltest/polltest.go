// Package polltest waits in tests for what another goroutine or process does.
package polltest

import (
	"fmt"
	"testing"
	"time"
)

// The pause between two looks grows from the first to the last.
const (
	firstPause = time.Millisecond
	lastPause  = 20 * time.Millisecond
)

// Until looks until done is true, and fails the test when it is not after that time. It
// looks in the test's own goroutine, so that done may fail the test, which it must not in
// a condition of require.Eventually: there that hides the cause, or panics once the test
// has ended. It looks once more when the time is over: a process that stood still may find
// both at once.
//
// why is a format and its arguments. One that is a func() any is called when the test
// fails, to say what was there at the end.
func Until(tb testing.TB, within time.Duration, done func() bool, why ...any) {
	tb.Helper()
	began, pause := time.Now(), firstPause
	for looks := 1; ; looks++ {
		over := time.Since(began) >= within
		if done() {
			return
		}
		if over {
			tb.Fatalf("not so after %s and %d looks%s", time.Since(began).Round(time.Millisecond), looks, text(why))
		}
		<-time.After(pause)
		pause = min(pause*3/2, lastPause)
	}
}

func text(why []any) string {
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
