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

// binaries is the directory of the server's programs in Debian's package, relative to the root.
const binaries = "usr/lib/postgresql/15/bin"

// program describes how to run the server's programs.
type program struct {
	bin string // directory of the programs
	env []string
}

// find returns the installed programs. Without them it unpacks Debian's packages into dir, after downloading them once:
// the user that runs the server may have no access to root's cache directory.
func find(ctx context.Context, dir string) (program, error) {
	if bin := "/" + binaries; exists(filepath.Join(bin, "postgres")) {
		return program{bin: bin}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return program{}, fmt.Errorf("find the user's cache directory: %w", err)
	}
	return unpack(ctx, filepath.Join(cache, "muster", "postgresql-15"), dir)
}

// packages returns the packages of the server, and of libraries that a minimal system lacks.
func packages() []string {
	return []string{
		"postgresql-15", "libpq5", "libicu72", "libxml2", "libldap-2.5-0", "libsasl2-2",
		"libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libkeyutils1", "libcom-err2", "libssl3",
	}
}

// unpack unpacks the archives in a directory into dir. If there are none, it downloads them first.
func unpack(ctx context.Context, archives, dir string) (program, error) {
	if !exists(archives) {
		if err := download(ctx, archives); err != nil {
			return program{},
				fmt.Errorf(
					"PostgreSQL 15 is not installed, and Debian's package cannot be downloaded (apt-get install "+
						"postgresql-15): %w", err)
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
		return program{}, fmt.Errorf("%s does not contain PostgreSQL 15: remove it", archives)
	}
	return program{bin: filepath.Join(root, binaries), env: []string{"LD_LIBRARY_PATH=" + libraries[0]}}, nil
}

func download(ctx context.Context, archives string) error {
	if err := os.MkdirAll(filepath.Dir(archives), 0o750); err != nil {
		return fmt.Errorf("create the directory of the packages: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(archives), "postgresql-")
	if err != nil {
		return fmt.Errorf("create the directory of the packages: %w", err)
	}
	defer os.RemoveAll(tmp) // after a failed download
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q"}, packages()...)...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w\n%s", err, out)
	}
	if err := os.Rename(tmp, archives); err != nil && !exists(archives) { // unless another process was faster
		return fmt.Errorf("store the packages: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
