package limits

import (
	"context"
	"sync"
	"time"
)

// windows stores the requests of keys in the last minute, in memory.
type windows struct {
	now func() time.Time

	mu    sync.Mutex
	taken map[string][]time.Time // recent requests by key, oldest first
}

// AllowInWindow implements [Limiter].
func (w *windows) AllowInWindow(_ context.Context, key string, most int64) (Decision, error) {
	if err := check(most); err != nil {
		return Decision{}, err
	}
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.taken[key]; !known && len(w.taken) >= memoryKeys {
		w.evict(now)
	}
	taken := w.taken[key]
	for len(taken) > 0 && now.Sub(taken[0]) >= time.Minute {
		taken = taken[1:]
	}
	d := Decision{Allowed: int64(len(taken)) < most, Limit: most}
	if d.Allowed {
		taken = append(taken, now)
	} else {
		d.RetryAfter = taken[0].Add(time.Minute).Sub(now)
	}
	w.taken[key] = taken
	d.Remaining, d.ResetAfter = most-int64(len(taken)), taken[len(taken)-1].Add(time.Minute).Sub(now)
	return d, nil
}

// evict removes the keys without a request in the last minute; if there are none, it removes all.
func (w *windows) evict(now time.Time) {
	for key, taken := range w.taken {
		if now.Sub(taken[len(taken)-1]) >= time.Minute {
			delete(w.taken, key)
		}
	}
	if len(w.taken) >= memoryKeys {
		clear(w.taken)
	}
}
