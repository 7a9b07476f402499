package gitlog

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/stretchr/testify/require"
)

// put stores a commit without a tree.
func put(t testing.TB, s storer.EncodedObjectStorer, n int, when time.Time, parents ...plumbing.Hash) plumbing.Hash {
	t.Helper()
	who := object.Signature{Name: "A", Email: "a@b.example", When: when}
	c := &object.Commit{Author: who, Committer: who, Message: fmt.Sprint(n), ParentHashes: parents}
	o := s.NewEncodedObject()
	require.NoError(t, c.Encode(o))
	h, err := s.SetEncodedObject(o)
	require.NoError(t, err)
	return h
}

// Over random histories, with clocks that are right or wrong: every new commit is
// visited once; with right clocks no old one is.
func TestWalk(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := memory.NewStorage()
		skewed := seed%3 == 0
		var all []plumbing.Hash
		parents := map[plumbing.Hash][]plumbing.Hash{}
		n := 2 + r.IntN(60)
		for i := range n {
			var of []plumbing.Hash
			for range r.IntN(3) {
				if len(all) > 0 {
					of = append(of, all[len(all)-1-r.IntN(min(len(all), 8))])
				}
			}
			when := time.Unix(int64(1_700_000_000+i*60), 0)
			if skewed && r.IntN(4) == 0 {
				when = when.Add(time.Duration(r.IntN(7200)-3600) * time.Second)
			}
			h := put(t, s, i, when, of...)
			all = append(all, h)
			parents[h] = of
		}
		pick := func() (some []plumbing.Hash) {
			for range r.IntN(4) {
				some = append(some, all[r.IntN(n)])
			}
			return some
		}
		tips, old := append(pick(), all[n-1]), pick()
		reach := func(from []plumbing.Hash) map[plumbing.Hash]bool {
			seen := map[plumbing.Hash]bool{}
			for queue := from; len(queue) > 0; {
				h := queue[0]
				queue = queue[1:]
				if !seen[h] {
					seen[h] = true
					queue = append(queue[:len(queue):len(queue)], parents[h]...)
				}
			}
			return seen
		}
		want, known := reach(tips), reach(old)
		w, err := newWalk(t.Context(), s, nil, tips, append(old, plumbing.NewHash("11")))
		require.NoError(t, err)
		got := map[plumbing.Hash]bool{}
		for {
			c, err := w.next()
			require.NoError(t, err)
			if c == nil {
				break
			}
			require.False(t, got[c.Hash], "seed %d: twice", seed)
			require.True(t, want[c.Hash])
			got[c.Hash] = true
			if !skewed {
				require.False(t, known[c.Hash], "seed %d: an old commit", seed)
			}
		}
		for h := range want {
			require.True(t, got[h] || known[h], "seed %d: a new commit is left out", seed)
		}
	}
}

// The parents of shallow commits are not there, and not asked for; others must be.
func TestWalkShallow(t *testing.T) {
	s := memory.NewStorage()
	gone := plumbing.NewHash("1234")
	h := put(t, s, 1, time.Unix(1, 0), gone)
	w, err := newWalk(t.Context(), s, []plumbing.Hash{h}, []plumbing.Hash{h}, nil)
	require.NoError(t, err)
	c, err := w.next()
	require.NoError(t, err)
	require.Equal(t, h, c.Hash)
	c, err = w.next()
	require.NoError(t, err)
	require.Nil(t, c)

	w, err = newWalk(t.Context(), s, nil, []plumbing.Hash{h}, nil)
	require.NoError(t, err)
	_, err = w.next()
	require.ErrorIs(t, err, plumbing.ErrObjectNotFound)
}
