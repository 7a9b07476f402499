package readmodel

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"text/template"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

//go:embed views/*.sql
var viewFiles embed.FS

// ViewNames returns the analysts' views, each after those that it reads.
func ViewNames() []string {
	return []string{
		"people", "positions", "education", "companies", "company_headcount", "accounts", "repositories", "commits",
		"languages_by_month", "links", "usage", "freshness",
	}
}

// ViewsDatabase returns the database of the analysts' views over the read models in the database tables.
func ViewsDatabase(tables string) string { return tables + "_views" }

// ViewStatements returns the idempotent statements that create the database of the analysts' views over the
// read models in the database tables. Names and columns of the views are stable; their sources may change.
// Both names are plain identifiers.
func (l Layout) ViewStatements(tables string) ([]string, error) {
	views := ViewsDatabase(tables)
	out := []string{"CREATE DATABASE IF NOT EXISTS " + views + l.OnCluster()}
	for _, name := range ViewNames() {
		text, err := viewFiles.ReadFile("views/" + name + ".sql")
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", name, err)
		}
		t, err := template.New(name).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", name, err)
		}
		var b bytes.Buffer
		data := map[string]string{
			"Views": views, "Tables": tables, "OnCluster": l.OnCluster(),
			"Addon": Members(ShapeAddon), "Webset": Members(ShapeWebset),
			"AnswerValues": answerValuesQuery(tables),
		}
		if err := t.Execute(&b, data); err != nil {
			return nil, fmt.Errorf("view %s: %w", name, err)
		}
		out = append(out, b.String())
	}
	return out, nil
}

// CreateViews creates the analysts' views over the read models of the connection's database.
func CreateViews(ctx context.Context, conn driver.Conn, layout Layout) error {
	var tables string
	if err := conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&tables); err != nil {
		return fmt.Errorf("create the analysts' views: %w", err)
	}
	statements, err := layout.ViewStatements(tables)
	if err != nil {
		return fmt.Errorf("create the analysts' views: %w", err)
	}
	for _, s := range statements {
		if err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("create the analysts' views: %w", err)
		}
	}
	return nil
}
