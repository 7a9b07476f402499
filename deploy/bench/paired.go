package main

import (
	"math"
	"slices"
)

// estimate is the estimated difference between two things that were measured alternately, with a confidence interval
// that is robust against a few outliers: the estimate of Hodges and Lehmann, the median of the averages of any two
// differences, with the interval of Wilcoxon's signed-rank test (Hollander, Wolfe and Chicken, Nonparametric
// Statistical Methods, 3rd edition, sections 3.2 and 3.3). Both assume only that the differences are distributed
// symmetrically.
type estimate struct {
	// shift is the estimate; low and high are the ends of its 95 % confidence interval, infinite for fewer than six
	// pairs.
	shift, low, high float64
	// pairs is the number of differences.
	pairs int
}

// estimateDifference returns the estimate for the differences of pairs. Without differences, everything is 0.
func estimateDifference(differences []float64) estimate {
	n := len(differences)
	if n == 0 {
		return estimate{}
	}
	averages := make([]float64, 0, n*(n+1)/2)
	for i, a := range differences {
		for _, b := range differences[i:] {
			averages = append(averages, (a+b)/2)
		}
	}
	slices.Sort(averages)
	e := estimate{shift: middle(averages), low: math.Inf(-1), high: math.Inf(1), pairs: n}
	if k := critical(n); k >= 0 {
		e.low, e.high = averages[k], averages[len(averages)-1-k]
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
