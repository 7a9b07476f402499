package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/topics"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/projector"
	"muster/schemas/readmodel"
)

func (c *command) migrateCommand() *cobra.Command {
	var layout readmodel.Layout
	var dryRun, printSQL bool
	var replication int
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring topics and the read models' tables up to date",
		Long: `Makes the topics that Kafka does not have yet, when KAFKA_BROKERS is set, with the partitions, retention and
compaction that muster relies on, and as many replicas as --replication says or the brokers' default is: Apache
Kafka's is 1, which keeps each topic on one broker, and is warned of where there are several. Then it applies the migrations that the database does not have yet, in
order, and records each; a new database is made at once as they would leave it. Running it again, or from several machines at once, is harmless. "muster up"
does both by itself.

With --cluster each table is a replicated one on every node, behind a distributed one; the database must
exist on all of them.`,
		Example: `  muster migrate --dry-run
  CLICKHOUSE_DSN=https://clickhouse:8443/muster muster migrate --cluster main`,
		GroupID: "run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			if replication < 0 || replication > math.MaxInt16 {
				return fmt.Errorf("--replication %d: want the number of brokers that have a copy of each topic, or 0 for the brokers' default", replication)
			}
			migrations, err := projector.Migrations(layout)
			if err != nil {
				return err
			}
			if printSQL {
				printMigrations(out, migrations)
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
				if err := topics.Ensure(ctx, kafka, replication, tel.Logger); err != nil {
					return err
				}
			}
			store, err := c.clickHouse()
			if err != nil {
				return err
			}
			store.ClientName, store.Logger, store.ReadTimeout = "muster migrate", tel.Logger, clickhouse.MigrationTimeout
			conn, err := clickhouse.Open(ctx, store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, conn.Close()) }()
			if dryRun {
				return printPending(ctx, out, conn, migrations)
			}
			applied, err := projector.Migrate(ctx, conn, layout, clickhouse.MigrateConfig{Logger: tel.Logger})
			for _, name := range applied {
				fmt.Fprintf(out, "applied %s\n", name)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%d migrations applied, %d in all\n", len(applied), len(migrations))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&layout.Cluster, "cluster", "", "name of the cluster in ClickHouse's remote_servers (default: a single node)")
	flags.IntVar(&replication, "replication", 0, "replicas of topics that are made (default: the brokers' default.replication.factor)")
	flags.BoolVar(&dryRun, "dry-run", false, "only list what would be applied")
	flags.BoolVar(&printSQL, "print", false, "only print the SQL of all migrations; needs no server")
	return cmd
}

func printMigrations(out io.Writer, migrations []clickhouse.Migration) {
	for _, m := range migrations {
		fmt.Fprintf(out, "-- %s, owner %s\n", m, m.Owner)
		for _, s := range m.Statements {
			fmt.Fprintf(out, "%s;\n\n", s)
		}
	}
}

func printPending(ctx context.Context, out io.Writer, conn driver.Conn, migrations []clickhouse.Migration) error {
	pending, err := clickhouse.PendingMigrations(ctx, conn, migrations)
	if err != nil {
		return err
	}
	for _, m := range pending {
		fmt.Fprintf(out, "would apply %s (owner %s)\n", m, m.Owner)
	}
	_, err = fmt.Fprintf(out, "%d of %d migrations are to be applied\n", len(pending), len(migrations))
	return err
}
