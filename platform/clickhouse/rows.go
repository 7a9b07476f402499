package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ReadRows runs a query and calls scan for each row. If the query cannot be sent, the error contains neither the
// server's address nor its parameters.
func ReadRows(ctx context.Context, conn driver.Conn, query string, scan func(driver.Rows) error) error {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		var inURL *url.Error
		if errors.As(err, &inURL) {
			err = inURL.Err // the URL contains the parameters and the host
		}
		return fmt.Errorf("query: %w", err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(fmt.Errorf("scan: %w", err), rows.Close())
		}
	}
	if err := rows.Err(); err != nil {
		return errors.Join(fmt.Errorf("read rows: %w", err), rows.Close())
	}
	if err := rows.Close(); err != nil {
		return fmt.Errorf("close rows: %w", err)
	}
	return nil
}
