package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"muster/ingest"
)

func (c *command) ingestGit() *cobra.Command {
	cfg := ingest.Config{}
	git := ingest.GitConfig{}
	var owner string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "git PATH...",
		Short: "Publish the new commits of local git repositories",
		Long: `Publishes the commits of local git repositories with their authors and the repositories: codehost-commit,
codehost-person, codehost-repo. A second run reads only what is new. The git program must be installed.

PATH is a repository, bare or not, or a folder: then all repositories in it and below are read.

A commit belongs to the author that git shows: .mailmap is applied by name and address. The author's account is found
  1. in the file of --authors: CSV with the columns email,user_id,username
  2. in a no-reply address with id and username: 1234+jane@users.noreply.<code host>
  3. by another address that .mailmap gives to the same author
  4. by a no-reply address with the username alone, if another address in the history shows the id
  5. with --make-accounts: every other author gets an id made of the proper address
Commits of other authors are dropped and counted; --unknown FILE lists the authors in the form that --authors reads.

The repository belongs to the account in the address of its remote "origin", if that account's id is known by
one of these ways, or else to --owner.

The end of the history that was read is noted. Once more authors or the owner are known, --full reads everything again.
Records that are known are published again only with --again: after a withdrawn erasure, or for topics that lost data.
After a change of .mailmap or of --authors, --remap publishes the records that became others.
Persons made of commits never replace a crawled record.

Exit status: 0 records were published or nothing is new, 1 every commit was dropped or a record was rejected,
2 a repository could not be read to its end.`,
		Example: `  muster ingest git ~/src/muster
  muster ingest git --make-accounts /srv/git
  muster ingest git --unknown authors.csv repo.git    then fill in user_id and username, and
  muster ingest git --authors authors.csv --full repo.git
  muster ingest git --make-accounts --owner 17:me ~/src/mine`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if owner != "" {
				id, name, _ := strings.Cut(owner, ":")
				var err error
				if git.OwnerID, err = strconv.ParseInt(id, 10, 64); err != nil || name == "" || git.OwnerID <= 0 {
					return fmt.Errorf("--owner: %q is not ID:USERNAME", owner)
				}
				git.OwnerName = name
			}
			tel, err := c.telemetry(cmd.Context(), "ingest")
			if err != nil {
				return err
			}
			cfg.StateDir = c.ingestState()
			deps := ingest.Deps{Logger: tel.Logger}
			if file, ok := c.std.err.(*os.File); ok {
				deps.Progress = ingest.NewProgress(file, tel.Logger)
			}
			if !cfg.DryRun {
				if cfg.Bus, err = c.kafka(); err != nil {
					return err
				}
			}
			var summary ingest.Summary
			err = c.publishing(cmd.Context(), cfg, deps, tel, func(ctx context.Context, deps ingest.Deps) (err error) {
				summary, err = ingest.Git(ctx, cfg, deps, git, args)
				return err
			})
			if summary.Run == "" {
				return err
			}
			if summary.Total().Rejected > 0 {
				err = whyRejected(cfg, summary, err)
			}
			if asJSON {
				return errors.Join(err, printJSON(cmd, summary))
			}
			fmt.Fprint(cmd.OutOrStdout(), summary.String())
			fmt.Fprint(cmd.OutOrStdout(), remapHint(cmd, args, summary))
			switch {
			case err == nil && !git.Full && !cfg.Again && !cfg.Remap && summary.Total() == (ingest.Counts{}):
				fmt.Fprintln(cmd.OutOrStdout(), "Nothing is new since the last run; --full reads everything again.")
			case err == nil && summary.Unattributed.Commits > 0:
				fmt.Fprintln(cmd.OutOrStdout(), summary.Unattributed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&git.Authors, "authors", "", "CSV file of accounts: email,user_id,username")
	cmd.Flags().StringVar(&git.Unknown, "unknown", "", "new file for the authors without a known account")
	cmd.Flags().StringSliceVar(&git.NoReplyHosts, "noreply-host", nil, "further code host whose no-reply addresses are read (git.example)")
	cmd.Flags().BoolVar(&git.MakeAccounts, "make-accounts", false, "make an account for each author without a known one")
	cmd.Flags().StringVar(&owner, "owner", "", "account that the repositories belong to, as ID:USERNAME")
	cmd.Flags().BoolVar(&git.Full, "full", false, "read all of the history, not only what is new")
	cmd.Flags().BoolVar(&cfg.Again, "again", false, "read all of the history, and publish also what is known and not older")
	cmd.Flags().BoolVar(&cfg.Remap, "remap", false, "read all of the history, and publish also what was published with the same version and other content")
	cmd.Flags().BoolVar(&cfg.DryRun, "dry-run", false, "say what would be done, and publish nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON")
	return cmd
}
