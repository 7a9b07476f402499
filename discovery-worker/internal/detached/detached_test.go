package detached_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/detached"
)

// Work goes on when its beginner leaves, ends with the group, and begins in none that has ended.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		asking, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var g detached.Group
		ctx, done := g.Begin(asking)
		require.Equal(t, "value", ctx.Value(key{}))
		leave()
		require.NoError(t, ctx.Err())

		ended := make(chan struct{})
		go func() { g.End(); close(ended) }()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), detached.ErrEnded)
		synctest.Wait()
		select {
		case <-ended:
			require.Fail(t, "End has not waited")
		default:
		}
		done()
		<-ended

		late, done := g.Begin(t.Context())
		defer done()
		require.ErrorIs(t, context.Cause(late), detached.ErrEnded)
		g.End()
	})
}
