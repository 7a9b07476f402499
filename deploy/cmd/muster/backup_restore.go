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
	"muster/platform/service"
	"muster/schemas/suppress"
)

func (c *command) backupRestore() *cobra.Command {
	var erasures string
	var forget bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the data directory, without people erased since",
		Long: `Extracts an archive and verifies every file before it changes anything. The previous content of the
data directory is kept next to it, as DATA_DIR.before-TIME, or in it, as DATA_DIR/.before-TIME, if it is a mount
point. Its erasures are imported into the restored directory, so that people erased since the backup stay erased. If
the previous directory is lost, also if muster was started on an empty one since, pass the file of "muster backup
erasures" with --erasures, or --no-erasures if there were none since the backup.

Restored data of erased people is hidden from the start, and removed from tables and topics afterwards.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, made, err := restoreTo(c.dataDir, erasures != "" || forget)
			if err != nil {
				return err
			}
			return c.restore(cmd,
				restoring{archive: args[0], erasures: erasures, hasErasures: erasures != "" || forget}, dir, made)
		},
	}
	cmd.Flags().StringVar(&erasures, "erasures", "", "file of `muster backup erasures`")
	cmd.Flags().BoolVar(&forget, "no-erasures", false, "there were no erasures since the backup")
	return cmd
}

// restoring describes a restore.
type restoring struct {
	archive     string
	erasures    string // path of a file of erasures since the backup, or empty
	hasErasures bool   // the erasures since the backup are known from flags
}

// errUnknownErasures returns the error for missing information about erasures since a backup.
func errUnknownErasures(what string) error {
	return fmt.Errorf("%s: pass a file of `muster backup erasures` with --erasures, or --no-erasures", what)
}

// restoreTo finds the data directory, or creates it. It returns an error if neither the directory nor a flag (known)
// gives the erasures since the backup.
func restoreTo(dataDir string, known bool) (dir string, made bool, err error) {
	if dir, err = filepath.EvalSymlinks(dataDir); err == nil &&
		(filepath.Base(dir) == "." || filepath.Base(dir) == "..") {
		// The previous content is kept next to it, under its real name.
		dir, err = filepath.Abs(dir)
	}
	exists := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Clean(dataDir)
		if _, err := os.Lstat(dir); err == nil {
			return "", false, fmt.Errorf("restore: broken symbolic link %s", dir)
		}
		err = nil
	}
	if err != nil {
		return "", false, fmt.Errorf("restore: %w", err)
	}
	if !known && !hasLog(dir) {
		return "", false,
			errUnknownErasures(fmt.Sprintf("no data directory %s with the erasures since the backup", dir))
	}
	if !exists {
		err = os.Mkdir(dir, 0o700)
	}
	return dir, !exists, err
}

// hasLog reports whether a directory has the log of a broker, or an interrupted restore has moved it.
func hasLog(dir string) bool {
	for _, path := range []string{"kafka", ".before/kafka"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			return true
		}
	}
	return false
}

// restore extracts an archive and replaces the content of dir with it. If dir was created for this (made) and the
// restore fails, it is removed.
func (c *command) restore(cmd *cobra.Command, what restoring, dir string, made bool) (err error) {
	ctx := cmd.Context()
	release, err := lockDataDir(ctx, dir, cmd.CommandPath(), 30*time.Second)
	if err != nil {
		// Another process has locked the directory since.
		return err
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

// restored is the outcome of a restore.
type restored struct {
	manifest backup.Manifest
	erasures int    // number of erasures imported
	kept     string // directory of the previous content, or empty
	regained backup.RegainedAccess
}

func (r restored) print(w io.Writer, dir string) error {
	var b strings.Builder
	if r.kept != "" {
		fmt.Fprintf(&b, "kept %s\n", r.kept)
	}
	fmt.Fprintf(&b, "restored %s as of %s: %d files, %.1f MB, %d erasures imported\n",
		dir, r.manifest.CreatedAt.Format(time.RFC3339), len(r.manifest.Files),
		float64(r.manifest.Bytes)/1e6, r.erasures)
	b.WriteString(
		"Keys, organizations, webhook secrets and standalone.json are restored too: repeat what was revoked, " +
			"deactivated or rotated since.\n")
	for _, id := range r.regained.Keys {
		fmt.Fprintf(&b, "  muster account key revoke %s\n", id)
	}
	// The replacement key is lost: callers have only this one.
	for _, id := range r.regained.Rotated {
		fmt.Fprintf(&b, "  muster account key rotate %s\n", id)
	}
	for _, id := range r.regained.Organizations {
		fmt.Fprintf(&b, "  muster account deactivate %s\n", id)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// removeEmpty removes a directory that contains only the lock file.
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

// replace extracts an archive and swaps it with the content of dir, which must be locked. It returns the number of
// imported erasures and the path of the previous content.
func (c *command) replace(ctx context.Context, what restoring, dir string) (r restored, err error) {
	here, err := knownOf(ctx, dir, what.hasErasures)
	if err != nil {
		return r,
			fmt.Errorf("read the erasures since the backup from %s (if it is beyond repair, use --erasures): %w", dir,
				err)
	}
	known := []erasure.Log{here.Erasures}
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
	var then backup.FolderState
	if r.manifest, err = extract(ctx, what.archive, unpacked); err == nil && hasLog(dir) {
		if then, err = knownOf(ctx, unpacked, false); err != nil {
			err = fmt.Errorf("restore: %w", err)
		}
	}
	if err == nil && !what.hasErasures {
		err = checkSuccessor(dir, here, then)
	}
	if err == nil {
		r.erasures, err = c.importErasures(ctx, unpacked, known)
	}
	if err == nil {
		r.regained = then.Accounts.RegainedAccess(here.Accounts, time.Now())
		r.kept, err = backup.Place(dir, time.Now())
	}
	// The extracted files are in place already, or still here to remove.
	if err != nil {
		err = errors.Join(err, os.RemoveAll(unpacked))
	}
	return r, err
}

// knownOf returns the erasures and accounts of a locked directory: none if it has no log of a broker.
func knownOf(ctx context.Context, dir string, partial bool) (backup.FolderState, error) {
	if !hasLog(dir) {
		return backup.FolderState{}, nil
	}
	return backup.StateOf(ctx, dir, partial)
}

// checkSuccessor returns an error unless the present directory continues the one in the archive. A replaced disk may
// hold another instance.
func checkSuccessor(dir string, here, then backup.FolderState) error {
	follows, err := here.IsSuccessorOf(then)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if !follows {
		return errUnknownErasures(
			fmt.Sprintf(
				"the data directory %s does not continue the backed-up one, and its erasures since the backup are "+
					"unknown", dir))
	}
	return nil
}

// extract unpacks an archive into a new directory.
func extract(ctx context.Context, path, dir string) (m backup.Manifest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = file.Close() }()
	if m, err = backup.Extract(ctx, file, dir); err != nil {
		return m, err
	}
	// The process of standalone.json has ended; the next one writes its own.
	return m, instance.Retire(dir)
}

// importErasures adds erasures to an extracted directory, and returns their number.
func (c *command) importErasures(ctx context.Context, dir string, known []erasure.Log) (n int, err error) {
	secret, err := service.LoadRootSecret(c.getenv, dir)
	if errors.Is(err, service.ErrNoRootSecret) {
		return 0, fmt.Errorf("restore: the archive has no root secret: set %s to the one of the instance",
			service.SecretEnv)
	}
	if err != nil {
		return 0, err
	}
	for _, e := range known {
		carried, err := backup.ImportErasures(ctx, secret, dir, e)
		if errors.Is(err, suppress.ErrOtherKey) {
			return 0,
				fmt.Errorf(
					"restore: some erasures since the backup have the key of another root secret: list and remove "+
						"mistaken ones with `muster erase keys`, or pass the right file with --erasures: %w", err)
		}
		if err != nil {
			return 0, err
		}
		n += carried
	}
	return n, nil
}
