package projector

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"muster/schemas/readmodel"
)

// lookForTables is how often it is looked whether a replay has put tables in place of
// the live ones.
const lookForTables = 5 * time.Second

// liveTables says which tables are live: the comment of one that a replay made, whatever
// its name, tells which.
func (e *Eraser) liveTables(ctx context.Context) (string, error) {
	names := make([]string, 0, len(readmodel.Tables())+1)
	for _, name := range append(readmodel.Tables(), readmodel.AnswersTable) {
		names = append(names, e.layout.Local(name))
	}
	var live string
	row := e.deps.Conn.QueryRow(ctx, "SELECT arrayStringConcat(arraySort(groupArray(concat(name, ': ', comment))), '\\n') FROM system.tables"+
		" WHERE database = currentDatabase() AND name IN ('"+strings.Join(names, "', '")+"')")
	if err := row.Scan(&live); err != nil {
		return "", fmt.Errorf("look for the tables that are live: %w", err)
	}
	return live, nil
}

// replaced reports whether other tables are live than those that were swept. Rows of
// somebody who was erased while they were made may have come into them after the sweep.
func (e *Eraser) replaced(ctx context.Context) bool {
	if e.deps.Suppressed.Len() == 0 {
		return false
	}
	live, err := e.liveTables(ctx)
	if err != nil { // the next look is soon
		e.deps.Logger.LogAttrs(ctx, slog.LevelDebug, "the live tables are looked for again", slog.Any("error", err))
		return false
	}
	return live != e.live
}

// steadily does something to all tables, and again when a replay has exchanged some
// meanwhile: a table that was to be live may have been passed over then, since each is
// known by its name.
func (e *Eraser) steadily(ctx context.Context, do func() error) error {
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
			e.live = after
			return nil
		}
		before = after
	}
}

// sweepSteadily sweeps, and returns what the last sweep that found something has found.
func (e *Eraser) sweepSteadily(ctx context.Context) (found *foundErased, err error) {
	err = e.steadily(ctx, func() error {
		f, err := e.sweep(ctx)
		if found == nil || err == nil && !f.empty() {
			found = f
		}
		return err
	})
	return found, err
}
