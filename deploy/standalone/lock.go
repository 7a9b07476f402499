package standalone

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse says that a process serves from the data folder.
var ErrInUse = errors.New("the data folder is served by another muster")

// Lock takes a data folder for this process, which serves from it. The operating system gives it back
// when the process ends, however it ends. ErrInUse says that another process has it.
func Lock(dataDir string) (release func(), err error) { return LockFor(dataDir, "") }

// LockFor is Lock for a command that serves nobody and ends by itself, such as a backup; work is its name.
func LockFor(dataDir, work string) (release func(), err error) {
	path := filepath.Join(dataDir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s (process %s): stop it, or choose another folder with --data-dir",
				ErrInUse, dataDir, strings.ReplaceAll(strings.TrimSpace(string(holder)), "\n", ", "))
		}
		return nil, fmt.Errorf("lock the data folder %s: %w", dataDir, err)
	}
	if err := errors.Join(file.Truncate(0), writeHolder(file, work)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// Holder returns the process that has locked a data folder, 0 if none has, and the work of [LockFor]. The file keeps the
// number of one that has ended, which may be anybody's by now.
func Holder(dataDir string) (pid int, work string, err error) {
	file, err := os.Open(filepath.Join(dataDir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("look who has locked the data folder: %w", err)
	}
	defer func() { _ = file.Close() }() // which gives the lock back
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return 0, "", nil
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0, "", fmt.Errorf("look who has locked the data folder %s: %w", dataDir, err)
	}
	raw, err := io.ReadAll(file)
	if err == nil {
		var number string
		number, work, _ = strings.Cut(strings.TrimSpace(string(raw)), "\n")
		pid, err = strconv.Atoi(number)
	}
	if err != nil {
		return 0, "", fmt.Errorf("look who has locked the data folder %s: %w", dataDir, err)
	}
	return pid, work, nil
}

// Holds says whether a process has the lock of a data folder open. The number in the lock is that of the holder's own
// container, and may be another process's here. Where it cannot be found out it is true.
func Holds(dataDir string, pid int) bool {
	lock, err := os.Stat(filepath.Join(dataDir, "lock"))
	if err != nil {
		return true
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(open, func(fd fs.DirEntry) bool {
		file, err := os.Stat(filepath.Join(dir, fd.Name()))
		return err == nil && os.SameFile(file, lock)
	})
}

func writeHolder(file *os.File, work string) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	if work != "" {
		text += work + "\n"
	}
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
