package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDraw_TwentySeedsHaveEveryFaultThreeTimes(t *testing.T) {
	for _, first := range []uint64{1, 2, 7, 1000} {
		apache := first%2 == 0
		times := make(map[fault]int)
		for seed := first; seed < first+20; seed++ {
			drawn := draw(seed, apache)
			require.Len(t, drawn, faultsPerSeed)
			require.Equal(t, drawn, draw(seed, apache), "a seed always draws the same faults")
			for _, f := range drawn {
				times[f]++
			}
		}
		for _, f := range faults(apache) {
			require.GreaterOrEqual(t, times[f], 3, "%s, seeds from %d", f, first)
		}
	}
}

func TestNewWorld_DependsOnTheSeedOnly(t *testing.T) {
	one, again, other := newWorld(3, 50), newWorld(3, 50), newWorld(4, 50)
	require.Equal(t, one, again)
	require.NotEqual(t, one.pieces, other.pieces)
	require.NotEmpty(t, one.newest)
	require.Positive(t, one.poison)
}
