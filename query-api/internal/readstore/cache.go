package readstore

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"muster/schemas/readmodel"
)

// documentRow is the rows of a profile hash: people and their version bumps.
type documentRow struct {
	people []*readmodel.NetworkPersonRow
	seen   []readmodel.VersionBumpRow
}

// bytes returns the approximate memory size.
func (d documentRow) bytes() int {
	const each = 512
	n := each + each*len(d.seen)
	for _, r := range d.people {
		n += each + r.Size()
	}
	return n
}

// documentRows returns the rows of documents in the order of hashes, from the cache if possible.
func (s *Store) documentRows(ctx context.Context, hashes []uint64, as AsOf) ([]documentRow, error) {
	out := make([]documentRow, len(hashes))
	missing := s.documents.get(as.State, hashes, out)
	if len(missing) == 0 {
		return out, nil
	}
	wanted := make([]uint64, len(missing))
	for i, at := range missing {
		wanted[i] = hashes[at]
	}
	var people [][]*readmodel.NetworkPersonRow
	var seen [][]readmodel.VersionBumpRow
	g, working := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		people, err = s.network.Get(working, wanted)
		return err
	})
	if !as.Unseen {
		g.Go(func() (err error) {
			seen, err = s.seen.Get(working, wanted)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, at := range missing {
		for _, r := range people[i] {
			out[at].people = append(out[at].people, r.Only(readmodel.ShapeEnrich))
		}
		if seen != nil {
			out[at].seen = seen[i]
		}
	}
	s.documents.put(as.State, wanted, missing, out)
	return out, nil
}

// documentCache caches rows of recently returned documents, for one state of the tables. It has two generations of half
// the maximum size; rows not used during a generation are evicted.
type documentCache struct {
	mu         sync.Mutex
	max, size  int // size is the size of young
	state      string
	young, old map[uint64]documentRow
}

// get copies the cached rows to out, and returns the indexes of the others.
func (c *documentCache) get(state string, hashes []uint64, out []documentRow) (missing []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range hashes {
		row, ok := c.young[h]
		if !ok && state == c.state {
			if row, ok = c.old[h]; ok {
				c.add(h, row)
			}
		}
		if !ok || state == "" || state != c.state {
			missing = append(missing, i)
			continue
		}
		out[i] = row
	}
	return missing
}

// put caches the rows at the given indexes.
func (c *documentCache) put(state string, hashes []uint64, indexes []int, rows []documentRow) {
	if state == "" || c.max <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != c.state {
		c.state, c.size, c.young, c.old = state, 0, nil, nil
	}
	for i, h := range hashes {
		c.add(h, rows[indexes[i]])
	}
}

func (c *documentCache) add(hash uint64, row documentRow) {
	if c.size > c.max/2 || c.young == nil {
		c.size, c.young, c.old = 0, make(map[uint64]documentRow), c.young
	}
	c.young[hash] = row
	c.size += row.bytes()
}
