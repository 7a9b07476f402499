package postings

import (
	"math/bits"

	"muster/query-api/internal/search/algebra"
)

// nestedOp asks the elements of people.
type nestedOp struct {
	*buffers
	elements *elements
	inner    op
	mode     algebra.ScoreMode
	// found are the elements that matched last, of the people from lo to before hi.
	found  []uint64
	lo, hi int
}

func (n *nestedOp) few() int { return n.inner.few() }

func (n *nestedOp) always() (float64, bool) {
	if n.mode == algebra.ScoreNone {
		return 0, true
	}
	if n.mode == algebra.ScoreSum {
		return 0, false
	}
	return n.inner.always()
}

// find finds the elements of people, from first to before last.
func (n *nestedOp) find(lo, hi int) (first, last int) {
	first, last = int(n.elements.starts[lo]), int(n.elements.starts[hi])
	if n.found != nil && n.lo == lo && n.hi == hi {
		return first, last
	}
	size := span(first, last)
	if last == first {
		size = 0
	}
	if cap(n.found) < size {
		n.found = make([]uint64, size, size+size/4)
	}
	n.found, n.lo, n.hi = n.found[:size], lo, hi
	if size > 0 {
		n.inner.match(first, last, n.found)
		clip(first, last, n.found)
	}
	return first, last
}

func (n *nestedOp) match(lo, hi int, out []uint64) {
	clear(out)
	first, _ := n.find(lo, hi)
	base, from := uint32(lo&^63), first&^63 //nolint:gosec // a part has fewer rows
	for w, word := range n.found {
		owners := n.elements.owners[from+w<<6:]
		for ; word != 0; word &= word - 1 {
			at := owners[bits.TrailingZeros64(word)] - base
			out[at>>6] |= 1 << (at & 63)
		}
	}
}

func (n *nestedOp) score(lo, hi int, of []uint64, out []float64) {
	if n.mode == algebra.ScoreNone {
		fill(of, out, 0)
		return
	}
	first, last := n.find(lo, hi)
	one := n.takeScores(len(n.found) * 64)
	defer n.giveScores(one)
	n.inner.score(first, last, n.found, one)
	base, from := uint32(lo&^63), first&^63 //nolint:gosec // see match
	current, count := ^uint32(0), 0.0
	wanted := false
	finish := func() {
		if wanted && n.mode == algebra.ScoreAvg && count > 1 {
			out[current] /= count
		}
	}
	for w, word := range n.found {
		owners := n.elements.owners[from+w<<6:]
		for ; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			at := owners[bit] - base
			score := one[w<<6+bit]
			if at != current {
				finish()
				current, count = at, 1
				if wanted = of[at>>6]>>(at&63)&1 != 0; wanted {
					out[at] = score
				}
				continue
			}
			if !wanted {
				continue
			}
			count++
			switch n.mode {
			case algebra.ScoreMin:
				out[at] = min(out[at], score)
			case algebra.ScoreMax:
				out[at] = max(out[at], score)
			default:
				out[at] += score
			}
		}
	}
	finish()
}
