package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// binary is the muster that all tests run.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "muster-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "muster")
	build := exec.Command("go", "build", "-o", binary, "muster/deploy/cmd/muster")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build muster:", err)
		return 1
	}
	return m.Run()
}

// number is a setting from the environment.
func number(t testing.TB, name string, otherwise int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// seed is where everything drawn in a test begins.
func seed(t testing.TB) uint64 {
	t.Helper()
	s := uint64(number(t, "MUSTER_E2E_SEED", 7))
	t.Logf("MUSTER_E2E_SEED=%d", s)
	return s
}
