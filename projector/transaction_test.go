package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/bus/bustest"
	"muster/projector"
)

// Transactional producers leave control records at the end of logs, which are not messages. The lag still
// becomes 0 and replays end.
func TestReplay_EndsAfterTransactionMarkers(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	for _, id := range []string{"p_1", "p_2"} {
		bustest.Transact(t, h.kafka, true, message(person(t, id, "2024", `"username":"`+id+`"`)))
	}
	h.caughtUp()
	require.EqualValues(t, 2, h.count("SELECT count() FROM network_people"))

	cfg, deps := h.replayConfig("lookups", "network_people")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	report, err := projector.Replay(ctx, cfg, deps)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Tables[1].After)
}
