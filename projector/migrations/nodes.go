package migrations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	ch "muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

// missingTable is a table or view that some nodes of a cluster lack.
type missingTable struct {
	name string
	// create is the CREATE query as reported by a node that has it.
	create string
}

// createMissingTables creates tables on nodes that joined a cluster later or lost their disk, and reports
// whether it created any. The record of migrations is shared by all nodes, so migrating does nothing there.
// It uses the current CREATE queries of other nodes: replaying the migrations would start with columns that
// the replicas no longer have, and replays have swapped some tables.
func createMissingTables(
	ctx context.Context, conn driver.Conn, layout readmodel.Layout, migrations []ch.Migration, cfg ch.MigrateConfig,
) (created bool, err error) {
	createStatement := regexp.MustCompile(`^CREATE (?:TABLE|VIEW) IF NOT EXISTS (\w+)`)
	names := make(map[string]bool)
	for _, m := range migrations {
		for _, statement := range m.Statements {
			if found := createStatement.FindStringSubmatch(statement); found != nil {
				names[found[1]] = true
			}
		}
	}
	missing, err := missingTables(ctx, conn, layout, func(name string) bool { return names[name] })
	if err != nil || len(missing) == 0 {
		return false, err
	}
	// Under the lock no migration or replay runs. Tables retired by replays are created, too.
	err = ch.WithMigrationLock(ctx, conn, cfg, func(ctx context.Context) error {
		missing, err := missingTables(ctx, conn, layout, func(name string) bool {
			table, _, _, isReplayTable := readmodel.ParseRebuilt(strings.TrimSuffix(name, layout.Local("")))
			return names[name] || isReplayTable && names[table]
		})
		if err != nil {
			return err
		}
		head := regexp.MustCompile(`^CREATE (TABLE|VIEW) ([^ (]+)`)
		for _, l := range missing {
			statement := head.ReplaceAllString(l.create, "CREATE $1 IF NOT EXISTS $2"+layout.OnCluster())
			if statement == l.create {
				return fmt.Errorf("create %s on every node: unsupported form of its CREATE query", l.name)
			}
			if err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("create %s on every node: %w", l.name, err)
			}
			if cfg.Logger != nil {
				cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "migrate: created missing table on nodes",
					slog.String("table", l.name))
			}
		}
		return nil
	})
	return err == nil, err
}

// ReconcileNodes creates missing tables on nodes that join the cluster, until ctx ends. It does nothing on a
// single node. Errors are logged and retried.
func ReconcileNodes(ctx context.Context, conn driver.Conn, logger *slog.Logger) {
	ticker := time.NewTicker(reconcileInterval)
	defer ticker.Stop()
	for last := ""; ; {
		now := ""
		if err := reconcileNodes(ctx, conn, logger); err != nil {
			now = err.Error()
		}
		if now != "" && now != last && ctx.Err() == nil { // Log each error once: a node may be down for long.
			logger.LogAttrs(ctx, slog.LevelWarn, "migrate: checking nodes for missing tables failed, will retry",
				slog.String("error", now))
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func reconcileNodes(ctx context.Context, conn driver.Conn, logger *slog.Logger) error {
	layout, err := readmodel.FindLayout(ctx, conn)
	if err != nil || layout.Cluster == "" {
		return err
	}
	migrations, err := All(layout)
	if err != nil {
		return err
	}
	created, err := createMissingTables(ctx, conn, layout, migrations,
		withClusterRecord(layout, ch.MigrateConfig{Logger: logger}))
	if err != nil || !created {
		return withAdvice(err)
	}
	return readmodel.CreateViews(ctx, conn, layout)
}

// withAdvice adds the fix to errors that an operator has to resolve.
func withAdvice(err error) error {
	if errors.Is(err, ch.ErrChangedMigration) {
		return fmt.Errorf("%w\nthe tables were created by an earlier development version; before 0.1.0 tables change "+
			"in place: stop muster, "+
			"remove the directory clickhouse in its data directory (external server: drop the database), start "+
			"muster, and "+
			"rebuild the tables with `muster replay`, or ingest the records again", err)
	}
	const replicaExists = 253 // REPLICA_ALREADY_EXISTS
	if code, ok := ch.CodeOf(err); ok && code == replicaExists {
		return fmt.Errorf("%w\na node has lost its disk, but Keeper still lists its replica: run SYSTEM DROP "+
			"REPLICA on "+
			"another node of its shard (deploy/docs/kubernetes.md), then migrate again", err)
	}
	return err
}

// missingTables returns the tables and views that exist on some nodes only, among the names that counts
// accepts. Local tables come first, then distributed tables, then views.
func missingTables(
	ctx context.Context, conn driver.Conn, layout readmodel.Layout, counts func(name string) bool,
) ([]missingTable, error) {
	var database string
	var nodes uint64
	if err := conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return nil, fmt.Errorf("find tables missing on nodes: %w", err)
	}
	if err := conn.QueryRow(ctx, "SELECT count() FROM "+layout.OnAllNodes("system.one")).Scan(&nodes); err != nil {
		return nil, fmt.Errorf("count the nodes of the cluster %s: %w", layout.Cluster, err)
	}
	var out []missingTable
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"database": database}))
	const columns = "name, any(create_table_query), count(), multiIf(any(engine) = 'View', 2, any(engine) = " +
		"'Distributed', 1, 0) AS rank"
	err := ch.ReadRows(ctx, conn, "SELECT "+columns+" FROM "+layout.OnAllNodes("system.tables")+
		" WHERE database = {database:String} GROUP BY name ORDER BY rank, name", func(rows driver.Rows) error {
		var l missingTable
		var have uint64
		var rank uint8
		if err := rows.Scan(&l.name, &l.create, &have, &rank); err != nil {
			return err
		}
		if have < nodes && counts(l.name) {
			out = append(out, l)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find tables missing on nodes: %w", err)
	}
	return out, nil
}
