package postings

import (
	"context"
	"math/bits"
	"runtime"

	"muster/query-api/internal/search/planner"
)

// op evaluates a node on the units of one part: its people, or the elements of a nested path. A call covers the units
// from lo to before hi, at most a window of people and their elements. Its output begins at lo rounded down to a
// multiple of 64, and is undefined for units before lo and from hi on.
type op interface {
	// match sets the bits of the units that match, and clears the others.
	match(lo, hi int, out []uint64)
	// score sets the scores of the units in of, which match and are from lo to before hi.
	score(lo, hi int, of []uint64, out []float64)
	// uniformScore returns the score of all that match, if it is the same.
	uniformScore() (float64, bool)
	// maxMatches returns an approximate upper bound of the number of matching units.
	maxMatches() int
}

// span returns the number of words of bits, and 64 times as many scores, of the units from lo to before hi.
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

func fill(of []uint64, out []float64, value float64) {
	for w, word := range of {
		for ; word != 0; word &= word - 1 {
			out[w<<6+bits.TrailingZeros64(word)] = value
		}
	}
}

// constant is the common part of ops that score all alike.
type constant float64

func (c constant) score(_, _ int, of []uint64, out []float64) { fill(of, out, float64(c)) }
func (c constant) uniformScore() (float64, bool)              { return float64(c), true }

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

func (e everyOp) maxMatches() int { return e.size }

// noneOp matches none.
type noneOp struct{ constant }

func (noneOp) match(_, _ int, out []uint64) { clear(out) }
func (noneOp) maxMatches() int              { return 0 }

// leafOp matches the units of a posting list with one score.
type leafOp struct {
	constant
	*matched
}

func (l leafOp) maxMatches() int { return l.n }

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

// textOp matches the units of a posting list and scores them by BM25.
type textOp struct {
	*matched
	norms  norms
	model  planner.BM25
	tables []*[256]float64 // scores of a frequency by norm, computed on first use
}

func newTextOp(m *matched, n norms, model planner.BM25) *textOp {
	return &textOp{matched: m, norms: n, model: model, tables: make([]*[256]float64, len(m.frequencies))}
}

func (t *textOp) maxMatches() int               { return t.n }
func (t *textOp) uniformScore() (float64, bool) { return 0, false }

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
	if t.exact != nil {
		lengthOf := lengths()
		for w, word := range of {
			for ; word != 0; word &= word - 1 {
				i := w<<6 + bits.TrailingZeros64(word)
				out[i] = t.model.Score(t.frequencyOf(base+i), lengthOf[t.norms[base+i]])
			}
		}
		return
	}
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

// rangeOp matches the units with a number in a range.
type rangeOp struct {
	constant
	values   []int64
	min, max int64
}

func (r rangeOp) maxMatches() int { return len(r.values) }

func (r rangeOp) match(lo, _ int, out []uint64) {
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
}

// memberOp matches the units with a number in a set.
type memberOp struct {
	constant
	values []int64
	set    map[int64]bool
}

func (m memberOp) maxMatches() int { return len(m.values) }

func (m memberOp) match(lo, hi int, out []uint64) {
	clear(out)
	base := lo &^ 63
	for i := lo; i < hi; i++ {
		if m.set[m.values[i]] {
			out[(i-base)>>6] |= 1 << (i & 63)
		}
	}
}

// pace lets long work check at intervals whether its context has ended, and yield the processor to cheaper queries.
type pace struct {
	ctx      context.Context
	yielding bool
	steps    int
	over     bool
}

// checkInterval is the number of steps between two checks.
const checkInterval = 64

// ended counts a step and reports whether ctx has ended. Results are invalid from then on.
func (p *pace) ended() bool {
	if p.steps++; p.steps%checkInterval == 0 {
		if p.yielding {
			runtime.Gosched()
		}
		p.over = p.over || p.ctx.Err() != nil
	}
	return p.over
}

// buffers are reusable scratch space, with the pace of their user.
type buffers struct {
	pace
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

// maxKeptScratch is the size of the largest list that is reused.
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

func (b boostOp) uniformScore() (float64, bool) {
	score, ok := b.op.uniformScore()
	return b.factor * score, ok
}

// constantOp gives all that match the same score.
type constantOp struct {
	op
	constant
}

func (c constantOp) score(lo, hi int, of []uint64, out []float64) { c.constant.score(lo, hi, of, out) }
func (c constantOp) uniformScore() (float64, bool)                { return c.constant.uniformScore() }
