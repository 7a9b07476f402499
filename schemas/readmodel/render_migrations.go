package readmodel

import (
	"fmt"
	"io/fs"
	"strings"
	"text/template"
)

// Migration is one rendered migration.
type Migration struct {
	Name       string // file name without .sql
	Statements []string
}

// Migrations renders MigrationFiles for a layout, in order, for tests that
// need the tables and no record of having made them. Services use the
// migrator of platform/clickhouse.
func Migrations(layout Layout) ([]Migration, error) {
	files, err := MigrationFiles()
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	out := make([]Migration, 0, len(names))
	for _, name := range names {
		t, err := template.ParseFS(files, name)
		if err != nil {
			return nil, fmt.Errorf("parse migration: %w", err)
		}
		var b strings.Builder
		if err := t.Execute(&b, layout); err != nil {
			return nil, fmt.Errorf("render migration: %w", err)
		}
		m := Migration{Name: strings.TrimSuffix(name, ".sql")}
		for _, s := range strings.Split(b.String(), ";\n") {
			if s = strings.TrimSpace(s); s != "" {
				m.Statements = append(m.Statements, s)
			}
		}
		out = append(out, m)
	}
	return out, nil
}
