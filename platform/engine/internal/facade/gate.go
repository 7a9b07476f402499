package facade

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// gate lets few of the analysts' queries in at a time, before they take a place
// of the pool, so that they cannot keep the services out. They wait in order.
type gate struct {
	places    *semaphore.Weighted
	queueWait time.Duration
	most      int
}

func newGate(most int, queueWait time.Duration) *gate {
	return &gate{semaphore.NewWeighted(int64(most)), queueWait, most}
}

// acquire waits for a place for a query, and returns how to give it back.
func (g *gate) acquire(ctx context.Context) (func(), error) {
	waiting, cancel := context.WithTimeout(ctx, g.queueWait)
	defer cancel()
	err := g.places.Acquire(waiting, 1)
	switch {
	case err == nil:
		return func() { g.places.Release(1) }, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, errTooManyQueries.errorf("Too many simultaneous queries of analysts. Maximum: %d", g.most)
}

// queue waits for a user's place, which analysts need, and returns how to give it
// back. Only then is an analyst's body read. It has the time of a query to come, so
// that the place is the client's no longer than for one, however slowly it sends.
func (s *Server) queue(ctx context.Context, w http.ResponseWriter, user *User) (func(), error) {
	if !user.Analyst {
		return func() {}, nil
	}
	leave, err := s.gate.acquire(ctx)
	if err != nil {
		return nil, err
	}
	if limit := s.cfg.AnalystLimits.MaxExecutionTime; limit > 0 {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)); err != nil {
			leave()
			return nil, bodyError(err)
		}
	}
	return leave, nil
}

// endDeadline says that the body is read.
func endDeadline(w http.ResponseWriter, user *User) error {
	if !user.Analyst {
		return nil
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return bodyError(err)
	}
	return nil
}

// memoryOfAnalyst is what one of so many queries at a time may use, unless that
// is configured: together at most half of what the engine may.
func memoryOfAnalyst(engine int64, queries int) int64 {
	const most = 2 << 30
	if engine <= 0 { // it has no limit
		return most
	}
	return min(most, engine/2/int64(max(1, queries)))
}
