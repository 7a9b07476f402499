// Package idempotencytest is the conformance suite of idempotency.Store.
package idempotencytest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/query-api/internal/idempotency"
)

// Replicas returns n stores that share their state.
type Replicas func(t *testing.T, n int) []idempotency.Store

// waitTimeout bounds operations that should be immediate.
const waitTimeout = 30 * time.Second

// Run runs the suite.
func Run(t *testing.T, open Replicas) {
	begin := func(t *testing.T, s idempotency.Store, name, fingerprint, owner string,
		lease time.Duration) (idempotency.State, []byte) {
		t.Helper()
		state, value, err := s.Begin(t.Context(), name, fingerprint, owner, lease)
		require.NoError(t, err)
		return state, value
	}
	state := func(t *testing.T, s idempotency.Store, name, fingerprint, owner string) idempotency.State {
		t.Helper()
		got, _ := begin(t, s, name, fingerprint, owner, time.Minute)
		return got
	}
	t.Run("one call runs, then its response is stored", func(t *testing.T) {
		s := open(t, 2)
		for range 2 { // the second time like a caller whose reply was lost
			require.Equal(t, idempotency.New, state(t, s[0], "n", "f", "a"))
			require.Equal(t, idempotency.Running, state(t, s[1], "n", "f", "b"))
			require.Equal(t, idempotency.Mismatch, state(t, s[1], "n", "g", "b"))
		}
		require.Equal(t, idempotency.Mismatch, state(t, s[0], "n", "g", "a"))
		require.Equal(t, idempotency.New, state(t, s[1], "other", "g", "b"))
		require.NoError(t, s[1].Complete(t.Context(), "n", "b", []byte("not its own"), time.Minute))
		require.Equal(t, idempotency.Running, state(t, s[1], "n", "f", "b"))
		answer := []byte("the \x00 answer")
		require.NoError(t, s[0].Complete(t.Context(), "n", "a", answer, time.Minute))
		got, value := begin(t, s[1], "n", "f", "b", time.Minute)
		require.Equal(t, idempotency.Stored, got)
		require.Equal(t, answer, value)
		require.Equal(t, idempotency.Mismatch, state(t, s[0], "n", "g", "b"))
	})
	t.Run("given up", func(t *testing.T) {
		s := open(t, 1)[0]
		require.Equal(t, idempotency.New, state(t, s, "n", "f", "a"))
		require.NoError(t, s.Delete(t.Context(), "n", "b"))
		require.Equal(t, idempotency.Running, state(t, s, "n", "f", "b"))
		require.NoError(t, s.Delete(t.Context(), "n", "a"))
		require.Equal(t, idempotency.New, state(t, s, "n", "g", "b"), "also with another body")
		require.NoError(t, s.Complete(t.Context(), "n", "b", []byte("x"), time.Minute))
		require.NoError(t, s.Delete(t.Context(), "n", "b"))
		require.Equal(t, idempotency.New, state(t, s, "n", "f", "c"))
		require.NoError(t, s.Delete(t.Context(), "never", "c"))
	})
	t.Run("deleted unless it was returned", func(t *testing.T) {
		s := open(t, 2)
		deleteUnserved := func(s idempotency.Store, owner string) bool {
			given, err := s.DeleteUnserved(t.Context(), "n", owner)
			require.NoError(t, err)
			return given
		}
		require.False(t, deleteUnserved(s[0], "a"), "no such claim")
		require.Equal(t, idempotency.New, state(t, s[0], "n", "f", "a"))
		require.False(t, deleteUnserved(s[0], "a"))
		for range 2 { // the served flag does not carry over to the next response
			require.Equal(t, idempotency.New, state(t, s[0], "n", "f", "a"))
			require.Equal(t, idempotency.Running, state(t, s[1], "n", "f", "b"))
			require.NoError(t, s[0].Complete(t.Context(), "n", "a", []byte("x"), time.Minute))
			require.Equal(t, idempotency.Mismatch, state(t, s[1], "n", "g", "b"))
			require.False(t, deleteUnserved(s[0], "a"), "not served")

			require.Equal(t, idempotency.New, state(t, s[0], "n", "f", "a"))
			require.NoError(t, s[0].Complete(t.Context(), "n", "a", []byte("x"), time.Minute))
			require.Equal(t, idempotency.Stored, state(t, s[1], "n", "f", "b"))
			require.False(t, deleteUnserved(s[1], "b"), "owned by another call")
			require.True(t, deleteUnserved(s[0], "a"))
			require.Equal(t, idempotency.Stored, state(t, s[1], "n", "f", "b"))
			require.NoError(t, s[0].Delete(t.Context(), "n", "a"))
		}
	})
	t.Run("leases and responses expire", func(t *testing.T) {
		s := open(t, 1)[0]
		got, _ := begin(t, s, "n", "f", "dead", 30*time.Millisecond)
		require.Equal(t, idempotency.New, got)
		polltest.Until(t, waitTimeout, func() bool { return state(t, s, "n", "g", "a") == idempotency.New },
			"lease not expired")
		require.NoError(t, s.Complete(t.Context(), "n", "dead", []byte("late"), time.Minute))
		require.Equal(t, idempotency.Running, state(t, s, "n", "g", "b"), "claim expired")
		require.NoError(t, s.Complete(t.Context(), "n", "a", []byte("x"), 30*time.Millisecond))
		polltest.Until(t, waitTimeout, func() bool { return state(t, s, "n", "f", "b") == idempotency.New },
			"response not expired")
	})
	t.Run("claims are renewed", func(t *testing.T) {
		s := open(t, 1)[0]
		const short = 30 * time.Millisecond
		renew := func(name, owner string) {
			t.Helper()
			require.NoError(t, s.Renew(t.Context(), name, owner, time.Minute))
		}
		for name, renew := range map[string]func(string){
			"by its owner": func(name string) { renew(name, "a") },
			"begun again":  func(name string) { begin(t, s, name, "f", "a", time.Minute) },
		} {
			n := 0
			polltest.Until(t, waitTimeout, func() bool { // an expired claim is not renewed
				n++
				one := name + strconv.Itoa(n)
				begin(t, s, one, "f", "a", short)
				renew(one)
				<-time.After(2 * short)
				return state(t, s, one, "f", "b") == idempotency.Running
			}, "claim not renewed")
		}
		begin(t, s, "another's", "f", "a", short)
		renew("another's", "b")
		polltest.Until(t, waitTimeout, func() bool { return state(t, s, "another's", "f", "c") == idempotency.New },
			"lease not expired")
		begin(t, s, "stored", "f", "a", time.Minute)
		require.NoError(t, s.Complete(t.Context(), "stored", "a", []byte("x"), short))
		renew("stored", "a")
		polltest.Until(t, waitTimeout, func() bool { return state(t, s, "stored", "f", "b") == idempotency.New },
			"response not expired")
		renew("never", "a")
		require.Equal(t, idempotency.New, state(t, s, "never", "f", "b"))
	})
	t.Run("one of many claims", func(t *testing.T) {
		s := open(t, 3)
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				got, _, err := s[i%3].Begin(t.Context(), "n", "f", strconv.Itoa(i), time.Minute)
				if err != nil {
					t.Error(err)
				}
				if got == idempotency.New {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, won.Load())
	})
}
