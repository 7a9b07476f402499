package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	var r release
	flag.StringVar(&r.root, "root", "../..", "root of the repository")
	flag.StringVar(&r.out, "out", "../../dist", "directory to write to")
	flag.StringVar(&r.python, "python", "python3", "Python with pip, which builds the wheel of the Python client")
	flag.BoolVar(&r.offline, "offline", true, "build the bundle with the engine, for the platform of this machine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// release is one version of muster, to be built from a working tree.
type release struct {
	root, out, python string
	offline           bool
	// version defaults to the content of file VERSION.
	version string
	// mtime is the time of every packaged file: SOURCE_DATE_EPOCH, or the time of the commit.
	mtime time.Time
	// commit is the commit of the tree, with "+changes" if files were modified; empty without git.
	commit string
}

// build writes all files of the release, and their checksums, to out.
func (r *release) build(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	libraries, err := readLibraries(r.root)
	if err != nil {
		return err
	}
	var written []string
	for _, lib := range libraries {
		if lib.os != "linux" || lib.integrity == "-" {
			continue
		}
		names, err := r.buildPlatform(ctx, lib)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", lib.os, lib.arch, err)
		}
		written = append(written, names...)
	}
	if len(written) == 0 {
		return errors.New("no platform has an embedded engine")
	}
	wheel, err := r.buildWheel(ctx)
	if err != nil {
		return err
	}
	return writeChecksums(r.out, append(written, wheel))
}

// prepare creates out, and reads the version and the time.
func (r *release) prepare(ctx context.Context) error {
	if r.version == "" {
		raw, err := os.ReadFile(filepath.Join(r.root, "VERSION"))
		if err != nil {
			return err
		}
		r.version = strings.TrimSpace(string(raw))
	}
	committed, err := r.readCommit(ctx)
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if err != nil {
			return fmt.Errorf("time of the commit (or set SOURCE_DATE_EPOCH): %w", err)
		}
		seconds = committed
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.mtime = time.Unix(unix, 0).UTC()
	return os.MkdirAll(r.out, 0o755) //nolint:gosec // what is in it is for everyone
}

// readCommit sets the commit, and returns its time in seconds.
func (r *release) readCommit(ctx context.Context) (seconds string, err error) {
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the arguments below
		cmd.Dir = r.root
		out, failed := cmd.Output()
		err = errors.Join(err, failed)
		return strings.TrimSpace(string(out))
	}
	seconds, commit := git("log", "-1", "--format=%ct"), git("rev-parse", "--short=12", "HEAD")
	if changes := git("status", "--porcelain"); changes != "" {
		commit += "+changes"
	}
	if err == nil {
		r.commit = commit
	}
	return seconds, err
}

// buildPlatform builds the program for a platform, packages it, and returns the names of the files.
func (r *release) buildPlatform(ctx context.Context, lib library) ([]string, error) {
	work, err := os.MkdirTemp("", "muster-packages-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	program := filepath.Join(work, "muster")
	if err := r.compile(ctx, lib, program); err != nil {
		return nil, err
	}
	var written []string
	for _, format := range []string{"deb", "rpm"} {
		name, err := r.writePackage(format, lib.arch, program)
		if err != nil {
			return nil, err
		}
		written = append(written, name)
	}
	base := fmt.Sprintf("muster_%s_%s_%s", r.version, lib.os, lib.arch)
	files, err := r.tarballFiles(program)
	if err != nil {
		return nil, err
	}
	if err := r.writeTarball(base, base, files); err != nil {
		return nil, err
	}
	written = append(written, base+".tar.gz")
	if r.offline && lib.isNative() {
		files, err := r.offlineFiles(ctx, program, files, lib, written)
		if err != nil {
			return nil, err
		}
		if err := r.writeTarball(base+"_offline", base, files); err != nil {
			return nil, err
		}
		written = append(written, base+"_offline.tar.gz")
	}
	return written, nil
}

// compile builds the program without paths and times of this machine.
func (r *release) compile(ctx context.Context, lib library, program string) error {
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	//nolint:gosec // the version is the repository's
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.release="+r.version+" -X main.revision="+r.commit,
		"-o", program, "./deploy/cmd/muster")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+lib.os, "GOARCH="+lib.arch,
		"GOWORK="+filepath.Join(root, "go.work"))
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build muster: %w", err)
	}
	return nil
}

// buildWheel builds the wheel of the Python client and returns its name.
func (r *release) buildWheel(ctx context.Context) (string, error) {
	source, err := filepath.Abs(filepath.Join(r.root, "query-api", "client-py"))
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(r.out, ".wheel-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	//nolint:gosec // the program is a flag
	cmd := exec.CommandContext(ctx, r.python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--no-cache-dir", "--wheel-dir", work, source)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.mtime.Unix()))
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build wheel with %s -m pip: %w", r.python, err)
	}
	wheels, err := filepath.Glob(filepath.Join(work, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", errors.Join(err, fmt.Errorf("pip built %d wheels, not 1", len(wheels)))
	}
	name := filepath.Base(wheels[0])
	return name, os.Rename(wheels[0], filepath.Join(r.out, name))
}
