package latest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/latest"
)

func TestReader_CallsBeforeAReadingShareIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n, after atomic.Int64
		proceed := make(chan struct{})
		r := latest.New(func(context.Context) (int64, error) {
			<-proceed
			return n.Add(1), nil
		}, func(v int64) { after.Store(v) })
		first := r.Begin()
		synctest.Wait() // has begun
		second, third := r.Begin(), r.Begin()
		require.Same(t, second, third)
		close(proceed)
		for want, reading := range map[int64]*latest.Reading[int64]{1: first, 2: second} {
			got, err := reading.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got, "no older than the call")
		}
		r.Close()
		require.EqualValues(t, 2, n.Load())
		require.EqualValues(t, 2, after.Load())
	})
}

func TestReader_ReadingOutlivesACallThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		r := latest.New(func(context.Context) (int, error) {
			<-proceed
			return 7, nil
		}, nil)
		defer r.Close()
		reading := r.Begin()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := reading.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(proceed)
		got, err := reading.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, got)
	})
}

func TestReader_CloseCancelsAndErrorsAreNotKept(t *testing.T) {
	failed := errors.New("failed")
	var fails atomic.Bool
	fails.Store(true)
	r := latest.New(func(ctx context.Context) (int, error) {
		if fails.Load() {
			return 0, failed
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}, func(int) { t.Error("called after an error") })
	_, err := r.Begin().Wait(t.Context())
	require.ErrorIs(t, err, failed)
	fails.Store(false)
	reading := r.Begin()
	r.Close()
	_, err = reading.Wait(t.Context())
	require.ErrorIs(t, err, context.Canceled)
}
