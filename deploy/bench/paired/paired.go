package paired

import (
	"math"
	"slices"
)

// Estimate is an estimated difference.
type Estimate struct {
	// Shift is the estimate; Low and High are the ends of its 95 % confidence interval, infinite for fewer than six
	// pairs.
	Shift, Low, High float64
	// Pairs is the number of differences.
	Pairs int
}

// Of returns the estimate for the differences of pairs. Without differences, everything is 0.
func Of(differences []float64) Estimate {
	n := len(differences)
	if n == 0 {
		return Estimate{}
	}
	averages := make([]float64, 0, n*(n+1)/2)
	for i, a := range differences {
		for _, b := range differences[i:] {
			averages = append(averages, (a+b)/2)
		}
	}
	slices.Sort(averages)
	e := Estimate{Shift: middle(averages), Low: math.Inf(-1), High: math.Inf(1), Pairs: n}
	if k := critical(n); k >= 0 {
		e.Low, e.High = averages[k], averages[len(averages)-1-k]
	}
	return e
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// critical returns the largest value that the signed-rank sum of n pairs does not exceed with a probability of at most
// 2.5 % if there is no difference, or -1 if there is none.
func critical(n int) int {
	total := n * (n + 1) / 2
	// chance[s] is the probability of the sum s of the ranks so far, each of which is included with probability 1/2.
	chance := make([]float64, total+1)
	chance[0] = 1
	for rank := 1; rank <= n; rank++ {
		for s := total; s >= 0; s-- {
			chance[s] /= 2
			if s >= rank {
				chance[s] += chance[s-rank] / 2
			}
		}
	}
	const tail = 0.025
	sum := 0.0
	for k := range chance {
		if sum += chance[k]; sum > tail {
			return k - 1
		}
	}
	return -1
}
