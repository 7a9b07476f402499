package postings

import (
	"math"
	"math/bits"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// op is a node as it is asked of the units of one part: its people, or the elements of a nested path. It works on the units
// from lo to before hi, at most a window of people and their elements; what it writes begins with that at lo rounded down to a multiple of
// 64, and says nothing of units before lo and from hi on.
type op interface {
	// match sets the bits of the units that match, and clears the others.
	match(lo, hi int, out []uint64)
	// score gives the units of, which match and are from lo to before hi, their scores.
	score(lo, hi int, of []uint64, out []float64)
	// always is the score of all that match, if they have the same.
	always() (float64, bool)
	// few is about how many units match at the most.
	few() int
}

// span is how many words of bits, and 64 times as many scores, the units from lo to before hi take.
func span(lo, hi int) int { return words(hi) - lo/64 }

func empty(list []uint64) bool {
	for _, w := range list {
		if w != 0 {
			return false
		}
	}
	return true
}

// clip clears the bits of units before lo and from hi on.
func clip(lo, hi int, list []uint64) {
	if len(list) == 0 {
		return
	}
	list[0] &^= 1<<(lo&63) - 1
	if rest := hi & 63; rest != 0 {
		list[len(list)-1] &= 1<<rest - 1
	}
}

func fill(lo, hi int, of []uint64, out []float64, value float64) {
	for w, word := range of {
		for ; word != 0; word &= word - 1 {
			out[w<<6+bits.TrailingZeros64(word)] = value
		}
	}
	_, _ = lo, hi
}

// constant is what the ops share that score all alike.
type constant float64

func (c constant) score(lo, hi int, of []uint64, out []float64) { fill(lo, hi, of, out, float64(c)) }
func (c constant) always() (float64, bool)                      { return float64(c), true }

// everyOp matches all units.
type everyOp struct {
	constant
	size int
}

func (e everyOp) match(_, _ int, out []uint64) {
	for i := range out {
		out[i] = ^uint64(0)
	}
}

func (e everyOp) few() int { return e.size }

// noneOp matches none.
type noneOp struct{ constant }

func (noneOp) match(_, _ int, out []uint64) { clear(out) }
func (noneOp) few() int                     { return 0 }

// leafOp matches the units of a list, all with one score.
type leafOp struct {
	constant
	*matched
}

func (l leafOp) few() int { return l.n }

func (m *matched) match(lo, hi int, out []uint64) {
	if m.bits != nil {
		copy(out, m.bits[lo>>6:])
		return
	}
	clear(out)
	begin, end := m.between(lo, hi)
	base := uint32(lo &^ 63) //nolint:gosec // a part has fewer rows
	for _, id := range m.ids[begin:end] {
		at := id - base
		out[at>>6] |= 1 << (at & 63)
	}
}

// textOp matches the units of a list and scores them by BM25.
type textOp struct {
	*matched
	norms  norms
	model  planner.BM25
	tables []*[256]float64 // scores of a frequency by norm, made when they are asked for
}

func newTextOp(m *matched, n norms, model planner.BM25) *textOp {
	return &textOp{matched: m, norms: n, model: model, tables: make([]*[256]float64, len(m.frequencies))}
}

func (t *textOp) few() int                { return t.n }
func (t *textOp) always() (float64, bool) { return 0, false }

func (t *textOp) table(code uint8) *[256]float64 {
	table := t.tables[code]
	if table == nil {
		table = new([256]float64)
		for norm, length := range lengths() {
			table[norm] = t.model.Score(t.frequencies[code], length)
		}
		t.tables[code] = table
	}
	return table
}

func (t *textOp) score(lo, hi int, of []uint64, out []float64) {
	base := lo &^ 63
	if t.codes == nil {
		table := t.table(0)
		for w, word := range of {
			for ; word != 0; word &= word - 1 {
				i := w<<6 + bits.TrailingZeros64(word)
				out[i] = table[t.norms[base+i]]
			}
		}
		return
	}
	if t.bits == nil {
		begin, end := t.between(lo, hi)
		for place := begin; place < end; place++ {
			i := int(t.ids[place]) - base
			if of[i>>6]>>(i&63)&1 != 0 {
				out[i] = t.table(t.codes[place])[t.norms[base+i]]
			}
		}
		return
	}
	place := t.rank(base)
	mine := t.bits[base>>6:]
	for w, word := range of {
		own := mine[w]
		for ; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			i := w<<6 + bit
			code := t.codes[place+bits.OnesCount64(own&(1<<bit-1))]
			table := t.tables[code]
			if table == nil {
				table = t.table(code)
			}
			out[i] = table[t.norms[base+i]]
		}
		place += bits.OnesCount64(own)
	}
}

// rangeOp matches the units with a number between two.
type rangeOp struct {
	constant
	values   numbers
	min, max int64
}

func (r rangeOp) few() int { return len(r.values) }

func (r rangeOp) match(lo, hi int, out []uint64) {
	base := lo &^ 63
	least, width := r.min, uint64(r.max)-uint64(r.min) //nolint:gosec // the difference is what counts
	for w := range out {
		var word uint64
		from := base + w<<6
		some := r.values[from:min(from+64, len(r.values))]
		for b, v := range some {
			var in uint64
			if uint64(v)-uint64(least) <= width { //nolint:gosec // see above
				in = 1
			}
			word |= in << (b & 63)
		}
		out[w] = word
	}
	_ = hi
}

// memberOp matches the units with a number of a set.
type memberOp struct {
	constant
	values numbers
	set    map[int64]bool
}

func (m memberOp) few() int { return len(m.values) }

func (m memberOp) match(lo, hi int, out []uint64) {
	clear(out)
	base := lo &^ 63
	for i := lo; i < hi; i++ {
		if m.set[m.values[i]] {
			out[(i-base)>>6] |= 1 << (i & 63)
		}
	}
}

// buffers are scratch space that is used again.
type buffers struct {
	bits   [][]uint64
	scores [][]float64
}

func (b *buffers) takeBits(n int) []uint64 {
	if last := len(b.bits) - 1; last >= 0 {
		list := b.bits[last]
		b.bits = b.bits[:last]
		if cap(list) >= n {
			return list[:n]
		}
	}
	return make([]uint64, n, max(n, window/64))
}

func (b *buffers) giveBits(list []uint64) {
	if cap(list) <= maxKeptScratch {
		b.bits = append(b.bits, list)
	}
}

// maxKeptScratch is the largest list that is kept for later.
const maxKeptScratch = 16 * window

func (b *buffers) takeScores(n int) []float64 {
	if last := len(b.scores) - 1; last >= 0 {
		list := b.scores[last]
		b.scores = b.scores[:last]
		if cap(list) >= n {
			return list[:n]
		}
	}
	return make([]float64, n, max(n, window))
}

func (b *buffers) giveScores(list []float64) {
	if cap(list) <= maxKeptScratch {
		b.scores = append(b.scores, list)
	}
}

// boostOp multiplies scores.
type boostOp struct {
	op
	factor float64
}

func (b boostOp) score(lo, hi int, of []uint64, out []float64) {
	b.op.score(lo, hi, of, out)
	for w, word := range of {
		for ; word != 0; word &= word - 1 {
			out[w<<6+bits.TrailingZeros64(word)] *= b.factor
		}
	}
}

func (b boostOp) always() (float64, bool) {
	score, ok := b.op.always()
	return b.factor * score, ok
}

// constantOp gives what matches a score of its own.
type constantOp struct {
	op
	constant
}

func (c constantOp) score(lo, hi int, of []uint64, out []float64) { c.constant.score(lo, hi, of, out) }
func (c constantOp) always() (float64, bool)                      { return c.constant.always() }

// boolOp is a Bool.
type boolOp struct {
	*buffers
	required  []op // must and filter, the rarest first
	excluded  []op
	must      []op // in the order in which scores are added
	should    []op
	minimum   int
	withScore []bool // of should: whether its scores are not 0
}

func (b *boolOp) few() int {
	n := math.MaxInt
	for _, r := range b.required {
		n = min(n, r.few())
	}
	if b.minimum > 0 {
		sum := 0
		for _, s := range b.should {
			sum += s.few()
		}
		n = min(n, sum)
	}
	return n
}

func (b *boolOp) always() (float64, bool) {
	if len(b.should) > 0 {
		for _, s := range b.should {
			if score, ok := s.always(); !ok || score != 0 {
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
			score, ok := m.always()
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
	} else if b.minimum > 0 {
		b.shouldMatch(lo, hi, out)
	} else {
		everyOp{}.match(lo, hi, out)
	}
	other := b.takeBits(len(out))
	defer b.giveBits(other)
	clip(lo, hi, out)
	for i := 1; i < len(b.required); i++ {
		if empty(out) {
			return
		}
		b.required[i].match(lo, hi, other)
		for w := range out {
			out[w] &= other[w]
		}
	}
	if len(b.required) > 0 && b.minimum > 0 && !empty(out) {
		b.shouldMatch(lo, hi, other)
		for w := range out {
			out[w] &= other[w]
		}
	}
	for _, e := range b.excluded {
		if empty(out) {
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
			s.match(lo, hi, other)
			for w := range out {
				out[w] |= other[w]
			}
		}
	case b.minimum == len(b.should):
		b.should[0].match(lo, hi, out)
		for _, s := range b.should[1:] {
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
		m.score(lo, hi, of, one)
		add(of, true)
	}
	if first {
		fill(lo, hi, of, out, 0)
		first = false
	}
	if len(b.should) == 0 {
		return
	}
	matching := b.takeBits(len(of))
	defer b.giveBits(matching)
	for i, s := range b.should {
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

// disMaxOp is a DisMax.
type disMaxOp struct {
	*buffers
	nodes []op
	tie   float64
}

func (d *disMaxOp) few() int {
	sum := 0
	for _, n := range d.nodes {
		sum += n.few()
	}
	return sum
}

func (d *disMaxOp) always() (float64, bool) {
	if len(d.nodes) == 1 {
		return d.nodes[0].always()
	}
	if len(d.nodes) == 0 || d.tie != 0 {
		return 0, false
	}
	first, ok := d.nodes[0].always()
	for _, n := range d.nodes[1:] {
		score, same := n.always()
		ok = ok && same && score == first
	}
	return first, ok
}

func (d *disMaxOp) match(lo, hi int, out []uint64) {
	clear(out)
	other := d.takeBits(len(out))
	defer d.giveBits(other)
	for _, n := range d.nodes {
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
	fill(lo, hi, of, out, 0)
	if d.tie != 0 {
		fill(lo, hi, of, sums, 0)
	}
	for _, n := range d.nodes {
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
		fill(lo, hi, of, out, 0)
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
