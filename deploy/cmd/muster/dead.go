package main

import (
	"errors"

	"github.com/spf13/cobra"

	"muster/ingest"
)

func (c *command) deadCommand() *cobra.Command {
	const noun = "dead letters"
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Look after messages that a service gave up on",
		Long: `A message that a handler failed on again and again, through a fault of the message, is kept for 30 days on
the topic muster.dead.<service>.<handler>.v1, as it was, with the reason and how often it was tried. A store
or a provider that is away never makes a dead letter.`,
		Example: `  muster dead list --summary
  muster dead show discovery-worker.score:0-7
  muster dead resubmit --handler discovery-worker.score --since 24h`,
		GroupID: "data",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(c.lettersList(true, noun), c.lettersShow(true, noun), c.deadResubmit(), c.lettersExport(true, noun, "messages"))
	return cmd
}

func (c *command) deadResubmit() *cobra.Command {
	var flags letterFlags
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "resubmit [ID...]",
		Short: "Write messages that were given up to their topics again",
		Long: `Writes the messages to the topics that they came from, as they were, so that their services try
again; webhooks begin anew, from their first attempt on. A letter is resubmitted once: --resubmitted, or naming its ID, does it again.

Exit status: 0 all of them were; 1 some were not there, or not resubmitted; 2 it could not be done.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) == 0 && !all && flags == (letterFlags{}) {
				return errors.New("name letters, say which with --handler, --reason, --since or --until, or give --all")
			}
			filter, err := flags.filter(ids)
			if err != nil {
				return err
			}
			cfg, err := c.letterConfig()
			if err != nil {
				return err
			}
			tel, err := c.telemetry(cmd.Context(), "dead")
			if err != nil {
				return err
			}
			res, err := ingest.ResubmitDead(cmd.Context(), cfg, ingest.Deps{Logger: tel.Logger}, filter)
			if res.Run == "" {
				return err
			}
			return errors.Join(err, printResubmission(cmd, res, ids, asJSON))
		},
	}
	flags.register(cmd, true)
	cmd.Flags().BoolVar(&all, "all", false, "all that were not resubmitted yet")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
