package opensearch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var (
	//go:embed pom.xml
	pom []byte
	//go:embed jars.sha256
	sums []byte
	//go:embed Judge.java
	judge []byte
)

// build returns the folder of the jars and of the compiled judge, made once for each version of the embedded files.
func build(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build the judge: %w", err)
	}
	h := sha256.New()
	for _, part := range [][]byte{pom, sums, judge} {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	dir := filepath.Join(cache, "muster", "opensearch-"+hex.EncodeToString(h.Sum(nil)[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("build the judge: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("build the judge: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "opensearch-")
	if err != nil {
		return "", fmt.Errorf("build the judge: %w", err)
	}
	defer os.RemoveAll(tmp) // gone after the rename
	if err := buildIn(ctx, tmp); err != nil {
		return "", fmt.Errorf("build the judge: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return dir, nil // another test process was faster
		}
		return "", fmt.Errorf("build the judge: %w", err)
	}
	return dir, nil
}

func buildIn(ctx context.Context, dir string) error {
	for name, content := range map[string][]byte{"pom.xml": pom, "Judge.java": judge} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	jars := filepath.Join(dir, "jars")
	for _, args := range [][]string{
		{"mvn", "-q", "-B", "-C", "-f", filepath.Join(dir, "pom.xml"), "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=" + jars},
		{"javac", "-cp", filepath.Join(jars, "*"), "-d", filepath.Join(dir, "classes"), filepath.Join(dir, "Judge.java")},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // commands of this file, folders of this package
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, out)
		}
		if args[0] == "mvn" {
			if err := verify(jars); err != nil {
				return err
			}
		}
	}
	return nil
}

// verify compares every jar with its pinned checksum.
func verify(dir string) error {
	want := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(sums)); s.Scan(); {
		sum, name, _ := strings.Cut(s.Text(), "  ")
		want[name] = sum
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) != len(want) {
		return fmt.Errorf("%d jars came, %d are pinned", len(entries), len(want))
	}
	for _, e := range entries {
		if got, err := sumOf(filepath.Join(dir, e.Name())); err != nil {
			return err
		} else if got != want[e.Name()] {
			return fmt.Errorf("%s has checksum %s, pinned is %q", e.Name(), got, want[e.Name()])
		}
	}
	return nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
