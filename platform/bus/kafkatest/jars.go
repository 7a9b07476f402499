package kafkatest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed pom.xml
var pom []byte

// fetchJars returns the folder of the server's jars, filled by Maven once for each
// version of pom.xml.
func fetchJars(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("fetch jars: %w", err)
	}
	sum := sha256.Sum256(pom)
	dir := filepath.Join(cache, "muster", "kafka-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("fetch jars: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("fetch jars: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "kafka-")
	if err != nil {
		return "", fmt.Errorf("fetch jars: %w", err)
	}
	defer os.RemoveAll(tmp) // gone after the rename
	file := filepath.Join(tmp, "pom.xml")
	if err := os.WriteFile(file, pom, 0o600); err != nil {
		return "", fmt.Errorf("fetch jars: %w", err)
	}
	jars := filepath.Join(tmp, "jars")
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+jars) //nolint:gosec // folders of this package
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch jars: mvn: %w\n%s", err, out)
	}
	if err := os.Rename(jars, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return dir, nil // another test process was faster
		}
		return "", fmt.Errorf("fetch jars: %w", err)
	}
	return dir, nil
}
