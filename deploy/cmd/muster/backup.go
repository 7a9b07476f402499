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

	"muster/deploy/backup"
	"muster/deploy/instance"
	"muster/deploy/standalone"
	"muster/platform/clickhouse"
	"muster/platform/engine"
)

func (c *command) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Pack the data folder into an archive, and restore it without bringing erased people back",
		Long: `Backups of an instance with embedded engines (muster up). With servers of your own their own tools make
backups: deploy/docs/backup.md says how, and in which order.`,
		GroupID: "run",
	}
	cmd.AddCommand(c.backupCreate(), c.backupRestore(), c.backupVerify(), c.backupErasures())
	return cmd
}

// locked takes the data folder and that of its engine for some work, and waits for processes
// that are stopping: an engine outlives a `muster up` that was killed. It then
// ends a restore that was cut off.
func locked(ctx context.Context, dir, work string, wait time.Duration) (release func(), err error) {
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
	if errors.Is(err, fs.ErrNotExist) { // there is no engine yet
		return unlock, nil
	}
	if err != nil {
		unlock()
		return nil, fmt.Errorf("the engine of the data folder %s is running: stop it: %w", dir, err)
	}
	return func() { unlockEngine(); unlock() }, nil
}

func waitForLock(ctx context.Context, dir, work string) (release func(), err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		release, err = standalone.LockFor(dir, work)
		if !errors.Is(err, standalone.ErrInUse) {
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
		Short: "Pack the data folder of a stopped instance into FILE",
		Long: `Packs everything: topics, tables, the ledger's outbox, the state of ingest, keys and the root secret. Keep the
archive as safe as the folder. Stop the instance first, and "muster engine"; one that is stopping is waited for.
Topics and tables that are on servers of your own (KAFKA_BROKERS, CLICKHOUSE_DSN) are not in it.

Exit status: 0 the archive is whole and on disk; 1 it is, without the topics or tables; 2 there is none.`,
		Example: `  systemctl stop muster && muster backup create /backups/muster-$(date +%F).tar.zst; systemctl start muster`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(c.dataDir); err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			if err := outside(args[0], c.dataDir); err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			release, err := locked(cmd.Context(), c.dataDir, cmd.CommandPath(), wait)
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files, %.1f MB, of them %.1f MB packed\n", args[0], len(m.Files), float64(m.Bytes)/1e6, float64(info.Size())/1e6)
			if missing := c.elsewhere(); err == nil && len(missing) > 0 {
				return partlyError{fmt.Errorf("the archive has no %s: they are on servers of your own, whose own tools back them up", strings.Join(missing, " and no "))}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for an instance that is stopping")
	return cmd
}

// outside fails for a file in a folder: an archive there would be packed by itself and by each later one, and lost with
// the folder.
func outside(file, dir string) error {
	parent, err := resolved(filepath.Dir(file))
	if err != nil {
		return err
	}
	if dir, err = resolved(dir); err != nil {
		return err
	}
	if rel, err := filepath.Rel(dir, parent); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s is in the data folder %s itself: name a file elsewhere", file, dir)
	}
	return nil
}

// resolved is the absolute path of a folder without links: the working directory, too, may be known by one.
func resolved(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// elsewhere names what a data folder does not hold since servers do, by the variables, or by what an instance that ran
// in it has not left.
func (c *command) elsewhere() (missing []string) {
	_, err := os.Stat(filepath.Join(c.dataDir, instance.FileName))
	ran := err == nil
	for _, s := range []struct{ variable, folder, what string }{{"KAFKA_BROKERS", "kafka", "topics"}, {clickhouse.DSNEnv, "clickhouse", "tables"}} {
		_, err := os.Stat(filepath.Join(c.dataDir, s.folder))
		if c.getenv(s.variable) != "" || ran && errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, s.what)
		}
	}
	return missing
}

// writeNew writes a file that is not there before all of it is.
func writeNew(path string, write func(io.Writer) error) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is there already", path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := errors.Join(write(file), file.Sync(), file.Close()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(os.Rename(file.Name(), path), dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (c *command) backupVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "Read an archive through and compare every file with its SHA-256",
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "whole: %d files, %.1f MB, made by muster %s at %s\n", len(m.Files), float64(m.Bytes)/1e6, m.Version, m.CreatedAt.Format(time.RFC3339))
			return err
		},
	}
}

func (c *command) backupErasures() *cobra.Command {
	return &cobra.Command{
		Use:   "erasures FILE",
		Short: "Write who was erased, as keyed hashes, to FILE: for a restore after a disk is lost",
		Long: `An archive does not know who was erased after it was made. When the old data folder is lost, this file says so:
write it after every erasure, or every hour, to a place of its own. The instance goes on meanwhile.

A FILE that knows of erasures that this instance does not, such as one that was begun anew after a disk was lost, is
left as it is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kafka, err := c.kafka()
			if err != nil {
				return err
			}
			known, err := backup.ErasuresAt(cmd.Context(), kafka)
			if err != nil {
				return err
			}
			if err := replaceable(args[0], known); err != nil {
				return err
			}
			if err := writeOver(args[0], known.Write); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d entries\n", args[0], known.Len())
			return err
		},
	}
}

// replaceable fails for a file that knows of erasures that are not known here: it may be all that does.
func replaceable(file string, known backup.Erasures) error {
	before, err := readErasures(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lacks := 0
	if err == nil {
		lacks, err = known.Lacks(before)
	}
	if err != nil {
		return fmt.Errorf("%s is there, and is no file of `muster backup erasures`: name another one: %w", file, err)
	}
	if lacks > 0 {
		return fmt.Errorf("%s knows of %d erasures that this instance does not, and is left as it is: restore a backup with --erasures %s, or name another file", file, lacks, file)
	}
	return nil
}

func readErasures(path string) (backup.Erasures, error) {
	in, err := os.Open(path)
	if err != nil {
		return backup.Erasures{}, err
	}
	defer func() { _ = in.Close() }()
	return backup.ReadErasures(in)
}

// writeOver is writeNew over what is there.
func writeOver(path string, write func(io.Writer) error) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := writeNew(next, write); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
