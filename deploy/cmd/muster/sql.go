package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"muster/deploy/docs"
	"muster/deploy/internal/analyst"
	"muster/platform/atomicfile"
	"muster/platform/clickhouse"
	"muster/platform/console"
	queryapi "muster/query-api"
	"muster/schemas/readmodel"
)

// formats maps short names to ClickHouse formats.
func formats() map[string]string {
	return map[string]string{
		"table": "PrettyCompactMonoBlock", "csv": "CSVWithNames", "tsv": "TabSeparatedWithNames", "json": "JSONEachRow",
		"markdown": "Markdown", "vertical": "Vertical",
	}
}

func (c *command) sqlCommand() *cobra.Command {
	var format, file, output, question string
	var own bool
	cmd := &cobra.Command{
		Use:   "sql [STATEMENT]",
		Short: "Query the analyst views with SQL",
		Long: `Runs ClickHouse SQL on the analyst views (people, positions, education, companies, company_headcount,
accounts, repositories, commits, languages_by_month, links, usage, freshness) and the underlying read models
(as muster.<table>), read-only. The statement is the argument, or a saved question (--question). Otherwise
the statements are read from a file (--file; from a .md file its sql blocks, in order, as in a notebook), or from
standard input, each ended by ";" at the end of a line. A terminal has line editing and history; help and exit work.

  muster sql "SHOW TABLES"                      the views
  muster sql "DESCRIBE TABLE positions"         the columns of a view with descriptions

The embedded engine limits analysts in time, memory and rows; --service-user runs as the services' user. Programs that
connect without the password in the data directory can read the views only.

Exit status: 0; 1 a statement failed; 2 no statement could be run.`,
		Example: `  muster sql "SELECT country, count() AS people FROM people GROUP BY country ORDER BY people DESC"
  muster sql --question list
  muster sql --question 3
  muster sql --file deploy/docs/questions.md
  muster sql --format csv --output people.csv "SELECT * FROM people"`,
		GroupID: "data",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if question == "list" {
				return listQuestions(cmd)
			}
			if question != "" {
				if len(args) > 0 || file != "" {
					return errors.New("a saved question excludes a statement and --file")
				}
				saved, err := savedQuestion(question)
				if err != nil {
					return err
				}
				args = []string{saved.Statement}
			}
			client, err := c.analystClient(own)
			if err != nil {
				return err
			}
			name := format
			if long, ok := formats()[format]; ok {
				name = long
			}
			run := func(out io.Writer) error {
				return c.runStatements(cmd, args, file, func(cell analyst.Cell) error {
					if cell.Title != "" {
						fmt.Fprintf(out, "\n%s\n\n", cell.Title)
					}
					if err := client.Query(cmd.Context(), cell.Statement, name, nil, out); err != nil {
						return partlyError{explainError(err)}
					}
					return nil
				})
			}
			if output != "" {
				return atomicfile.Write(output, run)
			}
			return run(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&format, "format", "table",
		"table, csv, tsv, json (one object per line), markdown, vertical, or a ClickHouse format")
	flags.StringVar(&file, "file", "", "file of statements: .sql, or .md with sql blocks")
	flags.StringVar(&output, "output", "", "output file (default: standard output)")
	flags.StringVar(&question, "question", "", "`NUMBER` of a saved question (deploy/docs/questions.md), or list")
	flags.BoolVar(&own, "service-user", false, "run as the services' user, without the analyst limits; still read-only")
	return cmd
}

// savedQuestion returns a saved question by its number.
func savedQuestion(number string) (queryapi.Question, error) {
	questions, err := analyst.Questions(docs.Pages())
	if err != nil {
		return queryapi.Question{}, err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(questions) {
		return queryapi.Question{}, fmt.Errorf(
			"no saved question %q: pass 1 to %d; `muster sql --question list` lists them", number, len(questions))
	}
	return questions[n-1], nil
}

func listQuestions(cmd *cobra.Command) error {
	questions, err := analyst.Questions(docs.Pages())
	if err != nil {
		return err
	}
	tw := newTable(cmd.OutOrStdout(), "QUESTION\tTITLE")
	for _, q := range questions {
		fmt.Fprintf(tw, "%d\t%s\n", q.Number, q.Title)
	}
	return tw.Flush()
}

// runStatements calls ask with the statement of the argument, else with those of a file, else of standard input.
func (c *command) runStatements(cmd *cobra.Command, args []string, file string, ask func(analyst.Cell) error) error {
	switch {
	case len(args) == 1 && file != "":
		return errors.New("a statement and --file are mutually exclusive")
	case len(args) == 1:
		return ask(analyst.Cell{Statement: strings.TrimSuffix(strings.TrimSpace(args[0]), ";")})
	case file == "":
		return c.runPrompt(cmd, ask)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the statements: %w", err)
	}
	cells := analyst.Cells(file, string(text))
	if len(cells) == 0 {
		return fmt.Errorf("%s contains no statement", file)
	}
	for _, cell := range cells {
		if err := ask(cell); err != nil {
			return err
		}
	}
	return nil
}

var (
	guess         = regexp.MustCompile(` Maybe you meant [^?]*\?\.?`)
	unknownFormat = regexp.MustCompile(`Unknown format (.+?)\. (?:\(UNKNOWN_FORMAT\)|Maybe you meant)`)
)

// explainError adds the fix to errors of ClickHouse that lack it.
func explainError(err error) error {
	var failed *analyst.Error
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.Code {
	case analyst.CodeReadonly:
		return fmt.Errorf(
			"%w; only SELECT, WITH, SHOW, DESCRIBE, EXISTS and EXPLAIN are allowed (is the first word mistyped?)", err)
	case 60: // UNKNOWN_TABLE
		// ClickHouse suggests its own tables.
		return fmt.Errorf("%s; the views are %s", guess.ReplaceAllString(failed.Text, ""),
			strings.Join(readmodel.ViewNames(), ", "))
	case 73: // UNKNOWN_FORMAT
		what := "this format"
		if m := unknownFormat.FindStringSubmatch(failed.Text); m != nil {
			what = fmt.Sprintf("the format %q", m[1])
		}
		return fmt.Errorf(
			"%s is unknown; the formats are %s, and those of ClickHouse (SELECT name FROM system.formats)", what,
			strings.Join(slices.Sorted(maps.Keys(formats())), ", "))
	}
	return err
}

// analystClient connects to the server of CLICKHOUSE_DSN, else to the running instance.
func (c *command) analystClient(own bool) (*analyst.Client, error) {
	cfg, err := c.clickHouse()
	if err != nil {
		return nil, err
	}
	// An external server has the users that its operator created.
	client, err := analyst.Open(cfg, own || c.getenv(clickhouse.DSNEnv) != "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clickhouse.DSNEnv, err)
	}
	return client, nil
}

// sqlHelp is the output of `help` at the prompt.
const sqlHelp = `End a statement with ";" at the end of a line.
  SHOW TABLES;                the views
  DESCRIBE TABLE positions;   the columns of a view with descriptions
  help, exit                  show this text; leave (also Ctrl-D)
The arrow keys edit a line and recall earlier ones.
`

// runPrompt runs the statements of standard input. A terminal continues after an error, and has help and exit.
func (c *command) runPrompt(cmd *cobra.Command, ask func(analyst.Cell) error) error {
	lines := console.NewLineReader(c.std.in, c.std.err)
	if lines.Interactive() {
		fmt.Fprintln(cmd.ErrOrStderr(), "End statements with \";\". Commands: help, exit.")
	}
	var statement strings.Builder
	var failed error
	flush := func() error {
		for _, cell := range analyst.Cells("", statement.String()) {
			if err := ask(cell); err != nil {
				if !lines.Interactive() || cmd.Context().Err() != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), err)
				failed = err
			}
		}
		statement.Reset()
		return nil
	}
	for cmd.Context().Err() == nil {
		prompt := "muster> "
		if statement.Len() > 0 {
			prompt = "     -> "
		}
		line, err := lines.ReadLine(prompt)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the statements: %w", err)
		}
		if lines.Interactive() && statement.Len() == 0 {
			switch strings.ToLower(strings.TrimRight(strings.TrimSpace(line), "; ")) {
			case "":
				continue
			case "exit", "quit", `\q`:
				return failed
			case "help", "?", `\h`:
				fmt.Fprint(cmd.ErrOrStderr(), sqlHelp)
				continue
			}
		}
		statement.WriteString(line + "\n")
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return failed
}

func (c *command) exportCommand() *cobra.Command {
	var output, where string
	var all bool
	cmd := &cobra.Command{
		Use:   "export VIEW",
		Short: "Export an analyst view to a Parquet file",
		Long: `Writes all rows of a view to a Parquet file with zstd compression. The file appears when it is complete.
Views: ` + strings.Join(readmodel.ViewNames(), ", ") + `.`,
		Example: `  muster export positions --output positions.parquet
  muster export people --where "country_code = 'PT'"
  muster export --all --output lake/`,
		GroupID: "data",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			views := args
			switch {
			case all && len(args) == 0:
				views = readmodel.ViewNames()
			case all || len(args) != 1:
				return errors.New("no view selected: pass one view, or --all")
			case !slices.Contains(readmodel.ViewNames(), args[0]):
				return fmt.Errorf("unknown view %q; the views are %s", args[0],
					strings.Join(readmodel.ViewNames(), ", "))
			}
			client, err := c.analystClient(true)
			if err != nil {
				return err
			}
			for _, view := range views {
				path := output
				if path == "" {
					path = view + ".parquet"
				} else if all || strings.HasSuffix(path, string(filepath.Separator)) {
					path = filepath.Join(path, view+".parquet")
				}
				if err := exportView(cmd.Context(), client, view, where, path); err != nil {
					return partlyError{fmt.Errorf("%s: %w", view, err)}
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&output, "output", "",
		"output file, or directory with --all or a trailing slash (default: VIEW.parquet)")
	flags.StringVar(&where, "where", "", "SQL condition on the rows")
	flags.BoolVar(&all, "all", false, "export every view, each to a file of its name")
	return cmd
}

func exportView(ctx context.Context, client *analyst.Client, view, where, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	statement := "SELECT * FROM " + view
	if where != "" {
		statement += " WHERE (" + where + "\n)"
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		return client.Query(ctx, statement, "Parquet",
			map[string]string{"output_format_parquet_compression_method": "zstd"}, w)
	})
}
