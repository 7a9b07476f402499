package facade

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// gate limits the concurrent queries of analysts before they take a slot of the pool, so that they cannot starve the
// services. It is first in, first out.
type gate struct {
	slots     *semaphore.Weighted
	queueWait time.Duration
	limit     int
}

func newGate(limit int, queueWait time.Duration) *gate {
	return &gate{semaphore.NewWeighted(int64(limit)), queueWait, limit}
}

// acquire waits for a slot and returns a function that releases it.
func (g *gate) acquire(ctx context.Context) (func(), error) {
	waiting, cancel := context.WithTimeout(ctx, g.queueWait)
	defer cancel()
	err := g.slots.Acquire(waiting, 1)
	switch {
	case err == nil:
		return func() { g.slots.Release(1) }, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, errTooManyQueries.errorf("Too many simultaneous queries of analysts. Maximum: %d", g.limit)
}

// admit waits for an analyst's slot and returns a function that releases it. Only then the body of an analyst is read,
// within the time limit of a query, so that a slow sender does not occupy a slot for longer. Other users are admitted
// immediately.
func (s *Server) admit(ctx context.Context, w http.ResponseWriter, user *User) (func(), error) {
	if !user.Analyst {
		return func() {}, nil
	}
	release, err := s.gate.acquire(ctx)
	if err != nil {
		return nil, err
	}
	if limit := s.cfg.AnalystLimits.MaxExecutionTime; limit > 0 {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)); err != nil {
			release()
			return nil, bodyError(err)
		}
	}
	return release, nil
}

// clearReadDeadline removes the deadline set by admit after the body was read.
func clearReadDeadline(w http.ResponseWriter, user *User) error {
	if !user.Analyst {
		return nil
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return bodyError(err)
	}
	return nil
}

// analystMemory returns the default memory limit of a query of analysts, in bytes: at most 2 GiB, and at most half of
// the engine's limit for all concurrent queries together.
func analystMemory(engine int64, queries int) int64 {
	const maxMemory = 2 << 30
	if engine <= 0 { // no limit
		return maxMemory
	}
	return min(maxMemory, engine/2/int64(max(1, queries)))
}
