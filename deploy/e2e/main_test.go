package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// binary is the path of the muster binary that all tests run.
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
	if err := moreAtOnce(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// moreAtOnce runs one test more than there are processors in parallel, unless -parallel is set: they wait for
// processes.
func moreAtOnce() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+1))
}

// number returns a number from an environment variable.
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

// seed returns the random seed of a test.
func seed(t testing.TB) uint64 {
	t.Helper()
	s := uint64(number(t, "MUSTER_E2E_SEED", 7))
	t.Logf("MUSTER_E2E_SEED=%d", s)
	return s
}
