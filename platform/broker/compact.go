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

// kfake removes the files of a partition before it writes the compacted ones: whoever dies between has lost the
// partition. So the files are kept under second names meanwhile, and an answer that could make a client believe in
// something newer waits until they are not needed any more.
const (
	// keptDir holds the files of the log as they were before a compaction that has not ended.
	keptDir = "compacting"
	// keepingDir is keptDir while it is being filled, droppedDir while it is being removed.
	keepingDir = "compacting.new"
	droppedDir = "compacting.old"
)

var errClosed = errors.New("the broker is closed")

// Compact compacts the topics whose cleanup.policy says so and applies
// retention to all of them. The broker answers no request meanwhile: seconds for
// every few hundred megabytes. When ctx ends first, Compact returns its error
// and the compaction finishes on its own; Close waits for it. A process that dies meanwhile finds the
// log as it was before. ErrOpenTransaction and ErrNoRoom say that only retention was applied: for a compaction, no
// transaction may be open in the topics that are compacted, and the disk must have room for twice those. When it gets full all the same the broker fails,
// and the next start finds the log as it was before.
//
// Compaction keeps the last message of a key, which need not be its newest
// version: compact when the consumers have caught up.
func (b *Broker) Compact(ctx context.Context) error {
	return b.clean(ctx, "compact", func() error {
		switch err := cmp.Or(b.noneOpen(), b.room()); {
		case errors.Is(err, ErrNoRoom), errors.Is(err, ErrOpenTransaction):
			return errors.Join(err, b.replaceLog(b.cluster.ApplyRetention)) // which makes room
		case err != nil:
			return err
		}
		return b.replaceLog(b.cluster.Compact)
	})
}

// Retain applies retention and compacts nothing: no message is read, so that the broker answers again
// within a moment. When ctx ends first, or the process dies, it is as with Compact.
func (b *Broker) Retain(ctx context.Context) error {
	return b.clean(ctx, "apply retention", func() error { return b.replaceLog(b.cluster.ApplyRetention) })
}

// clean has the log cleaned when nobody else does, and by itself when ctx ends first.
func (b *Broker) clean(ctx context.Context, what string, how func() error) error {
	done := make(chan error, 1)
	go func() {
		b.compacting.Lock()
		defer b.compacting.Unlock()
		select {
		case <-b.gate.shutting: // kfake does not answer any more
			done <- errClosed
		default:
			done <- how()
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("broker: %s: %w", what, err)
		}
		return nil
	case <-b.Failed():
		return fmt.Errorf("broker: %s: %w", what, b.Err())
	case <-ctx.Done():
		return fmt.Errorf("broker: %s: %w", what, context.Cause(ctx))
	}
}

// replaceLog has kfake change its files, which are kept as they were until that has ended.
func (b *Broker) replaceLog(change func()) error {
	// What is appended from here on is not acknowledged before the kept files are gone.
	release := b.gate.hold()
	defer release()
	if err := keepLog(b.dir); err != nil {
		return err
	}
	// A crash of the machine must not find files removed and the kept ones not named.
	synced := syncDir(b.dir)
	if synced == nil {
		cleaned := make(chan error, 1)
		go func() {
			change()
			cleaned <- keepEnds(b.dir, b.runningEnd)
		}()
		select {
		case err := <-cleaned:
			if err != nil {
				b.failure.set(fmt.Errorf("%w: %w", ErrUnwritable, err))
				return b.Err() // the next start puts the kept files back
			}
		case <-b.Failed():
			return b.Err() // here, too
		}
	}
	// While the kept files count a start would put them back, and lose what is acknowledged from now on: so nothing is.
	for {
		err := dropKept(b.dir)
		if err == nil {
			break
		}
		b.logger.Error("kafka broker: answers wait until the log of before a compaction can be dropped", slog.Any("error", err))
		select {
		case <-time.After(time.Second):
		case <-b.gate.shutting: // what is saved by Close would not be of the log that the next start puts back
			b.failure.set(fmt.Errorf("%w: %w", ErrUnwritable, err))
			return b.Err()
		}
	}
	return errors.Join(synced, removeDropped(b.dir))
}

// keepLog gives the files of all partitions second names.
func keepLog(dir string) error {
	keeping := filepath.Join(dir, keepingDir)
	if err := errors.Join(os.RemoveAll(keeping), removeDropped(dir)); err != nil {
		return fmt.Errorf("keep the log: %w", err)
	}
	if err := os.MkdirAll(keeping, 0o700); err != nil {
		return fmt.Errorf("keep the log: %w", err)
	}
	if err := linkPartitions(partitionsDir(dir), keeping); err != nil {
		return fmt.Errorf("keep the log: %w", errors.Join(err, os.RemoveAll(keeping)))
	}
	if err := os.Rename(keeping, filepath.Join(dir, keptDir)); err != nil {
		return fmt.Errorf("keep the log: %w", err)
	}
	return nil
}

// linkPartitions links the files of each folder in from into a folder of the same name in to, which it makes.
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
		if err := os.MkdirAll(target, 0o755); err != nil { //nolint:gosec // as kfake makes them, in a folder of the owner's
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

// dropKept says, at once and for good, that the log counts as it is.
func dropKept(dir string) error {
	if err := os.Rename(filepath.Join(dir, keptDir), filepath.Join(dir, droppedDir)); err != nil {
		return fmt.Errorf("drop the log of before: %w", err)
	}
	return nil
}

// removeDropped frees what dropKept left.
func removeDropped(dir string) error {
	if err := errors.Join(syncDir(dir), os.RemoveAll(filepath.Join(dir, droppedDir))); err != nil {
		return fmt.Errorf("remove the log of before: %w", err)
	}
	return nil
}

// restoreLog puts the log back as it was before a compaction that did not end. It may itself be ended and begun again.
func restoreLog(dir string) (restored bool, err error) {
	for _, name := range []string{keepingDir, droppedDir} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return false, fmt.Errorf("restore the log: %w", err)
		}
	}
	kept := filepath.Join(dir, keptDir)
	partitions, err := os.ReadDir(kept)
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
	if err := linkPartitions(kept, partitionsDir(dir)); err != nil {
		return false, fmt.Errorf("restore the log: %w", err)
	}
	if err := dropKept(dir); err != nil {
		return false, err
	}
	return true, removeDropped(dir)
}

func partitionsDir(dir string) string { return filepath.Join(dir, "log", "partitions") }

// syncDir makes the names in a folder survive a crash of the machine.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
