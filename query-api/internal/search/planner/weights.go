package planner

import "muster/query-api/internal/search/algebra"

// Weights are what the scores of a query are made of beside who matches.
type Weights struct{ c *compiler }

// NewWeights returns those of a query and the filters of its sort keys.
func NewWeights(stats *Stats, nodes ...algebra.Node) *Weights {
	return &Weights{scoring(stats, nodes...)}
}

// Term is the weight of a term, 0 when its score is 0, and the average length of its field.
func (w *Weights) Term(n algebra.Term) (weight, average float64) {
	return w.c.stats.term(n, w.c.blends[n.Statistics()])
}

// Phrase is the sum of the weights of a phrase's terms that somebody has, and the average length of its field.
func (w *Weights) Phrase(n algebra.Phrase) (weight, average float64) {
	average = 1
	for _, position := range n.Terms {
		for _, t := range position {
			if w.c.stats.Terms[termKey(n.Field, t)] == 0 {
				continue
			}
			one, a := w.c.stats.term(algebra.Term{Field: n.Field, Text: t}, nil)
			weight, average = weight+one, a
		}
	}
	return weight, average
}

// HadNobody says that nobody had a term when the first page was asked for.
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
func Wanted(n algebra.Node, stats *Stats) map[string]algebra.Term { return want(n, nil, stats).terms }

// Fallible says that a query may give scores that Lucene refuses: negative ones, or none.
func Fallible(n algebra.Node) bool { return fallible(n) }

// Neutral says that the functions leave the score as it is.
func Neutral(n algebra.Function) bool { return neutral(n) }
