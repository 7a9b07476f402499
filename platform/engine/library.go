package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// LibraryEnv names the environment variable that overrides where the library
// is: the path of a libchdb shared library.
const LibraryEnv = "MUSTER_LIBCHDB"

//go:embed libchdb.txt
var pinned string

// LibraryConfig says where to look for the library.
type LibraryConfig struct {
	// CacheDir is where unpacked libraries are kept; empty: muster/libchdb in
	// the user's cache folder.
	CacheDir string
	// Progress, if set, is told what is being done: "download" (total unknown,
	// 0) and "unpack", in bytes.
	Progress func(stage string, done, total int64)
	Logger   *slog.Logger
}

// pin is one platform's package.
type pin struct{ platform, pkg, version, integrity string }

// EnsureLibrary returns the path of the engine's library. It takes the path in
// MUSTER_LIBCHDB if that is set, else the copy installed with the program, else
// the cached copy, else it fetches the pinned package with the npm client, checks its sha512 against the one kept
// in this repository, and unpacks it into the cache. Concurrent processes wait
// for each other.
func EnsureLibrary(ctx context.Context, cfg LibraryConfig) (string, error) {
	if path := os.Getenv(LibraryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", LibraryEnv, err)
		}
		return path, nil
	}
	p, err := pinFor(runtime.GOOS + "/" + runtime.GOARCH)
	if err != nil {
		return "", err
	}
	if executable, err := os.Executable(); err == nil && cfg.CacheDir == "" {
		if path := bundledLibrary(p, executable); path != "" {
			return path, nil
		}
	}
	if cfg.CacheDir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the cache folder for the engine's library (or set %s): %w", LibraryEnv, err)
		}
		cfg.CacheDir = filepath.Join(base, "muster", "libchdb")
	}
	path := p.libraryPath(cfg.CacheDir)
	dir := filepath.Dir(path)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("cache folder for the engine's library: %w", err)
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", fmt.Errorf("wait for another process that fetches the engine's library: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if cfg.Logger != nil {
		cfg.Logger.Info("engine: fetching the library", "package", p.pkg, "version", p.version, "cache", dir)
	}
	if err := fetchLibrary(ctx, p, dir, cfg.Progress); err != nil {
		return "", err
	}
	return path, nil
}

func pinFor(platform string) (pin, error) {
	for line := range strings.Lines(pinned) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] != platform {
			continue
		}
		if fields[3] == "-" {
			return pin{}, fmt.Errorf("no integrity hash of %s@%s is kept for %s: fetch the package yourself and set %s to its libchdb", fields[1], fields[2], platform, LibraryEnv)
		}
		return pin{fields[0], fields[1], fields[2], fields[3]}, nil
	}
	return pin{}, fmt.Errorf("there is no embedded engine for %s: set %s to a libchdb, or point CLICKHOUSE_DSN at a ClickHouse server", platform, LibraryEnv)
}

// fetchLibrary fetches the package next to dir and moves the library to dir as
// its last step.
func fetchLibrary(ctx context.Context, p pin, dir string, progress func(string, int64, int64)) error {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".fetch-*")
	if err != nil {
		return fmt.Errorf("cache folder for the engine's library: %w", err)
	}
	defer os.RemoveAll(tmp)
	progress("download", 0, 0)
	archive, err := npmPack(ctx, p, tmp)
	if err != nil {
		return err
	}
	if err := verify(archive, p); err != nil {
		return err
	}
	out := filepath.Join(tmp, "out")
	if err := os.Mkdir(out, 0o750); err != nil {
		return fmt.Errorf("unpack the engine's library: %w", err)
	}
	if err := unpack(archive, filepath.Join(out, "libchdb.so"), progress); err != nil {
		return fmt.Errorf("unpack %s: %w", p.pkg, err)
	}
	if err := os.Rename(out, dir); err != nil {
		return fmt.Errorf("unpack the engine's library: %w", err)
	}
	return nil
}

// npmPack has the npm client fetch the package's archive into dir. Where the
// package comes from is the client's configuration.
func npmPack(ctx context.Context, p pin, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("the engine's library comes as the npm package %s@%s, and npm is not installed: install Node.js, or set %s to a libchdb: %w", p.pkg, p.version, LibraryEnv, err)
	}
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--pack-destination", dir, p.pkg+"@"+p.version)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm pack %s@%s failed: is this machine offline? Fetch it once with a connection, or set %s to a libchdb: %w: %s",
			p.pkg, p.version, LibraryEnv, err, lastLines(stderr.String(), 5))
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("npm pack %s@%s wrote %d archives instead of one", p.pkg, p.version, len(archives))
	}
	return archives[0], nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

func verify(archive string, p pin) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("check the engine's library: %w", err)
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("check the engine's library: %w", err)
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != p.integrity {
		return fmt.Errorf("the archive of %s@%s is not the one this version of muster was built for: its integrity is %s, expected %s. "+
			"Clear npm's cache (npm cache clean --force) and check where npm gets packages from", p.pkg, p.version, got, p.integrity)
	}
	return nil
}

// unpack copies the shared library out of the package's archive.
func unpack(archive, target string, progress func(string, int64, int64)) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	files := tar.NewReader(gz)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("the package has no libchdb")
		}
		if err != nil {
			return err
		}
		if name := filepath.Base(header.Name); name != "libchdb.so" && name != "libchdb.dylib" {
			continue
		}
		out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(&meter{w: out, total: header.Size, progress: progress}, files)
		return errors.Join(err, out.Close())
	}
}

type meter struct {
	w           io.Writer
	done, total int64
	progress    func(string, int64, int64)
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.done += int64(n)
	m.progress("unpack", m.done, m.total)
	return n, err
}
