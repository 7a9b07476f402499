package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// dieWithParent makes a child process exit when the test binary is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// childProcesses returns the direct children of a process, from /proc: minimal systems have no ps.
func childProcesses(t *testing.T, parent int) []int {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	require.NoError(t, err)
	var children []int
	for _, task := range tasks {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, task.Name()))
		if err != nil {
			continue // the thread has exited
		}
		for _, field := range strings.Fields(string(raw)) {
			children = append(children, atoi(t, field))
		}
	}
	return children
}
