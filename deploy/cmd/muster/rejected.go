package main

import (
	"context"

	"github.com/spf13/cobra"

	"muster/ingest"
	"muster/schemas/record"
)

func (c *command) rejectedCommand() *cobra.Command {
	const noun = "rejected records"
	cmd := &cobra.Command{
		Use:   "rejected",
		Short: "Inspect, fix and resubmit rejected records",
		Long: `A record that fails validation is kept for 30 days on the topic muster.record.rejected.v1, with the
reason and the source location. Other records are not affected. Inspect rejected records here, fix the cause, and
resubmit them.`,
		Example: `  muster rejected list --summary                       counts by kind and reason
  muster rejected list --reason bad_date --since 24h
  muster rejected show 3-42                            one record with its content
  muster rejected export --kind network-person --out fixed.ndjson
  muster ingest network-person fixed.ndjson            after fixing the file
  muster rejected resubmit --reason unknown_kind       after an upgrade or a changed setting
  muster rejected resubmit --kind foreign --map ./mine.jq`,
		GroupID: "data",
	}
	cmd.AddCommand(c.listSubcommand(false, noun), c.showSubcommand(false, noun), c.rejectedResubmit(),
		c.exportSubcommand(false, noun, "records"))
	return cmd
}

func (c *command) rejectedResubmit() *cobra.Command {
	var as, mapping string
	var remap bool
	cmd := &cobra.Command{
		Use:   "resubmit [ID...]",
		Short: "Validate rejected records again and publish the valid ones",
		Long: `Decodes rejected records again, as if they were in their files now. Valid records are published,
invalid ones are rejected again, as new rejected records. For a record from a mapping, the input object is stored:
pass the corrected mapping with --map. A rejected record is resubmitted once; to repeat that, pass its ID or
--resubmitted. Unchanged records are not published again.

Records over 1 MiB are stored truncated and cannot be resubmitted: fix their files.

Exit status: 0 all are valid now; 1 some were not found, not resubmitted, or rejected again; 2 it failed.`,
		Example: `  muster rejected resubmit --reason bad_date
  muster rejected resubmit 3-42 3-43
  muster rejected resubmit --reason bad_date --map ./fixed.jq
  muster rejected resubmit --kind foreign --map ./mine.jq`,
	}
	cmd.Flags().StringVar(&as, "as-kind", "", "decode as this kind of record")
	cmd.Flags().StringVar(&mapping, "map", "",
		"mapping to convert the objects with: a name or a file with a jq program")
	cmd.Flags().BoolVar(&remap, "remap", false, "also publish records of the same version with other content")
	return c.resubmitSubcommand(
		cmd,
		false,
		"no rejected records selected: pass IDs, a filter (--kind, --reason, --run, "+
			"--since, --until) or --all",
		func(ctx context.Context, cfg ingest.Config, deps ingest.Deps,
			filter ingest.DeadLetterFilter) (res ingest.Resubmission, err error) {
			cfg.Mapping, cfg.Remap = mapping, remap
			err = c.withPublisher(ctx, cfg, deps, func(ctx context.Context, deps ingest.Deps) (err error) {
				res, err = ingest.ResubmitRejected(ctx, cfg, deps, filter, record.Kind(as))
				return err
			})
			return res, err
		},
	)
}
