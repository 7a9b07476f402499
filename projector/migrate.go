package projector

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

// Migrations are the projector's migrations, rendered for a layout.
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

// Migrate brings the read models' tables and the analysts' views up to date and returns the names of
// the migrations it applied, also when a later one failed. Running it again,
// or several at once, is harmless. Nodes of a cluster that lack tables get them.
func Migrate(ctx context.Context, conn driver.Conn, layout readmodel.Layout, cfg clickhouse.MigrateConfig) (applied []string, err error) {
	migrations, err := Migrations(layout)
	if err != nil {
		return nil, err
	}
	cfg = recorded(layout, cfg)
	applied, err = clickhouse.Migrate(ctx, conn, migrations, cfg)
	if err != nil {
		return applied, fmt.Errorf("migrate read models: %w", advised(err))
	}
	if layout.Cluster != "" {
		if _, err := completeNodes(ctx, conn, layout, migrations, cfg); err != nil {
			return applied, fmt.Errorf("migrate read models: %w", advised(err))
		}
	} else {
		missing, err := clickhouse.MissingTables(ctx, conn, migrations)
		if err != nil {
			return applied, fmt.Errorf("migrate read models: %w", err)
		}
		if len(missing) > 0 {
			return applied, fmt.Errorf("migrate read models: the database has lost tables: %s: restore a backup, "+
				"or make the tables anew (operators.md, Damaged tables)", strings.Join(missing, ", "))
		}
	}
	// Every time: a view has no version, and making it again costs nothing.
	if err := readmodel.CreateViews(ctx, conn, layout); err != nil {
		return applied, fmt.Errorf("migrate read models: %w", err)
	}
	return applied, nil
}

// recorded says where migrations are recorded, and who holds the lock: on a cluster in
// one record for all of it, whichever node is asked, since every server is a replica of
// the same two tables.
func recorded(layout readmodel.Layout, cfg clickhouse.MigrateConfig) clickhouse.MigrateConfig {
	if layout.Cluster != "" {
		cfg.OnCluster = layout.Cluster
		cfg.Engine = "ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}', %s)"
	}
	return cfg
}
