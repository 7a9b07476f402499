package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/deploy/internal/status"
	"muster/platform/clickhouse"
)

// damageInterval is the interval of checks for damaged tables.
const damageInterval = 30 * time.Second

// checkedBytes is the maximum size of tables whose checksums are verified at the start. Damage of larger ones is
// detected when they are read.
const checkedBytes = 256 << 20

// damageWatch reports tables that the embedded engine cannot read from its disk.
type damageWatch struct {
	conn   driver.Conn
	logger *slog.Logger

	looking sync.Mutex // held by a check or addition

	mu     sync.Mutex
	known  []clickhouse.Damage
	logged []clickhouse.Damage // already in the log
}

func (w *damageWatch) add(found []clickhouse.Damage) {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = append(slices.Clone(w.known), found...)
}

// Run checks for damaged tables until ctx ends.
func (w *damageWatch) Run(ctx context.Context) error {
	ticker := time.NewTicker(damageInterval)
	defer ticker.Stop()
	checked, err := clickhouse.CheckTables(ctx, w.conn, database, checkedBytes)
	if err != nil && ctx.Err() == nil {
		w.logger.LogAttrs(ctx, slog.LevelDebug, "clickhouse: tables not checked", slog.Any("error", err))
	}
	w.add(checked)
	for {
		if err := w.refresh(ctx); err != nil && ctx.Err() == nil {
			w.logger.LogAttrs(ctx, slog.LevelDebug, "clickhouse: damaged tables not read", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Check is a readiness check that fails while tables are damaged. An engine that does not respond is reported by
// others.
func (w *damageWatch) Check(ctx context.Context) error {
	_ = w.refresh(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, d := range w.known {
		errs = append(errs, errors.New(d.String()))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errors.Join(errs...), status.DamageHint)
}

func (w *damageWatch) refresh(ctx context.Context) error {
	w.looking.Lock()
	defer w.looking.Unlock()
	w.mu.Lock()
	known := w.known
	w.mu.Unlock()
	found, err := clickhouse.ReadDamage(ctx, w.conn, database, known...)
	if err != nil {
		return err
	}
	w.mu.Lock()
	isLogged := func(d clickhouse.Damage) bool { return slices.Contains(w.logged, d) }
	added := slices.DeleteFunc(slices.Clone(found), isLogged)
	w.known, w.logged = found, append(w.logged, added...)
	w.mu.Unlock()
	for _, d := range added {
		w.logger.LogAttrs(ctx, slog.LevelError, "clickhouse: table is damaged on disk", slog.String("table", d.Table),
			slog.String("part", d.Part), slog.String("error", d.Cause), slog.String("hint", status.DamageHint))
	}
	return nil
}
