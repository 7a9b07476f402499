package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ErrChangedMigration is returned when a migration was changed after the database applied it.
var ErrChangedMigration = errors.New("an applied migration, and the parameters it is rendered with, must not change")

// MigrateConfig configures how migrations are recorded. The zero value suits a single node.
type MigrateConfig struct {
	// OnCluster, if set, is the name of the cluster on which the migrator's two tables are created.
	OnCluster string
	// Engine is the engine of the migrator's tables, a format with one %s for the version column; the default is
	// "ReplacingMergeTree(%s)". A sharded cluster needs one record for all shards, so the path must not contain the
	// shard: ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}', %s).
	Engine string
	// WaitForOther is how long to wait for another process that is migrating; the default is 5 min.
	WaitForOther time.Duration
	Logger       *slog.Logger

	timing lockTiming
}

// AppliedMigration is a row of muster_migrations.
type AppliedMigration struct {
	Number    uint32    `ch:"number"`
	Name      string    `ch:"name"`
	Owner     string    `ch:"owner"`
	Checksum  string    `ch:"checksum"`
	AppliedAt time.Time `ch:"applied_at"`
}

// Migrate applies the migrations that the database does not have yet, in order, and records each. It returns the names
// of those it applied, even if a later one failed. It is safe to repeat.
//
// It rejects, before it changes anything, a database with a migration that was changed later or that this program does
// not know; the error explains the remedy.
//
// Several processes may migrate at once: one does the work while the others wait ([MigrateConfig.WaitForOther]) and
// then find nothing to do. The lock is a row in muster_migrations_lock, by the server's clock, which its holder renews.
// If a holder dies, its row expires after 30 s and another process continues, repeating the statements of the
// interrupted migration, which is why [LoadMigrations] requires them to be repeatable. A holder that cannot renew its
// row in time stops by itself ([ErrLockLost]). conn must wait up to [MigrationTimeout] for a statement.
func Migrate(
	ctx context.Context,
	conn driver.Conn,
	migrations []Migration,
	cfg MigrateConfig,
) (applied []string, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.createTables(ctx, conn); err != nil {
		return nil, err
	}
	// Check before waiting for the lock: usually there is nothing to do.
	pending, err := pendingMigrations(ctx, conn, migrations)
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	err = withLock(ctx, conn, cfg, func(ctx context.Context) error {
		// Another process may have migrated in the meantime.
		pending, err := pendingMigrations(ctx, conn, migrations)
		if err != nil {
			return err
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

// PendingMigrations returns the migrations that [Migrate] would apply, with the same checks, and changes nothing.
func PendingMigrations(ctx context.Context, conn driver.Conn, migrations []Migration) ([]Migration, error) {
	return pendingMigrations(ctx, conn, migrations)
}

// AppliedMigrations returns the database's record of migrations by number; it is empty before the first migration.
func AppliedMigrations(ctx context.Context, conn driver.Conn) (out []AppliedMigration, err error) {
	var exists uint8
	if err := conn.QueryRow(ctx, "EXISTS TABLE muster_migrations").Scan(&exists); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	if exists == 0 {
		return nil, nil
	}
	err = conn.Select(ctx, &out, `SELECT number, name, owner, checksum, applied_at FROM muster_migrations FINAL
ORDER BY number SETTINGS select_sequential_consistency = 1`)
	if err != nil {
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

// compare checks that the record is a prefix of the program's migrations.
func compare(migrations []Migration, applied []AppliedMigration) error {
	if err := checkNumbers(migrations); err != nil {
		return err
	}
	var errs []error
	for i, a := range applied {
		name := Migration{Number: a.Number, Name: a.Name}.String()
		switch {
		case i >= len(migrations):
			errs = append(errs,
				fmt.Errorf("migrations: the database has %s (owner %s), which is unknown to this program: "+
					"it was migrated by a newer version; run that version or a later one", name, a.Owner))
		case a.Number != migrations[i].Number:
			errs = append(errs, fmt.Errorf("migrations: the database's record has %s but not number %04d: "+
				"restore the rows of muster_migrations "+
				"or, if its data can be rebuilt, drop the database and migrate again",
				name, migrations[i].Number))
			// The rows that follow are shifted and would only repeat this.
			return errors.Join(errs...)
		case a.Checksum != migrations[i].Checksum || a.Name != migrations[i].Name:
			errs = append(errs, fmt.Errorf("migrations: %s (owner %s) was applied on %s with checksum %.12s, "+
				"but this program's %v has %.12s: %w; restore the original and add a new migration "+
				"with the next number "+
				"or, if the data can be rebuilt, drop the database and migrate again",
				name, a.Owner, a.AppliedAt.UTC().Format(time.DateOnly), a.Checksum,
				migrations[i], migrations[i].Checksum, ErrChangedMigration))
		}
	}
	return errors.Join(errs...)
}

// MigrationTimeout is the time limit for one statement of a migration, which may rewrite columns of a table of any
// size. The connection passed to [Migrate] needs it as ReadTimeout, because the server sends nothing until it is done.
const MigrationTimeout = 24 * time.Hour

// MissingTables returns the tables and views that migrations have created and not dropped since, and that the database
// does not have.
func MissingTables(ctx context.Context, conn driver.Conn, migrations []Migration) (missing []string, err error) {
	existing := make(map[string]bool)
	query := "SELECT name FROM system.tables WHERE database = currentDatabase()"
	if err := ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var name string
		err := rows.Scan(&name)
		existing[name] = true
		return err
	}); err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	created := regexp.MustCompile(`^CREATE (?:TABLE|VIEW) IF NOT EXISTS (\w+)`)
	dropped := regexp.MustCompile(`^DROP (?:TABLE|VIEW) IF EXISTS (\w+)`)
	for _, m := range migrations {
		for _, s := range m.Statements {
			if found := created.FindStringSubmatch(s); found != nil && !existing[found[1]] {
				missing = append(missing, found[1])
			}
			if found := dropped.FindStringSubmatch(s); found != nil {
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == found[1] })
			}
		}
	}
	return missing, nil
}

// apply runs a migration and records it.
func (cfg MigrateConfig) apply(ctx context.Context, conn driver.Conn, m Migration) error {
	for i, statement := range m.Statements {
		stop := cfg.logProgress(m, i+1, len(m.Statements))
		err := conn.Exec(withMigrationTimeout(ctx), statement)
		stop()
		if err != nil {
			return fmt.Errorf("migration %v, statement %d of %d: %w", m, i+1, len(m.Statements), err)
		}
	}
	const query = "INSERT INTO muster_migrations (number, name, owner, checksum, applied_at) " +
		"VALUES (?, ?, ?, ?, now64(3))"
	if err := conn.Exec(ctx, query, m.Number, m.Name, m.Owner, m.Checksum); err != nil {
		return fmt.Errorf("record migration %v: %w", m, err)
	}
	return nil
}

// withMigrationTimeout returns a context in which the servers of a cluster wait for each other as long as a migration
// may take, instead of 3 minutes.
func withMigrationTimeout(ctx context.Context) context.Context {
	return QueryContext(ctx, Limits{}, ch.Settings{"distributed_ddl_task_timeout": int(MigrationTimeout.Seconds())})
}

// logProgress logs at intervals that a statement is still running, until stop is called.
func (cfg MigrateConfig) logProgress(m Migration, number, of int) (stop func()) {
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		started, tick := time.Now(), time.NewTicker(cfg.timing.report)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				cfg.Logger.Info("migrating", "migration", m.String(), "statement", number, "of", of,
					"since", time.Since(started).Round(time.Second))
			}
		}
	}()
	return func() {
		close(done)
		<-finished
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

// fsyncSettings are settings of muster_migrations. Without them, a power failure can lose a row but keep a later one,
// and the record is rejected if a number is missing.
const fsyncSettings = "fsync_after_insert = 1, fsync_part_directory = 1"

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
	number UInt32 COMMENT 'Number of the migration, from 1 without gaps',
	name String COMMENT 'verb_object',
	owner LowCardinality(String) COMMENT 'Service that owns its tables',
	checksum FixedString(64) COMMENT 'SHA-256 of the rendered statements',
	applied_at DateTime64(3, 'UTC') COMMENT 'Time of completion'
) ENGINE = ` + fmt.Sprintf(cfg.Engine, "applied_at") + ` ORDER BY number SETTINGS ` + fsyncSettings +
			` COMMENT 'Schema migrations that this database has'`,
		`CREATE TABLE IF NOT EXISTS muster_migrations_lock` + onCluster + ` (
	token String COMMENT 'Process that migrates or waits',
	seen_at DateTime64(3, 'UTC') COMMENT 'Last renewal, by the clock of the server',
	released Bool COMMENT 'It has finished'
) ENGINE = ` + fmt.Sprintf(cfg.Engine, "seen_at") +
			` ORDER BY token TTL toDateTime(seen_at) + INTERVAL 1 DAY COMMENT 'Lock of migrations'`,
	} {
		if err := conn.Exec(withMigrationTimeout(ctx), statement); err != nil {
			return fmt.Errorf("create migration tables: %w", err)
		}
	}
	return nil
}

// WithMigrationLock runs work while holding the lock of [Migrate], for work that must not overlap a schema change. The
// context of work ends if the lock is lost. It waits for another holder up to WaitForOther, then fails with
// [ErrLocked].
func WithMigrationLock(ctx context.Context, conn driver.Conn, cfg MigrateConfig,
	work func(context.Context) error) error {
	cfg = cfg.withDefaults()
	if err := cfg.createTables(ctx, conn); err != nil {
		return err
	}
	return withLock(ctx, conn, cfg, work)
}
