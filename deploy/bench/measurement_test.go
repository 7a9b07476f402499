package main

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// burning is a shell script with one child that works and exits, and one that works and runs until its standard input
// is closed. They print a line when their work is done.
const burning = `
burn() { i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; }
(burn); echo ended
(burn; echo alive; cat) <&0 &
wait $!
`

func TestProcessTree_CountsRunningAndExitedDescendants(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", burning)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)

	require.True(t, lines.Scan())
	afterEnded, err := processTree(cmd.Process.Pid)
	require.NoError(t, err)
	require.True(t, lines.Scan())
	afterBoth, err := processTree(cmd.Process.Pid)
	require.NoError(t, err)

	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	total := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // of the shell and both children
	require.InDelta(t, total.Seconds(), afterBoth.Seconds(), max(5*tick, total/4).Seconds())
	require.InDelta(t, total.Seconds()/2, afterEnded.Seconds(), total.Seconds()/4)
	require.Greater(t, total, 4*tick, "too little work in the shell: make the loop longer")
}

func TestChildren_ExitedProcessHasNone(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "true")
	require.NoError(t, cmd.Run())
	list, err := children(cmd.Process.Pid)
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = processTree(cmd.Process.Pid)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestMeasurement_ErrorsAndMissesFailARun(t *testing.T) {
	t.Parallel()
	all := measurement{calls: []time.Duration{1, 2, 3, 4}, engine: 6, platform: 2}
	require.NoError(t, all.unanswered())
	require.EqualValues(t, 2, all.cpuPerCall())
	require.ErrorIs(t, (measurement{}).unanswered(), errNoCalls)
	all.addTurn(measurement{misses: 2})
	require.ErrorIs(t, all.unanswered(), errUnanswered)
	failed := measurement{}
	failed.fail(os.ErrDeadlineExceeded)
	failed.fail(os.ErrClosed)
	all.addTurn(failed)
	require.ErrorIs(t, all.unanswered(), os.ErrDeadlineExceeded)
	require.ErrorContains(t, all.unanswered(), "2 errors, 2 misses")
}
