package evaluate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"muster/schemas/event"
)

// Counts are the numbers of correct, wrong and missed answers.
type Counts struct{ Right, Wrong, Missed int }

// Precision returns the share of returned answers that are correct.
func (c Counts) Precision() float64 { return ratio(c.Right, c.Right+c.Wrong) }

// Recall returns the share of existing profiles that are returned.
func (c Counts) Recall() float64 { return ratio(c.Right, c.Right+c.Missed) }

// F1 returns the harmonic mean of precision and recall.
func (c Counts) F1() float64 { return ratio(2*c.Right, 2*c.Right+c.Wrong+c.Missed) }

func ratio(a, b int) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// countOutcomes counts the answers of a class. A wrong answer counts in the class of its evidence,
// a missed profile in that of the ground truth.
func countOutcomes(answers []Answer, returned func(*Answer) string, linked bool) Counts {
	var c Counts
	for i := range answers {
		a := &answers[i]
		truth, identity := a.Question.Truth[a.Platform], returned(a)
		inTruth := truth != "" && a.Question.Linked[a.Platform] == linked
		if inTruth && identity == truth {
			c.Right++
		} else if inTruth {
			c.Missed++
		}
		if identity != "" && identity != truth && a.Linked == linked {
			c.Wrong++
		}
	}
	return c
}

// returnedIdentity returns the identity that discovery returns, or "".
func returnedIdentity(a *Answer) string {
	if a.Identity != "" && a.Confidence >= event.DiscoveryThreshold {
		return a.Identity
	}
	return ""
}

// calibrationScores returns the Brier score, the expected calibration error over 15 bins of equal
// mass, and the AUROC of all candidates found, returned or not.
func calibrationScores(answers []Answer) (brier, ece, auroc float64) {
	list := outcomes(answers)
	if len(list) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	for _, b := range equalMassBins(list) {
		ece += math.Abs(b.p-b.right) * float64(b.n) / float64(len(list))
	}
	var below, wins, pairs float64
	for i := 0; i < len(list); {
		j, right, wrong := i, 0.0, 0.0
		for ; j < len(list) && list[j].p == list[i].p; j++ {
			y := 0.0
			if list[j].right {
				right++
				y = 1
			} else {
				wrong++
			}
			brier += (list[j].p - y) * (list[j].p - y) / float64(len(list))
		}
		wins += right * (below + wrong/2)
		below += wrong
		pairs += right
		i = j
	}
	return brier, ece, wins / (pairs * below)
}

// pair is a confidence and whether the answer was correct.
type pair struct {
	p     float64
	right bool
}

// outcomes returns the outcomes of all candidates found, by ascending confidence.
func outcomes(answers []Answer) []pair {
	var list []pair
	for i := range answers {
		if a := &answers[i]; a.Identity != "" {
			list = append(list, pair{a.Confidence, a.Right()})
		}
	}
	slices.SortStableFunc(list, func(a, b pair) int { return cmp.Compare(a.p, b.p) })
	return list
}

// bin holds the means of n outcomes.
type bin struct {
	p, right float64
	n        int
}

// equalMassBins returns 15 bins of equal mass.
func equalMassBins(list []pair) []bin {
	var out []bin
	for chunk := range slices.Chunk(list, max(1, (len(list)+14)/15)) {
		b := bin{n: len(chunk)}
		for _, x := range chunk {
			b.p += x.p / float64(len(chunk))
			if x.right {
				b.right += 1 / float64(len(chunk))
			}
		}
		out = append(out, b)
	}
	return out
}

// bootstrap draws n samples of the questions with replacement, each of the full size.
func bootstrap(answers []Answer, n int) [][]Answer {
	byQuestion := make(map[*Question][]Answer)
	var questions []*Question
	for _, a := range answers {
		if byQuestion[a.Question] == nil {
			questions = append(questions, a.Question)
		}
		byQuestion[a.Question] = append(byQuestion[a.Question], a)
	}
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // repeatable
	samples := make([][]Answer, n)
	for i := range samples {
		for range questions {
			samples[i] = append(samples[i], byQuestion[questions[r.IntN(len(questions))]]...)
		}
	}
	return samples
}
