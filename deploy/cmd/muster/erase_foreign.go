package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"muster/deploy/erasure"
	"muster/deploy/internal/backup"
	"muster/platform/bus"
	"muster/schemas/suppress"
)

func (c *command) eraseForeign() *cobra.Command {
	var remove, keep string
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List the keys of erasures, and remove those of a wrong one",
		Long: `An erasure that was requested with a root secret other than the instance's stops every service, and
prevents its start. This command lists the keys of all erasures; "this" is the key of MUSTER_SECRET_KEY, or of
secret.key in the data directory. --remove deletes the entries of a wrong key after writing them to the file of
--save-removed. They are not in force: repeat their requests with the right root secret. For the steps see
deploy/docs/erasure.md, "Root key mismatch".

Without KAFKA_BROKERS it works in the data directory of a stopped "muster up".

Exit status: 0 all entries have this key, or those of the other key were removed; 1 there are entries of another key;
2 it failed.`,
		Example: `  muster erase keys
  muster erase keys --remove 5f0c2a91 --save-removed foreign.ndjson`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (remove == "") != (keep == "") {
				return errors.New(
					"--remove and --save-removed are required together: removed entries are written to the file first")
			}
			secret, err := c.rootSecret()
			if err != nil {
				return err
			}
			own, err := erasure.SuppressionKey(secret)
			if err != nil {
				return err
			}
			return c.withStopped(cmd.Context(), func(ctx context.Context, cfg bus.Config) error {
				if remove != "" {
					return removeForeign(ctx, cmd, cfg, own, remove, keep)
				}
				keys, err := erasure.KeyUses(ctx, cfg, own)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					err = printJSON(cmd, keys)
				} else {
					err = printKeyUses(cmd.OutOrStdout(), keys, own.ID())
				}
				for _, k := range keys {
					if err == nil && k.ID != own.ID() && (k.Entries > 0 || k.Owner) {
						return partlyError{errors.New("some erasures have the key of another root secret")}
					}
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&remove, "remove", "", "ID of the key whose entries to remove")
	cmd.Flags().StringVar(&keep, "save-removed", "",
		"output file for removed entries, in the format of `muster backup erasures`")
	addJSONFlag(cmd)
	return cmd
}

// withStopped runs do with the brokers of KAFKA_BROKERS, else with the embedded broker of a stopped data directory.
func (c *command) withStopped(ctx context.Context, do func(context.Context, bus.Config) error) error {
	cfg, err := bus.ConfigFromEnv(c.getenv)
	if err != nil {
		return err
	}
	if len(cfg.Brokers) > 0 {
		return do(ctx, cfg)
	}
	if _, err := os.Stat(filepath.Join(c.dataDir, "kafka")); err != nil {
		return fmt.Errorf(
			"the data directory %s has no log of an embedded broker (for an external Kafka, set KAFKA_BROKERS): %w",
			c.dataDir, err)
	}
	release, err := lockDataDir(ctx, c.dataDir, "muster erase keys", 10*time.Second)
	if err != nil {
		return err
	}
	defer release()
	return backup.WithBroker(ctx, c.dataDir, do)
}

func removeForeign(ctx context.Context, cmd *cobra.Command, cfg bus.Config, own *suppress.Key, id, file string) error {
	n, err := erasure.RemoveKey(ctx, cfg, own, id, func(removed erasure.Log) error {
		return writeNew(file, removed.Write)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %d entries of the key %s, saved in %s\n", n, id, file)
	return err
}

func printKeyUses(out io.Writer, keys []erasure.KeyUse, own string) error {
	tw := newTable(out, "KEY\tROOT SECRET\tOWNER\tENTRIES\tREQUESTS")
	for _, k := range keys {
		whose, owner, requests := "another", "", fmt.Sprint(len(k.Requests))
		if k.ID == own {
			whose, requests = "this", ""
		}
		if k.Owner {
			owner = "yes"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\n", k.ID, whose, owner, k.Entries, requests)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, k := range keys {
		for _, r := range k.Requests {
			if _, err := fmt.Fprintf(out, "request %s has the key %s\n", r, k.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
