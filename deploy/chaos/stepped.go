package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
)

// steppedNow reads the wall clock in the standard library's time.Now. The code inserted after it shifts the clock by
// another amount every two seconds, the same in all processes of a machine. The monotonic clock, which timers use, is
// unchanged, as when an operator sets the clock.
const (
	steppedNow = "\tsec, nsec, mono := runtimeNow()\n"
	steps      = "\tsec += [...]int64{0, 3600, -3600, 30 * 86400, -30 * 86400, -1}[uint64(mono)/2e9%6]\n"
)

// buildStepped builds the muster binary with a standard library whose wall clock jumps.
func buildStepped(ctx context.Context, path string) (err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find GOROOT: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("read time.go: %w", err)
	}
	if bytes.Count(source, []byte(steppedNow)) != 1 {
		return fmt.Errorf("%s does not read the clock as expected", original)
	}
	dir, err := os.MkdirTemp("", "muster-stepped-")
	if err != nil {
		return fmt.Errorf("create a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, bytes.Replace(source, []byte(steppedNow), []byte(steppedNow+steps), 1),
		0o600); err != nil {
		return fmt.Errorf("write the changed time.go: %w", err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return fmt.Errorf("write the overlay: %w", err)
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return fmt.Errorf("write the overlay: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", path, "./deploy/cmd/muster")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build muster with jumping clocks: %w", err)
	}
	return nil
}
