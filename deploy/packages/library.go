package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// library is the engine's library for a platform: a line of platform/engine/libchdb.txt.
type library struct{ os, arch, pkg, version, integrity string }

func (l library) isNative() bool { return l.os == runtime.GOOS && l.arch == runtime.GOARCH }

// bundledPath returns the path at which muster looks for the library, relative to the program's directory.
func (l library) bundledPath() string {
	return path.Join("libchdb", l.version, l.os+"-"+l.arch, "libchdb.so")
}

func readLibraries(root string) ([]library, error) {
	raw, err := os.ReadFile(filepath.Join(root, "platform", "engine", "libchdb.txt"))
	if err != nil {
		return nil, err
	}
	var out []library
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) != 4 || strings.HasPrefix(line, "#") {
			continue
		}
		system, arch, ok := strings.Cut(fields[0], "/")
		if !ok {
			return nil, fmt.Errorf("libchdb.txt: invalid platform %q", fields[0])
		}
		out = append(out, library{system, arch, fields[1], fields[2], fields[3]})
	}
	return out, nil
}

// fetchLibrary returns the path of the library on this machine: MUSTER_LIBCHDB, or the cache, which the program fills
// if needed.
func fetchLibrary(ctx context.Context, program string) (string, error) {
	cmd := exec.CommandContext(ctx, program, "engine", "fetch")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetch the engine's library (or pass -offline=false): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
