package redistest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// program is the executable of a server and its environment.
type program struct {
	path string
	env  []string
}

// find returns the server in the PATH, or else that in the cache directory, which it downloads if needed.
func find(ctx context.Context) (program, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return program{path: path}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return program{}, err
	}
	dir := filepath.Join(cache, "muster", "redis-server")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := fetch(ctx, dir); err != nil {
			return program{}, fmt.Errorf("no redis-server in the PATH and download failed (apt-get install "+
				"redis-server): %w", err)
		}
	} else if err != nil {
		return program{}, err
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "usr", "lib", "*-linux-gnu"))
	if err != nil || len(libraries) == 0 {
		return program{}, fmt.Errorf("%s has no server: remove it", dir)
	}
	return program{path: filepath.Join(dir, "redis-server"), env: []string{"LD_LIBRARY_PATH=" + libraries[0]}}, nil
}

// packages returns the Debian packages of the server (redis-tools) and of libraries missing on a minimal system.
func packages() []string { return []string{"redis-tools", "liblzf1", "libjemalloc2", "libatomic1"} }

func fetch(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "redis-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	args := append([]string{"download", "-q"}, packages()...)
	download := exec.CommandContext(ctx, "apt-get", args...) //nolint:gosec // constants
	download.Dir = tmp
	if out, err := download.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	root := filepath.Join(tmp, "root")
	for _, a := range archives {
		unpack := exec.CommandContext(ctx, "dpkg-deb", "-x", a, root) //nolint:gosec // the downloaded archive
		if out, err := unpack.CombinedOutput(); err != nil {
			return fmt.Errorf("unpack %s: %w\n%s", filepath.Base(a), err, out)
		}
	}
	// The check tool and the server are the same executable, which acts by its name.
	if err := os.Symlink(filepath.Join("usr", "bin", "redis-check-rdb"),
		filepath.Join(root, "redis-server")); err != nil {
		return err
	}
	if err := os.Rename(root, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return nil // another test process was faster
		}
		return err
	}
	return nil
}
