package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// `muster up` or its engine is killed at a random point of each erasure. The result is the same as without kills:
// the people are neither shown nor stored, and other people are unchanged. MUSTER_E2E_KILLS is the number of
// erasures; 50 is the long form.
func TestErase_CompletesDespiteKills(t *testing.T) {
	t.Parallel()
	kills := number(t, "MUSTER_E2E_KILLS", 12)
	if testing.Short() {
		kills = min(kills, 2)
	}
	drawn := seed(t)
	rng := rand.New(rand.NewPCG(drawn, 5))
	world := generate(t, 12*kills+60, drawn)
	all := subjects(t, world, kills)
	ports := fixedPorts(t)
	p := start(t, newDataDir(t), append(ports, "--no-sample")...)
	ingestAll(t, p, world)
	not := erasureTargetsOf(t, p, all)
	_, want := stored(t, p, all, not)
	for i, s := range all {
		push(t, p, erasureOf(t, s))
		pause := time.Duration(rng.IntN(3000)) * time.Millisecond
		<-time.After(pause)
		victim := []string{"up", "up", "engine"}[rng.IntN(3)]
		p = kill(t, p, victim, fmt.Sprintf("erasure %d, and %s", i, pause), ports)
	}
	eventuallyEvery(t, 10*time.Minute, time.Second, func() (bool, string) {
		var status struct {
			Requests int            `json:"requests"`
			States   map[string]int `json:"states"`
		}
		p.musterJSON(t, &status, "erase", "status", "--json")
		return status.Requests == kills && status.States["deleted"] == kills, fmt.Sprint(status)
	})
	theirs, othersRows := stored(t, p, all, not)
	require.Equal(t, "0", theirs)
	require.Equal(t, want, othersRows)
	for _, s := range all {
		require.Empty(t, shownBy(t, p, s))
	}
	inTables(t, p, all)
	inTopics(t, p, all)
	inFiles(t, p.dataDir, all)
	p.stop(t)
}
