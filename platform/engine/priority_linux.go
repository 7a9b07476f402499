package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mergeThreads is the name that the engine gives the threads of its one pool for
// merges and mutations.
const mergeThreads = "MergeMutate"

// mergeNice is how much nicer they are than the rest: where all processors are busy
// they get a tenth of what others get. Merging can wait, inserts and queries cannot.
// The library takes ClickHouse's setting for it and does nothing.
const mergeNice = 10

// mergesYield waits for the engine's merge threads, which come with the first part,
// and lowers their priority, which needs no privilege. It ends once a second look
// finds no more of them, or with ctx.
func mergesYield(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for before := 0; ; {
		n, err := lowerMergeThreads()
		if n > 0 && n == before || err != nil {
			return err
		}
		before = n
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// lowerMergeThreads says how many there are.
func lowerMergeThreads() (n int, err error) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil {
		return 0, fmt.Errorf("engine: read the process's priority: %w", err)
	}
	const kernelBase = 20 // the system call returns 20 minus the nice value
	nice := min(kernelBase-own+mergeNice, 19)
	names, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		return 0, fmt.Errorf("engine: list threads: %w", err)
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(comm)) != mergeThreads {
			continue // it may have ended meanwhile
		}
		tid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return n, fmt.Errorf("engine: list threads: %w", err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
			return n, fmt.Errorf("engine: lower the priority of merges: %w", err)
		}
		n++
	}
	return n, nil
}
