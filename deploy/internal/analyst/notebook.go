package analyst

import (
	"strings"
)

// Cell is a statement in a file, with its heading.
type Cell struct {
	Title     string
	Statement string
	// Note is the text between the heading and the statement, and Chart that of its comment "chart: ...".
	Note  string
	Chart string
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
			out = appendCell(out, Cell{Statement: statement.String()})
			statement.Reset()
		}
	}
	return appendCell(out, Cell{Statement: statement.String()})
}

// chartComment begins the comment that says how the result of the next block is drawn.
const chartComment = "<!-- chart:"

func notebook(text string) []Cell {
	var out []Cell
	var statement strings.Builder
	cell, fenced, sql := Cell{}, false, false
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "```") && !fenced:
			fenced, sql = true, strings.TrimPrefix(bare, "```") == "sql"
		case bare == "```":
			if sql {
				cell.Note = strings.TrimSpace(cell.Note)
				cell.Statement = statement.String()
				out = appendCell(out, cell)
			}
			statement.Reset()
			fenced, sql = false, false
		case sql:
			statement.WriteString(line)
		case !fenced && strings.HasPrefix(bare, "#"):
			cell = Cell{Title: strings.TrimSpace(strings.TrimLeft(bare, "#"))}
		case !fenced && strings.HasPrefix(bare, chartComment):
			cell.Chart = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(bare, chartComment), "-->"))
		case !fenced && !strings.HasPrefix(bare, "<!--"):
			cell.Note += bare + " "
		}
	}
	return out
}

func appendCell(cells []Cell, cell Cell) []Cell {
	cell.Statement = strings.TrimSuffix(strings.TrimSpace(cell.Statement), ";")
	if strings.TrimSpace(cell.Statement) == "" {
		return cells
	}
	return append(cells, cell)
}
