package delivery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whole requires that the machine's counters and lists agree with its deliveries, and
// that it remembers no endpoint or host that nothing is known of.
func (m *Machine) Whole(t *testing.T) {
	t.Helper()
	type sums struct{ items, running, held, bytes, endpoints, sound int }
	var all sums
	troubled := 0
	timed := make(map[*item]bool)
	for i, it := range m.timers {
		require.Equal(t, i, it.index)
		require.False(t, i > 0 && it.at.Before(m.timers[(i-1)/2].at), "the first timer is the next one")
		timed[it] = true
	}
	listed := make(map[*endpoint]int)
	for _, e := range m.runnable {
		listed[e]++
	}
	for _, h := range m.hosts {
		for _, e := range h.parked {
			listed[e]++
		}
	}
	of, at := make(map[*endpoint]*sums), make(map[*host]*sums)
	for id, e := range m.endpoints {
		require.Equal(t, id, e.id)
		require.True(t, e.items > 0 || e.recorded || e.listed || e.wake != nil, "endpoint %s has nothing", id)
		require.True(t, e.listed || len(e.waiting) == 0 || e.running > 0 || e.wake != nil, "endpoint %s waits for nothing", id)
		require.Equal(t, e.listed, listed[e] == 1)
		delete(listed, e)
		s := &sums{}
		of[e] = s
		for _, it := range e.waiting {
			require.True(t, it.queued && !it.running && !timed[it] && m.items[it.key] == it)
			if it.task != nil {
				s.held++
				s.bytes += len(it.task.Value)
			}
		}
		if at[e.host] == nil {
			at[e.host] = &sums{}
		}
		at[e.host].endpoints++
	}
	require.Empty(t, listed)
	for key, it := range m.items {
		require.Equal(t, key, it.key)
		e := it.endpoint
		s, h := of[e], at[e.host]
		s.items++
		if it.running {
			s.running++
			h.running++
			all.running++
			if !e.failing {
				h.sound++
			}
			if e.failing || e.host.failing {
				troubled++
			}
		}
		places := 0
		for _, in := range []bool{it.running, it.queued, timed[it]} {
			if in {
				places++
			}
		}
		require.Equal(t, 1, places, "a delivery runs, waits for its turn, or for its time")
	}
	for e, s := range of {
		require.Equal(t, sums{items: e.items, running: e.running, held: e.held, bytes: s.bytes}, *s)
		all.held += s.held
		all.bytes += s.bytes
	}
	require.Len(t, at, len(m.hosts))
	for h, s := range at {
		require.Same(t, h, m.hosts[h.key])
		require.Equal(t, sums{endpoints: h.endpoints, running: h.running, sound: h.sound}, *s)
	}
	require.Equal(t, sums{running: m.running, held: m.held, bytes: m.heldBytes}, all)
	require.Equal(t, troubled, m.troubled)
}

// Empty requires that nothing is left of deliveries that are over.
func (m *Machine) Empty(t *testing.T) {
	t.Helper()
	m.Whole(t)
	require.Empty(t, m.items)
	require.Empty(t, m.endpoints)
	require.Empty(t, m.hosts)
	require.Empty(t, m.timers)
	require.Empty(t, m.finished.ended)
	require.Empty(t, m.finished.order)
}
