package background_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/background"
)

func TestGroup_WorkOutlivesCallerAndEndsWithStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		callerCtx, cancelCaller := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var g background.Group
		ctx, done := g.Start(callerCtx)
		require.Equal(t, "value", ctx.Value(key{}))
		cancelCaller()
		require.NoError(t, ctx.Err())

		ended := make(chan struct{})
		go func() { g.Stop(); close(ended) }()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), background.ErrStopped)
		synctest.Wait()
		select {
		case <-ended:
			require.Fail(t, "Stop returned early")
		default:
		}
		done()
		<-ended

		lateCtx, done := g.Start(t.Context())
		defer done()
		require.ErrorIs(t, context.Cause(lateCtx), background.ErrStopped)
		g.Stop()
	})
}
