package facade

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// All places of analysts can be taken, with half of the engine's memory left.
func TestMemoryOfAnalyst(t *testing.T) {
	const gib = 1 << 30
	require.EqualValues(t, 2*gib, memoryOfAnalyst(22*gib, 4))
	require.EqualValues(t, 7*gib/8, memoryOfAnalyst(7*gib, 4))
	require.EqualValues(t, 2*gib, memoryOfAnalyst(256*gib, 32))
	require.EqualValues(t, 1*gib, memoryOfAnalyst(64*gib, 32))
	require.EqualValues(t, 2*gib, memoryOfAnalyst(0, 4), "the engine has no limit")
}
