package delivery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireConsistent fails the test if the scheduler's counters and lists disagree with its
// deliveries, or if it holds an idle endpoint or host.
func (s *Scheduler) RequireConsistent(t *testing.T) {
	t.Helper()
	type sums struct{ items, running, held, bytes, endpoints, healthy int }
	var all sums
	unhealthy := 0
	timed := make(map[*item]bool)
	for i, it := range s.timers {
		require.Equal(t, i, it.heapIndex)
		require.False(t, i > 0 && it.dueAt.Before(s.timers[(i-1)/2].dueAt), "timers are a heap")
		timed[it] = true
	}
	listed := make(map[*endpoint]int)
	for _, e := range s.runnable {
		listed[e]++
	}
	for _, h := range s.hosts {
		for _, e := range h.parked {
			listed[e]++
		}
	}
	byEndpoint, byHost := make(map[*endpoint]*sums), make(map[*host]*sums)
	for id, e := range s.endpoints {
		require.Equal(t, id, e.id)
		require.True(t, e.items > 0 || e.persisted || e.isRunnable || e.wakeTimer != nil, "endpoint %s is idle", id)
		require.True(t, e.isRunnable || len(e.queue) == 0 || e.running > 0 || e.wakeTimer != nil,
			"endpoint %s is stuck", id)
		require.Equal(t, e.isRunnable, listed[e] == 1)
		delete(listed, e)
		sum := &sums{}
		byEndpoint[e] = sum
		for _, it := range e.queue {
			require.True(t, it.queued && !it.running && !timed[it] && s.items[it.key] == it)
			if it.task != nil {
				sum.held++
				sum.bytes += len(it.task.Value)
			}
		}
		if byHost[e.host] == nil {
			byHost[e.host] = &sums{}
		}
		byHost[e.host].endpoints++
	}
	require.Empty(t, listed)
	for key, it := range s.items {
		require.Equal(t, key, it.key)
		e := it.endpoint
		sum, h := byEndpoint[e], byHost[e.host]
		sum.items++
		if it.running {
			sum.running++
			h.running++
			all.running++
			if !e.failing {
				h.healthy++
			}
			if e.failing || e.host.failing {
				unhealthy++
			}
		}
		places := 0
		for _, in := range []bool{it.running, it.queued, timed[it]} {
			if in {
				places++
			}
		}
		require.Equal(t, 1, places, "a delivery is running, queued or timed")
	}
	for e, sum := range byEndpoint {
		require.Equal(t, sums{items: e.items, running: e.running, held: e.held, bytes: sum.bytes}, *sum)
		all.held += sum.held
		all.bytes += sum.bytes
	}
	require.Len(t, byHost, len(s.hosts))
	for h, sum := range byHost {
		require.Same(t, h, s.hosts[h.key])
		require.Equal(t, sums{endpoints: h.endpoints, running: h.running, healthy: h.healthyRunning}, *sum)
	}
	require.Equal(t, sums{running: s.running, held: s.held, bytes: s.heldBytes}, all)
	require.Equal(t, unhealthy, s.unhealthyRunning)
}

// RequireEmpty fails the test if the scheduler holds anything of finished deliveries.
func (s *Scheduler) RequireEmpty(t *testing.T) {
	t.Helper()
	s.RequireConsistent(t)
	require.Empty(t, s.items)
	require.Empty(t, s.endpoints)
	require.Empty(t, s.hosts)
	require.Empty(t, s.timers)
	require.Empty(t, s.finished.byKey)
	require.Empty(t, s.finished.order)
}
