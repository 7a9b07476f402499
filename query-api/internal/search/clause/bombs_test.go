package clause_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/adversarialtest"
	"muster/query-api/internal/search/clause"
)

// Lowering is not subject to admission.
func TestLower_TimeAndMemoryAreBounded(t *testing.T) {
	var most uint64
	var slowest time.Duration
	for _, query := range adversarialtest.Queries() {
		if len(query) > 1<<20 {
			continue // too large for a request
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		_, _ = clause.Lower([]byte(query), "query", clause.Options{Now: begin})
		took := time.Since(begin)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%7d bytes: %6.1f MB, %v: %.60s", len(query), float64(allocated)/1e6, took, query)
		require.Less(t, allocated, uint64(64<<20), "%.100s", query)
		require.Less(t, took, 10*time.Second, "%.100s", query)
		most, slowest = max(most, allocated), max(slowest, took)
	}
	t.Logf("at most %.1f MB, %v", float64(most)/1e6, slowest)
}
