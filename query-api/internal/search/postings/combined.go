package postings

import (
	"math"
	"math/bits"

	"muster/query-api/internal/search/planner"
)

// combinedOp is BM25F over several texts, as if they were one text in which each is repeated by its weight.
type combinedOp struct {
	*buffers
	fields []combinedField
	model  planner.BM25
}

// combinedField is one of the texts. matched is nil if the term does not occur in it.
type combinedField struct {
	*matched
	norms  norms
	weight float64
}

func (c *combinedOp) uniformScore() (float64, bool) { return 0, false }

func (c *combinedOp) maxMatches() int {
	sum := 0
	for _, f := range c.fields {
		if f.matched != nil {
			sum += f.n
		}
	}
	return sum
}

func (c *combinedOp) match(lo, hi int, out []uint64) {
	clear(out)
	other := c.takeBits(len(out))
	defer c.giveBits(other)
	for _, f := range c.fields {
		if f.matched == nil {
			continue
		}
		f.match(lo, hi, other)
		for w := range out {
			out[w] |= other[w]
		}
	}
}

func (c *combinedOp) score(lo, _ int, of []uint64, out []float64) {
	base, lengthOf := lo&^63, lengths()
	for w, word := range of {
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			frequency, length := 0.0, 0.0
			for _, f := range c.fields {
				length += f.weight * lengthOf[f.norms[base+i]]
				if f.matched != nil {
					frequency += f.weight * f.frequencyOf(base+i)
				}
			}
			length = min(math.Floor(length+0.5), math.MaxInt32)
			out[i] = c.model.Score(frequency, lengthOf[normOf(uint32(length))])
		}
	}
}
