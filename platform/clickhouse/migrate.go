package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ErrChangedMigration says that the database has a migration which was changed since it was applied.
var ErrChangedMigration = errors.New("an applied migration, and the parameters it is rendered with, must not change")

// MigrateConfig says where and how migrations are recorded. The zero value fits a single node.
type MigrateConfig struct {
	// OnCluster, when set, is the name of the cluster on which the two tables of the migrator are created.
	OnCluster string
	// Engine is the engine of the migrator's tables, a format with one %s for the version column; default
	// "ReplacingMergeTree(%s)". On a cluster of shards the record must be one for all of them, so the path must not
	// name the shard: ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}', %s).
	Engine string
	// WaitForOther is how long to wait for another process that is migrating; default 5 min.
	WaitForOther time.Duration
	Logger       *slog.Logger

	timing lockTiming
}

// AppliedMigration is one row of muster_migrations.
type AppliedMigration struct {
	Number    uint32
	Name      string
	Owner     string
	Checksum  string
	AppliedAt time.Time
}

// Migrate applies the migrations that the database does not have yet, in order, and records each. It returns the names
// of those it applied, also when a later one failed. Running it again is harmless.
//
// It refuses, before it changes anything, a database that has a migration which was changed since, or which
// this program does not know; the error says what to do.
//
// A database that has none of them, and nothing of what a baseline creates, is made by that in place of those up to its
// number ([Migration.Baseline]); they are recorded as if they had been applied.
//
// Several processes may migrate at once: one does the work while the others wait ([MigrateConfig.WaitForOther]) and
// then find nothing to do. The exclusion is a row in muster_migrations_lock, by the server's clock, which its holder
// renews; when a holder dies, its row expires after 30 s and another goes on, repeating the statements of the
// interrupted migration (which is why [LoadMigrations] wants them repeatable). A holder that cannot renew in time stops
// by itself ([ErrLockLost]). conn waits for a statement as long as [MigrationTimeout].
func Migrate(ctx context.Context, conn driver.Conn, migrations []Migration, cfg MigrateConfig) (applied []string, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.createTables(ctx, conn); err != nil {
		return nil, err
	}
	// Look before waiting for the lock: usually there is nothing to do.
	pending, err := pendingMigrations(ctx, conn, migrations)
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	err = withLock(ctx, conn, cfg, func(ctx context.Context) error {
		pending, err := pendingMigrations(ctx, conn, migrations) // Another process may have been faster.
		if err != nil {
			return err
		}
		if err := cfg.synchronize(ctx, conn); err != nil {
			return err
		}
		if len(pending) == len(migrations) {
			if applied, err = cfg.begin(ctx, conn, migrations); err != nil {
				return err
			}
			pending = pending[len(applied):]
		}
		for _, m := range pending {
			started := time.Now()
			if err := cfg.apply(ctx, conn, m); err != nil {
				return err
			}
			applied = append(applied, m.String())
			cfg.Logger.Info("migrated", "migration", m.String(), "owner", m.Owner, "took", time.Since(started))
		}
		return nil
	})
	return applied, err
}

// PendingMigrations returns what [Migrate] would apply, with the same refusals, and changes nothing.
func PendingMigrations(ctx context.Context, conn driver.Conn, migrations []Migration) ([]Migration, error) {
	return pendingMigrations(ctx, conn, migrations)
}

// AppliedMigrations returns the record of the database in the order of numbers; none when it was never migrated.
func AppliedMigrations(ctx context.Context, conn driver.Conn) (out []AppliedMigration, err error) {
	var exists uint8
	if err := conn.QueryRow(ctx, "EXISTS TABLE muster_migrations").Scan(&exists); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	if exists == 0 {
		return nil, nil
	}
	rows, err := conn.Query(ctx, `SELECT number, name, owner, checksum, applied_at FROM muster_migrations FINAL
ORDER BY number SETTINGS select_sequential_consistency = 1`)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var a AppliedMigration
		if err := rows.Scan(&a.Number, &a.Name, &a.Owner, &a.Checksum, &a.AppliedAt); err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		out = append(out, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return out, nil
}

func pendingMigrations(ctx context.Context, conn driver.Conn, migrations []Migration) ([]Migration, error) {
	applied, err := AppliedMigrations(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := compare(migrations, applied); err != nil {
		return nil, err
	}
	return migrations[len(applied):], nil
}

// compare wants the record to be the beginning of the program's migrations.
func compare(migrations []Migration, applied []AppliedMigration) error {
	if err := checkNumbers(migrations); err != nil {
		return err
	}
	var errs []error
	for i, a := range applied {
		name := Migration{Number: a.Number, Name: a.Name}.String()
		switch {
		case i >= len(migrations):
			errs = append(errs, fmt.Errorf("migrations: the database has %s (owner %s), which this program does not know: "+
				"it was migrated by a newer version; run that version or a later one", name, a.Owner))
		case a.Number != migrations[i].Number:
			errs = append(errs, fmt.Errorf("migrations: the database's record lacks number %04d but has %s: "+
				"restore the rows of muster_migrations, or, if its data can be rebuilt, drop the database and migrate again",
				migrations[i].Number, name))
			return errors.Join(errs...) // What follows is shifted and would only repeat this.
		case a.Checksum != migrations[i].Checksum || a.Name != migrations[i].Name:
			errs = append(errs, fmt.Errorf("migrations: %s (owner %s) was applied on %s with checksum %.12s, but this program's %v has %.12s: "+
				"%w; put it back as it was and write a new one with the next number, or, if the data can be rebuilt, "+
				"drop the database and migrate again",
				name, a.Owner, a.AppliedAt.UTC().Format(time.DateOnly), a.Checksum, migrations[i], migrations[i].Checksum, ErrChangedMigration))
		}
	}
	return errors.Join(errs...)
}

// MigrationTimeout is how long one statement of a migration may take, which may write columns of a table of any size anew: the
// ReadTimeout of a connection that [Migrate] is given, as a server says nothing before it has done.
const MigrationTimeout = 24 * time.Hour

// begin makes a new database by the baseline and returns what it has by that. One whose baseline was interrupted has some
// of it already, and goes the long way: the migrations, which can be repeated, find the finished tables and leave them so.
func (cfg MigrateConfig) begin(ctx context.Context, conn driver.Conn, migrations []Migration) (applied []string, err error) {
	last := slices.IndexFunc(migrations, func(m Migration) bool { return m.Baseline != nil })
	if last < 0 {
		return nil, nil
	}
	covered, statements := migrations[:last+1], migrations[last].Baseline
	names := make([]string, len(statements))
	for i, s := range statements {
		names[i] = created(s)
	}
	there, err := cfg.present(ctx, conn, names)
	if err != nil || there > 0 {
		return nil, err
	}
	started := time.Now()
	if err := cfg.run(ctx, conn, migrations[last], statements); err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	if err := record(ctx, conn, covered...); err != nil {
		return nil, err
	}
	for _, m := range covered {
		applied = append(applied, m.String())
	}
	cfg.Logger.Info("made the tables of a new database", "migration", migrations[last].String(), "took", time.Since(started))
	return applied, nil
}

// MissingTables returns the tables and views that the newest baseline makes and the database does not have.
func MissingTables(ctx context.Context, conn driver.Conn, migrations []Migration) (missing []string, err error) {
	there := make(map[string]bool)
	if err := ReadRows(ctx, conn, "SELECT name FROM system.tables WHERE database = currentDatabase()", func(rows driver.Rows) error {
		var name string
		err := rows.Scan(&name)
		there[name] = true
		return err
	}); err != nil {
		return nil, fmt.Errorf("look for tables: %w", err)
	}
	for _, m := range migrations {
		for _, s := range m.Baseline { // of one migration at most
			if name := created(s); !there[name] {
				missing = append(missing, name)
			}
		}
	}
	return missing, nil
}

// present is how many tables of these names there are, on all nodes.
func (cfg MigrateConfig) present(ctx context.Context, conn driver.Conn, names []string) (n uint64, err error) {
	tables := "system.tables"
	if cfg.OnCluster != "" {
		tables = "clusterAllReplicas('" + cfg.OnCluster + "', system.tables)"
	}
	var database string
	if err := conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return 0, fmt.Errorf("look for tables: %w", err)
	}
	if err := conn.QueryRow(ctx, "SELECT count() FROM "+tables+" WHERE database = ? AND name IN (?)", database, names).Scan(&n); err != nil {
		return 0, fmt.Errorf("look for tables: %w", err)
	}
	return n, nil
}

func (cfg MigrateConfig) apply(ctx context.Context, conn driver.Conn, m Migration) error {
	if err := cfg.run(ctx, conn, m, m.Statements); err != nil {
		return err
	}
	return record(ctx, conn, m)
}

func (cfg MigrateConfig) run(ctx context.Context, conn driver.Conn, m Migration, statements []string) error {
	for i, statement := range statements {
		stop := cfg.tell(m, i+1, len(statements))
		err := conn.Exec(patient(ctx), statement)
		stop()
		if err != nil {
			return fmt.Errorf("migration %v, statement %d of %d: %w", m, i+1, len(statements), err)
		}
	}
	return nil
}

// record says in one insert, which is there whole or not at all, that migrations were applied.
func record(ctx context.Context, conn driver.Conn, migrations ...Migration) error {
	var args []any
	for _, m := range migrations {
		args = append(args, m.Number, m.Name, m.Owner, m.Checksum)
	}
	values := strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, now64(3)), ", len(migrations)), ", ")
	if err := conn.Exec(ctx, "INSERT INTO muster_migrations (number, name, owner, checksum, applied_at) VALUES "+values, args...); err != nil {
		return fmt.Errorf("record migrations to %v: %w", migrations[len(migrations)-1], err)
	}
	return nil
}

// patient is a context in which a cluster's servers wait for each other as long as a migration may take, not for 3 minutes.
func patient(ctx context.Context) context.Context {
	return QueryContext(ctx, Limits{}, ch.Settings{"distributed_ddl_task_timeout": int(MigrationTimeout.Seconds())})
}

// tell logs now and then, until it is stopped, that a statement is being worked on.
func (cfg MigrateConfig) tell(m Migration, number, of int) (stop func()) {
	done, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		began, tick := time.Now(), time.NewTicker(cfg.timing.report)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				cfg.Logger.Info("migrating", "migration", m.String(), "statement", number, "of", of, "since", time.Since(began).Round(time.Second))
			}
		}
	}()
	return func() {
		close(done)
		<-told
	}
}

func (cfg MigrateConfig) withDefaults() MigrateConfig {
	if cfg.Engine == "" {
		cfg.Engine = "ReplacingMergeTree(%s)"
	}
	if cfg.WaitForOther <= 0 {
		cfg.WaitForOther = 5 * time.Minute
	}
	if cfg.timing == (lockTiming{}) {
		cfg.timing = defaultLockTiming()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Settings of the record of migrations, which is refused when it lacks a number, as when a power cut took its row and
// left a later one's.
const synchronized = "fsync_after_insert = 1, fsync_part_directory = 1"

// synchronize sets them where a version before made the table.
func (cfg MigrateConfig) synchronize(ctx context.Context, conn driver.Conn) error {
	if err := conn.Exec(patient(ctx), "ALTER TABLE muster_migrations"+cfg.onCluster()+" MODIFY SETTING "+synchronized); err != nil {
		return fmt.Errorf("synchronize the record of migrations: %w", err)
	}
	return nil
}

func (cfg MigrateConfig) onCluster() string {
	if cfg.OnCluster == "" {
		return ""
	}
	return " ON CLUSTER `" + cfg.OnCluster + "`"
}

func (cfg MigrateConfig) createTables(ctx context.Context, conn driver.Conn) error {
	onCluster := cfg.onCluster()
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS muster_migrations` + onCluster + ` (
	number UInt32 COMMENT 'Place of the migration; from 1 without gaps',
	name String COMMENT 'verb_object',
	owner LowCardinality(String) COMMENT 'Who answers for its tables',
	checksum FixedString(64) COMMENT 'SHA-256 of the statements as they ran',
	applied_at DateTime64(3, 'UTC') COMMENT 'When it was finished'
) ENGINE = ` + fmt.Sprintf(cfg.Engine, "applied_at") + ` ORDER BY number SETTINGS ` + synchronized + ` COMMENT 'Schema migrations that this database has'`,
		`CREATE TABLE IF NOT EXISTS muster_migrations_lock` + onCluster + ` (
	token String COMMENT 'One process that migrates or wants to',
	seen_at DateTime64(3, 'UTC') COMMENT 'Last sign of life, by the clock of the server',
	released Bool COMMENT 'It has finished'
) ENGINE = ` + fmt.Sprintf(cfg.Engine, "seen_at") + ` ORDER BY token TTL toDateTime(seen_at) + INTERVAL 1 DAY COMMENT 'Who is migrating'`,
	} {
		if err := conn.Exec(patient(ctx), statement); err != nil {
			return fmt.Errorf("create migration tables: %w", err)
		}
	}
	return nil
}

// Exclusively runs work while no other process migrates or works exclusively, by the lock of [Migrate]: for what must
// not meet a change of the schema. The context of work ends when the lock is lost. It waits for another holder, and
// fails with [ErrLocked].
func Exclusively(ctx context.Context, conn driver.Conn, cfg MigrateConfig, work func(context.Context) error) error {
	cfg = cfg.withDefaults()
	if err := cfg.createTables(ctx, conn); err != nil {
		return err
	}
	return withLock(ctx, conn, cfg, work)
}
