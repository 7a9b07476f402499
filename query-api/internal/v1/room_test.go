package v1

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoom_LeavesMemoryForAnotherOrganization(t *testing.T) {
	const capacity, answer = 256 << 20, 8 << 20
	r := newRoom(capacity)
	fill := func(organization string) (held int64) {
		for r.tryTake(organization, answer) {
			held += answer
		}
		return held
	}
	require.EqualValues(t, capacity/2, fill("first"), "a single organization gets half")
	for _, organization := range []string{"second", "third", "fourth"} {
		require.Positive(t, fill(organization), organization)
	}
	require.False(t, r.tryTake("first", 1))
	r.release("first", capacity/2)
	require.Greater(t, fill("fifth"), int64(answer), "the first one's share")
}

func TestShare_CountsLargeAnswersOnly(t *testing.T) {
	r := newRoom(10 << 20)
	s := share{room: r}
	require.NoError(t, s.take("o", uncountedBytes))
	require.Zero(t, r.held)
	require.NoError(t, s.take("o", 5<<20))
	require.ErrorIs(t, s.take("o", 1), errFull)
	other := share{room: r}
	require.NoError(t, other.take("p", uncountedBytes+(2<<20)))
	s.free()
	other.free()
	require.Zero(t, r.held)
	require.Empty(t, r.shares)
}
