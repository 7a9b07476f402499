package analyst

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"muster/platform/clickhouse"
	queryapi "muster/query-api"
)

// DSNEnv is the environment variable with the address of the analysts' user on an external ClickHouse server.
const DSNEnv = "MUSTER_ANALYST_DSN"

// QuestionsPage is the page of the saved questions.
const QuestionsPage = "questions.md"

// Questions returns the saved questions on a page: its blocks of SQL, below numbered headings.
func Questions(pages fs.FS) ([]queryapi.Question, error) {
	page, err := fs.ReadFile(pages, QuestionsPage)
	if err != nil {
		return nil, fmt.Errorf("read the saved questions: %w", err)
	}
	var out []queryapi.Question
	for i, cell := range Cells(QuestionsPage, string(page)) {
		number, title, ok := strings.Cut(cell.Title, ". ")
		if n, err := strconv.Atoi(number); !ok || err != nil || n != i+1 {
			return nil, fmt.Errorf("%s: the heading %q has no number, or not the next one", QuestionsPage, cell.Title)
		}
		question := queryapi.Question{Number: i + 1, Title: title, Note: cell.Note, Statement: cell.Statement}
		if cell.Chart != "" {
			if question.Chart, err = parseChart(cell.Chart); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", QuestionsPage, cell.Title, err)
			}
		}
		out = append(out, question)
	}
	return out, nil
}

// parseChart parses a chart, such as "line; x: year; y: percent; series: language".
func parseChart(text string) (*queryapi.Chart, error) {
	parts := strings.Split(text, ";")
	chart := &queryapi.Chart{Kind: strings.TrimSpace(parts[0])}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		columns := strings.Split(strings.ReplaceAll(value, " ", ""), ",")
		switch name {
		case "x":
			chart.X = columns
		case "y":
			chart.Y = columns
		case "series":
			chart.Series = columns[0]
		default:
			return nil, fmt.Errorf("chart: unknown part %q; parts are x, y and series", name)
		}
	}
	switch {
	case chart.Kind != "bar" && chart.Kind != "line" && chart.Kind != "stacked":
		return nil, fmt.Errorf("chart: unknown kind %q; kinds are bar, line and stacked", chart.Kind)
	case len(chart.X) == 0 || len(chart.Y) == 0:
		return nil, fmt.Errorf("chart %q: x or y is missing", text)
	}
	return chart, nil
}

// OpenViews returns a client that reads the views only: as the embedded engine's user without a password, or, on an
// external server, as the user of MUSTER_ANALYST_DSN. It returns nil if there is no such user.
func OpenViews(cfg clickhouse.Config, embedded bool, getenv func(string) string) (*Client, error) {
	dsn := getenv(DSNEnv)
	if dsn != "" {
		cfg.DSN = dsn
	} else if !embedded {
		return nil, nil //nolint:nilnil // documented
	}
	client, err := Open(cfg, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", DSNEnv, err)
	}
	if dsn == "" {
		client.user, client.password, client.limited = "", "", true
	}
	return client, nil
}

// Saved returns the saved questions and the function that runs their statements, as [OpenViews] reads them. There are
// none without a user.
func Saved(pages fs.FS, cfg clickhouse.Config, embedded bool, getenv func(string) string) (
	[]queryapi.Question, func(ctx context.Context, statement, format string, out io.Writer) error, error,
) {
	client, err := OpenViews(cfg, embedded, getenv)
	if err != nil || client == nil {
		return nil, nil, err
	}
	questions, err := Questions(pages)
	return questions, func(ctx context.Context, statement, format string, out io.Writer) error {
		return client.Query(ctx, statement, format, nil, out)
	}, err
}
