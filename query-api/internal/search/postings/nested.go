package postings

import (
	"math/bits"

	"muster/query-api/internal/search/algebra"
)

// nestedOp matches people by their elements.
type nestedOp struct {
	*buffers
	elements *elements
	inner    op
	mode     algebra.ScoreMode
	// found has the elements of the last match, of the people from lo to before hi.
	found  []uint64
	lo, hi int
}

func (n *nestedOp) maxMatches() int { return n.inner.maxMatches() }

func (n *nestedOp) uniformScore() (float64, bool) {
	if n.mode == algebra.ScoreNone {
		return 0, true
	}
	if n.mode == algebra.ScoreSum {
		return 0, false
	}
	return n.inner.uniformScore()
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

// ownerOp matches the elements of the people that an op matches, with their scores.
type ownerOp struct {
	*buffers
	op       // over people
	elements *elements
}

// owners returns the people of elements, from first to before last. lo is less than hi.
func (o *ownerOp) owners(lo, hi int) (first, last int) {
	return int(o.elements.owners[lo]), int(o.elements.owners[hi-1]) + 1
}

func (o *ownerOp) maxMatches() int { return len(o.elements.owners) }

func (o *ownerOp) match(lo, hi int, out []uint64) {
	clear(out)
	if lo == hi {
		return
	}
	first, last := o.owners(lo, hi)
	people := o.takeBits(span(first, last))
	defer o.giveBits(people)
	o.op.match(first, last, people)
	from, base := lo&^63, first&^63
	for unit := lo; unit < hi; unit++ {
		if at := int(o.elements.owners[unit]) - base; people[at>>6]>>(at&63)&1 != 0 {
			out[(unit-from)>>6] |= 1 << (unit & 63)
		}
	}
}

func (o *ownerOp) score(lo, hi int, of []uint64, out []float64) {
	if lo == hi {
		return
	}
	first, last := o.owners(lo, hi)
	size := span(first, last)
	people, scores := o.takeBits(size), o.takeScores(64*size)
	defer o.giveBits(people)
	defer o.giveScores(scores)
	clear(people)
	from, base := lo&^63, first&^63
	each := func(visit func(i, at int)) {
		for w, word := range of {
			for ; word != 0; word &= word - 1 {
				i := w<<6 + bits.TrailingZeros64(word)
				visit(i, int(o.elements.owners[from+i])-base)
			}
		}
	}
	each(func(_, at int) { people[at>>6] |= 1 << (at & 63) })
	o.op.score(first, last, people, scores)
	each(func(i, at int) { out[i] = scores[at] })
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
