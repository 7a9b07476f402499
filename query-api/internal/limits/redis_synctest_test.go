package limits_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/limits"
)

// silent is a server that does not respond until released.
type silent struct {
	speak chan struct{}
	asked atomic.Int64
	ended atomic.Int64
}

func (s *silent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *silent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *silent) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		s.asked.Add(1)
		<-s.speak
		s.ended.Add(1)
		cmd.(*redis.Cmd).SetVal([]any{int64(1), int64(time.Second), int64(0)})
		return nil
	}
}

func open(t *testing.T) (*limits.Redis, *silent) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &silent{speak: make(chan struct{})}
	client.AddHook(s)
	return limits.NewRedis(client, "rate:", limits.AllowTimeout), s
}

func TestRedis_CloseWaitsForPendingDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server := open(t)
		for range 2 {
			_, err := l.Allow(t.Context(), "k", 10)
			require.ErrorIs(t, err, limits.ErrTimeout)
		}
		time.AfterFunc(time.Second, func() { close(server.speak) })
		l.Close()
		require.EqualValues(t, 2, server.ended.Load())
		_, err := l.Allow(t.Context(), "k", 10)
		require.ErrorIs(t, err, limits.ErrClosed)
		require.EqualValues(t, 2, server.asked.Load())
	})
}

func TestRedis_SilentServerGetsBoundedRequests(t *testing.T) {
	for name, leaves := range map[string]bool{"callers wait": false, "callers leave": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, server := open(t)
				began := time.Now()
				for range 10 {
					ctx, leave := context.WithCancel(t.Context())
					if leaves {
						time.AfterFunc(time.Millisecond, leave)
					}
					_, err := l.Allow(ctx, "k", 10)
					leave()
					require.ErrorIs(t, err, limits.ErrTimeout)
				}
				require.EqualValues(t, 3, server.asked.Load())
				require.Equal(t, 3*limits.AllowTimeout, time.Since(began))
				close(server.speak)
				synctest.Wait()
				d, err := l.Allow(t.Context(), "k", 10)
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.EqualValues(t, 4, server.asked.Load())
				l.Close()
			})
		})
	}
}
