package planner

import (
	"math"
	"slices"

	"muster/query-api/internal/search/algebra"
)

// BM25 with the parameters of Elasticsearch (rulings.md, Search).
const (
	k1 = 1.2
	b  = 0.75
)

// Weights are the weights of a query's terms.
type Weights struct {
	stats  *Stats
	blends map[int][]algebra.Term // the terms of each blend of the query
}

// NewWeights returns the weights of a query and the filters of its sort keys.
func NewWeights(stats *Stats, nodes ...algebra.Node) *Weights {
	w := &Weights{stats: stats, blends: make(map[int][]algebra.Term)}
	for _, n := range nodes {
		algebra.Walk(n, func(n algebra.Node) {
			if t, ok := n.(algebra.Term); ok && t.Blend != 0 {
				w.blends[t.Blend] = append(w.blends[t.Blend], t)
			}
		})
	}
	return w
}

// Term returns the weight of a term, 0 if its score is 0, and the average length of its field.
func (w *Weights) Term(n algebra.Term) (weight, average float64) {
	return w.stats.term(n, w.blends[n.Statistics()])
}

// Phrase returns the sum of the weights of a phrase's terms that occur, and the average length of its field.
func (w *Weights) Phrase(n algebra.Phrase) (weight, average float64) {
	average = 1
	for _, position := range n.Terms {
		for _, t := range position {
			if w.stats.Terms[termKey(n.Field, t)] == 0 {
				continue
			}
			one, a := w.stats.term(algebra.Term{Field: n.Field, Text: t}, nil)
			weight, average = weight+one, a
		}
	}
	return weight, average
}

// Combined returns the weight of a term over several texts, 0 if its score is 0, and the average of their total length.
func (w *Weights) Combined(n algebra.Combined) (weight, average float64) {
	var df, documents int64
	terms := 0.0
	for i, f := range n.Fields {
		field := w.stats.Fields[f.Name()]
		df = max(df, w.stats.Terms[termKey(f, n.Text)], 1)
		documents = max(documents, field.Documents)
		terms += math.Floor(n.Weights[i] * float64(field.Terms)) // Lucene adds up whole numbers.
	}
	if documents == 0 {
		return 0, 1
	}
	return idf(float64(df), float64(documents)), float64(float32(terms / float64(documents)))
}

// idf returns the inverse document frequency of a term that df of n documents have.
func idf(df, n float64) float64 {
	n = max(n, df)
	return math.Log(1 + (n-df+0.5)/(df+0.5))
}

// WasAbsent reports whether a term had no documents at the time of the first page.
func (s *Stats) WasAbsent(f algebra.Field, text string) bool { return s.absent(f, text) }

// BM25 computes a score from a frequency and a length: Weight / (1 + (Fixed + Slope * length) / frequency).
type BM25 struct{ Weight, Fixed, Slope float64 }

// NewBM25 returns the BM25 of a term or phrase with a weight, in a field with an average length.
func NewBM25(weight, average float64) BM25 {
	return BM25{Weight: weight * (k1 + 1), Fixed: k1 * (1 - b), Slope: k1 * b / average}
}

// Score returns the score of a frequency in a text with a length, as norms encode it.
func (m BM25) Score(frequency, length float64) float64 {
	return m.Weight / (1 + (m.Fixed+m.Slope*length)/frequency)
}

// WholeScore returns the score of a keyword, which has neither frequency nor length.
func WholeScore(weight, average float64) float64 { return weight * (k1 + 1) / (1 + k1*(1-b+b/average)) }

// Wanted returns the terms whose counts the scores of a query need, by their keys in Stats.
func Wanted(n algebra.Node, filters []algebra.Node, stats *Stats) map[string]algebra.Term {
	return want(n, filters, stats).terms
}

// Fallible reports whether a query may give scores that Lucene rejects: negative ones and NaN, which only functions
// return.
func Fallible(n algebra.Node) bool {
	found := false
	algebra.Walk(n, func(n algebra.Node) {
		f, ok := n.(algebra.Function)
		found = found || ok && !Neutral(f)
	})
	return found
}

// Neutral reports whether the functions leave the score unchanged.
func Neutral(n algebra.Function) bool {
	return n.ScoreMode != algebra.ScoreSum && n.BoostMode == algebra.ScoreMultiply && n.MaxBoost >= 1 &&
		!slices.ContainsFunc(n.Functions, func(f algebra.Factor) bool {
			return f.Kind != algebra.FactorWeight ||
				f.Weight != 1
		}) ||
		len(n.Functions) == 0
}

// blendAcross returns the document frequencies of one word over several fields, as cross_fields does: each is the
// highest one, with small differences that keep the fields' order by frequency, and at most the number of words of the
// smallest field with the word.
func blendAcross(df []int64, words []int64) []int64 {
	out := make([]int64, len(df))
	most, fewest := int64(0), int64(math.MaxInt64)
	for i := range df {
		most = max(most, df[i])
		if df[i] > 0 {
			fewest = min(fewest, words[i])
		}
	}
	if most == 0 {
		return out
	}
	order := make([]int, len(df))
	for i := range order {
		order[i] = i
	}
	stableByFrequency(order, df)
	actual, previous := min(fewest, most), df[order[0]]
	for _, i := range order {
		if df[i] == 0 {
			break
		}
		if previous > df[i] {
			actual++
		}
		out[i] = min(fewest, actual)
		previous = df[i]
	}
	return out
}
