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

	"muster/deploy/status"
	"muster/platform/clickhouse"
)

// damageInterval is how often the engine is asked for damaged tables, beside each readiness check.
const damageInterval = 30 * time.Second

// damageWatch tells of tables that the embedded engine cannot read from its disk.
type damageWatch struct {
	conn   driver.Conn
	logger *slog.Logger

	mu    sync.Mutex
	known []clickhouse.Damage
}

// Run looks for damaged tables until ctx ends.
func (w *damageWatch) Run(ctx context.Context) error {
	ticker := time.NewTicker(damageInterval)
	defer ticker.Stop()
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			w.logger.LogAttrs(ctx, slog.LevelDebug, "clickhouse: damaged tables not read", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Check is a readiness check: it names the tables that are damaged. Other checks tell of an engine that does not answer.
func (w *damageWatch) Check(ctx context.Context) error {
	_ = w.look(ctx)
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

func (w *damageWatch) look(ctx context.Context) error {
	w.mu.Lock()
	known := w.known
	w.mu.Unlock()
	found, err := clickhouse.ReadDamage(ctx, w.conn, database, known...)
	if err != nil {
		return err
	}
	w.mu.Lock()
	isKnown := func(d clickhouse.Damage) bool { return slices.Contains(w.known, d) }
	added := slices.DeleteFunc(slices.Clone(found), isKnown)
	w.known = found
	w.mu.Unlock()
	for _, d := range added {
		w.logger.LogAttrs(ctx, slog.LevelError, "clickhouse: table is damaged on disk", slog.String("table", d.Table),
			slog.String("part", d.Part), slog.String("error", d.Cause), slog.String("hint", status.DamageHint))
	}
	return nil
}
