//go:build !linux

package e2e_test

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

// childProcesses returns the direct children of a process.
func childProcesses(t *testing.T, parent int) []int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pgrep", "-P", strconv.Itoa(parent)).Output()
	require.NoError(t, err)
	var children []int
	for _, field := range strings.Fields(string(out)) {
		children = append(children, atoi(t, field))
	}
	return children
}
