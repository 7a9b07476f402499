package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"muster/ingest"
	"muster/schemas/record"
)

func (c *command) rejectedCommand() *cobra.Command {
	const noun = "rejected records"
	cmd := &cobra.Command{
		Use:   "rejected",
		Short: "Look after records that were rejected",
		Long: `A record that does not fit is kept for 30 days on the topic muster.record.rejected.v1, with its reason
and its place, and stops nothing. Here an operator finds out what is wrong, mends it, and gives it back.`,
		Example: `  muster rejected list --summary                       how many of what
  muster rejected list --reason bad_date --since 24h
  muster rejected show 3-42                            the record itself
  muster rejected export --kind network-person --out mend.ndjson
  muster ingest network-person mend.ndjson             after mending the file
  muster rejected resubmit --reason unknown_kind       after mending muster, or its settings
  muster rejected resubmit --kind foreign --map ./mine.jq`,
		GroupID: "data",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(c.lettersList(false, noun), c.lettersShow(false, noun), c.rejectedResubmit(), c.lettersExport(false, noun, "records"))
	return cmd
}

func (c *command) rejectedResubmit() *cobra.Command {
	var flags letterFlags
	var as, mapping string
	var all, remap, asJSON bool
	cmd := &cobra.Command{
		Use:   "resubmit [ID...]",
		Short: "Decode rejected records again and publish what is valid now",
		Long: `Decodes rejected records again, as if they stood in their files now. What has become valid is published,
what has not is rejected again, as a new letter. Of a record that a mapping made, the object that the mapping
read is kept: give the corrected mapping with --map. A letter is resubmitted once: --resubmitted, or naming
its ID, does it again, which publishes nothing that is known.

Records over 1 MiB, of which only the beginning is kept, cannot be resubmitted: mend their files.

Exit status: 0 all of them are valid now; 1 some were not there, not resubmitted, or rejected again; 2 it could not be done.`,
		Example: `  muster rejected resubmit --reason bad_date
  muster rejected resubmit 3-42 3-43
  muster rejected resubmit --reason bad_date --map ./mended.jq
  muster rejected resubmit --kind foreign --map ./mine.jq`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) == 0 && !all && flags == (letterFlags{}) {
				return errors.New("name letters, say which with --kind, --reason, --run, --since or --until, or give --all")
			}
			filter, err := flags.filter(ids)
			if err != nil {
				return err
			}
			cfg, err := c.letterConfig()
			if err != nil {
				return err
			}
			cfg.Map, cfg.Remap = mapping, remap
			tel, err := c.telemetry(cmd.Context(), "rejected")
			if err != nil {
				return err
			}
			var res ingest.Resubmission
			err = c.publishing(cmd.Context(), cfg, ingest.Deps{Logger: tel.Logger}, tel, func(ctx context.Context, deps ingest.Deps) (err error) {
				res, err = ingest.ResubmitRejected(ctx, cfg, deps, filter, record.Kind(as))
				return err
			})
			if res.Run == "" {
				return err
			}
			return errors.Join(err, printResubmission(cmd, res, ids, asJSON))
		},
	}
	flags.register(cmd, false)
	cmd.Flags().StringVar(&as, "as", "", "take them to be records of this kind")
	cmd.Flags().StringVar(&mapping, "map", "", "mapping that makes records of them: a name or a file with a jq program")
	cmd.Flags().BoolVar(&remap, "remap", false, "publish also what was published with the same version and other content")
	cmd.Flags().BoolVar(&all, "all", false, "all that were not resubmitted yet")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
