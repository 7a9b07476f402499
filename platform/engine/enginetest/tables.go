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

// template is the database that a test binary's migrations ran on.
type template struct {
	once   sync.Once
	tables []table
	err    error
}

type table struct {
	name, create string
	filled       bool
}

const templateName = "migrated_once"

// Tables returns a DSN of a fresh database of the package's engine with the
// tables and rows that migrate makes. migrate, the same in every call of a test
// binary, runs once: a database that is migrated takes seconds, a copied one a
// fraction of one. Tests of migrations themselves use DSN.
func Tables(tb testing.TB, migrate func(ctx context.Context, dsn string) error) string {
	tb.Helper()
	e := Get(tb)
	migrated := &shared.migrated
	migrated.once.Do(func() { migrated.tables, migrated.err = e.migrate(tb.Context(), migrate) })
	if migrated.err != nil {
		tb.Fatal(migrated.err)
	}
	dsn, err := e.FreshDatabase(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	for _, t := range migrated.tables {
		statements := []string{strings.ReplaceAll(t.create, templateName+".", name+".")}
		if t.filled {
			statements = append(statements, "INSERT INTO "+name+"."+t.name+" SELECT * FROM "+templateName+"."+t.name)
		}
		for _, statement := range statements {
			if _, err := e.run(tb.Context(), statement); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return dsn
}

func (e *Engine) migrate(ctx context.Context, migrate func(ctx context.Context, dsn string) error) ([]table, error) {
	if _, err := e.run(ctx, "CREATE DATABASE "+templateName); err != nil {
		return nil, err
	}
	if err := migrate(ctx, e.DSN(templateName)); err != nil {
		return nil, fmt.Errorf("enginetest: migrate: %w", err)
	}
	made, err := e.run(ctx, "SELECT name, ifNull(total_rows, 0) > 0, create_table_query FROM system.tables WHERE database = '"+templateName+"' ORDER BY name FORMAT TSVRaw")
	if err != nil {
		return nil, err
	}
	var tables []table
	for line := range strings.Lines(made) {
		cells := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		tables = append(tables, table{name: cells[0], filled: cells[1] == "1", create: cells[2]})
	}
	return tables, nil
}

// run sends a statement to the engine and returns its answer.
func (e *Engine) run(ctx context.Context, statement string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Addr()+"/", strings.NewReader(statement))
	if err != nil {
		return "", fmt.Errorf("enginetest: %w", err)
	}
	req.SetBasicAuth(User, Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("enginetest: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("enginetest: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("enginetest: %s: %.500s", resp.Status, answer)
	}
	return string(answer), nil
}
