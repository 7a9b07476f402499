package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
)

// rollKey is the key of the empty messages that roll a log's active segment. Each replaces the previous one.
const rollKey = "muster.roll"

// partsLifetime is the table setting for how long replaced parts are kept, in seconds.
const partsLifetime = "old_parts_lifetime"

// alter runs an ALTER TABLE on every table and waits for it.
func (e *Eraser) alter(ctx context.Context, tables []string, what string) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
	for _, name := range tables {
		statement := "ALTER TABLE " + e.layout.Local(name) + e.layout.OnCluster() + " " + what
		if err := e.deps.Conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("rewrite %s: %w", name, err)
		}
	}
	return nil
}

// rewrite removes deleted rows from the tables' files: it rewrites the parts that have deleted rows and
// shortens the lifetime of the replaced parts. settle reports when they are gone. It also rolls the compacted
// topics' active segments and compacts embedded brokers; external brokers compact within the time that the
// topics' settings allow.
func (e *Eraser) rewrite(ctx context.Context) error {
	tables, err := e.tables(ctx)
	if err != nil {
		return err
	}
	if err := e.alter(ctx, tables, "APPLY DELETED MASK"); err != nil {
		return err
	}
	if err := e.alter(ctx, tables, "MODIFY SETTING "+partsLifetime+" = "+
		strconv.Itoa(int(e.cfg.Replaced/time.Second))); err != nil {
		return err
	}
	if e.deps.Search != nil {
		e.deps.Search.Begin()
	}
	return e.compact(ctx)
}

// compact rolls the active segments and compacts the embedded brokers' logs.
func (e *Eraser) compact(ctx context.Context) error {
	if err := e.roll(ctx); err != nil || e.deps.Compact == nil {
		return err
	}
	if err := e.deps.Compact(ctx); err != nil {
		return fmt.Errorf("compact the brokers' logs: %w", err)
	}
	return nil
}

// settle reports whether a rewrite is complete. Once the replaced parts are removed, it compacts the logs
// again, as tombstones have expired, and scans for erased data. If it finds any, it deletes them and
// schedules another rewrite.
func (e *Eraser) settle(ctx context.Context) (bool, error) {
	tables, err := e.tables(ctx)
	if err != nil {
		return false, err
	}
	waiting, err := e.replacedParts(ctx, tables)
	if err != nil {
		return false, err
	}
	if len(waiting) > 0 {
		return false, e.triggerPartCleanup(ctx, waiting)
	}
	if e.deps.Search != nil {
		if purged, err := e.deps.Search.Purge(ctx); err != nil || !purged {
			return false, err
		}
	}
	if err := e.alter(ctx, tables, "RESET SETTING "+partsLifetime); err != nil {
		return false, err
	}
	if err := e.compact(ctx); err != nil {
		return false, err
	}
	var left *matches
	err = e.retryOnTableSwap(ctx, func() error {
		left, err = e.find(ctx)
		return err
	})
	if errors.Is(err, errErasureWithdrawn) {
		return false, nil // Retried.
	}
	if err != nil {
		return false, err
	}
	if err := e.rebuildDiffering(ctx); err != nil {
		return false, err
	}
	dropped, err := e.dropReplaced(ctx)
	if err != nil {
		return false, err
	}
	clear(e.rebuiltAnswers) // Concurrent builds have ended, so later replaced rows contain no erased commits.
	if left.empty() {
		if dropped {
			e.rewriting, e.dirtySince = nil, e.deps.Now().Add(-e.rewriteDelay())
		}
		return !dropped, nil
	}
	// It was in flight when the set changed. Delete it and rewrite immediately.
	e.deps.Logger.LogAttrs(ctx, slog.LevelInfo, "eraser: data of erased people was added again",
		slog.Any("rows", left.counts()))
	if _, err := e.sweepUntilStable(ctx); err != nil {
		return false, err
	}
	e.rewriting, e.dirtySince = nil, e.deps.Now().Add(-e.rewriteDelay())
	return false, nil
}

// replacedParts returns the local names of the tables that still have inactive parts from before the rewrite
// on some node. Merges keep adding inactive parts; those do not count.
func (e *Eraser) replacedParts(ctx context.Context, tables []string) (waiting []string, err error) {
	var database string
	if err := e.deps.Conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return nil, fmt.Errorf("find replaced parts: %w", err)
	}
	names := make([]string, len(tables))
	for i, name := range tables {
		names[i] = e.layout.Local(name)
	}
	row := e.deps.Conn.QueryRow(ctx, "SELECT groupUniqArray(table) FROM "+e.layout.OnAllNodes("system.parts")+
		" WHERE database = {database:String} AND NOT active AND toUnixTimestamp(modification_time) < {begin:Int64} "+
		"AND table IN ('"+strings.Join(names, "', '")+"')",
		clickhouse.Named("database", database), clickhouse.Named("begin", e.rewriting.begin.Unix()))
	if err := row.Scan(&waiting); err != nil {
		return nil, fmt.Errorf("find replaced parts: %w", err)
	}
	return waiting, nil
}

// triggerPartCleanup makes the engine remove replaced parts now. On its own it checks every 30 s
// (cleanup_delay_period), and less often after checks without result. START CLEANUP wakes it, although
// cleanup is not stopped. If the engine refuses, it cleans up on its own schedule.
func (e *Eraser) triggerPartCleanup(ctx context.Context, tables []string) error {
	for _, name := range tables {
		err := e.deps.Conn.Exec(ctx, "SYSTEM START CLEANUP"+e.layout.OnCluster()+" "+name)
		if code, refused := ch.CodeOf(err); refused {
			e.deps.Logger.LogAttrs(ctx, slog.LevelInfo, "eraser: waiting for replaced parts",
				slog.String("table", name), slog.String("error", code.String()))
			continue
		}
		if err != nil {
			return fmt.Errorf("trigger the cleanup of %s: %w", name, err)
		}
	}
	return nil
}

// roll writes an empty message to every partition of the topics keyed by identity. A log's active segment is
// not compacted, so it must not contain tombstones.
func (e *Eraser) roll(ctx context.Context) error {
	var messages []kafka.Message
	for _, t := range event.Topics() {
		if !t.Personal {
			continue
		}
		bounds, err := bus.EndOffsets(ctx, e.cfg.Kafka, []string{t.Name})
		if err != nil {
			return fmt.Errorf("roll the topics: %w", err)
		}
		for _, b := range bounds {
			if b.End > b.First {
				messages = append(messages, kafka.Message{Topic: t.Name, Key: []byte(rollKey), WriterData: b.Partition})
			}
		}
	}
	if err := bus.WriteAll(ctx, e.writer, messages); err != nil {
		return fmt.Errorf("roll the topics: %w", err)
	}
	return nil
}
