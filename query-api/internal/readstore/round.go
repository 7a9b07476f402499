package readstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"muster/platform/batchload"
	"muster/schemas/readmodel"
)

// round is the reads that are made at once.
type round struct {
	lookups    reads[uint64, []readmodel.LookupRow]
	network    reads[uint64, []*readmodel.NetworkPersonRow]
	codehost   reads[int64, *readmodel.AnswerRow]
	companies  reads[uint64, []*readmodel.CompanyRow]
	headcounts reads[uint64, []*readmodel.HeadcountRow]
	seen       reads[uint64, []readmodel.VersionBumpRow]
	discovered reads[uint64, []discoveredStatement]
}

// reads is keys of one table, and after the round their values in the same order.
type reads[K comparable, V any] struct {
	keys   []K
	values []V
}

// load reads the values.
func (r *reads[K, V]) load(ctx context.Context, from *batchload.Loader[K, V]) (err error) {
	r.values, err = from.Get(ctx, r.keys)
	return err
}

// fetch makes the reads of a round, one per table, concurrently.
func (s *Store) fetch(ctx context.Context, r *round) error {
	var loads []func(context.Context) error
	add := func(keys int, load func(context.Context) error) {
		if keys > 0 {
			loads = append(loads, load)
		}
	}
	add(len(r.lookups.keys), func(ctx context.Context) error { return r.lookups.load(ctx, s.lookups) })
	add(len(r.network.keys), func(ctx context.Context) error { return r.network.load(ctx, s.network) })
	add(len(r.codehost.keys), func(ctx context.Context) error { return r.codehost.load(ctx, s.codehost) })
	add(len(r.companies.keys), func(ctx context.Context) error { return r.companies.load(ctx, s.companies) })
	add(len(r.headcounts.keys), func(ctx context.Context) error { return r.headcounts.load(ctx, s.headcounts) })
	add(len(r.seen.keys), func(ctx context.Context) error { return r.seen.load(ctx, s.seen) })
	add(len(r.discovered.keys), func(ctx context.Context) error { return r.discovered.load(ctx, s.discovered) })
	switch len(loads) {
	case 0:
		return nil
	case 1:
		return loads[0](ctx)
	}
	g, working := errgroup.WithContext(ctx)
	for _, load := range loads[1:] {
		g.Go(func() error { return load(working) })
	}
	// The first load needs no goroutine. If another one fails, its error is the cause.
	err := loads[0](working)
	return cmp.Or(g.Wait(), err)
}

// errStopped ends the queries of a batch after another one has failed.
var errStopped = errors.New("another query of the batch failed")

// inStep answers n queries in step: it advances each to its next round and makes these rounds as one, until all are
// answered. So a batch takes as many rounds as its longest query, whatever its size. The queries run one at a time.
func (s *Store) inStep(ctx context.Context, n int, answer func(w *session, i int) error) error {
	var failed error
	running := make([]func() (*round, bool), n)
	for i := range running {
		next, stop := iter.Pull(func(yield func(*round) bool) {
			w := s.session()
			w.fetch = func(_ context.Context, r *round) error {
				if !r.isEmpty() && !yield(r) {
					return errStopped
				}
				return nil
			}
			if err := answer(w, i); err != nil && failed == nil {
				failed = err
			}
		})
		defer stop()
		running[i] = next
	}
	for len(running) > 0 {
		var rounds []*round
		running = slices.DeleteFunc(running, func(next func() (*round, bool)) bool {
			if failed != nil {
				return true
			}
			r, more := next()
			if more {
				rounds = append(rounds, r)
			}
			return !more
		})
		if failed != nil {
			return failed
		}
		if err := s.fetchAll(ctx, rounds); err != nil {
			return err
		}
	}
	return nil
}

// fetchAll makes the reads of several rounds as one.
func (s *Store) fetchAll(ctx context.Context, rounds []*round) error {
	var all round
	for _, r := range rounds {
		all.lookups.join(&r.lookups)
		all.network.join(&r.network)
		all.codehost.join(&r.codehost)
		all.companies.join(&r.companies)
		all.headcounts.join(&r.headcounts)
		all.seen.join(&r.seen)
		all.discovered.join(&r.discovered)
	}
	if err := s.fetch(ctx, &all); err != nil {
		return err
	}
	for _, r := range rounds {
		all.lookups.split(&r.lookups)
		all.network.split(&r.network)
		all.codehost.split(&r.codehost)
		all.companies.split(&r.companies)
		all.headcounts.split(&r.headcounts)
		all.seen.split(&r.seen)
		all.discovered.split(&r.discovered)
	}
	return nil
}

// join appends the keys of part.
func (r *reads[K, V]) join(part *reads[K, V]) { r.keys = append(r.keys, part.keys...) }

// split moves the values of the next part, in the order in which they were joined.
func (r *reads[K, V]) split(part *reads[K, V]) {
	n := len(part.keys)
	part.values, r.values = r.values[:n:n], r.values[n:]
}

func (r *round) isEmpty() bool {
	return len(r.lookups.keys)+len(r.network.keys)+len(r.codehost.keys)+len(r.companies.keys)+len(r.seen.keys)+
		len(r.discovered.keys) == 0
}
