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

// Insert writes batches as if they were one: one insert a table, lookups
// first, then two tables at a time. It returns when the rows are durable and visible, provided that the
// connection has async_insert = 0 and insert_deduplicate = 1. A batch should
// stay below a million lookups: the server cuts larger inserts into blocks,
// and each has to be recognised by itself.
//
// An error leaves unknown which tables were written. Calling Insert again
// with the same records and the same token writes the rest: the server drops
// what it has seen under the token, and if it has forgotten, the rows replace
// themselves. A batch is not changed by Insert.
func Insert(ctx context.Context, conn driver.Conn, token string, batches ...*Batch) error {
	return InsertInto(ctx, conn, nil, token, batches...)
}

// events is a batch of rows of one table of muster's own events.
type events interface {
	Len() int
	columns() []field
}

// insertEvents writes a batch to its one table; an empty one writes nothing.
func insertEvents(ctx context.Context, conn driver.Conn, name, token string, b events) error {
	if b.Len() == 0 {
		return nil
	}
	if err := insertTable(ctx, conn, name, token, []table{{name, b.Len(), b.columns}}); err != nil {
		return fmt.Errorf("insert into %s: %w", name, err)
	}
	return nil
}

// Names are the tables to write to instead of those of Tables, by their names
// there; what has no entry is not written. Nil means the tables themselves.
type Names map[string]string

func (n Names) of(table string) (string, bool) {
	if n == nil {
		return table, true
	}
	name, ok := n[table]
	return name, ok
}

// tablesAtATime is how many inserts of a batch run side by side. Most of a small
// insert is waiting for one thread of the server and for files.
const tablesAtATime = 2

// InsertInto is Insert into other tables of the same columns, as a rebuild has
// them (Rebuild).
func InsertInto(ctx context.Context, conn driver.Conn, names Names, token string, batches ...*Batch) error {
	if len(batches) == 0 {
		return nil
	}
	tables := make([][]table, len(batches))
	for i, b := range batches {
		tables[i] = b.tables()
	}
	writing, writeCtx := errgroup.WithContext(ctx)
	writing.SetLimit(tablesAtATime)
	for i := range tables[0] {
		parts := make([]table, 0, len(batches))
		for _, t := range tables {
			if t[i].rows > 0 {
				parts = append(parts, t[i])
			}
		}
		name, wanted := names.of(tables[0][i].name)
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
			// Readers find everything else by lookups.
			if err := write(ctx); err != nil {
				return err
			}
			continue
		}
		writing.Go(func() error { return write(writeCtx) })
	}
	return writing.Wait() // ours, see above
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
		// Naming the columns saves asking the server for them before every insert.
		clickhouse.WithColumnNamesAndTypes(kinds),
		clickhouse.WithSettings(clickhouse.Settings{
			"insert_deduplication_token": token + ":" + parts[0].name,
		}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+name+" ("+strings.Join(names, ", ")+")")
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := makeRoom(batch, parts); err != nil {
		return fmt.Errorf("make room: %w", closeAfter(batch, err))
	}
	for i, part := range parts {
		if i > 0 {
			columns = part.columns()
		}
		for j, c := range columns {
			if err := c.values.appendTo(batch.Column(j)); err != nil {
				return fmt.Errorf("column %s: %w", c.name, closeAfter(batch, err))
			}
		}
	}
	if err := even(batch, parts); err != nil {
		return closeAfter(batch, err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// even checks that all columns have as many rows: of a block with a shorter one the server takes none, without an error.
func even(batch driver.Batch, parts []table) error {
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

// makeRoom lets the batch's columns of texts grow at once to what will stand in
// them, by adding it as one row and taking that back: growing row by row copies
// them several times over.
func makeRoom(batch driver.Batch, parts []table) error {
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

// closeAfter gives a batch's connection back after an error.
func closeAfter(batch driver.Batch, err error) error {
	if abort := batch.Abort(); abort != nil {
		return fmt.Errorf("%w (and abort: %w)", err, abort)
	}
	return err
}
