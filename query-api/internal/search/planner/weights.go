package planner

import (
	"math"
	"slices"

	"muster/query-api/internal/search/algebra"
)

// BM25 as Elasticsearch has it (rulings.md, Search).
const (
	k1 = 1.2
	b  = 0.75
)

// Weights are what the scores of a query are made of beside who matches.
type Weights struct {
	stats  *Stats
	blends map[int][]algebra.Term // the terms of each blend of the query
}

// NewWeights returns those of a query and the filters of its sort keys.
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

// Term is the weight of a term, 0 when its score is 0, and the average length of its field.
func (w *Weights) Term(n algebra.Term) (weight, average float64) {
	return w.stats.term(n, w.blends[n.Statistics()])
}

// Phrase is the sum of the weights of a phrase's terms that a doc has, and the average length of its field.
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

// Combined is the weight of a term over several texts, 0 if its score is 0, and their average length together.
func (w *Weights) Combined(n algebra.Combined) (weight, average float64) {
	var df, documents int64
	terms := 0.0
	for i, f := range n.Fields {
		field := w.stats.Fields[f.Name()]
		df = max(df, w.stats.Terms[termKey(f, n.Text)], 1)
		documents = max(documents, field.Documents)
		terms += n.Weights[i] * float64(field.Terms)
	}
	if documents == 0 {
		return 0, 1
	}
	return idf(float64(df), float64(documents)), float64(float32(terms / float64(documents)))
}

// idf is the weight of a term that df of n documents have.
func idf(df, n float64) float64 {
	n = max(n, df)
	return math.Log(1 + (n-df+0.5)/(df+0.5))
}

// HadNobody reports whether no doc had a term when the first page was asked for.
func (s *Stats) HadNobody(f algebra.Field, text string) bool { return s.absent(f, text) }

// BM25 is what makes a score of a frequency and a length: Weight / (1 + (Fixed + Slope * length) / frequency).
type BM25 struct{ Weight, Fixed, Slope float64 }

// NewBM25 returns that of a term or phrase of a weight, in a field with texts of an average length.
func NewBM25(weight, average float64) BM25 {
	return BM25{Weight: weight * (k1 + 1), Fixed: k1 * (1 - b), Slope: k1 * b / average}
}

// Score is that of a frequency in a text of a length, as norms keep it.
func (m BM25) Score(frequency, length float64) float64 {
	return m.Weight / (1 + (m.Fixed+m.Slope*length)/frequency)
}

// WholeScore is the score of a whole value, which has neither frequency nor length.
func WholeScore(weight, average float64) float64 { return weight * (k1 + 1) / (1 + k1*(1-b+b/average)) }

// Wanted are the terms whose counts the scores of a query need, by their keys in Stats.
func Wanted(n algebra.Node, filters []algebra.Node, stats *Stats) map[string]algebra.Term {
	return want(n, filters, stats).terms
}

// Fallible says that a query may give scores that Lucene refuses: those that are negative or no numbers, which only
// functions make.
func Fallible(n algebra.Node) bool {
	found := false
	algebra.Walk(n, func(n algebra.Node) {
		f, ok := n.(algebra.Function)
		found = found || ok && !Neutral(f)
	})
	return found
}

// Neutral says that the functions leave the score as it is.
func Neutral(n algebra.Function) bool {
	return n.ScoreMode != algebra.ScoreSum && n.BoostMode == algebra.ScoreMultiply && n.MaxBoost >= 1 &&
		!slices.ContainsFunc(n.Functions, func(f algebra.Factor) bool { return f.Kind != algebra.FactorWeight || f.Weight != 1 }) ||
		len(n.Functions) == 0
}

// blendAcross are the document frequencies of one word over several fields, as
// cross_fields counts them: all as frequent as the most frequent, with a little
// for the order of the fields by frequency, and no more than the smallest field
// that has the word has words.
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
