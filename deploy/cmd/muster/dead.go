package main

import (
	"github.com/spf13/cobra"

	"muster/ingest"
)

func (c *command) deadCommand() *cobra.Command {
	const noun = "dead letters"
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Inspect and resubmit dead letters",
		Long: `A message that a handler failed to process repeatedly, because of the message itself, is kept for 30
days on the topic muster.dead.<service>.<handler>.v1, unchanged, with the reason and the number of attempts. An
unavailable store or provider never causes a dead letter.`,
		Example: `  muster dlq list --summary
  muster dlq show discovery-worker.score:0-7
  muster dlq resubmit --handler discovery-worker.score --since 24h`,
		GroupID: "data",
	}
	cmd.AddCommand(c.listSubcommand(true, noun), c.showSubcommand(true, noun), c.deadResubmit(),
		c.exportSubcommand(true, noun, "messages"))
	return cmd
}

func (c *command) deadResubmit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resubmit [ID...]",
		Short: "Resubmit dead letters to their original topics",
		Long: `Writes the messages unchanged to their original topics, so that the services process them again. Webhook
deliveries start again with their first attempt. A dead letter is resubmitted once; to repeat that, pass its ID or
--resubmitted.

Exit status: 0 all were resubmitted; 1 some were not found, or not resubmitted; 2 it failed.`,
	}
	return c.resubmitSubcommand(
		cmd,
		true,
		"no dead letters selected: pass IDs, a filter (--handler, --reason, --since, "+
			"--until) or --all",
		ingest.ResubmitDead,
	)
}
