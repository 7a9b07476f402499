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
	// closedFile says that the log is as Close left it.
	closedFile = "closed"
	// snapshotFile is what Close saves of a partition.
	snapshotFile = "snapshot.json"
)

// wasClosed says whether the log is as Close left it. Else it removes what an earlier
// Close has saved of transactions, and of the sequence numbers of producers.
func wasClosed(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, closedFile)); err == nil {
		return true, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	log := filepath.Join(dir, "log")
	if err := errors.Join(removeAny(filepath.Join(log, "session_state.json")), removeAny(filepath.Join(log, "seq_windows.json"))); err != nil {
		return false, fmt.Errorf("remove what an earlier end has saved: %w", err)
	}
	return false, nil
}

// snapshot is what is of interest of what Close has saved of a partition.
type snapshot struct {
	Version          int            `json:"version"` // 0: there is none
	HighWatermark    int64          `json:"high_watermark"`
	LastStableOffset int64          `json:"last_stable_offset"`
	Segments         []savedSegment `json:"segments"`
}

// savedSegment is a segment as Close has left it.
type savedSegment struct {
	Base int64 `json:"base_offset"`
	Size int64 `json:"size"`
}

// readSnapshot returns zeros where Close has saved nothing, or was cut off.
func readSnapshot(partition string) (s snapshot, err error) {
	raw, err := os.ReadFile(filepath.Join(partition, snapshotFile))
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot{}, nil
	}
	if err != nil {
		return snapshot{}, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return snapshot{}, nil //nolint:nilerr // kfake passes over it, too
	}
	return s, nil
}

// dropSnapshot removes the snapshot of a partition that has another end. kfake believes
// one when the segments have the sizes it names: after a compaction they may have them
// with other messages in them, and the partition would end where it ended then. One that
// tells of an open transaction is believed only with what else Close has saved.
func dropSnapshot(partition string, saved snapshot, end int64, closed bool) error {
	if saved.HighWatermark == end && (closed || saved.LastStableOffset == end) {
		return nil
	}
	return removeAny(filepath.Join(partition, snapshotFile))
}

// markClosed makes the next start believe what was saved.
func markClosed(dir string) error {
	err := filepath.WalkDir(filepath.Join(dir, "log"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path) // files, too
	})
	if err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, closedFile), nil, 0o600); err != nil {
		return fmt.Errorf("mark the log as closed: %w", err)
	}
	return syncDir(dir)
}

// forgetUsers removes the users that an earlier broker has saved. kfake believes them
// instead of those of the configuration, also where there were none.
func forgetUsers(dir string) error {
	if err := removeAny(filepath.Join(dir, "log", "sasl.json")); err != nil {
		return fmt.Errorf("remove the users of before: %w", err)
	}
	return nil
}

// markOpen takes markClosed back. It comes before anything is written.
func markOpen(dir string) error {
	if err := os.Remove(filepath.Join(dir, closedFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("mark the log as open: %w", err)
	}
	return syncDir(dir)
}
