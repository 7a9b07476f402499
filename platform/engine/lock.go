package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock locks an engine's data directory. It waits until ctx ends for another process that holds the lock.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	return lockFile(ctx, filepath.Join(dir, "engine.lock"))
}

// lockFile takes an exclusive lock on the file. It waits for the lock until ctx ends. The kernel releases the lock
// when the process ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("%s is locked by another process: %w", path, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
