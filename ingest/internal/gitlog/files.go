package gitlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// maxList bounds the files of a repository that are lists, and maxFile those that are
// a few lines, such as a reference: they are read whole.
const (
	maxList = 64 << 20
	maxFile = 1 << 20
)

// openFiles opens a repository's folder ".git", or the folder itself of a bare one. A
// file ".git" names the folder of a worktree elsewhere, whose objects may be in yet
// another one, its common folder.
func openFiles(folder string) (billy.Filesystem, error) {
	dot := filepath.Join(folder, git.GitDirName)
	info, err := os.Stat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dot = folder
	case err != nil:
		return nil, err // names operation, path and cause
	case !info.IsDir():
		line, err := readLine(dot)
		if err != nil {
			return nil, err
		}
		path, ok := strings.CutPrefix(line, "gitdir: ")
		if !ok {
			return nil, fmt.Errorf("%s names no folder", dot)
		}
		dot = under(folder, strings.TrimSpace(path))
	}
	if _, err := os.Stat(dot); err != nil {
		return nil, err // names operation, path and cause
	}
	var common billy.Filesystem
	path, err := readLine(filepath.Join(dot, "commondir"))
	switch {
	case err == nil:
		path = under(dot, strings.TrimSpace(path))
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("common folder: %w", err)
		}
		common = guarded{osfs.New(path)}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return dotgit.NewRepositoryFilesystem(guarded{osfs.New(dot)}, common), nil
}

func under(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// readLine reads the first line of a small file.
func readLine(path string) (line string, err error) {
	f, err := guarded{osfs.New(filepath.Dir(path))}.Open(filepath.Base(path))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	line, _, _ = strings.Cut(string(text), "\n")
	return line, nil
}

// guarded is a file system in which what is no file, such as a pipe that nobody writes to,
// and what is larger than it can be, is not opened. Objects may have any size: they are
// read in parts.
type guarded struct{ billy.Filesystem }

// Open implements billy.Filesystem.
func (g guarded) Open(name string) (billy.File, error) {
	info, err := g.Stat(name)
	if err != nil {
		return nil, err // names operation, path and cause
	}
	most := int64(maxFile)
	switch first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(name)), "/"); first {
	case "objects":
		most = info.Size()
	case "packed-refs", "shallow":
		most = maxList
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: g.Join(g.Root(), name), Err: errors.New("is no file")}
	}
	if info.Size() > most {
		return nil, &fs.PathError{Op: "open", Path: g.Join(g.Root(), name), Err: fmt.Errorf("is larger than %d MiB", most>>20)}
	}
	return g.Filesystem.Open(name) // names operation, path and cause
}
