// Command fetch downloads the script of the interactive reference: the npm package pinned in ../web/scalar.txt,
// verified against its hash. It does not rewrite an identical file.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(context.Background(), "web"); err != nil {
		fmt.Fprintln(os.Stderr, "fetch the script of the reference:", err)
		os.Exit(1)
	}
}

// run runs in the directory of scalar.txt.
func run(ctx context.Context, dir string) error {
	pin, err := os.ReadFile(filepath.Join(dir, "scalar.txt"))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(pin))
	if len(fields) != 3 {
		return errors.New("invalid scalar.txt: expected package@version, path, hash")
	}
	script, err := fetch(ctx, fields[0], fields[1], fields[2])
	if err != nil {
		return err
	}
	target := filepath.Join(dir, "scalar.js.gz")
	if held, err := os.ReadFile(target); err == nil {
		// Compressed bytes may differ between versions of Go, so contents are compared.
		if plain, err := unpack(held); err == nil && bytes.Equal(plain, script) {
			return nil
		}
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(script); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(target, packed.Bytes(), 0o644) //nolint:gosec // a file of the source tree
}

// fetch downloads a package with npm and returns one of its files.
func fetch(ctx context.Context, pkg, path, hash string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "muster-docs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", tmp, pkg) //nolint:gosec // the pin
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack %s: %w\n%s", pkg, err, out)
	}
	archives, err := filepath.Glob(filepath.Join(tmp, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return nil, fmt.Errorf("npm pack %s wrote %d archives instead of one", pkg, len(archives))
	}
	archive, err := os.ReadFile(archives[0])
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(archive)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != hash {
		return nil, fmt.Errorf("%s has the hash %s, not the pinned %s", pkg, got, hash)
	}
	gz, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(gz); ; {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s has no %s: %w", pkg, path, err)
		}
		if header.Name == path {
			return io.ReadAll(files)
		}
	}
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
