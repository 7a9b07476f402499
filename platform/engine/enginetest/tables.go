package enginetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// template is the database in which the migrations of a test binary ran.
type template struct {
	once   sync.Once
	name   string
	tables []table
	err    error
}

type table struct {
	name, create string
	filled       bool
}

// Tables returns a DSN of a new database of the package's engine with the tables and rows created by migrate. migrate
// must be the same in every call of a test binary. It runs once and its result is copied, since a migration takes
// seconds. Tests of migrations use DSN instead.
func Tables(tb testing.TB, migrate func(ctx context.Context, dsn string) error) string {
	tb.Helper()
	e := Get(tb)
	migrated := &shared.migrated
	migrated.once.Do(func() { migrated.err = migrated.fill(tb.Context(), e, migrate) })
	if migrated.err != nil {
		tb.Fatal(migrated.err)
	}
	name, err := e.create(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, t := range migrated.tables {
		statements := []string{strings.ReplaceAll(t.create, migrated.name+".", name+".")}
		if t.filled {
			statements = append(statements, "INSERT INTO "+name+"."+t.name+" SELECT * FROM "+migrated.name+"."+t.name)
		}
		for _, statement := range statements {
			if _, err := e.run(tb.Context(), statement); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return e.DSN(name)
}

func (t *template) fill(ctx context.Context, e *Engine, migrate func(ctx context.Context, dsn string) error) error {
	var err error
	if t.name, err = e.create(ctx); err != nil {
		return err
	}
	if err := migrate(ctx, e.DSN(t.name)); err != nil {
		return fmt.Errorf("enginetest: migrate: %w", err)
	}
	created, err := e.run(ctx, "SELECT name, ifNull(total_rows, 0) > 0, create_table_query FROM system.tables "+
		"WHERE database = '"+t.name+"' ORDER BY name FORMAT TSVRaw")
	if err != nil {
		return err
	}
	for line := range strings.Lines(created) {
		cells := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		t.tables = append(t.tables, table{name: cells[0], filled: cells[1] == "1", create: cells[2]})
	}
	return nil
}

// run executes a statement on the engine and returns the response.
func (e *Engine) run(ctx context.Context, statement string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.DSN(""), strings.NewReader(statement))
	if err != nil {
		return "", fmt.Errorf("enginetest: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("enginetest: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("enginetest: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("enginetest: %s: %.500s", resp.Status, body)
	}
	return string(body), nil
}
