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

// LibraryEnv is the environment variable with the path of a libchdb shared library. It overrides the download.
const LibraryEnv = "MUSTER_LIBCHDB"

//go:embed libchdb.txt
var pinned string

// LibraryConfig configures EnsureLibrary.
type LibraryConfig struct {
	// CacheDir is the directory of unpacked libraries. Default: muster/libchdb in the user's cache directory.
	CacheDir string
	// Progress, if set, is called with the progress in bytes of the stages "download" (total unknown, 0) and "unpack".
	Progress func(stage string, done, total int64)
	Logger   *slog.Logger
}

// pin is the pinned package of a platform.
type pin struct{ platform, pkg, version, integrity string }

// EnsureLibrary returns the path of the engine's library: the one in MUSTER_LIBCHDB, else the one installed with the
// program, else the cached one. Otherwise it downloads the pinned package with the npm client, verifies its sha512 and
// unpacks it into the cache. Concurrent processes wait for each other.
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
			return "", fmt.Errorf("find the cache directory for the engine's library (or set %s): %w", LibraryEnv, err)
		}
		cfg.CacheDir = filepath.Join(base, "muster", "libchdb")
	}
	path := p.libraryPath(cfg.CacheDir)
	dir := filepath.Dir(path)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("cache directory for the engine's library: %w", err)
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", fmt.Errorf("wait for another process that downloads the engine's library: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if cfg.Logger != nil {
		cfg.Logger.Info("engine: downloading the library", "package", p.pkg, "version", p.version, "cache", dir)
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
			return pin{}, fmt.Errorf(
				"no integrity hash of %s@%s for %s: download the package and set %s to its libchdb", fields[1],
				fields[2], platform, LibraryEnv)
		}
		return pin{fields[0], fields[1], fields[2], fields[3]}, nil
	}
	return pin{}, fmt.Errorf("no embedded engine for %s: "+
		"set %s to a libchdb, or set CLICKHOUSE_DSN to a ClickHouse server", platform, LibraryEnv)
}

// fetchLibrary downloads the package next to dir and, as the last step, moves the library to dir.
func fetchLibrary(ctx context.Context, p pin, dir string, progress func(string, int64, int64)) error {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".fetch-*")
	if err != nil {
		return fmt.Errorf("cache directory for the engine's library: %w", err)
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

// npmPack downloads the package's archive into dir with the npm client, which is configured with a registry.
func npmPack(ctx context.Context, p pin, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("npm is not installed, it is required to download the engine's library %s@%s: "+
			"install Node.js, or set %s to a libchdb: %w", p.pkg, p.version, LibraryEnv, err)
	}
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--pack-destination", dir, p.pkg+"@"+p.version)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm pack %s@%s failed; if this machine is offline, set %s to a libchdb: %w: %s",
			p.pkg, p.version, LibraryEnv, err, lastLines(stderr.String(), 5))
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("npm pack %s@%s wrote %d archives, expected one", p.pkg, p.version, len(archives))
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
		return fmt.Errorf("integrity of %s@%s is %s, expected %s: clear npm's cache (npm cache clean --force) "+
			"and check the source of npm's packages", p.pkg, p.version, got, p.integrity)
	}
	return nil
}

// unpack extracts the shared library from the package's archive.
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
