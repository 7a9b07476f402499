package instance

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
	"time"
)

// ErrInUse reports that another process serves the data directory.
var ErrInUse = errors.New("the data directory is in use by another muster")

// A lock that another command holds for a moment, and an owner that has not written its ID yet, are tried again.
const (
	lockAttempts      = 200
	lockRetryInterval = 10 * time.Millisecond
)

// Lock locks a data directory for this process, which serves it. The operating system releases the lock when the
// process exits. It returns ErrInUse if another process has the lock. The instance file of the previous process no
// longer counts as running, also if this process has the same ID, as in a container.
func Lock(dataDir string) (release func(), err error) {
	release, err = LockFor(dataDir, "")
	if err != nil {
		return nil, err
	}
	if err := Retire(dataDir); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// LockFor is like Lock, for a command that does not serve, such as a backup; work is its name.
func LockFor(dataDir, work string) (release func(), err error) {
	path := filepath.Join(dataDir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := lockExclusively(file); err != nil {
		holder, _ := os.ReadFile(path)
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s (process %s): stop it, or choose another directory with --data-dir",
				ErrInUse, dataDir, strings.ReplaceAll(strings.TrimSpace(string(holder)), "\n", ", "))
		}
		return nil, fmt.Errorf("lock the data directory %s: %w", dataDir, err)
	}
	if err := errors.Join(file.Truncate(0), writeLockOwner(file, work)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// LockOwner returns the ID of the process that has locked a data directory, or 0, and the work of [LockFor]. The lock
// file is not cleared when its process exits, and the ID may have been reused.
func LockOwner(dataDir string) (pid int, work string, err error) {
	file, err := os.Open(filepath.Join(dataDir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("find the lock owner of the data directory: %w", err)
	}
	defer func() { _ = file.Close() }() // releases the lock
	tick := time.NewTicker(lockRetryInterval)
	defer tick.Stop()
	for range lockAttempts {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil {
			return 0, "", nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		if pid, work, err = readLockOwner(file); err == nil {
			return pid, work, nil
		}
		<-tick.C
	}
	return 0, "", fmt.Errorf("find the lock owner of the data directory %s: %w", dataDir, err)
}

// lockExclusively returns EWOULDBLOCK if another process has locked the file for itself. It waits for a shared lock,
// which LockOwner holds for a moment.
func lockExclusively(file *os.File) error {
	tick := time.NewTicker(lockRetryInterval)
	defer tick.Stop()
	var err error
	for range lockAttempts {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
			return err
		}
		<-tick.C
	}
	return err
}

func readLockOwner(file *os.File) (pid int, work string, err error) {
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<10))
	if err != nil {
		return 0, "", err
	}
	number, work, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	pid, err = strconv.Atoi(number)
	return pid, work, err
}

// IsLockOwner reports whether a process has the lock file of a data directory open. The process ID in the lock is from
// the owner's container, and may be another process here. If that cannot be determined, IsLockOwner returns true.
func IsLockOwner(dataDir string, pid int) bool {
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

func writeLockOwner(file *os.File, work string) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	if work != "" {
		text += work + "\n"
	}
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
