package postings

import (
	"math"
	"math/bits"
)

type boolOp struct {
	*buffers
	required  []op // must and filter, the rarest first
	excluded  []op
	must      []op // in the order in which scores are added
	should    []op
	minimum   int
	withScore []bool // of should: whether its scores are not 0
	// ownMinimum states that minimums has the minimum_should_match of each unit, at least 1, in place of minimum. A
	// unit without one does not match.
	ownMinimum bool
	minimums   column
}

func (b *boolOp) maxMatches() int {
	n := math.MaxInt
	for _, r := range b.required {
		n = min(n, r.maxMatches())
	}
	if b.minimum > 0 || b.ownMinimum {
		n = min(n, sumMatches(b.should))
	}
	return n
}

// sumMatches returns an upper bound of the number of units that match any of the ops.
func sumMatches(list []op) int {
	sum := 0
	for _, o := range list {
		sum += min(o.maxMatches(), math.MaxInt-sum)
	}
	return sum
}

func (b *boolOp) uniformScore() (float64, bool) {
	if len(b.should) > 0 {
		for _, s := range b.should {
			if score, ok := s.uniformScore(); !ok || score != 0 {
				if b.minimum == len(b.should) && ok {
					continue // all of them match
				}
				return 0, false
			}
		}
	}
	total := 0.0
	for _, list := range [][]op{b.must, b.should} {
		for _, m := range list {
			score, ok := m.uniformScore()
			if !ok {
				return 0, false
			}
			total += score
		}
	}
	return total, true
}

func (b *boolOp) match(lo, hi int, out []uint64) {
	if len(b.required) > 0 {
		b.required[0].match(lo, hi, out)
	} else if b.minimum > 0 || b.ownMinimum {
		b.shouldMatch(lo, hi, out)
	} else {
		everyOp{}.match(lo, hi, out)
	}
	other := b.takeBits(len(out))
	defer b.giveBits(other)
	clip(lo, hi, out)
	for i := 1; i < len(b.required); i++ {
		if b.ended() || empty(out) {
			return
		}
		b.required[i].match(lo, hi, other)
		for w := range out {
			out[w] &= other[w]
		}
	}
	if len(b.required) > 0 && (b.minimum > 0 || b.ownMinimum) && !empty(out) {
		b.shouldMatch(lo, hi, other)
		for w := range out {
			out[w] &= other[w]
		}
	}
	for _, e := range b.excluded {
		if b.ended() || empty(out) {
			return
		}
		e.match(lo, hi, other)
		for w := range out {
			out[w] &^= other[w]
		}
	}
}

// shouldMatch sets the bits of the units that enough of should match.
func (b *boolOp) shouldMatch(lo, hi int, out []uint64) {
	if b.ownMinimum {
		b.ownMatch(lo, hi, out)
		return
	}
	if b.minimum > len(b.should) {
		clear(out)
		return
	}
	other := b.takeBits(len(out))
	defer b.giveBits(other)
	switch {
	case b.minimum == 1:
		b.should[0].match(lo, hi, out)
		for _, s := range b.should[1:] {
			if b.ended() {
				return
			}
			s.match(lo, hi, other)
			for w := range out {
				out[w] |= other[w]
			}
		}
	case b.minimum == len(b.should):
		b.should[0].match(lo, hi, out)
		for _, s := range b.should[1:] {
			if b.ended() {
				return
			}
			s.match(lo, hi, other)
			for w := range out {
				out[w] &= other[w]
			}
		}
	default:
		// Numbers of matches in bits, one slice a digit: a counter for each unit.
		digits := make([][]uint64, bits.Len(uint(len(b.should))))
		for i := range digits {
			digits[i] = b.takeBits(len(out))
			clear(digits[i])
			defer b.giveBits(digits[i])
		}
		for _, s := range b.should {
			if b.ended() {
				return
			}
			s.match(lo, hi, other)
			for w, carry := range other {
				for d := 0; carry != 0 && d < len(digits); d++ {
					digits[d][w], carry = digits[d][w]^carry, digits[d][w]&carry
				}
			}
		}
		for w := range out {
			more, equal := uint64(0), ^uint64(0)
			for d := len(digits) - 1; d >= 0; d-- {
				if b.minimum>>d&1 != 0 {
					equal &= digits[d][w]
				} else {
					more |= equal & digits[d][w]
					equal &^= digits[d][w]
				}
			}
			out[w] = more | equal
		}
	}
}

// ownMatch is shouldMatch with a minimum for each unit.
func (b *boolOp) ownMatch(lo, hi int, out []uint64) {
	clear(out)
	other := b.takeBits(len(out))
	defer b.giveBits(other)
	counts := make([]int64, 64*len(out))
	for _, s := range b.should {
		if b.ended() {
			return
		}
		s.match(lo, hi, other)
		clip(lo, hi, other)
		for w, word := range other {
			for ; word != 0; word &= word - 1 {
				counts[w<<6+bits.TrailingZeros64(word)]++
			}
		}
	}
	base := lo &^ 63
	for unit := lo; unit < hi; unit++ {
		n := counts[unit-base]
		if n == 0 {
			continue
		}
		if own := b.minimums.appendNumbers(nil, unit); len(own) == 1 && n >= own[0] {
			out[(unit-base)>>6] |= 1 << (unit & 63)
		}
	}
}

func (b *boolOp) score(lo, hi int, of []uint64, out []float64) {
	one := b.takeScores(len(of) * 64)
	defer b.giveScores(one)
	first := true
	add := func(of []uint64, all bool) {
		switch {
		case first && all:
			for w, word := range of {
				for ; word != 0; word &= word - 1 {
					i := w<<6 + bits.TrailingZeros64(word)
					out[i] = one[i]
				}
			}
		default:
			for w, word := range of {
				for ; word != 0; word &= word - 1 {
					i := w<<6 + bits.TrailingZeros64(word)
					out[i] += one[i]
				}
			}
		}
		first = false
	}
	for _, m := range b.must {
		if b.ended() {
			return
		}
		m.score(lo, hi, of, one)
		add(of, true)
	}
	if first {
		fill(of, out, 0)
		first = false
	}
	if len(b.should) == 0 {
		return
	}
	matching := b.takeBits(len(of))
	defer b.giveBits(matching)
	for i, s := range b.should {
		if b.ended() {
			return
		}
		if !b.withScore[i] {
			continue
		}
		s.match(lo, hi, matching)
		for w := range matching {
			matching[w] &= of[w]
		}
		if empty(matching) {
			continue
		}
		s.score(lo, hi, matching, one)
		add(matching, false)
	}
}

type disMaxOp struct {
	*buffers
	nodes []op
	tie   float64
}

func (d *disMaxOp) maxMatches() int { return sumMatches(d.nodes) }

func (d *disMaxOp) uniformScore() (float64, bool) {
	if len(d.nodes) == 1 {
		return d.nodes[0].uniformScore()
	}
	if len(d.nodes) == 0 || d.tie != 0 {
		return 0, false
	}
	first, ok := d.nodes[0].uniformScore()
	for _, n := range d.nodes[1:] {
		score, same := n.uniformScore()
		ok = ok && same && score == first
	}
	return first, ok
}

func (d *disMaxOp) match(lo, hi int, out []uint64) {
	clear(out)
	other := d.takeBits(len(out))
	defer d.giveBits(other)
	for _, n := range d.nodes {
		if d.ended() {
			return
		}
		n.match(lo, hi, other)
		for w := range out {
			out[w] |= other[w]
		}
	}
}

func (d *disMaxOp) score(lo, hi int, of []uint64, out []float64) {
	matching, one, sums := d.takeBits(len(of)), d.takeScores(len(of)*64), d.takeScores(len(of)*64)
	defer func() {
		d.giveBits(matching)
		d.giveScores(one)
		d.giveScores(sums)
	}()
	fill(of, out, 0)
	if d.tie != 0 {
		fill(of, sums, 0)
	}
	for _, n := range d.nodes {
		if d.ended() {
			return
		}
		n.match(lo, hi, matching)
		for w := range matching {
			matching[w] &= of[w]
		}
		if empty(matching) {
			continue
		}
		n.score(lo, hi, matching, one)
		for w, word := range matching {
			for ; word != 0; word &= word - 1 {
				i := w<<6 + bits.TrailingZeros64(word)
				if one[i] > out[i] {
					out[i] = one[i]
				}
				if d.tie != 0 {
					sums[i] += one[i]
				}
			}
		}
	}
	if d.tie == 0 {
		return
	}
	for w, word := range of {
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			if d.tie == 1 {
				out[i] = sums[i]
			} else {
				out[i] = out[i]*(1-d.tie) + d.tie*sums[i]
			}
		}
	}
}
