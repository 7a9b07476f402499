package gitlog

import (
	"fmt"
	"os"
	"path/filepath"
)

// Find returns the repositories that a folder names: the folder itself if it is one, or else those in it and below.
// Inside the working files of a repository only clones count, which have a folder ".git": bare repositories there are
// files of the project. Symbolic links are not followed. Folders that cannot be read are passed over and returned.
func Find(folder string) (repositories, unreadable []string, err error) {
	if _, err := os.Stat(folder); err != nil {
		return nil, nil, fmt.Errorf("open repository: %w", err)
	}
	if exists(filepath.Join(folder, dotGit)) || isBare(folder) {
		return []string{folder}, nil, nil
	}
	type place struct {
		path   string
		inside bool // the working files of a repository
	}
	for queue := []place{{folder, false}}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		entries, err := os.ReadDir(at.path)
		if err != nil {
			unreadable = append(unreadable, at.path)
			continue
		}
		if !at.inside && isBare(at.path) {
			repositories = append(repositories, at.path)
			continue
		}
		for _, e := range entries {
			if e.Name() == dotGit && (e.IsDir() || !at.inside) {
				repositories = append(repositories, at.path)
				at.inside = true
			}
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != dotGit {
				queue = append(queue, place{filepath.Join(at.path, e.Name()), at.inside})
			}
		}
	}
	if len(repositories) == 0 {
		return nil, unreadable, fmt.Errorf("open repository: no git repository in %s or below", folder)
	}
	return repositories, unreadable, nil
}

// isBare reports whether a folder has what git takes for a repository (gitrepository-layout(5)).
func isBare(folder string) bool {
	for name, dir := range map[string]bool{"HEAD": false, "objects": true, "refs": true} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil || info.IsDir() != dir {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !os.IsNotExist(err)
}
