package migrations

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

const (
	// lockTimeout is how long WithLock waits: locks of killed processes expire after half a minute.
	lockTimeout = 45 * time.Second
	// reconcileInterval is how often nodes are checked for missing tables: a new node serves errors until then.
	reconcileInterval = 15 * time.Second
)

// All returns the projector's migrations rendered for a layout.
func All(layout readmodel.Layout) ([]clickhouse.Migration, error) {
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

// Apply brings the tables of the read models and the views for analysts up to date. It returns the names of
// the applied migrations, even if a later one failed. It is idempotent and may run concurrently. On a cluster
// it creates missing tables on all nodes; on a single node it returns an error if tables are missing.
func Apply(
	ctx context.Context, conn driver.Conn, layout readmodel.Layout, cfg clickhouse.MigrateConfig,
) (applied []string, err error) {
	migrations, err := All(layout)
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

// WithLock runs work while no other replay or migration runs, with the layout of the tables. It
// waits for the lock of a killed process to expire.
func WithLock(
	ctx context.Context, conn driver.Conn, logger *slog.Logger, work func(context.Context, readmodel.Layout) error,
) error {
	layout, err := readmodel.FindLayout(ctx, conn)
	if err != nil {
		return err
	}
	cfg := withClusterRecord(layout, clickhouse.MigrateConfig{WaitForOther: lockTimeout, Logger: logger})
	return clickhouse.WithMigrationLock(ctx, conn, cfg, func(ctx context.Context) error { return work(ctx, layout) })
}
