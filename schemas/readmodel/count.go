package readmodel

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Count is the size of a read model.
type Count struct {
	Table   string `ch:"table"`
	Rows    uint64 // newest versions that are not deleted
	Parts   uint64 `ch:"parts"` // on disk, of this node
	Bytes   uint64 `ch:"bytes"` // their size on disk, compressed
	Current int64  // newest version among its rows, microseconds since 0001-01-01; 0 when empty
}

// CountQuery returns the query for the number of identities in a table that are not deleted, and the newest
// version. It scans narrow columns of the whole table, which takes seconds for many millions of rows.
func CountQuery(table string) string {
	return "SELECT count() AS rows, max(version) AS current FROM " + table + " FINAL WHERE NOT deleted"
}

// SizeQuery returns the query for parts and bytes on disk of the tables of the current database.
func SizeQuery() string {
	return "SELECT table, count() AS parts, sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND database " +
		"= currentDatabase() GROUP BY table"
}

// Counts returns the counts of every read model, in the order of Tables. With an error it returns those that
// succeeded.
func Counts(ctx context.Context, conn driver.Conn) ([]Count, error) {
	var parts []Count
	if err := conn.Select(ctx, &parts, SizeQuery()); err != nil {
		return nil, fmt.Errorf("read sizes of read models: %w", err)
	}
	sizes := map[string]Count{}
	for _, c := range parts {
		sizes[c.Table] = c
	}
	var out []Count
	var errs []error
	for _, name := range Tables() {
		c := sizes[name]
		if c.Table == "" {
			c = sizes[name+"_local"]
		}
		c.Table = name
		if err := conn.QueryRow(ctx, CountQuery(name)).Scan(&c.Rows, &c.Current); err != nil {
			errs = append(errs, fmt.Errorf("count %s: %w", name, err))
			if _, ok := errors.AsType[*clickhouse.Exception](err); !ok {
				break // The connection failed.
			}
			continue
		}
		out = append(out, c)
	}
	return out, errors.Join(errs...)
}
