package engine_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

// Analysts cannot take the places of the services, nor all of the memory.
func TestAnalystsLeaveRoom(t *testing.T) {
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) {
		c.Server.MaxConcurrent, c.Server.QueueWait = 8, time.Second
		c.Server.AnalystMemory, c.Server.AnalystMemoryTotal = 1<<30, 3<<30
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	ctx, cancel := context.WithCancel(t.Context())
	var analysts sync.WaitGroup
	query := func(ctx context.Context, params, text string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Addr()+"/?max_threads=1"+params, strings.NewReader(text))
		if err != nil {
			return 0, err.Error()
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(body)
	}
	const long = "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(rand())"
	running := func() string {
		n, err := ask(t.Context(), e.Addr(), "SELECT count() FROM system.processes WHERE query LIKE '%numbers(1000000000000)%' AND query NOT LIKE '%system.processes%'")
		require.NoError(t, err)
		return n
	}
	var refused atomic.Int64
	ask20 := func(params string) {
		ctx := ctx
		for range 20 {
			analysts.Go(func() {
				if status, _ := query(ctx, params, long); status == http.StatusInternalServerError {
					refused.Add(1)
				}
			})
		}
	}
	ask20("")
	waitFor(t, func() bool { return refused.Load() == 17 })
	require.Equal(t, "3\n", running()) // by the memory that they may use
	begin := time.Now()
	for range 5 {
		_, err := ask(t.Context(), e.Addr(), "SELECT 1")
		require.NoError(t, err)
	}
	require.Less(t, time.Since(begin), 10*time.Second)
	status, body := query(t.Context(), "", "SELECT 1")
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, body, "Too many simultaneous queries of analysts")
	cancel()
	analysts.Wait()
	waitFor(t, func() bool { return running() == "0\n" })

	// Those that may use less are more, up to the places.
	ctx, cancel = context.WithCancel(t.Context())
	refused.Store(0)
	ask20("&max_memory_usage=100000000")
	waitFor(t, func() bool { return refused.Load() == 16 })
	require.Equal(t, "4\n", running())
	_, err = ask(t.Context(), e.Addr(), "SELECT 1")
	require.NoError(t, err)
	cancel()
	analysts.Wait()
	waitFor(t, func() bool { status, _ := query(t.Context(), "", "SELECT 1"); return status == http.StatusOK })
}
