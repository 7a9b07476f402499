package opensearchtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"muster/platform/javatest"
)

var (
	//go:embed pom.xml
	pom []byte
	//go:embed jars.sha256
	sums []byte
	//go:embed Judge.java
	judge []byte
)

// build returns the directory of the jars and of the compiled Judge.java, built once per version of the embedded files.
func build(ctx context.Context) (string, error) {
	return javatest.Dir("opensearch", [][]byte{pom, sums, judge}, func(dir string) error {
		if err := javatest.FetchJars(ctx, dir, pom); err != nil {
			return err
		}
		jars, source := filepath.Join(dir, "jars"), filepath.Join(dir, "Judge.java")
		if err := verify(jars); err != nil {
			return err
		}
		if err := os.WriteFile(source, judge, 0o600); err != nil {
			return err
		}
		return javatest.Run(ctx, "javac", "-cp", filepath.Join(jars, "*"), "-d", filepath.Join(dir, "classes"), source)
	})
}

// verify checks the jars against their pinned checksums.
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
		return fmt.Errorf("downloaded %d jars, %d are pinned", len(entries), len(want))
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
