package answers

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	ch "muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

// buildTarget is an account to be built.
type buildTarget struct {
	readmodel.Touch
	generation uint32
	version    int64 // newest touched version
	rows       uint64
}

// Rebuilding are builds that follow no new touch.
type Rebuilding struct {
	// Tables are the tables to write.
	Tables []string
	// Attempt is added to the rows' number of rebuilds, so that the newest build of a touch wins.
	Attempt uint32
	// Generation is the generation of answers of accounts that have none yet.
	Generation uint32
}

// Rebuild builds the answers of accounts for the touches of the live ones, so that concurrent builds of newer touches
// win.
func Rebuild(ctx context.Context, conn driver.Conn, ids []int64, r Rebuilding) error {
	states, err := readmodel.AnswerStates(ctx, conn, ids)
	if err != nil {
		return err
	}
	var due, large []*buildTarget
	for _, id := range ids {
		s := states[id]
		t := &buildTarget{
			Touch: readmodel.Touch{
				UserID: id, Partition: s.Partition, Offset: s.Touch, Rebuilt: s.Rebuilt + r.Attempt,
			},
			generation: s.Generation, rows: s.Rows,
		}
		if !s.Has {
			t.generation = r.Generation
		}
		if t.rows > largeAccount {
			large = append(large, t)
		} else {
			due = append(due, t)
		}
	}
	return eachBuild(due, large, func(builds readmodel.Builds, touches []readmodel.Touch) error {
		for _, table := range r.Tables {
			builds.Table = table
			if err := readmodel.BuildAnswers(ctx, conn, builds, touches); err != nil {
				return err
			}
		}
		return nil
	})
}

// RebuildAll is Rebuild in all tables that builders write.
func RebuildAll(ctx context.Context, conn driver.Conn, layout readmodel.Layout, ids []int64) error {
	tables, err := builtTables(ctx, conn, layout)
	if err != nil {
		return err
	}
	return Rebuild(ctx, conn, ids, Rebuilding{Tables: tables, Attempt: 1})
}

// eachBuild calls build with groups of small accounts, and with each large account alone.
func eachBuild(due, large []*buildTarget, build func(readmodel.Builds, []readmodel.Touch) error) error {
	next := func(list []*buildTarget, n int, large bool) error {
		touches := make([]readmodel.Touch, n)
		for i, t := range list[:n] {
			touches[i] = t.Touch
		}
		return build(readmodel.Builds{Generation: list[0].generation, Large: large}, touches)
	}
	for len(due) > 0 {
		n, rows := 0, uint64(0)
		for n < len(due) && n < BuildAccounts && due[n].generation == due[0].generation &&
			(n == 0 || rows+due[n].rows <= buildRows) {
			rows += due[n].rows
			n++
		}
		if err := next(due, n, false); err != nil {
			return err
		}
		due = due[n:]
	}
	for i := range large {
		if err := next(large[i:], 1, true); err != nil {
			return err
		}
	}
	return nil
}

// ShadowTables returns the shadow tables of answers, including those of interrupted runs.
func ShadowTables(ctx context.Context, conn driver.Conn, layout readmodel.Layout) ([]string, error) {
	var out []string
	query := "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, '" +
		readmodel.AnswersTable + "__')"
	err := ch.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		if name, ok := layout.Logical(name); ok {
			if _, _, _, ok := readmodel.ParseRebuilt(name); ok {
				out = append(out, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find tables of answers: %w", err)
	}
	return out, nil
}

// builtTables returns the tables that builders write: the complete shadow tables that a replay fills, and then the live
// table.
func builtTables(ctx context.Context, conn driver.Conn, layout readmodel.Layout) ([]string, error) {
	names, err := ShadowTables(ctx, conn, layout)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		var there bool
		row := conn.QueryRow(ctx, "SELECT count() > 0 FROM system.tables WHERE database = currentDatabase() AND "+
			"name = $1", name)
		if err := row.Scan(&there); err != nil {
			return nil, fmt.Errorf("find tables of answers: %w", err)
		}
		if _, _, old, _ := readmodel.ParseRebuilt(name); there && !old {
			out = append(out, name)
		}
	}
	return append(out, readmodel.AnswersTable), nil
}

// RedactError returns err without the statement that store errors may quote, because it contains ids.
func RedactError(err error) error {
	if code, ok := ch.CodeOf(err); ok {
		return errors.New("build answers: store error " + code.String())
	}
	return err
}
