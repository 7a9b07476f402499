package people

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
)

// Population counts the names and usernames of the store.
func (r *Reader) Population(ctx context.Context) (*readmodel.Population, error) {
	p, err := readmodel.ReadPopulation(func(query string, bound uint64, scan func(driver.Rows) error) error {
		return r.query(ctx, query, clickhouse.Parameters{"bound": strconv.FormatUint(bound, 10)}, scan)
	})
	if err != nil {
		return nil, fmt.Errorf("read population: %w", err)
	}
	return p, nil
}
