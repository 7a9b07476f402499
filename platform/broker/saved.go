package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// closedFile says that the log is as Close left it.
const closedFile = "closed"

// dropSaved removes what an earlier Close has saved beside the log, unless nothing was
// written since. kfake believes a partition's snapshot when the segments have the sizes
// it names: after a compaction they may have them with other messages in them, and the
// partition would end where it ended then. The rest is as old: what kfake knew of
// transactions, and of the sequence numbers of producers.
func dropSaved(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, closedFile)); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	log := filepath.Join(dir, "log")
	saved := []string{filepath.Join(log, "session_state.json"), filepath.Join(log, "seq_windows.json")}
	partitions, err := os.ReadDir(partitionsDir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an earlier end has saved: %w", err)
	}
	for _, p := range partitions {
		if p.IsDir() {
			saved = append(saved, filepath.Join(partitionsDir(dir), p.Name(), "snapshot.json"))
		}
	}
	for _, path := range saved {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what an earlier end has saved: %w", err)
		}
	}
	return nil
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
