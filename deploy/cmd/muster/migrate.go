package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/internal/standalone"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

func (c *command) migrateCommand() *cobra.Command {
	var layout readmodel.Layout
	var dryRun, printSQL bool
	var replication int
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or update topics and tables",
		Long: `Creates missing topics if KAFKA_BROKERS is set, with the partitions, retention and compaction that muster
requires, and with --replication replicas (default: the broker's default). The default of Apache Kafka is 1, which
stores each topic on one broker; a warning is logged if there are several brokers. Then it applies the pending
migrations of the database in order, and records each; a new database is created from the current schema. It is safe to
run it again, and to run it on several machines concurrently. "muster up" does both.

With --cluster each table is a replicated table on every node, behind a distributed table; the database must
exist on all nodes.`,
		Example: `  muster migrate --dry-run
  CLICKHOUSE_DSN=https://clickhouse:8443/muster muster migrate --cluster main`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			if replication < 0 || replication > math.MaxInt16 {
				return fmt.Errorf("--replication: invalid value %d: want the number of replicas of each topic, "+
					"or 0 for the brokers' default", replication)
			}
			all, err := migrations.All(layout)
			if err != nil {
				return err
			}
			if printSQL {
				printMigrations(out, all)
				return nil
			}
			tel, err := c.telemetry(ctx, "migrate")
			if err != nil {
				return err
			}
			kafka, err := bus.ConfigFromEnv(c.getenv)
			if err != nil {
				return err
			}
			kafka.Logger = tel.Logger
			if len(kafka.Brokers) > 0 && !dryRun {
				if err := standalone.EnsureTopics(ctx, kafka, replication, tel.Logger); err != nil {
					return err
				}
			}
			store, err := c.clickHouse()
			if err != nil {
				return err
			}
			store.ClientName, store.Logger, store.ReadTimeout = "muster migrate", tel.Logger,
				clickhouse.MigrationTimeout
			conn, err := clickhouse.Open(ctx, store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, conn.Close()) }()
			if dryRun {
				return printPending(ctx, out, conn, all)
			}
			applied, err := migrations.Apply(ctx, conn, layout, clickhouse.MigrateConfig{Logger: tel.Logger})
			for _, name := range applied {
				fmt.Fprintf(out, "applied %s\n", name)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%d migrations applied, %d in total\n", len(applied), len(all))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&layout.Cluster, "cluster", "",
		"name of the cluster in ClickHouse's remote_servers (default: a single node)")
	flags.IntVar(&replication, "replication", 0,
		"replicas of created topics (default: the brokers' default.replication.factor)")
	flags.BoolVar(&dryRun, "dry-run", false, "list the pending migrations without applying them")
	flags.BoolVar(&printSQL, "print", false, "print the SQL of all migrations; needs no server")
	return cmd
}

func printMigrations(out io.Writer, all []clickhouse.Migration) {
	for _, m := range all {
		fmt.Fprintf(out, "-- %s, owner %s\n", m, m.Owner)
		for _, s := range m.Statements {
			fmt.Fprintf(out, "%s;\n\n", s)
		}
	}
}

func printPending(ctx context.Context, out io.Writer, conn driver.Conn, all []clickhouse.Migration) error {
	pending, err := clickhouse.PendingMigrations(ctx, conn, all)
	if err != nil {
		return err
	}
	for _, m := range pending {
		fmt.Fprintf(out, "would apply %s (owner %s)\n", m, m.Owner)
	}
	_, err = fmt.Fprintf(out, "%d of %d migrations are pending\n", len(pending), len(all))
	return err
}
