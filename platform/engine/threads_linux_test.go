package engine_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

// Each thread has files open.
func TestEngine_LimitsIdleThreads(t *testing.T) {
	const statements = 4
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) { c.Server.MaxConcurrent = statements })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	threads := func() int {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", e.PID()))
		require.NoError(t, err)
		return len(tasks)
	}
	before := threads()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var burst sync.WaitGroup
	for range statements {
		burst.Go(func() { // 16 threads each, asleep
			_, _ = ask(ctx, e.Addr(), "SELECT sum(sleepEachRow(0.001)) FROM numbers_mt(100000000) "+
				"SETTINGS max_threads = 16, max_block_size = 100, use_concurrency_control = 0")
		})
	}
	waitFor(t, func() bool { return threads() > before+14*statements })
	cancel()
	burst.Wait()
	// Four for each statement, and the Go runtime's.
	waitFor(t, func() bool { return threads() < before+8*statements })
}
