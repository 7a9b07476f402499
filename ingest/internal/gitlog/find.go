package gitlog

import (
	"fmt"
	"os"
	"path/filepath"
)

// Find returns the repositories at a directory: the directory itself if it is one, or else those
// below it. Inside the working tree of a repository only clones with a ".git" directory count: bare
// repositories there are files of the project. Symbolic links are not followed. Unreadable
// directories are skipped and returned.
func Find(dir string) (repositories, unreadable []string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, fmt.Errorf("open repository: %w", err)
	}
	if exists(filepath.Join(dir, dotGit)) || isBare(dir) {
		return []string{dir}, nil, nil
	}
	type location struct {
		path       string
		inWorkTree bool // the working tree of a repository
	}
	for queue := []location{{dir, false}}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		entries, err := os.ReadDir(at.path)
		if err != nil {
			unreadable = append(unreadable, at.path)
			continue
		}
		if !at.inWorkTree && isBare(at.path) {
			repositories = append(repositories, at.path)
			continue
		}
		for _, e := range entries {
			if e.Name() == dotGit && (e.IsDir() || !at.inWorkTree) {
				repositories = append(repositories, at.path)
				at.inWorkTree = true
			}
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != dotGit {
				queue = append(queue, location{filepath.Join(at.path, e.Name()), at.inWorkTree})
			}
		}
	}
	if len(repositories) == 0 {
		return nil, unreadable, fmt.Errorf("open repository: no git repository in %s or below", dir)
	}
	return repositories, unreadable, nil
}

// isBare reports whether a directory has the layout of a repository (gitrepository-layout(5)).
func isBare(dir string) bool {
	for name, wantDir := range map[string]bool{"HEAD": false, "objects": true, "refs": true} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() != wantDir {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !os.IsNotExist(err)
}
