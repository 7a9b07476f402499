package readmodel

import (
	"testing"

	clickhousecolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
)

// filled returns a batch whose columns have n rows.
type filled struct {
	driver.Batch
	columns []clickhousecolumn.Interface
}

func (b filled) Columns() []clickhousecolumn.Interface { return b.columns }

func TestInsert_RejectsColumnsOfUnequalLength(t *testing.T) {
	of := func(name string, rows int) clickhousecolumn.Interface {
		c, err := clickhousecolumn.Type("UInt64").Column(name, nil)
		require.NoError(t, err)
		for range rows {
			require.NoError(t, c.AppendRow(uint64(1)))
		}
		return c
	}
	parts := []table{{rows: 2}, {rows: 1}}
	require.NoError(t, checkColumnLengths(filled{columns: []clickhousecolumn.Interface{of("a", 3), of("b", 3)}}, parts))
	require.EqualError(t, checkColumnLengths(filled{columns: []clickhousecolumn.Interface{of("a", 3), of("b", 2)}},
		parts), "column b has 2 rows of 3")
	require.EqualError(t, checkColumnLengths(filled{columns: []clickhousecolumn.Interface{of("a", 2), of("b", 2)}},
		parts), "column a has 2 rows of 3", "all columns too short")
}
