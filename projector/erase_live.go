package projector

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"muster/schemas/readmodel"
)

// liveTablesPollInterval is how often the eraser checks whether a replay has swapped the live tables.
const liveTablesPollInterval = 5 * time.Second

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
func (e *Eraser) sweepUntilStable(ctx context.Context) (found *erasureMatches, err error) {
	err = e.retryOnTableSwap(ctx, func() error {
		f, err := e.sweep(ctx)
		if found == nil || err == nil && !f.empty() {
			found = f
		}
		return err
	})
	return found, err
}
