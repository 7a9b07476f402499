package erasure

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	ch "muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

// liveTables returns a signature of the live tables: their names and comments. The comment of a table that a
// replay created identifies that replay.
func (e *Eraser) liveTables(ctx context.Context) (string, error) {
	names := make([]string, 0, len(readmodel.Tables())+1)
	for _, name := range append(readmodel.Tables(), readmodel.AnswersTable) {
		names = append(names, e.layout.Local(name))
	}
	var live string
	row := e.deps.Conn.QueryRow(ctx, "SELECT arrayStringConcat(arraySort(groupArray(concat(name, ': ', comment))), "+
		"'\\n') FROM system.tables"+
		" WHERE database = currentDatabase() AND name IN ('"+strings.Join(names, "', '")+"')")
	if err := row.Scan(&live); err != nil {
		return "", fmt.Errorf("read the live tables: %w", err)
	}
	return live, nil
}

// replaced reports whether the live tables have changed since the last sweep. Rows of people who were erased
// while a replay filled the new tables may have been added after the sweep.
func (e *Eraser) replaced(ctx context.Context) bool {
	if e.deps.Suppressed.Len() == 0 {
		return false
	}
	live, err := e.liveTables(ctx)
	if err != nil { // Checked again soon.
		e.deps.Logger.LogAttrs(ctx, slog.LevelDebug, "eraser: reading the live tables failed, will retry",
			slog.Any("error", err))
		return false
	}
	return live != e.liveSignature
}

// retryOnTableSwap runs do, and repeats it if a replay swapped tables in the meantime: do addresses tables by
// name, so it may have missed one that is live now.
func (e *Eraser) retryOnTableSwap(ctx context.Context, do func() error) error {
	before, err := e.liveTables(ctx)
	if err != nil {
		return err
	}
	for {
		if err := do(); err != nil {
			return err
		}
		after, err := e.liveTables(ctx)
		if err != nil {
			return err
		}
		if after == before {
			e.liveSignature = after
			return nil
		}
		before = after
	}
}

// sweepUntilStable sweeps until the live tables stay the same. It returns the matches of the last sweep that
// had any.
func (e *Eraser) sweepUntilStable(ctx context.Context) (found *matches, err error) {
	err = e.retryOnTableSwap(ctx, func() error {
		f, err := e.sweep(ctx)
		if found == nil || err == nil && !f.empty() {
			found = f
		}
		return err
	})
	return found, err
}

// tables returns the tables with personal data, including shadow and retired tables.
func (e *Eraser) tables(ctx context.Context) ([]string, error) {
	replayed, err := e.replayTables(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, table := range append(readmodel.Tables(), readmodel.AnswersTable, readmodel.DiscoveryTable,
		readmodel.DiscoveredTable, readmodel.ContextTable, readmodel.BulkTable, readmodel.WebhookAttemptsTable,
		readmodel.DisclosuresTable, readmodel.FeedbackTable, readmodel.LinkedTable) {
		out = append(append(out, table), replayed[table]...)
	}
	return out, nil
}

// replayTables returns the shadow and retired tables of replays, by the name of the live table.
func (e *Eraser) replayTables(ctx context.Context) (map[string][]string, error) {
	out := make(map[string][]string)
	err := ch.ReadRows(ctx, e.deps.Conn, "SELECT name FROM system.tables WHERE database = currentDatabase()",
		func(rows driver.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			// On a cluster the distributed table may be missing, if a replay was interrupted.
			if name, ok := e.layout.Logical(name); ok {
				if table, _, _, ok := readmodel.ParseRebuilt(name); ok {
					out[table] = append(out[table], name)
				}
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return out, nil
}
