package projector

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

// Migrations returns the projector's migrations rendered for a layout.
func Migrations(layout readmodel.Layout) ([]clickhouse.Migration, error) {
	files, err := readmodel.Migrations()
	if err != nil {
		return nil, err
	}
	migrations, err := clickhouse.LoadMigrations(files, layout)
	if err != nil {
		return nil, fmt.Errorf("read models: %w", err)
	}
	return migrations, nil
}

// Migrate brings the tables of the read models and the views for analysts up to date. It returns the names of
// the applied migrations, even if a later one failed. It is idempotent and may run concurrently. On a cluster
// it creates missing tables on all nodes; on a single node it returns an error if tables are missing.
func Migrate(
	ctx context.Context, conn driver.Conn, layout readmodel.Layout, cfg clickhouse.MigrateConfig,
) (applied []string, err error) {
	migrations, err := Migrations(layout)
	if err != nil {
		return nil, err
	}
	cfg = withClusterRecord(layout, cfg)
	applied, err = clickhouse.Migrate(ctx, conn, migrations, cfg)
	if err != nil {
		return applied, fmt.Errorf("migrate read models: %w", withAdvice(err))
	}
	if layout.Cluster != "" {
		if _, err := createMissingTables(ctx, conn, layout, migrations, cfg); err != nil {
			return applied, fmt.Errorf("migrate read models: %w", withAdvice(err))
		}
	} else {
		missing, err := clickhouse.MissingTables(ctx, conn, migrations)
		if err != nil {
			return applied, fmt.Errorf("migrate read models: %w", err)
		}
		if len(missing) > 0 {
			return applied, fmt.Errorf("migrate read models: the database has lost tables: %s: restore a backup "+
				"or recreate the tables (operators.md, Damaged tables)", strings.Join(missing, ", "))
		}
	}
	// Views have no version and are cheap to recreate.
	if err := readmodel.CreateViews(ctx, conn, layout); err != nil {
		return applied, fmt.Errorf("migrate read models: %w", err)
	}
	return applied, nil
}

// withClusterRecord returns cfg with the record of migrations and the migration lock in replicated tables, if
// the layout is a cluster. Every server holds a replica of the same two tables, so there is one record for
// all nodes.
func withClusterRecord(layout readmodel.Layout, cfg clickhouse.MigrateConfig) clickhouse.MigrateConfig {
	if layout.Cluster != "" {
		cfg.OnCluster = layout.Cluster
		cfg.Engine = "ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}', %s)"
	}
	return cfg
}
