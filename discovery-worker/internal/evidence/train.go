package evidence

import (
	"cmp"
	"math"
	"slices"
)

// Group is one training example: the candidates of a platform, and which of them is right.
type Group struct {
	Candidates [][]Comparison
	Truth      int     // index, -1 if none is right
	Prior      float64 // bits of the population, of each candidate
}

// term is a comparison level as a parameter.
type term struct{ field, level string }

// Train fits a model to groups. Weights start as Fellegi-Sunter weights, counted from the groups,
// and are then adjusted by maximum likelihood: fields that repeat each other, such as a name and a
// username derived from it, must not count twice. The calibration is the identity.
func Train(groups []Group, version string) *Model {
	terms, weights := countWeights(groups)
	theta := slices.Clone(weights)
	prior := 0.0
	index := make(map[term]int, len(terms))
	for i, t := range terms {
		index[t] = i
	}
	coded := make([][]codedCandidate, len(groups))
	for g, group := range groups {
		for _, findings := range group.Candidates {
			row := codedCandidate{known: group.Prior * math.Ln2}
			for _, f := range findings {
				row.known += f.Bits * math.Ln2
				if f.Field != FieldRarity {
					row.terms = append(row.terms, index[term{f.Field, f.Level}])
				}
			}
			coded[g] = append(coded[g], row)
		}
	}
	theta, prior = fitWeights(groups, coded, theta, prior)
	m := &Model{Version: version, Prior: round3(prior / math.Ln2), Weights: make(map[string]map[string]float64),
		Calibration: []Point{{0, 0}, {1, 1}}}
	for i, t := range terms {
		if m.Weights[t.field] == nil {
			m.Weights[t.field] = make(map[string]float64)
		}
		m.Weights[t.field][t.level] = round3(theta[i] / math.Ln2)
	}
	return m
}

// codedCandidate is a candidate with the indices of its terms. known is what the population says,
// to base e: prior and rarity are not fitted.
type codedCandidate struct {
	known float64
	terms []int
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// countWeights returns the terms of the groups and their weights by counting, to base e: how much
// more often a level occurs for the right candidate than for others.
func countWeights(groups []Group) ([]term, []float64) {
	type count struct{ same, other float64 }
	counts := make(map[term]*count)
	levels := make(map[string]float64)
	var same, other float64
	for _, g := range groups {
		for i, comparisons := range g.Candidates {
			if i == g.Truth {
				same++
			} else {
				other++
			}
			for _, f := range comparisons {
				if f.Field == FieldRarity {
					continue
				}
				t := term{f.Field, f.Level}
				if counts[t] == nil {
					counts[t] = &count{}
					levels[f.Field]++
				}
				if i == g.Truth {
					counts[t].same++
				} else {
					counts[t].other++
				}
			}
		}
	}
	terms := make([]term, 0, len(counts))
	for t := range counts {
		terms = append(terms, t)
	}
	slices.SortFunc(terms, func(a, b term) int {
		return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.level, b.level))
	})
	weights := make([]float64, len(terms))
	for i, t := range terms {
		c, n := counts[t], levels[t.field]
		weights[i] = math.Log((c.same + 0.5) / (same + 0.5*n) / ((c.other + 0.5) / (other + 0.5*n)))
	}
	return terms, weights
}

// fitWeights maximizes the likelihood of the right answers, including none, with a quadratic
// penalty on the distance from half the counted weights.
func fitWeights(groups []Group, coded [][]codedCandidate, theta []float64,
	prior float64) (weights []float64, intercept float64) {
	const (
		rounds = 400
		step   = 0.05
		pull   = 0.02
		decay1 = 0.9
		decay2 = 0.999
	)
	start := slices.Clone(theta)
	n := len(theta)
	theta = append(theta, prior) // the intercept is the last one
	first, second := make([]float64, n+1), make([]float64, n+1)
	for round := 1; round <= rounds; round++ {
		gradient := make([]float64, n+1)
		for g, group := range groups {
			scores := make([]float64, len(coded[g]))
			top := 0.0 // the score of no match
			for i, row := range coded[g] {
				scores[i] = theta[n] + row.known
				for _, k := range row.terms {
					scores[i] += theta[k]
				}
				top = max(top, scores[i])
			}
			total := math.Exp(-top)
			for _, s := range scores {
				total += math.Exp(s - top)
			}
			for i, row := range coded[g] {
				miss := -math.Exp(scores[i]-top) / total
				if i == group.Truth {
					miss++
				}
				for _, k := range row.terms {
					gradient[k] += miss
				}
				gradient[n] += miss
			}
		}
		for k := range gradient {
			slope := gradient[k]
			if k < n {
				slope -= pull * 20 * (theta[k] - start[k]/2)
			}
			first[k] = decay1*first[k] + (1-decay1)*slope
			second[k] = decay2*second[k] + (1-decay2)*slope*slope
			mean := first[k] / (1 - math.Pow(decay1, float64(round)))
			variance := second[k] / (1 - math.Pow(decay2, float64(round)))
			theta[k] += step * mean / (math.Sqrt(variance) + 1e-8)
		}
	}
	return theta[:n], theta[n]
}

// Outcome is a raw probability and whether it was right.
type Outcome struct {
	Raw   float64
	Right bool
}

// Outcomes returns the raw probability of the best candidate of each group, and whether it is right.
func (m *Model) Outcomes(groups []Group) []Outcome {
	var out []Outcome
	for _, g := range groups {
		best, total := -1, 1.0
		odds := make([]float64, len(g.Candidates))
		for i, comparisons := range g.Candidates {
			score := m.Prior + g.Prior
			for _, c := range comparisons {
				score += m.MatchWeight(c)
			}
			odds[i] = math.Exp2(min(score, 60))
			total += odds[i]
			if best < 0 || odds[i] > odds[best] {
				best = i
			}
		}
		if best >= 0 {
			out = append(out, Outcome{odds[best] / total, best == g.Truth})
		}
	}
	return out
}

// Calibrate fits the calibration to outcomes by isotonic regression (pool adjacent violators) over
// pools of at least 40 outcomes, joined linearly.
func (m *Model) Calibrate(outcomes []Outcome) {
	const minOutcomes = 40
	list := slices.Clone(outcomes)
	slices.SortStableFunc(list, func(a, b Outcome) int { return cmp.Compare(a.Raw, b.Raw) })
	type pool struct{ raw, right, n float64 }
	var pools []pool
	for chunk := range slices.Chunk(list, minOutcomes) {
		p := pool{}
		for _, o := range chunk {
			p.raw += o.Raw
			p.n++
			if o.Right {
				p.right++
			}
		}
		pools = append(pools, p)
		for len(pools) > 1 {
			a, b := pools[len(pools)-2], pools[len(pools)-1]
			if a.right/a.n < b.right/b.n {
				break
			}
			pools = append(pools[:len(pools)-2], pool{a.raw + b.raw, a.right + b.right, a.n + b.n})
		}
	}
	points := []Point{{0, 0}}
	for _, p := range pools {
		// Laplace smoothing: no probability is 0 or 1.
		q := Point{round3(p.raw / p.n), round3((p.right + 0.5) / (p.n + 1))}
		last := points[len(points)-1]
		if q.Raw <= last.Raw {
			points[len(points)-1].Calibrated = max(last.Calibrated, min(q.Calibrated, 1))
			continue
		}
		points = append(points, Point{q.Raw, max(q.Calibrated, last.Calibrated)})
	}
	if last := points[len(points)-1]; last.Raw < 1 {
		points = append(points, Point{1, last.Calibrated})
	}
	m.Calibration = points
}
