package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
)

// niceOf reads a thread's nice value from /proc (proc_pid_stat(5), field 19).
func niceOf(t *testing.T, folder string) int {
	raw, err := os.ReadFile(filepath.Join(folder, "stat"))
	require.NoError(t, err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	nice, err := strconv.Atoi(fields[19-3])
	require.NoError(t, err)
	return nice
}

// Threads that merge yield to those that insert and answer, after a restart as well.
func TestMergesYield(t *testing.T) {
	e, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = ask(t.Context(), e.Addr(), "CREATE TABLE default.t (k UInt64) ENGINE = MergeTree ORDER BY k")
	require.NoError(t, err)
	_, err = ask(t.Context(), e.Addr(), "INSERT INTO default.t VALUES (1)")
	require.NoError(t, err)
	yielding := func() bool {
		process := fmt.Sprintf("/proc/%d", e.PID())
		names, err := filepath.Glob(process + "/task/*/comm")
		require.NoError(t, err)
		merges, lower := 0, 0
		for _, name := range names {
			if comm, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(comm)) != "MergeMutate" {
				continue
			}
			merges++
			if niceOf(t, filepath.Dir(name)) == min(niceOf(t, process)+10, 19) {
				lower++
			}
		}
		return merges > 0 && lower == merges
	}
	waitFor(t, yielding)
	before := e.PID()
	require.NoError(t, e.Kill(t.Context()))
	waitFor(t, func() bool { return e.PID() != before && yielding() })
}
