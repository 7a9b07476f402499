package projector

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

// lacking is a table, or view, that some node of a cluster does not have.
type lacking struct {
	name string
	// create is the query by which a node that has it would create it.
	create string
}

// completeNodes makes the tables on nodes of a cluster that came later, or have lost
// their disk: the record of migrations is one for all nodes and says that there is nothing
// to do. They are made as other nodes have them now. The migrations would not do: they
// begin with columns that the replicas have left behind, and a replay has put other tables
// in the place of theirs.
func completeNodes(ctx context.Context, conn driver.Conn, layout readmodel.Layout, migrations []ch.Migration, cfg ch.MigrateConfig) (done bool, err error) {
	made := regexp.MustCompile(`^CREATE (?:TABLE|VIEW) IF NOT EXISTS (\w+)`)
	names := make(map[string]bool)
	for _, m := range migrations {
		for _, statement := range m.Statements {
			if found := made.FindStringSubmatch(statement); found != nil {
				names[found[1]] = true
			}
		}
	}
	missing, err := lackingTables(ctx, conn, layout, func(name string) bool { return names[name] })
	if err != nil || len(missing) == 0 {
		return false, err
	}
	// Nobody migrates or replays meanwhile; what replays have kept is made too.
	err = ch.Exclusively(ctx, conn, cfg, func(ctx context.Context) error {
		missing, err := lackingTables(ctx, conn, layout, func(name string) bool {
			of, _, _, beside := readmodel.ParseRebuilt(strings.TrimSuffix(name, layout.Local("")))
			return names[name] || beside && names[of]
		})
		if err != nil {
			return err
		}
		head := regexp.MustCompile(`^CREATE (TABLE|VIEW) ([^ (]+)`)
		for _, l := range missing {
			statement := head.ReplaceAllString(l.create, "CREATE $1 IF NOT EXISTS $2"+layout.OnCluster())
			if statement == l.create {
				return fmt.Errorf("make %s on every node: the server's query that creates it has an unknown form", l.name)
			}
			if err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("make %s on every node: %w", l.name, err)
			}
			if cfg.Logger != nil {
				cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "made on the nodes that had none", slog.String("table", l.name))
			}
		}
		return nil
	})
	return err == nil, err
}

// lookForNodes is how often it is looked for nodes that lack tables.
const lookForNodes = 15 * time.Second

// KeepComplete makes the tables on nodes that come to a cluster, until ctx ends. A single
// node it leaves alone. What fails is tried again.
func KeepComplete(ctx context.Context, conn driver.Conn, logger *slog.Logger) {
	ticker := time.NewTicker(lookForNodes)
	defer ticker.Stop()
	for last := ""; ; {
		now := ""
		if err := complete(ctx, conn, logger); err != nil {
			now = err.Error()
		}
		if now != "" && now != last && ctx.Err() == nil { // a node may be away for long
			logger.LogAttrs(ctx, slog.LevelWarn, "whether every node has its tables is looked at again", slog.String("error", now))
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func complete(ctx context.Context, conn driver.Conn, logger *slog.Logger) error {
	layout, err := readmodel.FindLayout(ctx, conn)
	if err != nil || layout.Cluster == "" {
		return err
	}
	migrations, err := Migrations(layout)
	if err != nil {
		return err
	}
	made, err := completeNodes(ctx, conn, layout, migrations, recorded(layout, ch.MigrateConfig{Logger: logger}))
	if err != nil || !made {
		return advised(err)
	}
	return readmodel.CreateViews(ctx, conn, layout)
}

// advised says what to do about an error that an operator has to mend.
func advised(err error) error {
	if errors.Is(err, ch.ErrChangedMigration) {
		return fmt.Errorf("%w\nthe tables are of an earlier development version, and before 0.1.0 tables change in place: stop muster, remove the "+
			"folder clickhouse in its data folder (of a server of your own: drop the database), start it again, and rebuild the "+
			"tables from the topics with `muster replay`; or ingest the records again", err)
	}
	const replicaExists = 253 // REPLICA_ALREADY_EXISTS
	if code, ok := ch.CodeOf(err); ok && code == replicaExists {
		return fmt.Errorf("%w\na node has lost its disk, and Keeper still knows its replica: have it forgotten by SYSTEM DROP REPLICA on "+
			"another node of its shard (deploy/docs/kubernetes.md), then migrate again", err)
	}
	return err
}

// lackingTables lists what some nodes have and others lack, of the names that count:
// tables first, then those in front of them, then views.
func lackingTables(ctx context.Context, conn driver.Conn, layout readmodel.Layout, counts func(name string) bool) ([]lacking, error) {
	var database string
	var nodes uint64
	if err := conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return nil, fmt.Errorf("look for tables that nodes lack: %w", err)
	}
	if err := conn.QueryRow(ctx, "SELECT count() FROM "+layout.OnAllNodes("system.one")).Scan(&nodes); err != nil {
		return nil, fmt.Errorf("count the nodes of the cluster %s: %w", layout.Cluster, err)
	}
	var out []lacking
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"database": database}))
	const columns = "name, any(create_table_query), count(), multiIf(any(engine) = 'View', 2, any(engine) = 'Distributed', 1, 0) AS turn"
	err := ch.ReadRows(ctx, conn, "SELECT "+columns+" FROM "+layout.OnAllNodes("system.tables")+
		" WHERE database = {database:String} GROUP BY name ORDER BY turn, name", func(rows driver.Rows) error {
		var l lacking
		var have uint64
		var turn uint8
		if err := rows.Scan(&l.name, &l.create, &have, &turn); err != nil {
			return err
		}
		if have < nodes && counts(l.name) {
			out = append(out, l)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for tables that nodes lack: %w", err)
	}
	return out, nil
}
