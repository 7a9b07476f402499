package readmodel

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	clickhousecolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"
)

// Insert writes batches as one: one insert per table, lookups and their hints first, then two tables concurrently. It
// returns when the rows are durable and visible, provided that the connection has async_insert = 0 and
// insert_deduplicate = 1. A batch should have fewer than a million lookups: the server splits larger inserts
// into blocks that are deduplicated separately.
//
// After an error it is unknown which tables were written. Calling Insert again with the same records and
// token writes the rest: the server drops inserts whose token it remembers, and otherwise rows replace
// themselves. Insert does not modify batches.
func Insert(ctx context.Context, conn driver.Conn, token string, batches ...*Batch) error {
	_, err := InsertInto(ctx, conn, nil, token, batches...)
	return err
}

// eventRows are rows of an event table for an insert. R's fields have the column names as tags.
type eventRows[R any] struct{ rows []R }

func (e *eventRows[R]) add(row R) { e.rows = append(e.rows, row) }

// Len returns the number of rows.
func (e *eventRows[R]) Len() int { return len(e.rows) }

// insert writes the rows to a table. Without rows it writes nothing.
func (e *eventRows[R]) insert(ctx context.Context, conn driver.Conn, table, token string) error {
	if len(e.rows) == 0 {
		return nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_deduplication_token": token + ":" + table,
	}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+table)
	if err != nil {
		return fmt.Errorf("insert into %s: prepare: %w", table, err)
	}
	for i := range e.rows {
		if err := batch.AppendStruct(&e.rows[i]); err != nil {
			return fmt.Errorf("insert into %s: %w", table, abortBatch(batch, err))
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert into %s: send: %w", table, err)
	}
	return nil
}

// Names maps tables of Tables to the tables to write instead. Tables without an entry are not written. Nil
// stands for the tables themselves.
type Names map[string]string

func (n Names) target(table string) (string, bool) {
	if n == nil {
		return table, true
	}
	name, ok := n[table]
	return name, ok
}

// insertConcurrency is the number of concurrent inserts of a batch. A small insert mostly waits for one
// server thread and for files.
const insertConcurrency = 2

// InsertInto is Insert into other tables with the same columns, such as those of a Rebuild. It returns the records that
// the batches may have linked, if it writes lookups.
func InsertInto(
	ctx context.Context, conn driver.Conn, names Names, token string, batches ...*Batch,
) (LinkCandidates, error) {
	candidates := noCandidates()
	if len(batches) == 0 {
		return candidates, nil
	}
	tables := make([][]table, len(batches))
	for i, b := range batches {
		tables[i] = b.tables()
	}
	writing, writeCtx := errgroup.WithContext(ctx)
	writing.SetLimit(insertConcurrency)
	for i := range tables[0] {
		parts := make([]table, 0, len(batches))
		for _, t := range tables {
			if t[i].rows > 0 {
				parts = append(parts, t[i])
			}
		}
		name, wanted := names.target(tables[0][i].name)
		if len(parts) == 0 || !wanted {
			continue
		}
		write := func(ctx context.Context) error {
			if err := insertTable(ctx, conn, name, token, parts); err != nil {
				return fmt.Errorf("insert into %s: %w", name, err)
			}
			return nil
		}
		if i == 0 {
			// Lookups first: readers find everything else through them.
			if err := write(ctx); err != nil {
				return candidates, err
			}
			var err error
			if candidates, err = insertHints(ctx, conn, name, batches); err != nil {
				return candidates, err
			}
			continue
		}
		writing.Go(func() error { return write(writeCtx) })
	}
	return candidates, writing.Wait()
}

// insertTable writes one table's rows of several batches.
func insertTable(ctx context.Context, conn driver.Conn, name, token string, parts []table) error {
	columns := parts[0].columns()
	names := make([]string, len(columns))
	kinds := make([]clickhouse.ColumnNameAndType, len(columns))
	for i, c := range columns {
		names[i] = "`" + c.name + "`"
		kinds[i] = clickhouse.ColumnNameAndType{Name: c.name, Type: c.kind}
	}
	ctx = clickhouse.Context(ctx,
		// Saves a query for the columns before every insert.
		clickhouse.WithColumnNamesAndTypes(kinds),
		clickhouse.WithSettings(clickhouse.Settings{
			"insert_deduplication_token": token + ":" + parts[0].name,
		}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+name+" ("+strings.Join(names, ", ")+")")
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := reserveCapacity(batch, parts); err != nil {
		return fmt.Errorf("reserve: %w", abortBatch(batch, err))
	}
	for i, part := range parts {
		if i > 0 {
			columns = part.columns()
		}
		for j, c := range columns {
			if err := c.values.appendTo(batch.Column(j)); err != nil {
				return fmt.Errorf("column %s: %w", c.name, abortBatch(batch, err))
			}
		}
	}
	if err := checkColumnLengths(batch, parts); err != nil {
		return abortBatch(batch, err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// checkColumnLengths checks that all columns have the same length: the server silently drops a block with a
// shorter one.
func checkColumnLengths(batch driver.Batch, parts []table) error {
	rows := 0
	for _, part := range parts {
		rows += part.rows
	}
	for _, c := range batch.Columns() {
		if c.Rows() != rows {
			return fmt.Errorf("column %s has %d rows of %d", c.Name(), c.Rows(), rows)
		}
	}
	return nil
}

// reserveCapacity allocates the batch's string columns at once: it appends all bytes as one row and resets the
// column. Growing row by row would copy them several times.
func reserveCapacity(batch driver.Batch, parts []table) error {
	own := batch.Columns()
	for _, part := range parts {
		for j, c := range part.columns() {
			a, ok := c.values.(interface{ bytes() *[]byte })
			if !ok || len(*a.bytes()) == 0 {
				continue
			}
			base := own[j]
			if list, ok := base.(*clickhousecolumn.Array); ok {
				base = list.Base()
			}
			if err := base.AppendRow(a.bytes()); err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
		}
	}
	for _, c := range own {
		c.Reset()
	}
	return nil
}

// abortBatch releases a batch's connection after an error.
func abortBatch(batch driver.Batch, err error) error {
	if abort := batch.Abort(); abort != nil {
		return fmt.Errorf("%w (and abort: %w)", err, abort)
	}
	return err
}
