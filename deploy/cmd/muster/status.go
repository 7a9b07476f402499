package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"muster/deploy/instance"
	"muster/deploy/status"
	"muster/platform/clickhouse"
	"muster/projector"
)

func (c *command) statusCommand() *cobra.Command {
	var wait, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show services, lag, and what the read models hold",
		Long: `Shows which services are ready, how many offsets of each topic its consumer has not done yet and
how old the oldest of them is, and how many records the read models hold. With --wait it returns once everything that was published before is
visible in the API, and the calls that were answered before are in the ledger's read model. Of several replicas of query-api it asks the
one at MUSTER_ADMIN_URL, if any, for the calls that it has not published yet, and waits two seconds for the others'.

Exit status: 0 all services are ready; 1 one is not; 2 the status could not be read, or --timeout passed.`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			in, err := instance.Find(c.dataDir, c.getenv)
			if err != nil {
				return err
			}
			src := status.Source{
				AdminURL: in.AdminURL,
				Group:    projector.Group,
				Topics:   projector.Topics(),
				Others:   status.EventConsumers(),
				Tasks:    status.TaskConsumers(),
			}
			if src.Kafka, err = c.kafka(); err != nil {
				return err
			}
			store, err := c.clickHouse()
			if err != nil {
				return err
			}
			if src.ClickHouse, err = clickhouse.Open(ctx, store); err != nil {
				return err
			}
			defer func() { _ = src.ClickHouse.Close() }()
			if wait {
				waiting, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("--timeout of %s passed", timeout))
				defer cancel()
				if err := status.Wait(waiting, src, nil); err != nil {
					return err
				}
			}
			st, err := status.Read(ctx, src)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd, st)
			} else {
				err = st.WriteText(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			if err := st.Err(); err != nil {
				return partlyError{err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "return when everything published so far is visible")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long --wait may take")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// partlyError is the error of a command that did its work and found something
// wrong: exit status 1.
type partlyError struct{ error }

func (partlyError) ExitCode() int { return 1 }

func (e partlyError) Unwrap() error { return errors.Unwrap(e.error) }
