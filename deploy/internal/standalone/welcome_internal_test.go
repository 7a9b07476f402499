package standalone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

func TestExamplesQuery_FindsCurrentNamesWithoutATableScan(t *testing.T) {
	dsn := enginetest.Tables(t, func(ctx context.Context, dsn string) error {
		conn, err := chplatform.Open(ctx, chplatform.Config{DSN: dsn})
		if err != nil {
			return err
		}
		_, err = migrations.Apply(ctx, conn, readmodel.Layout{}, chplatform.MigrateConfig{})
		return errors.Join(err, conn.Close())
	})
	conn, err := chplatform.Open(t.Context(), chplatform.Config{DSN: dsn})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	const rows = 100_000
	for _, tt := range []struct{ table, key, name, also, columns, values string }{
		{"codehost_people", "user_id", "codehost_username", " AND notEmpty(network_username_keys)",
			"network_username_keys", "number, 'user-' || toString(number), ['a']"},
		{"codehost_people", "user_id", "codehost_username", "", "network_username_keys",
			"number, 'user-' || toString(number), []"},
		{"network_people", "profile_hash", "username", "", "profile_id",
			"xxHash64(number), 'user-' || toString(number), toString(number)"},
		{"network_companies", "company_hash", "slug_key", "", "company_id",
			"xxHash64(number), 'user-' || toString(number), toString(number)"},
	} {
		t.Run(tt.table+tt.also, func(t *testing.T) {
			insert := func(version, deleted string) {
				t.Helper()
				require.NoError(t,
					conn.Exec(t.Context(),
						fmt.Sprintf("INSERT INTO %s (%s, %s, %s, version, deleted) SELECT %s, %s, %s FROM numbers(%d)",
							tt.table, tt.key, tt.name, tt.columns, tt.values, version, deleted, rows)))
			}
			require.NoError(t, conn.Exec(t.Context(), "TRUNCATE TABLE "+tt.table))
			insert("1", "0")
			query := examplesQuery(tt.table, tt.key, tt.name, tt.also)
			found, err := names(t.Context(), conn, query)
			require.NoError(t, err)
			require.NotEmpty(t, found)
			require.Less(t, rowsRead(t, dsn, query), 20_000)
			insert("2", "1")
			found, err = names(t.Context(), conn, query)
			require.NoError(t, err)
			require.Empty(t, found, "all rows are deleted")
		})
	}
}

// rowsRead returns the number of rows that a query reads.
func rowsRead(t *testing.T, dsn, query string) int {
	t.Helper()
	at, err := url.Parse(dsn)
	require.NoError(t, err)
	at.RawQuery = url.Values{"database": {strings.Trim(at.Path, "/")}}.Encode()
	at.Path = "/"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.String(), strings.NewReader(query))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	var summary struct {
		Read int `json:"read_rows,string"`
	}
	require.NoError(t, json.Unmarshal([]byte(res.Header.Get("X-ClickHouse-Summary")), &summary))
	return summary.Read
}
