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

// failing is a test that keeps what it fails of.
type failing struct {
	testing.TB

	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure is what Until fails of, if at all.
func failure(within time.Duration, done func() bool, why ...any) string {
	f := &failing{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		polltest.Until(f, within, done, why...)
	}()
	<-ended
	return f.said
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, n := time.Now(), 0
		require.Empty(t, failure(0, func() bool { return true }))
		require.Zero(t, time.Since(began), "it looks at once")

		require.Empty(t, failure(time.Minute, func() bool { n++; return n == 100 }))
		require.Less(t, time.Since(began), 3*time.Second)

		said := failure(time.Second, func() bool { n++; return false }, "%d is not %v", 7, func() any { return n })
		require.Contains(t, said, "not so after 1.0")
		require.Contains(t, said, fmt.Sprintf(": 7 is not %d", n), "as it was at the end")
		require.Contains(t, failure(time.Second, func() bool { return false }), "looks")
	})
}

// A look that takes longer than all the time there is does not end the wait: what has
// come meanwhile is seen.
func TestUntilLooksAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		require.Empty(t, failure(time.Second, func() bool {
			looks++
			if looks == 1 {
				time.Sleep(time.Minute)
			}
			return looks == 2
		}))
	})
}

// A condition may fail the test: it runs in its goroutine.
func TestUntilConditionFails(t *testing.T) {
	f := &failing{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		polltest.Until(f, time.Minute, func() bool { f.Fatalf("the cause"); return false })
	}()
	<-ended
	require.Equal(t, "the cause", f.said)
}
