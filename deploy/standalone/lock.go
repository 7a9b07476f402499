package standalone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse says that a process serves from the data folder.
var ErrInUse = errors.New("the data folder is served by another muster")

// Lock takes a data folder for this process. The operating system gives it back
// when the process ends, however it ends. ErrInUse says that another process has it.
func Lock(dataDir string) (release func(), err error) {
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
				ErrInUse, dataDir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock the data folder %s: %w", dataDir, err)
	}
	if err := errors.Join(file.Truncate(0), writePID(file)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

func writePID(file *os.File) error {
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
