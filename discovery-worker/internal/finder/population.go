package finder

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
)

// populationAge is how long a population is used. The store may be filled meanwhile.
const populationAge = time.Minute

// populations reads the population of the store on demand. It is safe for concurrent use.
type populations struct {
	reader *people.Reader
	prior  evidence.Prior
	now    func() time.Time

	current atomic.Pointer[datedPopulation]
	reading chan struct{} // one call reads
}

type datedPopulation struct {
	*evidence.Population
	at time.Time
}

func newPopulations(reader *people.Reader, prior evidence.Prior, now func() time.Time) *populations {
	return &populations{reader: reader, prior: prior, now: now, reading: make(chan struct{}, 1)}
}

// get returns the population. One call reads a new one; meanwhile others use the old one, if there
// is one.
func (c *populations) get(ctx context.Context) (*evidence.Population, error) {
	have := c.current.Load()
	if have != nil {
		if c.now().Sub(have.at) < populationAge {
			return have.Population, nil
		}
		select {
		case c.reading <- struct{}{}:
		default:
			return have.Population, nil
		}
	} else {
		select {
		case c.reading <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the population: %w", context.Cause(ctx))
		}
		if have = c.current.Load(); have != nil {
			<-c.reading
			return have.Population, nil
		}
	}
	defer func() { <-c.reading }()
	counts, err := c.reader.Population(ctx)
	if err != nil {
		if have != nil {
			return have.Population, err
		}
		return nil, err
	}
	next := &datedPopulation{evidence.NewPopulation(counts, c.prior), c.now()}
	c.current.Store(next)
	return next.Population, nil
}
