package e2e_test

import (
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muster/deploy/e2e/internal/oracle"
)

// It starts again when there is space.
func TestUp_ExitsIfTheBrokerCannotWrite(t *testing.T) {
	t.Parallel()
	dataDir := newDataDir(t)
	p := start(t, dataDir, "--no-sample")
	var largest int64
	require.NoError(t,
		filepath.WalkDir(filepath.Join(dataDir, "kafka", "log"), func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				largest = max(largest, info.Size())
			}
			return err
		}))
	require.NoError(t,
		unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE,
			&unix.Rlimit{Cur: uint64(largest), Max: unix.RLIM_INFINITY}, nil))
	world := generate(t, 200, seed(t))
	go func() { // keeps writing without responses
		_, _ = muster(t.Context(), dataDir, "ingest", oracle.NetworkPerson, file(world, oracle.NetworkPerson))
	}()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatal("`muster up` is still running")
	}
	require.Equal(t, 2, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.errors.String(), "free disk space and restart")
	require.Contains(t, p.errors.String(), "file too large")
	start(t, dataDir).stop(t)
}
