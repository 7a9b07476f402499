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

// A restore puts what it has unpacked into its place within the data folder, name
// by name: the folder may be a disk of its own, which cannot be moved, and a link
// to it stays one. Whoever ends half way is followed by Finish.
const (
	// unpackedDir is being filled; when that was cut off it is of no use.
	unpackedDir = ".restoring"
	// checkedDir is whole: what is in the folder goes to beforeDir.
	checkedDir = ".restored"
	// enteringDir is whole and nothing else is there: what is in it goes up.
	enteringDir = ".restored.enters"
	beforeDir   = ".before"
)

// stays says of a name in a data folder that it is none of the data's.
func stays(name string) bool {
	return name == "lock" || name == "lost+found" ||
		name == unpackedDir || name == checkedDir || name == enteringDir || strings.HasPrefix(name, beforeDir)
}

// Unpacking makes the place in a data folder to Extract to.
func Unpacking(dir string) (string, error) {
	path := filepath.Join(dir, unpackedDir)
	if err := os.RemoveAll(path); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	return path, nil
}

// Place gives what was unpacked the place of what is in the folder, which nobody
// serves from meanwhile, and says where that is kept, if there was anything.
func Place(dir string, now time.Time) (kept string, err error) {
	if err := os.Rename(filepath.Join(dir, unpackedDir), filepath.Join(dir, checkedDir)); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	return Finish(dir, now)
}

// Finish ends a restore that was cut off while it put things into their places,
// if there was one, and removes what one that was cut off earlier has unpacked.
// Nobody else may restore into the folder meanwhile.
func Finish(dir string, now time.Time) (kept string, err error) {
	// What is put beside "." would be within it.
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("end a restore: %w", err)
	}
	kept, err = finish(dir, now)
	if err == nil {
		err = os.RemoveAll(filepath.Join(dir, unpackedDir))
	}
	if err != nil {
		return "", fmt.Errorf("end a restore into %s: %w", dir, err)
	}
	return kept, nil
}

func finish(dir string, now time.Time) (kept string, err error) {
	checked, entering, before := filepath.Join(dir, checkedDir), filepath.Join(dir, enteringDir), filepath.Join(dir, beforeDir)
	there, err := exists(checked)
	if err != nil {
		return "", err
	}
	if there {
		if err := os.MkdirAll(before, 0o700); err != nil {
			return "", err
		}
		if err := moveAll(dir, before, false); err != nil { // such as a folder that is a disk of its own: all stays as it was
			if back := moveAll(before, dir, false); back != nil {
				// The data is in two places: no start may take a half of it for all.
				return "", errors.Join(err, back, fmt.Errorf("what is both in %s and in %s has to be put away from one of them, such as a secret.key that was made since; the next start goes on", dir, before))
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
		if err := os.RemoveAll(entering); err != nil { // has no data any more
			return "", err
		}
	}
	if there, err = exists(before); err != nil || !there {
		return "", err
	}
	if os.Remove(before) == nil { // nothing was in the folder
		return "", nil
	}
	stamp := "-" + now.UTC().Format("20060102T150405Z")
	if kept, err = aside(before, dir+beforeDir+stamp); err == nil {
		return kept, nil
	}
	// Beside the folder is another disk, or not for us to write.
	return aside(before, before+stamp)
}

// aside renames a folder, with a number behind its name where another restore took that in the same second.
func aside(folder, name string) (string, error) {
	taken := name
	for n := 2; ; n++ {
		err := os.Rename(folder, taken)
		if !errors.Is(err, fs.ErrExist) { // which a folder that is not empty is, too
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

// moveAll moves the data in a folder into another one of the same disk. Unless it is over
// what is there, that is an error: a command may have made a new secret.key while the old
// one was away.
func moveAll(from, to string, over bool) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if stays(e.Name()) {
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

// syncDir makes the names in a folder survive a crash of the machine.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
