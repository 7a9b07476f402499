package facade

import (
	"context"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
)

// gate lets few of the analysts' queries in at a time, before they take a place
// of the pool, so that they cannot keep the services out. They wait in order.
type gate struct {
	places, memory *semaphore.Weighted
	queueWait      time.Duration
	most           int
	total          int64
}

// newGate makes a gate for so many queries at a time, whose limits of memory
// together are at most total bytes; 0: no limit.
func newGate(most int, total int64, queueWait time.Duration) *gate {
	return &gate{semaphore.NewWeighted(int64(most)), semaphore.NewWeighted(total), queueWait, most, total}
}

// acquire waits for a place for a query that may use so much memory, and returns
// how to give it back.
func (g *gate) acquire(ctx context.Context, memory int64) (func(), error) {
	memory = min(memory, g.total)
	waiting, cancel := context.WithTimeout(ctx, g.queueWait)
	defer cancel()
	err := g.places.Acquire(waiting, 1)
	if err == nil {
		if err = g.memory.Acquire(waiting, memory); err != nil {
			g.places.Release(1)
		}
	}
	switch {
	case err == nil:
		return func() {
			g.memory.Release(memory)
			g.places.Release(1)
		}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, errTooManyQueries.errorf("Too many simultaneous queries of analysts. Maximum: %d, which may use %d bytes of memory together", g.most, g.total)
}

// maxMemory is what the request's query may use.
func (q *request) maxMemory() int64 {
	for _, p := range q.setup.settings {
		if p.Name == "max_memory_usage" {
			n, err := strconv.ParseInt(p.Value, 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}
