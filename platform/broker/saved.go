package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
)

const (
	// closedFile marks that the log is as Close left it.
	closedFile = "closed"
	// snapshotFile is the state of a partition saved by Close.
	snapshotFile = "snapshot.json"
)

// wasClosed reports whether the log is as Close left it. If not, it removes the transactions and producer sequence
// numbers that an earlier Close saved.
func wasClosed(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, closedFile)); err == nil {
		return true, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	log := filepath.Join(dir, "log")
	err := errors.Join(removeIfExists(filepath.Join(log, "session_state.json")),
		removeIfExists(filepath.Join(log, "seq_windows.json")))
	if err != nil {
		return false, fmt.Errorf("remove stale state: %w", err)
	}
	return false, nil
}

// snapshot holds the used fields of the partition state saved by Close.
type snapshot struct {
	Version          int            `json:"version"` // 0: no snapshot
	HighWatermark    int64          `json:"high_watermark"`
	LastStableOffset int64          `json:"last_stable_offset"`
	Segments         []savedSegment `json:"segments"`
}

// savedSegment is a segment as Close left it.
type savedSegment struct {
	Base int64 `json:"base_offset"`
	Size int64 `json:"size"`
}

// readSnapshot returns the zero snapshot if Close saved none or was interrupted.
func readSnapshot(partition string) (s snapshot, err error) {
	raw, err := os.ReadFile(filepath.Join(partition, snapshotFile))
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot{}, nil
	}
	if err != nil {
		return snapshot{}, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return snapshot{}, nil //nolint:nilerr // kfake skips it as well
	}
	return s, nil
}

// dropSnapshot removes the snapshot of a partition if it does not match its end. kfake trusts a snapshot if the segment
// sizes match, which can also be so after a compaction, and would use its end. A snapshot with an open transaction is
// valid only together with the other state saved by Close.
func dropSnapshot(partition string, saved snapshot, end int64, closed bool) error {
	if saved.HighWatermark == end && (closed || saved.LastStableOffset == end) {
		return nil
	}
	return removeIfExists(filepath.Join(partition, snapshotFile))
}

// markClosed syncs the log and marks it as closed, so that the next start trusts the saved state.
func markClosed(dir string) error {
	err := filepath.WalkDir(filepath.Join(dir, "log"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path) // also works for files
	})
	if err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, closedFile), nil, 0o600); err != nil {
		return fmt.Errorf("mark the log as closed: %w", err)
	}
	return syncDir(dir)
}

// removeStoredUsers removes the users stored by an earlier broker. kfake would use them instead of the configured ones,
// even if none are configured.
func removeStoredUsers(dir string) error {
	if err := removeIfExists(filepath.Join(dir, "log", "sasl.json")); err != nil {
		return fmt.Errorf("remove stored users: %w", err)
	}
	return nil
}

// markOpen removes the mark of markClosed. It is called before anything is written.
func markOpen(dir string) error {
	if err := os.Remove(filepath.Join(dir, closedFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("mark the log as open: %w", err)
	}
	return syncDir(dir)
}
