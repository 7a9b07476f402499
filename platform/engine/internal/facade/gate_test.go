package facade

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnalystMemory_LeavesHalfOfEngine(t *testing.T) {
	const gib = 1 << 30
	require.EqualValues(t, 2*gib, analystMemory(22*gib, 4))
	require.EqualValues(t, 7*gib/8, analystMemory(7*gib, 4))
	require.EqualValues(t, 2*gib, analystMemory(256*gib, 32))
	require.EqualValues(t, 1*gib, analystMemory(64*gib, 32))
	require.EqualValues(t, 2*gib, analystMemory(0, 4), "the engine has no limit")
}
