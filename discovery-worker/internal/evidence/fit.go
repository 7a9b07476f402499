package evidence

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Group is one question of training: the candidates of a platform, and which of
// them is the same person.
type Group struct {
	Candidates [][]Finding
	Truth      int // index; -1: none of them
}

// term is a finding as a parameter.
type term struct{ field, level string }

// Fit makes a model of answered questions. Its weights begin as those of Fellegi
// and Sunter, counted from the groups, and are then moved as far as the data say
// against them: fields that repeat each other, such as a name and a username made
// of it, must not count twice. The calibration is the identity.
func Fit(groups []Group, version string) *Model {
	terms, weights := counted(groups)
	theta := slices.Clone(weights)
	prior := -4.0
	index := make(map[term]int, len(terms))
	for i, t := range terms {
		index[t] = i
	}
	coded := make([][][]int, len(groups))
	for g, group := range groups {
		for _, findings := range group.Candidates {
			row := make([]int, len(findings))
			for k, f := range findings {
				row[k] = index[term{f.Field, f.Level}]
			}
			coded[g] = append(coded[g], row)
		}
	}
	theta, prior = descend(groups, coded, theta, prior)
	m := &Model{Version: version, Prior: round3(prior / math.Ln2), Weights: make(map[string]map[string]float64), Calibration: []Point{{0, 0}, {1, 1}}}
	for i, t := range terms {
		if m.Weights[t.field] == nil {
			m.Weights[t.field] = make(map[string]float64)
		}
		m.Weights[t.field][t.level] = round3(theta[i] / math.Ln2)
	}
	m.complete()
	return m
}

// complete gives a commonness that no group had the weight of the next rarer one,
// and nothing in favour: that a name is commoner than any that was seen must not
// count for it.
func (m *Model) complete() {
	for _, weights := range []map[string]float64{m.Weights[FieldCrowd], m.Weights[FieldUsername]} {
		for level, w := range maps.Clone(weights) {
			stem, ok := strings.CutSuffix(level, commonness(0))
			for _, n := range []int{1, 2, 5, 16} {
				if !ok {
					break
				}
				next := stem + commonness(n)
				if have, seen := weights[next]; seen {
					w = have
					continue
				}
				w = min(w, 0)
				weights[next] = w
			}
		}
	}
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// counted are the terms of the groups and their weights by counting, to base e:
// how much more often a finding is seen of the same person than of another
// candidate.
func counted(groups []Group) ([]term, []float64) {
	type count struct{ same, other float64 }
	counts := make(map[term]*count)
	levels := make(map[string]float64)
	var same, other float64
	for _, g := range groups {
		for i, findings := range g.Candidates {
			if i == g.Truth {
				same++
			} else {
				other++
			}
			for _, f := range findings {
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
	slices.SortFunc(terms, func(a, b term) int { return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.level, b.level)) })
	weights := make([]float64, len(terms))
	for i, t := range terms {
		c, n := counts[t], levels[t.field]
		weights[i] = math.Log((c.same + 0.5) / (same + 0.5*n) / ((c.other + 0.5) / (other + 0.5*n)))
	}
	return terms, weights
}

// descend maximizes the likelihood of the right answers, none included, less the
// square of the distance from half the counted weights.
func descend(groups []Group, coded [][][]int, theta []float64, prior float64) ([]float64, float64) {
	const (
		rounds = 400
		step   = 0.05
		pull   = 0.02
		decay1 = 0.9
		decay2 = 0.999
	)
	start := slices.Clone(theta)
	n := len(theta)
	first, second := make([]float64, n+1), make([]float64, n+1)
	for round := 1; round <= rounds; round++ {
		gradient := make([]float64, n+1)
		for g, group := range groups {
			scores := make([]float64, len(coded[g]))
			top := 0.0 // the score of nobody
			for i, row := range coded[g] {
				scores[i] = prior
				for _, k := range row {
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
				for _, k := range row {
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
			move := step * first[k] / (1 - math.Pow(decay1, float64(round))) / (math.Sqrt(second[k]/(1-math.Pow(decay2, float64(round)))) + 1e-8)
			if k < n {
				theta[k] += move
			} else {
				prior += move
			}
		}
	}
	return theta, prior
}

// Outcome is a raw probability and whether it was right.
type Outcome struct {
	Raw   float64
	Right bool
}

// Calibrate fits the calibration of a model to what came of its raw
// probabilities: the rising steps that fit best (isotonic regression, by pooling
// adjacent violators), of 40 outcomes each at least, joined by lines.
func (m *Model) Calibrate(outcomes []Outcome) {
	const least = 40
	list := slices.Clone(outcomes)
	slices.SortStableFunc(list, func(a, b Outcome) int { return cmp.Compare(a.Raw, b.Raw) })
	type pool struct{ raw, right, n float64 }
	var pools []pool
	for chunk := range slices.Chunk(list, least) {
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
		// One more of either outcome: nothing is certain.
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
