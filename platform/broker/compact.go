package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// kfake removes the files of a partition before it writes the compacted ones, so a crash in between would lose the
// partition. The files are therefore hard-linked to a backup, and responses are held back until the backup is removed.
const (
	// backupDir holds the files of the log as they were before a compaction that has not ended.
	backupDir = "compacting"
	// partialBackupDir is backupDir while it is being filled.
	partialBackupDir = "compacting.new"
	// removedBackupDir is backupDir while it is being deleted.
	removedBackupDir = "compacting.old"
)

var errClosed = errors.New("broker is closed")

// Compact compacts the topics whose cleanup.policy includes compact, and applies retention to all topics. The broker
// answers no request in the meantime, which takes seconds for each few hundred megabytes. If ctx ends first, Compact
// returns its error and the compaction finishes in the background; Close waits for it. If the process dies during a
// compaction, or the disk gets full and the broker fails, the next start restores the log as it was before.
//
// It returns ErrOpenTransaction if a compacted topic has an open transaction, and ErrInsufficientDiskSpace if the disk
// has less space than twice the compacted topics; then only retention was applied.
//
// Compaction keeps the last message of a key, which need not be its newest version: compact when the consumers have no
// lag.
func (b *Broker) Compact(ctx context.Context) error {
	return b.clean(ctx, "compact", func() error {
		switch err := cmp.Or(b.checkNoOpenTransactions(), b.checkDiskSpace()); {
		case errors.Is(err, ErrInsufficientDiskSpace), errors.Is(err, ErrOpenTransaction):
			// Retention frees disk space.
			return errors.Join(err, b.rewriteLog(b.cluster.ApplyRetention))
		case err != nil:
			return err
		}
		return b.rewriteLog(b.cluster.Compact)
	})
}

// Retain applies retention without compaction. It reads no messages, so the broker pauses only briefly. A ctx that ends
// first, or a crash, has the same effect as with Compact.
func (b *Broker) Retain(ctx context.Context) error {
	return b.clean(ctx, "apply retention", func() error { return b.rewriteLog(b.cluster.ApplyRetention) })
}

// clean calls fn when no other cleaning runs. If ctx ends first, fn finishes in the background.
func (b *Broker) clean(ctx context.Context, operation string, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		b.compacting.Lock()
		defer b.compacting.Unlock()
		select {
		case <-b.gate.shutting: // kfake no longer responds
			done <- errClosed
		default:
			done <- fn()
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("broker: %s: %w", operation, err)
		}
		return nil
	case <-b.Failed():
		return fmt.Errorf("broker: %s: %w", operation, b.Err())
	case <-ctx.Done():
		return fmt.Errorf("broker: %s: %w", operation, context.Cause(ctx))
	}
}

// rewriteLog lets kfake change its files, which are backed up until the change is complete.
func (b *Broker) rewriteLog(change func()) error {
	// From here on nothing is acknowledged until the backup is removed.
	release := b.gate.hold()
	defer release()
	if err := backupLog(b.dir); err != nil {
		return err
	}
	// After a crash of the machine the backup must be visible if files are removed.
	synced := syncDir(b.dir)
	if synced == nil {
		cleaned := make(chan error, 1)
		go func() {
			change()
			cleaned <- preserveEndOffsets(b.dir, b.currentEndOffset)
		}()
		select {
		case err := <-cleaned:
			if err != nil {
				b.failure.set(fmt.Errorf("%w: %w", ErrLogWriteFailed, err))
				return b.Err() // the next start restores the backup
			}
		case <-b.Failed():
			return b.Err() // as above
		}
	}
	// A start restores the backup while it exists and would lose what is acknowledged from now on.
	for {
		err := removeBackup(b.dir)
		if err == nil {
			break
		}
		b.logger.Error("kafka broker: responses blocked, cannot remove the log backup of a compaction",
			slog.Any("error", err))
		select {
		case <-time.After(time.Second):
		case <-b.gate.shutting: // Close would save the state of a log that the next start replaces by the backup
			b.failure.set(fmt.Errorf("%w: %w", ErrLogWriteFailed, err))
			return b.Err()
		}
	}
	return errors.Join(synced, purgeRemovedBackup(b.dir))
}

// backupLog hard-links the files of all partitions into backupDir.
func backupLog(dir string) error {
	partial := filepath.Join(dir, partialBackupDir)
	if err := errors.Join(os.RemoveAll(partial), purgeRemovedBackup(dir)); err != nil {
		return fmt.Errorf("back up the log: %w", err)
	}
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return fmt.Errorf("back up the log: %w", err)
	}
	if err := linkPartitions(partitionsDir(dir), partial); err != nil {
		return fmt.Errorf("back up the log: %w", errors.Join(err, os.RemoveAll(partial)))
	}
	if err := os.Rename(partial, filepath.Join(dir, backupDir)); err != nil {
		return fmt.Errorf("back up the log: %w", err)
	}
	return nil
}

// linkPartitions hard-links the files of each directory in from into a new directory of the same name in to.
func linkPartitions(from, to string) error {
	partitions, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if !p.IsDir() {
			continue
		}
		source, target := filepath.Join(from, p.Name()), filepath.Join(to, p.Name())
		if err := os.MkdirAll(target, 0o755); err != nil { //nolint:gosec // as kfake does; the parent is private
			return err
		}
		files, err := os.ReadDir(source)
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := os.Link(filepath.Join(source, f.Name()), filepath.Join(target, f.Name())); err != nil {
				return err
			}
		}
		if err := syncDir(target); err != nil {
			return err
		}
	}
	return syncDir(to)
}

// removeBackup atomically renames the backup, so that no start restores it.
func removeBackup(dir string) error {
	if err := os.Rename(filepath.Join(dir, backupDir), filepath.Join(dir, removedBackupDir)); err != nil {
		return fmt.Errorf("remove the log backup: %w", err)
	}
	return nil
}

// purgeRemovedBackup deletes the files of a removed backup.
func purgeRemovedBackup(dir string) error {
	if err := errors.Join(syncDir(dir), os.RemoveAll(filepath.Join(dir, removedBackupDir))); err != nil {
		return fmt.Errorf("delete the log backup: %w", err)
	}
	return nil
}

// restoreBackup restores the log as it was before an incomplete compaction. It can be interrupted and repeated.
func restoreBackup(dir string) (restored bool, err error) {
	for _, name := range []string{partialBackupDir, removedBackupDir} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return false, fmt.Errorf("restore the log: %w", err)
		}
	}
	backup := filepath.Join(dir, backupDir)
	partitions, err := os.ReadDir(backup)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("restore the log: %w", err)
	}
	for _, p := range partitions {
		if err := os.RemoveAll(filepath.Join(partitionsDir(dir), p.Name())); err != nil {
			return false, fmt.Errorf("restore the log: %w", err)
		}
	}
	if err := linkPartitions(backup, partitionsDir(dir)); err != nil {
		return false, fmt.Errorf("restore the log: %w", err)
	}
	if err := removeBackup(dir); err != nil {
		return false, err
	}
	return true, purgeRemovedBackup(dir)
}

func partitionsDir(dir string) string { return filepath.Join(dir, "log", "partitions") }

// syncDir syncs a directory or file to disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
