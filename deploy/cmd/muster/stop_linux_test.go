package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
)

// The process ID in the lock file is from the owner's PID namespace, and may be another process here.
func TestStop_DoesNotSignalAnotherContainersPID(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir}}
	release, err := instance.Lock(dir)
	require.NoError(t, err)
	defer release()
	require.True(t, instance.IsLockOwner(dir, os.Getpid()))

	stranger := exec.Command("sleep", "600")
	require.NoError(t, stranger.Start())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), []byte(strconv.Itoa(stranger.Process.Pid)+"\n"), 0o600))
	_, refused := c.run(2, "stop", "--wait", "1ms")
	require.Contains(t, refused, "in its own container")
	require.NoError(t, stranger.Process.Kill())
	require.ErrorContains(t, stranger.Wait(), "killed")
}
