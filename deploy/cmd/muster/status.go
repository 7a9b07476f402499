package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/internal/instance"
	"muster/deploy/internal/status"
	"muster/platform/opensearch"
	"muster/projector"
)

func (c *command) statusCommand() *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show services, consumer lag, and read model sizes",
		Long: `Shows which services are ready, the lag of each topic's consumer (messages, and the age of the oldest),
and the number of records in the read models. With --wait it returns once everything that was published before is
visible in the API, search included, and calls that were answered before are in the ledger's read model. If query-api has several
replicas, it flushes the unpublished usage of the one at MUSTER_ADMIN_URL, and waits two seconds for the others.

Exit status: 0 all services are ready; 1 one is not; 2 the status could not be read, or --timeout passed.`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
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
			search, ok, err := opensearch.ConfigFromEnv(in.SearchEnv(c.getenv))
			if err != nil {
				return err
			}
			if ok {
				if src.Search, err = opensearch.Open(search); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, src.Search.Close()) }()
			}
			return c.withReadModels(ctx, func(conn driver.Conn) error {
				src.ClickHouse = conn
				if wait {
					waiting, cancel := context.WithTimeoutCause(ctx, timeout,
						fmt.Errorf("--timeout of %s passed", timeout))
					defer cancel()
					if err := status.Wait(waiting, src, nil); err != nil {
						return err
					}
				}
				st, err := status.Read(ctx, src)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					err = printJSON(cmd, st)
				} else {
					err = st.WriteText(cmd.OutOrStdout())
				}
				if failed := st.Err(); err == nil && failed != nil {
					return partlyError{failed}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until everything published so far is visible")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "maximum duration of --wait")
	addJSONFlag(cmd)
	return cmd
}
