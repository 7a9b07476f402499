package javatest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Dir returns a directory in the user's cache that fill has filled, once for each content of parts. A directory is not
// created if fill fails; several processes may call Dir concurrently.
func Dir(name string, parts [][]byte, fill func(dir string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	dir := filepath.Join(cache, "muster", name+"-"+hex.EncodeToString(h.Sum(nil)[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), name+"-")
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	defer os.RemoveAll(tmp) // does not exist after the rename
	if err := fill(tmp); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		// Another process may have been faster.
		if _, statErr := os.Stat(dir); statErr == nil {
			return dir, nil
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return dir, nil
}

// FetchJars uses Maven to copy a project's runtime dependencies to dir/jars.
func FetchJars(ctx context.Context, dir string, pom []byte) error {
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, pom, 0o600); err != nil {
		return fmt.Errorf("fetch jars: %w", err)
	}
	return Run(ctx, "mvn", "-q", "-B", "-C", "-f", file, "dependency:copy-dependencies", "-DincludeScope=runtime",
		"-DoutputDirectory="+filepath.Join(dir, "jars"))
}

// Run runs a command to completion. An error includes its output.
func Run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the commands of test suites
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// Tail is a writer that keeps only the end of what is written. It is safe for concurrent use.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailSize is how many bytes a [Tail] keeps.
const tailSize = 32 << 10

// Write implements [io.Writer].
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the end of what was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
