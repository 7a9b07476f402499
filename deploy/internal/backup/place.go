package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A restore moves the extracted data into the data directory file by file, since the directory may be a mount point
// or a symbolic link. An interrupted restore is completed by Finish.
const (
	// unpackedDir is being filled. An interrupted one is useless.
	unpackedDir = ".restoring"
	// checkedDir is complete: the content of the directory is to be moved to beforeDir.
	checkedDir = ".restored"
	// enteringDir is complete and nothing else is there: its content is to be moved up.
	enteringDir = ".restored.enters"
	beforeDir   = ".before"
)

// isNotData reports whether a name in a data directory is not part of its data.
func isNotData(name string) bool {
	return name == "lock" || name == "lost+found" ||
		name == unpackedDir || name == checkedDir || name == enteringDir || strings.HasPrefix(name, beforeDir)
}

// Unpacking creates the directory in a data directory to Extract to.
func Unpacking(dir string) (string, error) {
	path := filepath.Join(dir, unpackedDir)
	if err := os.RemoveAll(path); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	return path, nil
}

// Place replaces the content of a data directory with the extracted data, and returns the path of the previous content,
// or "" if there was none. No process may serve the directory.
func Place(dir string, now time.Time) (kept string, err error) {
	if err := os.Rename(filepath.Join(dir, unpackedDir), filepath.Join(dir, checkedDir)); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	return Finish(dir, now)
}

// Finish completes a restore that was interrupted while it moved data, and deletes the extracted data of a restore that
// was interrupted earlier. No other restore may run on the directory.
func Finish(dir string, now time.Time) (kept string, err error) {
	// A directory next to "." would be inside of it.
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("finish a restore: %w", err)
	}
	kept, err = finish(dir, now)
	if err == nil {
		err = os.RemoveAll(filepath.Join(dir, unpackedDir))
	}
	if err != nil {
		return "", fmt.Errorf("finish a restore into %s: %w", dir, err)
	}
	return kept, nil
}

func finish(dir string, now time.Time) (kept string, err error) {
	checked, entering, before := filepath.Join(dir, checkedDir), filepath.Join(dir, enteringDir),
		filepath.Join(dir, beforeDir)
	there, err := exists(checked)
	if err != nil {
		return "", err
	}
	if there {
		if err := os.MkdirAll(before, 0o700); err != nil {
			return "", err
		}
		// For example, the directory is a mount point: nothing has changed.
		if err := moveAll(dir, before, false); err != nil {
			if back := moveAll(before, dir, false); back != nil {
				// The data is in two directories, so that a start would see only a part of it.
				return "",
					errors.Join(err, back,
						fmt.Errorf(
							"files exist both in %s and in %s, such as a new secret.key: remove them from one of "+
								"these; the next start continues", dir, before))
			}
			return "", errors.Join(err, os.Remove(before), os.Rename(checked, filepath.Join(dir, unpackedDir)))
		}
		if err := os.Rename(checked, entering); err != nil {
			return "", err
		}
	}
	if there, err = exists(entering); err != nil {
		return "", err
	}
	if there {
		if err := moveAll(entering, dir, true); err != nil {
			return "", err
		}
		if err := os.RemoveAll(entering); err != nil { // no data left
			return "", err
		}
	}
	if there, err = exists(before); err != nil || !there {
		return "", err
	}
	if os.Remove(before) == nil { // the directory was empty
		return "", nil
	}
	stamp := "-" + now.UTC().Format("20060102T150405Z")
	if kept, err = renameAside(before, dir+beforeDir+stamp); err == nil {
		return kept, nil
	}
	// The parent directory is on another disk, or not writable.
	return renameAside(before, before+stamp)
}

// renameAside renames a directory. If the name is in use by another restore of the same second, it appends a number.
func renameAside(folder, name string) (string, error) {
	taken := name
	for n := 2; ; n++ {
		err := os.Rename(folder, taken)
		if !errors.Is(err, fs.ErrExist) { // also the error of a non-empty directory
			return taken, err
		}
		taken = name + "-" + strconv.Itoa(n)
	}
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// moveAll moves the data in a directory to another one on the same disk. Unless over is set, an existing target is an
// error: a command may have created a new secret.key while the old one was moved.
func moveAll(from, to string, over bool) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isNotData(e.Name()) {
			continue
		}
		target := filepath.Join(to, e.Name())
		if there, err := exists(target); err != nil {
			return err
		} else if there && !over {
			return &fs.PathError{Op: "move", Path: target, Err: fs.ErrExist}
		}
		if err := os.Rename(filepath.Join(from, e.Name()), target); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(from), syncDir(to))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
