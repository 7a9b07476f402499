package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailedWrite_MatchesFatalLogMessagesOfKfake(t *testing.T) {
	for _, text := range []string{
		"persist batch t-0: no space left on device",
		"rebuildSegments t-0: write: no space left on device",
		"delete topic t partition 0 dir: input/output error",
		"partition t-0 segment 0: open for truncate: permission denied",
		"partition t-0 segment 0: truncate: input/output error",
	} {
		require.True(t, failedWrite(text), text)
	}
	for _, text := range []string{
		"compact groups.log: write: no space left on device", "partition t-0 segment 0: truncating 7 corrupt bytes",
	} {
		require.False(t, failedWrite(text), text)
	}
}
