package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The critical values are from the tables of Wilcoxon's signed-rank test. With powers of two as differences, all
// averages are distinct, so the ends of the interval identify the rank.
func TestEstimate_IntervalUsesTabulatedCriticalValues(t *testing.T) {
	for n, critical := range map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 15: 25, 20: 52, 25: 89, 30: 137} {
		differences := make([]float64, n)
		var averages []float64
		for i := range differences {
			differences[i] = math.Exp2(float64(i))
			for _, d := range differences[:i+1] {
				averages = append(averages, (d+differences[i])/2)
			}
		}
		e := estimateDifference(differences)
		below, above := 0, 0
		for _, a := range averages {
			if a < e.low {
				below++
			}
			if a > e.high {
				above++
			}
		}
		require.Equal(t, critical, below, "%d pairs", n)
		require.Equal(t, critical, above, "%d pairs", n)
		require.Equal(t, n, e.pairs)
	}
	e := estimateDifference([]float64{1, 2, 3, 4, 5})
	require.InDelta(t, 3, e.shift, 0)
	require.True(t, math.IsInf(e.low, -1) && math.IsInf(e.high, 1), "five pairs allow no interval")
	require.Equal(t, estimate{}, estimateDifference(nil))
}

// Outliers do not move it far.
func TestEstimate_IntervalCoversTheTruthIn95Percent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const cases, truth = 2000, 2.0
	holds := 0
	for range cases {
		differences := make([]float64, 15)
		for i := range differences {
			differences[i] = truth + rng.NormFloat64()*5
		}
		if e := estimateDifference(differences); e.low <= truth && truth <= e.high {
			holds++
		}
	}
	require.InDelta(t, 0.95, float64(holds)/cases, 0.015)
	e := estimateDifference([]float64{2, 2.1, 1.9, 2, 2.2, 1.8, 2, 2.1, 1.9, 2, 900, -300})
	require.InDelta(t, 2, e.shift, 0.1)
	require.Less(t, e.high, 3.0)
}
