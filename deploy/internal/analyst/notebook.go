package analyst

import (
	"strings"
)

// Cell is a statement in a file, with its heading.
type Cell struct {
	Title     string
	Statement string
}

// Cells returns the statements of a file: the sql blocks of Markdown, else the parts between ";" at the end of a line.
func Cells(name, text string) []Cell {
	if strings.HasSuffix(name, ".md") {
		return notebook(text)
	}
	var out []Cell
	var statement strings.Builder
	for line := range strings.Lines(text) {
		statement.WriteString(line)
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			out = appendCell(out, "", statement.String())
			statement.Reset()
		}
	}
	return appendCell(out, "", statement.String())
}

func notebook(text string) []Cell {
	var out []Cell
	var statement strings.Builder
	title, fenced, sql := "", false, false
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "```") && !fenced:
			fenced, sql = true, strings.TrimPrefix(bare, "```") == "sql"
		case bare == "```":
			if sql {
				out = appendCell(out, title, statement.String())
			}
			statement.Reset()
			fenced, sql = false, false
		case sql:
			statement.WriteString(line)
		case !fenced && strings.HasPrefix(bare, "#"):
			title = strings.TrimSpace(strings.TrimLeft(bare, "#"))
		}
	}
	return out
}

func appendCell(cells []Cell, title, statement string) []Cell {
	statement = strings.TrimSuffix(strings.TrimSpace(statement), ";")
	if strings.TrimSpace(statement) == "" {
		return cells
	}
	return append(cells, Cell{Title: title, Statement: statement})
}
