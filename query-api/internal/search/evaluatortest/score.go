package evaluatortest

import (
	"math"
	"math/bits"
	"slices"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/sloppyphrase"
)

// bm25 returns the score of a term or phrase by its frequency and the length of the text (rulings.md, Search).
func bm25(weight, frequency, length, average float64) float64 {
	return 2.2 * weight * frequency / (frequency + 1.2*(0.25+0.75*length/average))
}

// idf returns the weight of a term that df of n units have.
func idf(df, n int) float64 {
	return math.Log1p((float64(max(n, df)) - float64(df) + 0.5) / (float64(df) + 0.5))
}

func (s *fieldStats) average() float64 {
	return float64(float32(float64(s.terms) / float64(max(s.units, 1))))
}

// norm returns a length as an index stores it in a byte (Lucene's SmallFloat).
func norm(length int) float64 {
	const exact = 24
	if length < exact {
		return float64(length)
	}
	i := uint64(length - exact)
	shift := max(0, bits.Len64(i)-4)
	return float64(exact + i>>shift<<shift)
}

func (e *evaluation) term(n algebra.Term, p place) (float64, bool) {
	if n.Absent {
		return 0, false
	}
	frequency := 0
	for _, t := range p.terms(n.Field) {
		if t == n.Text {
			frequency++
		}
	}
	if frequency == 0 {
		return 0, false
	}
	stats := e.field(n.Field)
	df := stats.frequency[n.Text]
	if n.Statistics() != 0 {
		df = e.blended(n)
		if n.Across {
			df = min(df, stats.units)
		}
	}
	weight := idf(df, stats.units)
	if !n.Field.IsText() {
		return bm25(weight, 1, 1, stats.average()), true // without frequencies and lengths
	}
	return bm25(weight, float64(frequency), norm(len(p.terms(n.Field))), stats.average()), true
}

// blended returns the document frequency of a term in its blend.
func (e *evaluation) blended(n algebra.Term) int {
	var list []algebra.Term
	for _, t := range e.blends[n.Statistics()] {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	df := func(t algebra.Term) int { return e.field(t.Field).frequency[t.Text] }
	most := 0
	for _, t := range list {
		most = max(most, df(t))
	}
	if !n.Across || len(e.blends[n.Statistics()]) < 2 {
		return most
	}
	// Across fields: one more for each step down in frequency, so that a word scores slightly less in fields where it
	// is frequent.
	slices.SortStableFunc(list, func(a, b algebra.Term) int { return df(b) - df(a) })
	smallest := math.MaxInt
	for _, t := range list {
		if df(t) > 0 {
			smallest = min(smallest, e.field(t.Field).terms)
		}
	}
	actual, previous := min(most, smallest), df(list[0])
	for _, t := range list {
		if df(t) == 0 {
			break
		}
		if df(t) < previous {
			actual++
		}
		previous = df(t)
		if t.Field == n.Field && t.Text == n.Text {
			return min(actual, smallest)
		}
	}
	return 0
}

func (e *evaluation) phrase(n algebra.Phrase, p place) (float64, bool) {
	stats := e.field(n.Field)
	var terms []sloppyphrase.Term
	weight := 0.0
	for i, position := range n.Terms {
		if len(position) == 0 {
			continue
		}
		t := sloppyphrase.Term{Offset: i, Words: position}
		for _, token := range p.content(n.Field).tokens {
			if slices.Contains(position, token.Text) {
				t.Positions = append(t.Positions, token.Position)
			}
		}
		terms = append(terms, t)
		for _, w := range position {
			if df := stats.frequency[w]; df > 0 {
				weight += idf(df, stats.units)
			}
		}
	}
	frequency := 0.0
	switch {
	case len(terms) == 0:
	case n.Slop > 0 && len(terms) > 1:
		frequency = sloppyphrase.Frequency(terms, n.Slop)
	default:
		for _, first := range terms[0].Positions {
			together := !slices.ContainsFunc(terms, func(t sloppyphrase.Term) bool {
				return !slices.Contains(t.Positions, first+t.Offset-terms[0].Offset)
			})
			if together {
				frequency++
			}
		}
	}
	if frequency == 0 {
		return 0, false
	}
	return bm25(weight, frequency, norm(len(p.content(n.Field).tokens)), stats.average()), true
}

// combined scores a word as if the fields were one, each repeated by its weight.
func (e *evaluation) combined(n algebra.Combined, p place) (float64, bool) {
	df, units := 0, 0
	terms, frequency, length := 0.0, 0.0, 0.0
	for i, f := range n.Fields {
		stats := e.field(f)
		df, units = max(df, stats.frequency[n.Text]), max(units, stats.units)
		terms += math.Floor(n.Weights[i] * float64(stats.terms))
		if n.Absent(f) {
			continue
		}
		tokens := p.terms(f)
		length += n.Weights[i] * norm(len(tokens))
		for _, t := range tokens {
			if t == n.Text {
				frequency += n.Weights[i]
			}
		}
	}
	if frequency == 0 {
		return 0, false
	}
	return bm25(idf(df, units), frequency, norm(int(math.Floor(length+0.5))),
		float64(float32(terms/float64(units)))), true
}

// function returns the changed score of a node.
func (e *evaluation) function(n algebra.Function, p place) (float64, bool) {
	score, ok := e.matches(n.Node, p)
	if !ok {
		return 0, false
	}
	if len(n.Functions) > 0 {
		factor := min(e.factors(n, p), n.MaxBoost)
		switch n.BoostMode {
		case algebra.ScoreReplace:
			score = factor
		case algebra.ScoreSum:
			score += factor
		case algebra.ScoreAvg:
			score = (score + factor) / 2
		case algebra.ScoreMin:
			score = min(score, factor)
		case algebra.ScoreMax:
			score = max(score, factor)
		default:
			score *= factor
		}
	}
	return score, n.MinScore == nil || float32(score) >= float32(*n.MinScore)
}

// factors combines the functions that apply at a place.
func (e *evaluation) factors(n algebra.Function, p place) float64 {
	var values []float64
	sum, product, weights := 0.0, 1.0, 0.0
	for _, f := range n.Functions {
		if f.Filter != nil {
			if _, ok := e.matches(f.Filter, p); !ok {
				continue
			}
		}
		v := f.Weight * value(f, p)
		values = append(values, v)
		sum, product, weights = sum+v, product*v, weights+f.Weight
	}
	if len(values) == 0 {
		return 1
	}
	switch n.ScoreMode {
	case algebra.ScoreSum:
		if weights == 0 {
			return 1
		}
		return sum
	case algebra.ScoreMultiply:
		return product
	case algebra.ScoreMax:
		return slices.Max(values)
	case algebra.ScoreMin:
		return slices.Min(values)
	case algebra.ScoreAvg:
		if weights == 0 {
			return 1
		}
		return sum / weights
	}
	return values[0]
}

// value returns the value of a function without its weight. Random functions are unsupported.
func value(f algebra.Factor, p place) float64 {
	numbers := p.content(f.Field).numbers
	switch f.Kind {
	case algebra.FactorField:
		x := 1.0
		switch {
		case len(numbers) > 0:
			x = float64(slices.Min(numbers))
		case f.Missing != nil:
			x = *f.Missing
		}
		return modified(f.Modifier, x*f.Multiplier)
	case algebra.FactorDecay:
		return decay(f, numbers)
	}
	return 1
}

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
		return math.Log(x + 1)
	case "ln2p":
		return math.Log(x + 2)
	case "square":
		return x * x
	case "sqrt":
		return math.Sqrt(x)
	case "reciprocal":
		return 1 / x
	}
	return x
}

func decay(f algebra.Factor, numbers []int64) float64 {
	var distances []float64
	sum := 0.0
	for _, n := range numbers {
		d := max(0, math.Abs(float64(n)-f.Origin)-f.Offset)
		distances = append(distances, d)
		sum += d
	}
	d := 0.0
	if len(distances) > 0 {
		switch f.MultiValue {
		case algebra.ScoreMax:
			d = slices.Max(distances)
		case algebra.ScoreSum:
			d = sum
		case algebra.ScoreAvg:
			d = sum / float64(len(distances))
		case algebra.ScoreMedian:
			slices.Sort(distances)
			d = (distances[(len(distances)-1)/2] + distances[len(distances)/2]) / 2
		default:
			d = slices.Min(distances)
		}
	}
	switch f.Shape {
	case "gauss":
		return math.Pow(f.Decay, d*d/(f.Scale*f.Scale))
	case "exp":
		return math.Pow(f.Decay, d/f.Scale)
	}
	return max(0, 1-d*(1-f.Decay)/f.Scale)
}
