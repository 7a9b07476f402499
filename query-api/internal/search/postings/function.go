package postings

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"math/bits"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

type functionOp struct {
	*buffers
	op
	node    algebra.Function
	neutral bool
	factors []factorOp
}

// factorOp is a Factor. A nil filter matches all.
type factorOp struct {
	algebra.Factor
	filter op
	column
	hashes []uint64 // of people, for random factors; nil for elements
}

func (f *functionOp) uniformScore() (float64, bool) {
	if f.neutral {
		return f.op.uniformScore()
	}
	return 0, false
}

func (f *functionOp) match(lo, hi int, out []uint64) {
	f.op.match(lo, hi, out)
	if f.node.MinScore == nil {
		return
	}
	clip(lo, hi, out)
	if empty(out) {
		return
	}
	scores := f.takeScores(len(out) * 64)
	defer f.giveScores(scores)
	f.score(lo, hi, out, scores)
	for w, word := range out {
		for ; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			if !(float32(scores[w<<6+bit]) >= float32(*f.node.MinScore)) { // NaN is not
				out[w] &^= 1 << bit
			}
		}
	}
}

func (f *functionOp) score(lo, hi int, of []uint64, out []float64) {
	f.op.score(lo, hi, of, out)
	if f.neutral {
		return
	}
	matching := make([][]uint64, len(f.factors))
	for i, factor := range f.factors {
		if factor.filter == nil {
			continue
		}
		matching[i] = f.takeBits(len(of))
		defer f.giveBits(matching[i])
		factor.filter.match(lo, hi, matching[i])
	}
	base := lo &^ 63
	for w, word := range of {
		for ; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			i := w<<6 + bit
			out[i] = f.combine(base+i, out[i], func(factor int) bool {
				return matching[factor] == nil || matching[factor][w]>>bit&1 != 0
			})
		}
	}
}

// combine returns the score of a unit with the given base score and the factors that apply (planner:
// compiler.function).
func (f *functionOp) combine(unit int, base float64, counts func(factor int) bool) float64 {
	n := &f.node
	any, invalid := false, false
	sum, product, weights, first := 0.0, 1.0, 0.0, 1.0
	least, greatest := math.Inf(1), math.Inf(-1)
	for i := range f.factors {
		factor := &f.factors[i]
		if !counts(i) {
			continue
		}
		weighing := n.ScoreMode != algebra.ScoreSum || factor.Weight != 0
		value := factor.value(unit)
		if (factor.Kind == algebra.FactorField || factor.Kind == algebra.FactorDecay) && math.IsNaN(value) &&
			(n.ScoreMode != algebra.ScoreFirst || !any) {
			invalid = true
		}
		if !weighing {
			continue
		}
		if !any {
			first = value
		}
		any = true
		sum, product, weights = sum+value, product*value, weights+factor.Weight
		least, greatest = min(least, value), max(greatest, value)
		if n.ScoreMode == algebra.ScoreFirst {
			break
		}
	}
	joined := 1.0
	if any {
		switch n.ScoreMode {
		case algebra.ScoreMultiply:
			joined = product
		case algebra.ScoreSum:
			joined = sum
		case algebra.ScoreMax:
			joined = greatest
		case algebra.ScoreMin:
			joined = least
		case algebra.ScoreAvg:
			if weights > 0 {
				joined = sum / weights
			}
		default:
			joined = first
		}
	}
	if invalid {
		return math.NaN()
	}
	joined = min(joined, n.MaxBoost)
	switch n.BoostMode {
	case algebra.ScoreReplace:
		return joined
	case algebra.ScoreSum:
		return base + joined
	case algebra.ScoreAvg:
		return (base + joined) / 2
	case algebra.ScoreMin:
		return min(base, joined)
	case algebra.ScoreMax:
		return max(base, joined)
	}
	return base * joined
}

// value returns the weighted value of a factor for a unit.
func (f *factorOp) value(unit int) float64 {
	switch f.Kind {
	case algebra.FactorField:
		x := math.NaN() // the score is invalid then
		switch v := f.least(unit); {
		case v != readmodel.SearchMissing:
			x = float64(v)
		case f.Missing != nil:
			x = *f.Missing
		}
		x = modified(f.Modifier, f.Multiplier*x)
		if !(x >= 0) {
			return math.NaN()
		}
		return f.Weight * x
	case algebra.FactorDecay:
		return f.Weight * f.decay(f.distance(unit))
	case algebra.FactorRandom:
		return f.Weight * f.random(unit)
	}
	return f.Weight
}

// modified applies the modifier of field_value_factor.
func modified(modifier string, x float64) float64 {
	switch modifier {
	case "log":
		return math.Log10(x)
	case "log1p":
		return math.Log10(x + 1)
	case "log2p":
		return math.Log10(x + 2)
	case "ln":
		return math.Log(x)
	case "ln1p":
		return math.Log1p(x)
	case "ln2p":
		return math.Log1p(x + 1)
	case "square":
		return x * x
	case "sqrt":
		return math.Sqrt(x)
	case "reciprocal":
		return 1 / x
	}
	return x
}

// distance returns the distance of a unit's values from the origin, 0 if it has none.
func (f *factorOp) distance(unit int) float64 {
	one := func(v int64) float64 { return max(0, math.Abs(float64(v)-f.Origin)-f.Offset) }
	if f.elements == nil {
		if v := f.numbers[unit]; v != readmodel.SearchMissing {
			return one(v)
		}
		return 0
	}
	var list []float64
	for _, v := range f.appendNumbers(nil, unit) {
		list = append(list, one(v))
	}
	if len(list) == 0 {
		return 0
	}
	return aggregate(f.MultiValue, list)
}

// random returns a number in [0, 1) that depends on the seed and on the person or, with a single-valued field, on its
// value. Elements have no identity: all get the same number.
func (f *factorOp) random(unit int) float64 {
	if f.hashes == nil {
		return 0.5
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(f.Seed)) //nolint:gosec // its bits
	h := fnv.New64a()
	_, _ = h.Write(b[:8])
	switch {
	case f.values == nil:
		binary.LittleEndian.PutUint64(b[8:], f.hashes[unit])
		_, _ = h.Write(b[8:])
	case f.texts != nil:
		_, _ = io.WriteString(h, f.texts[unit])
	default:
		binary.LittleEndian.PutUint64(b[8:], uint64(f.numbers[unit])) //nolint:gosec // its bits
		_, _ = h.Write(b[8:])
	}
	// its last bits depend on the last byte alone: mix them (MurmurHash3, fmix64)
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return float64((x^x>>33)>>40) / (1 << 24)
}

// decay returns the value of a decay function at the distance of a unit.
func (f *factorOp) decay(d float64) float64 {
	switch f.Shape {
	case "gauss":
		return math.Exp(math.Log(f.Decay) / (f.Scale * f.Scale) * d * d)
	case "exp":
		return math.Exp(math.Log(f.Decay) / f.Scale * d)
	}
	limit := f.Scale / (1 - f.Decay)
	return max(0, (limit-d)/limit)
}
