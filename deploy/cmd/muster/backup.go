package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/deploy/erasure"
	"muster/deploy/internal/backup"
	"muster/deploy/internal/instance"
	"muster/platform/atomicfile"
	"muster/platform/clickhouse"
	"muster/platform/engine"
)

func (c *command) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up and restore the data directory",
		Long: `Backs up an instance with embedded engines (muster up), and restores it without bringing erased people
back. External servers are backed up with their own tools: deploy/docs/backup.md describes how, and in which order.`,
		GroupID: "run",
	}
	cmd.AddCommand(c.backupCreate(), c.backupRestore(), c.backupVerify(), c.backupErasures())
	return cmd
}

// lockDataDir locks the data directory and its engine for some work, and finishes an interrupted restore. It waits
// up to wait for processes that are stopping: an engine outlives a killed `muster up`.
func lockDataDir(ctx context.Context, dir, work string, wait time.Duration) (release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	unlock, err := waitForLock(waiting, dir, work)
	if err != nil {
		return nil, err
	}
	if _, err := backup.Finish(dir, time.Now()); err != nil {
		unlock()
		return nil, err
	}
	unlockEngine, err := engine.Lock(waiting, filepath.Join(dir, "clickhouse"))
	// There is no engine yet.
	if errors.Is(err, fs.ErrNotExist) {
		return unlock, nil
	}
	if err != nil {
		unlock()
		return nil, fmt.Errorf("the engine of the data directory %s is running: stop it: %w", dir, err)
	}
	return func() { unlockEngine(); unlock() }, nil
}

func waitForLock(ctx context.Context, dir, work string) (release func(), err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		release, err = instance.LockFor(dir, work)
		if !errors.Is(err, instance.ErrInUse) {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

func (c *command) backupCreate() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "create FILE",
		Short: "Archive the data directory of a stopped instance",
		Long: `Archives everything: topics, tables, the ledger's outbox, the state of ingest, keys and the root
secret. Protect the archive like the directory. Stop the instance and "muster engine" first; the command waits for one
that is stopping. Topics and tables on external servers (KAFKA_BROKERS, CLICKHOUSE_DSN) are not included.

Exit status: 0 the archive is complete and on disk; 1 it lacks the topics or tables; 2 it failed.`,
		Example: `  systemctl stop muster
  muster backup create /backups/muster-$(date +%F).tar.zst
  systemctl start muster`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(c.dataDir); err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			if err := checkOutside(args[0], c.dataDir); err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			release, err := lockDataDir(cmd.Context(), c.dataDir, cmd.CommandPath(), wait)
			if err != nil {
				return err
			}
			defer release()
			var m backup.Manifest
			err = writeNew(args[0], func(w io.Writer) error {
				m, err = backup.Create(cmd.Context(), c.dataDir, version(), time.Now(), w)
				return err
			})
			if err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files, %.1f MB, %.1f MB compressed\n", args[0],
				len(m.Files), float64(m.Bytes)/1e6, float64(info.Size())/1e6)
			if missing := c.externalStores(); err == nil && len(missing) > 0 {
				return partlyError{fmt.Errorf(
					"the archive has no %s: back up the external servers with their own tools",
					strings.Join(missing, " and no "))}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "maximum time to wait for an instance that is stopping")
	return cmd
}

// checkOutside returns an error if file is in dir: an archive there would include itself, be in each later archive,
// and be lost with dir.
func checkOutside(file, dir string) error {
	parent, err := resolveDir(filepath.Dir(file))
	if err != nil {
		return err
	}
	if dir, err = resolveDir(dir); err != nil {
		return err
	}
	if rel, err := filepath.Rel(dir, parent); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s is in the data directory %s: choose another location", file, dir)
	}
	return nil
}

// resolveDir returns the absolute path of a directory without symbolic links, also if the working directory has some.
func resolveDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// externalStores returns what the data directory lacks because it is on external servers, going by the environment
// variables, or by what an earlier instance did not create there.
func (c *command) externalStores() (missing []string) {
	_, err := os.Stat(filepath.Join(c.dataDir, instance.FileName))
	ran := err == nil
	for _, s := range []struct{ variable, folder, what string }{{"KAFKA_BROKERS", "kafka", "topics"},
		{clickhouse.DSNEnv, "clickhouse", "tables"}} {
		_, err := os.Stat(filepath.Join(c.dataDir, s.folder))
		if c.getenv(s.variable) != "" || ran && errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, s.what)
		}
	}
	return missing
}

// writeNew creates a file, which appears only when it is complete. It returns an error if path exists.
func writeNew(path string, write func(io.Writer) error) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s already exists", path)
	}
	return writeAtomic(path, write)
}

// writeAtomic creates or replaces a file, which appears only when it is complete.
func writeAtomic(path string, write func(io.Writer) error) error {
	var failed error // explains itself
	err := atomicfile.Write(path, func(w io.Writer) error {
		failed = write(w)
		return failed
	})
	if err != nil && failed == nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return err
}

func (c *command) backupVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify an archive with its SHA-256 checksums",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("verify: %w", err)
			}
			defer func() { _ = file.Close() }()
			m, err := backup.Read(cmd.Context(), file)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "complete: %d files, %.1f MB, created by muster %s at %s\n",
				len(m.Files), float64(m.Bytes)/1e6, m.Version, m.CreatedAt.Format(time.RFC3339))
			return err
		},
	}
}

func (c *command) backupErasures() *cobra.Command {
	return &cobra.Command{
		Use:   "erasures FILE",
		Short: "Write erasures as keyed hashes, for a restore",
		Long: `An archive does not contain erasures that were requested after it was created. If the old data
directory is lost, this file does: write it after every erasure, or every hour, to a separate disk. The instance can
keep running.

A FILE with erasures unknown to this instance is not overwritten: this happens if the instance was started on an empty
disk after a loss.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kafka, err := c.kafka()
			if err != nil {
				return err
			}
			known, err := erasure.ReadLog(cmd.Context(), kafka)
			if err != nil {
				return err
			}
			if err := checkReplaceable(args[0], known); err != nil {
				return err
			}
			if err := writeAtomic(args[0], known.Write); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d entries\n", args[0], known.Len())
			return err
		},
	}
}

// checkReplaceable returns an error if file has erasures that are not in known: it may be the only copy.
func checkReplaceable(file string, known erasure.Log) error {
	before, err := readErasures(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lacks := 0
	if err == nil {
		lacks, err = known.MissingFrom(before)
	}
	if err != nil {
		return fmt.Errorf("%s exists and is not a file of `muster backup erasures`: choose another name: %w", file, err)
	}
	if lacks > 0 {
		return fmt.Errorf(
			"%s has %d erasures unknown to this instance and was not overwritten: restore a backup with --erasures "+
				"%s, or choose another name", file, lacks, file)
	}
	return nil
}

func readErasures(path string) (erasure.Log, error) {
	in, err := os.Open(path)
	if err != nil {
		return erasure.Log{}, err
	}
	defer func() { _ = in.Close() }()
	return erasure.ParseLog(in)
}
