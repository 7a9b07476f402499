package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// binaries is where Debian's package has the server's programs, below the root.
const binaries = "usr/lib/postgresql/15/bin"

// program is how the server's programs are run.
type program struct {
	bin string // their folder
	env []string
}

// find returns the installed programs. Without them it unpacks Debian's packages into dir, and downloads those first
// unless an earlier call has: root's cache folder itself is closed to the user that the server then runs as.
func find(ctx context.Context, dir string) (program, error) {
	if bin := "/" + binaries; exists(filepath.Join(bin, "postgres")) {
		return program{bin: bin}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return program{}, fmt.Errorf("find the user's cache folder: %w", err)
	}
	return unpack(ctx, filepath.Join(cache, "muster", "postgresql-15"), dir)
}

// packages hold the server and the libraries that a bare system lacks.
func packages() []string {
	return []string{
		"postgresql-15", "libpq5", "libicu72", "libxml2", "libldap-2.5-0", "libsasl2-2",
		"libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libkeyutils1", "libcom-err2", "libssl3",
	}
}

// unpack unpacks the archives in a folder, or downloads them to it first, into dir.
func unpack(ctx context.Context, archives, dir string) (program, error) {
	if !exists(archives) {
		if err := download(ctx, archives); err != nil {
			return program{}, fmt.Errorf("PostgreSQL 15 is not installed, and Debian's cannot be fetched (apt-get install postgresql-15): %w", err)
		}
	}
	list, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return program{}, fmt.Errorf("list Debian's packages: %w", err)
	}
	root := filepath.Join(dir, "root")
	for _, a := range list {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", a, root).CombinedOutput(); err != nil {
			return program{}, fmt.Errorf("unpack %s: %w\n%s", filepath.Base(a), err, out)
		}
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-gnu"))
	if err != nil || len(libraries) == 0 || !exists(filepath.Join(root, binaries, "postgres")) {
		return program{}, fmt.Errorf("%s holds no PostgreSQL 15: remove it", archives)
	}
	return program{bin: filepath.Join(root, binaries), env: []string{"LD_LIBRARY_PATH=" + libraries[0]}}, nil
}

func download(ctx context.Context, archives string) error {
	if err := os.MkdirAll(filepath.Dir(archives), 0o750); err != nil {
		return fmt.Errorf("make the folder of the packages: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(archives), "postgresql-")
	if err != nil {
		return fmt.Errorf("make the folder of the packages: %w", err)
	}
	defer os.RemoveAll(tmp) // what a failed download leaves
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q"}, packages()...)...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w\n%s", err, out)
	}
	if err := os.Rename(tmp, archives); err != nil && !exists(archives) { // another process may have been faster
		return fmt.Errorf("keep the packages: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
