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
	"muster/platform/service"
	"muster/schemas/suppress"
)

func (c *command) backupRestore() *cobra.Command {
	var erasures string
	var forget bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data folder what it was when FILE was made, less who was erased since",
		Long: `Unpacks an archive and checks every file before anything is changed. What is in the data folder is kept beside
it, as DATA_DIR.before-TIME, or in it, as DATA_DIR/.before-TIME, when it is a disk of its own. What it knows of erasures is carried into the restored one, so that nobody who was
erased since the backup comes back. After a disk is lost, also when muster was started on an empty one since,
--erasures names the file that "muster backup erasures" wrote, or --no-erasures says that nobody was erased since.

What they bring back is hidden from the first moment on, and removed from tables and topics after the start.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, made, err := restoreTo(c.dataDir, erasures != "" || forget)
			if err != nil {
				return err
			}
			return c.restore(cmd, restoring{archive: args[0], erasures: erasures, told: erasures != "" || forget}, dir, made)
		},
	}
	cmd.Flags().StringVar(&erasures, "erasures", "", "file of `muster backup erasures`")
	cmd.Flags().BoolVar(&forget, "no-erasures", false, "nobody was erased since the backup")
	return cmd
}

// restoring says what to restore.
type restoring struct {
	archive  string
	erasures string // file of those since; empty for none
	told     bool   // who was erased since, or that nobody was
}

// errUntold says that nobody knows who was erased since a backup.
func errUntold(what string) error {
	return fmt.Errorf("%s: name the file of `muster backup erasures` with --erasures, or say --no-erasures", what)
}

// restoreTo finds the data folder, or makes it. One that does not know who was
// erased since the backup needs somebody who does.
func restoreTo(dataDir string, known bool) (dir string, made bool, err error) {
	if dir, err = filepath.EvalSymlinks(dataDir); err == nil && (filepath.Base(dir) == "." || filepath.Base(dir) == "..") {
		dir, err = filepath.Abs(dir) // what is kept beside it is called as it is
	}
	exists := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Clean(dataDir)
		if _, err := os.Lstat(dir); err == nil {
			return "", false, fmt.Errorf("restore: the link %s leads to nothing", dir)
		}
		err = nil
	}
	if err != nil {
		return "", false, fmt.Errorf("restore: %w", err)
	}
	if !known && !hasLog(dir) {
		return "", false, errUntold(fmt.Sprintf("there is no data folder %s that knows who was erased since the backup", dir))
	}
	if !exists {
		err = os.Mkdir(dir, 0o700)
	}
	return dir, !exists, err
}

// hasLog says whether a folder has a broker's log, or half a restore has put one away.
func hasLog(dir string) bool {
	for _, path := range []string{"kafka", ".before/kafka"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			return true
		}
	}
	return false
}

// restore unpacks an archive and puts it into the place of what is in the folder,
// which it removes again when it was made for that and stays empty.
func (c *command) restore(cmd *cobra.Command, what restoring, dir string, made bool) (err error) {
	ctx := cmd.Context()
	release, err := locked(ctx, dir, cmd.CommandPath(), 30*time.Second)
	if err != nil {
		return err // somebody else has the folder by now
	}
	defer release()
	r, err := c.replace(ctx, what, dir)
	if err != nil {
		if made {
			err = errors.Join(err, removeEmpty(dir))
		}
		return err
	}
	return r.print(cmd.OutOrStdout(), dir)
}

// restored is what a restore has done.
type restored struct {
	manifest backup.Manifest
	erasures int    // that were carried over
	kept     string // where the former content is; empty for none
	letIn    backup.LetIn
}

func (r restored) print(w io.Writer, dir string) error {
	var b strings.Builder
	if r.kept != "" {
		fmt.Fprintf(&b, "kept %s\n", r.kept)
	}
	fmt.Fprintf(&b, "restored %s as of %s: %d files, %.1f MB, %d erasures carried over\n",
		dir, r.manifest.CreatedAt.Format(time.RFC3339), len(r.manifest.Files), float64(r.manifest.Bytes)/1e6, r.erasures)
	b.WriteString("Keys, organizations, webhook secrets and standalone.json are of that time: what was revoked, deactivated or rotated since is to be so again.\n")
	for _, id := range r.letIn.Keys {
		fmt.Fprintf(&b, "  muster account key revoke %s\n", id)
	}
	for _, id := range r.letIn.Rotated { // the key that replaced it is not there: its callers have this one
		fmt.Fprintf(&b, "  muster account key rotate %s\n", id)
	}
	for _, id := range r.letIn.Organizations {
		fmt.Fprintf(&b, "  muster account deactivate %s\n", id)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// removeEmpty removes a folder that has nothing but our lock.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "lock" {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// replace puts an archive into the place of what is in the folder, which is
// locked, and says what it carried over and where the former is kept.
func (c *command) replace(ctx context.Context, what restoring, dir string) (r restored, err error) {
	here, err := knownOf(ctx, dir, what.told)
	if err != nil {
		return r, fmt.Errorf("read who was erased since, from %s (if that is beyond repair, use --erasures): %w", dir, err)
	}
	known := []backup.Erasures{here.Erasures}
	if what.erasures != "" {
		e, err := readErasures(what.erasures)
		if err != nil {
			return r, fmt.Errorf("--erasures: %w", err)
		}
		known = append(known, e)
	}
	unpacked, err := backup.Unpacking(dir)
	if err != nil {
		return r, err
	}
	var then backup.Known
	if r.manifest, err = extract(ctx, what.archive, unpacked); err == nil && hasLog(dir) {
		if then, err = knownOf(ctx, unpacked, false); err != nil {
			err = fmt.Errorf("restore: %w", err)
		}
	}
	if err == nil && !what.told {
		err = followed(dir, here, then)
	}
	if err == nil {
		r.erasures, err = c.carry(ctx, unpacked, known)
	}
	if err == nil {
		r.letIn = then.Accounts.LetIn(here.Accounts, time.Now())
		r.kept, err = backup.Place(dir, time.Now())
	}
	if err != nil { // what was unpacked is gone from there, or has not been moved
		err = errors.Join(err, os.RemoveAll(unpacked))
	}
	return r, err
}

// knownOf is what a folder knows, which is locked: nothing if it has no broker's log.
func knownOf(ctx context.Context, dir string, partial bool) (backup.Known, error) {
	if !hasLog(dir) {
		return backup.Known{}, nil
	}
	return backup.KnownOf(ctx, dir, partial)
}

// followed fails unless the present folder has gone on from what was unpacked. Another one may be there since a lost
// disk was replaced and muster started on it.
func followed(dir string, here, then backup.Known) error {
	follows, err := here.Erasures.Follows(then.Erasures)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if !follows {
		return errUntold(fmt.Sprintf("the data folder %s is not the one that was backed up, or as old as before that, and does not know who was erased since", dir))
	}
	return nil
}

// extract unpacks an archive into a new folder.
func extract(ctx context.Context, path, dir string) (m backup.Manifest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = file.Close() }()
	if m, err = backup.Extract(ctx, file, dir); err != nil {
		return m, err
	}
	// Its process has ended; the next one writes its own.
	in, err := instance.Read(dir)
	if err == nil && in.PID != 0 {
		in.PID = 0
		err = instance.Write(dir, in)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return m, err
}

// carry brings erasures into a folder that was unpacked, and says of how many.
func (c *command) carry(ctx context.Context, dir string, known []backup.Erasures) (n int, err error) {
	secret, err := service.LoadRootSecret(c.getenv, dir)
	if errors.Is(err, service.ErrNoRootSecret) {
		return 0, fmt.Errorf("restore: the archive holds no root secret: set %s to the one that the instance had", service.SecretEnv)
	}
	if err != nil {
		return 0, err
	}
	for _, e := range known {
		carried, err := e.Carry(ctx, secret, dir)
		if errors.Is(err, suppress.ErrOtherKey) {
			return 0, fmt.Errorf("restore: some of who was erased since is noted with another root secret than the archive's: `muster erase foreign` shows it, and removes what is there by mistake; or name the right file with --erasures: %w", err)
		}
		if err != nil {
			return 0, err
		}
		n += carried
	}
	return n, nil
}
