package readstore

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"muster/schemas/readmodel"
)

// documentRow is what is stored under a profile hash: people, and their newer versions.
type documentRow struct {
	people []*readmodel.NetworkPersonRow
	seen   []readmodel.SeenRow
}

// bytes is about what it takes of the memory.
func (d documentRow) bytes() int {
	const each = 512
	n := each + each*len(d.seen)
	for _, r := range d.people {
		n += each + r.Size()
	}
	return n
}

// documentRows reads the rows of documents in the order of hashes, those that are kept from memory.
func (s *Store) documentRows(ctx context.Context, hashes []uint64, as AsOf) ([]documentRow, error) {
	out := make([]documentRow, len(hashes))
	missing := s.shown.take(as.State, hashes, out)
	if len(missing) == 0 {
		return out, nil
	}
	wanted := make([]uint64, len(missing))
	for i, at := range missing {
		wanted[i] = hashes[at]
	}
	var people [][]*readmodel.NetworkPersonRow
	var seen [][]readmodel.SeenRow
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
	s.shown.put(as.State, wanted, missing, out)
	return out, nil
}

// shownRows keeps the rows of documents that were shown lately, of one state of the tables. What was not asked for while
// half of max was read is gone.
type shownRows struct {
	mu         sync.Mutex
	max, size  int // size is that of young
	state      string
	young, old map[uint64]documentRow
}

// take fills in the rows that are kept, and gives the places of the others.
func (c *shownRows) take(state string, hashes []uint64, out []documentRow) (missing []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range hashes {
		row, ok := c.young[h]
		if !ok && state == c.state {
			if row, ok = c.old[h]; ok {
				c.keep(h, row)
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

// put keeps the rows at some places.
func (c *shownRows) put(state string, hashes []uint64, places []int, rows []documentRow) {
	if state == "" || c.max <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != c.state {
		c.state, c.size, c.young, c.old = state, 0, nil, nil
	}
	for i, h := range hashes {
		c.keep(h, rows[places[i]])
	}
}

func (c *shownRows) keep(hash uint64, row documentRow) {
	if c.size > c.max/2 || c.young == nil {
		c.size, c.young, c.old = 0, make(map[uint64]documentRow), c.young
	}
	c.young[hash] = row
	c.size += row.bytes()
}
