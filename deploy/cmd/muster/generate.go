package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"muster/schemas/sampledata"
)

func (c *command) generateCommand() *cobra.Command {
	var o sampledata.Options
	var dir string
	cmd := &cobra.Command{
		Use:   "generate --people N",
		Short: "Generate synthetic people, companies and repositories",
		Long: `Writes one NDJSON file for each kind of record into a directory, and the ground truth (which accounts
are the same person) to a separate file, truth.ndjson. The same options give the same bytes.

The data is as dirty as a crawl: renamed accounts, recycled handles, stale and repeated versions, deleted records,
shared email addresses, partial dates. All people in it are synthetic.`,
		Example: `  muster generate --people 100000 --seed 7 --out world
  for kind in network-person network-company codehost-person codehost-repo codehost-commit microblog-person account-link
  do muster ingest $kind world/$kind.ndjson; done`,
		GroupID: "data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tel, err := c.telemetry(cmd.Context(), "generate")
			if err != nil {
				return err
			}
			progress := newBar(c.std.err, tel.Logger)
			progress.Begin(fmt.Sprintf("Generating %d people", o.People), int64(o.People))
			sum, err := sampledata.WriteFiles(cmd.Context(), dir, o, func(done, _ int) { progress.Set(int64(done)) })
			progress.End()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, kind := range sampledata.Kinds() {
				fmt.Fprintf(out, "%-16s %10d records\n", kind, sum.Records[kind])
			}
			_, err = fmt.Fprintf(out, "%-16s %10d lines\n%.1f MB of records in %s\n", "truth", sum.Truth,
				float64(sum.Bytes)/1e6, dir)
			return err
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.People, "people", 0, "number of people (required)")
	flags.Uint64Var(&o.Seed, "seed", 1, "random seed")
	flags.StringVar(&dir, "out", "world", "output directory")
	flags.IntVar(&o.AccountLinks, "account-links", 0,
		"minimum number of account links (most of them to an account without a record)")
	flags.IntVar(&o.JoinedLinks, "joined-links", 0, "minimum number of account links with records at both ends")
	if err := cmd.MarkFlagRequired("people"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}
