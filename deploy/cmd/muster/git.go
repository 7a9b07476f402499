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
	cmd := &cobra.Command{
		Use:   "git PATH...",
		Short: "Publish the new commits of local git repositories",
		Long: `Publishes the commits of local git repositories, their authors, and the repositories: codehost-commit,
codehost-person, codehost-repo. A second run reads only new commits. It needs the git program.

PATH is a repository, bare or not, or a directory, in which all repositories are read recursively.

The author of a commit is the one that git shows: .mailmap is applied by name and address. The account of the author is
found
  1. in the file of --authors: CSV with the columns email,user_id,username
  2. in a no-reply address with ID and username: 1234+jane@users.noreply.<code host>
  3. by another address that .mailmap assigns to the same author
  4. by a no-reply address with the username alone, if another address in the history has the ID
  5. with --make-accounts: every other author gets an ID derived from the proper address
Commits of other authors are skipped and counted; --unattributed-file FILE lists these authors in the format of --authors.

The repository belongs to the account in the address of its remote "origin", if one of these rules finds that account's
ID, else to --owner.

The last commit read is stored. If you know more authors or the owner later, --full-history reads everything again.
Unchanged records are published again only with --again: after an erasure was withdrawn, or if topics lost data.
After a change of .mailmap or --authors, --remap publishes the records that changed.
Persons derived from commits never replace a crawled record.

Exit status: 0 records were published, or nothing is new; 1 all commits were skipped, or a record was rejected;
2 a repository could not be read completely.`,
		Example: `  muster ingest git ~/src/muster
  muster ingest git --make-accounts /srv/git
  muster ingest git --unattributed-file authors.csv repo.git    then fill in user_id and username, and
  muster ingest git --authors authors.csv --full-history repo.git
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
			err = c.withPublisher(cmd.Context(), cfg, deps,
				func(ctx context.Context, deps ingest.Deps) (err error) {
					summary, err = ingest.Git(ctx, cfg, deps, git, args)
					return err
				})
			if summary.Run == "" {
				return err
			}
			if summary.Total().Rejected > 0 {
				err = explainRejections(cfg, summary, err)
			}
			if wantsJSON(cmd) {
				return errors.Join(err, printJSON(cmd, summary))
			}
			fmt.Fprint(cmd.OutOrStdout(), summary.String())
			fmt.Fprint(cmd.OutOrStdout(), remapHint(cmd, args, summary))
			switch {
			case err == nil && !git.FullHistory && !cfg.Republish && !cfg.Remap && summary.Total() == (ingest.Counts{}):
				fmt.Fprintln(
					cmd.OutOrStdout(), "No new commits since the last run; --full-history reads everything again.",
				)
			case err == nil && summary.Unattributed.Commits > 0:
				fmt.Fprintln(cmd.OutOrStdout(), summary.Unattributed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&git.Authors, "authors", "", "CSV file of accounts: email,user_id,username")
	cmd.Flags().
		StringVar(&git.UnknownAuthors, "unattributed-file", "", "output file for the authors without a known account")
	cmd.Flags().StringSliceVar(&git.NoReplyHosts, "noreply-host", nil,
		"additional code host whose no-reply addresses are recognized (git.example)")
	cmd.Flags().BoolVar(&git.MakeAccounts, "make-accounts", false,
		"create an account for each author without a known one")
	cmd.Flags().StringVar(&owner, "owner", "", "account that owns the repositories, as ID:USERNAME")
	cmd.Flags().BoolVar(&git.FullHistory, "full-history", false, "read the whole history, not only new commits")
	cmd.Flags().BoolVar(&cfg.Republish, "again", false, "read the whole history, and republish unchanged records")
	cmd.Flags().BoolVar(&cfg.Remap, "remap", false,
		"read the whole history, and also publish records of the same version with other content")
	cmd.Flags().BoolVar(&cfg.DryRun, "dry-run", false, "report what would be done, and publish nothing")
	cmd.Flags().Bool("json", false, "print the summary as JSON")
	return cmd
}
