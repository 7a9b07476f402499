package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// migrated is the database that the binary migrates once. Every seed needs three databases with the same tables, and
// migrations take longer than the faults.
const migrated = "migrated"

// migrate creates the migrated database.
func (s *store) migrate(ctx context.Context, muster string) error {
	if err := s.admin.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+migrated); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	p := program{path: muster, env: environment("CLICKHOUSE_DSN=" + s.dsn(s.addr, migrated))}
	status, out, err := p.run(ctx, nil, "migrate")
	if err != nil || status != 0 {
		return errors.Join(err, fmt.Errorf("migrate: exit status %d: %s", status, out))
	}
	return nil
}

// tables creates a database with the tables of the migrated one, and its record of migrations.
func (s *store) tables(ctx context.Context, database string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create the tables of %s: %w", database, err)
		}
	}()
	var made []struct {
		Name      string `ch:"name"`
		Statement string `ch:"create_table_query"`
		Rows      uint64 `ch:"rows"`
	}
	if err := s.admin.Select(ctx, &made, `SELECT name, create_table_query, ifNull(total_rows, 0) AS rows
	    FROM system.tables
		WHERE database = '`+migrated+`' ORDER BY name`); err != nil {
		return err
	}
	if len(made) == 0 {
		return errors.New("no tables found")
	}
	if err := s.admin.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return err
	}
	for _, t := range made {
		if err := s.admin.Exec(ctx, strings.ReplaceAll(t.Statement, migrated+".", database+".")); err != nil {
			return err
		}
		if t.Rows == 0 {
			continue
		}
		if err := s.admin.Exec(ctx, "INSERT INTO "+database+"."+t.Name+" SELECT * FROM "+migrated+"."+
			t.Name); err != nil {
			return err
		}
	}
	return nil
}
