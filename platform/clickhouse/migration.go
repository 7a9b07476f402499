package clickhouse

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// Migration is one numbered step of the schema, rendered for a server.
type Migration struct {
	// Number is the position; numbers start at 1 without gaps.
	Number uint32
	// Name is the file name without number and suffix: verb_object.
	Name string
	// Owner is the service that is responsible for the tables, from the line "-- owner: NAME" of the file.
	Owner string
	// Statements are executed in order.
	Statements []string
	// Checksum is the SHA-256 of the rendered statements in hexadecimal. So it also depends on the parameters.
	Checksum string
}

// String returns the file name without suffix.
func (m Migration) String() string { return fmt.Sprintf("%04d_%s", m.Number, m.Name) }

// statementMark separates statements explicitly.
const statementMark = "-- +statement"

// LoadMigrations reads the files NNNN_verb_object.sql in the root of fsys, by number. Each file is a text/template
// that is rendered with params (for example for a cluster or a single node; a missing parameter is an error), then
// split into statements: at lines "-- +statement" if the file has any, otherwise after each ";" at the end of a line.
// The file must have a line "-- owner: NAME".
//
// An interrupted migration is run again from its first statement, so statements that cannot be repeated are rejected:
// CREATE needs IF NOT EXISTS or OR REPLACE, DROP needs IF EXISTS, ALTER's ADD, DROP and RENAME COLUMN need the same,
// and RENAME TABLE and EXCHANGE are not allowed.
func LoadMigrations(fsys fs.FS, params any) ([]Migration, error) {
	files, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	if len(files) == 0 {
		return nil, errors.New("load migrations: no *.sql files")
	}
	out := make([]Migration, 0, len(files)) // Glob sorts, and four digits sort as numbers
	for _, file := range files {
		m, err := loadMigration(fsys, file, params)
		if err != nil {
			return nil, fmt.Errorf("load migrations: %s: %w", file, err)
		}
		out = append(out, m)
	}
	if err := checkNumbers(out); err != nil {
		return nil, err
	}
	return out, nil
}

func loadMigration(fsys fs.FS, file string, params any) (Migration, error) {
	parts := regexp.MustCompile(`^(\d{4})_([a-z]+(?:_[a-z0-9]+)+)\.sql$`).FindStringSubmatch(path.Base(file))
	if parts == nil {
		return Migration{}, errors.New("name must be NNNN_verb_object.sql")
	}
	number, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil {
		return Migration{}, err
	}
	source, err := fs.ReadFile(fsys, file)
	if err != nil {
		return Migration{}, err
	}
	m := Migration{Number: uint32(number), Name: parts[2]}
	return m, m.render(string(source), params)
}

func checkNumbers(migrations []Migration) error {
	for i, m := range migrations {
		if want := uint32(i) + 1; m.Number != want {
			return fmt.Errorf(
				"migrations: found %v, want number %04d: numbers must start at 0001 without gaps or repeats", m, want)
		}
	}
	return nil
}

func (m *Migration) render(source string, params any) error {
	t, err := template.New(m.String()).Option("missingkey=error").Parse(source)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := t.Execute(&text, params); err != nil {
		return err
	}
	owner := regexp.MustCompile(`(?m)^-- owner: (\S+)$`).FindStringSubmatch(text.String())
	if owner == nil {
		return errors.New(`missing line "-- owner: NAME"`)
	}
	m.Owner = owner[1]
	m.Statements = splitStatements(text.String())
	if len(m.Statements) == 0 {
		return errors.New("no statements")
	}
	for i, s := range m.Statements {
		if err := checkRepeatable(s); err != nil {
			return fmt.Errorf("statement %d: %w", i+1, err)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(m.Statements, "\x00")))
	m.Checksum = hex.EncodeToString(sum[:])
	return nil
}

func splitStatements(text string) []string {
	lines := strings.Split(text, "\n")
	marked := strings.Contains("\n"+text, "\n"+statementMark)
	var out []string
	var current []string
	flush := func() {
		s := strings.TrimSpace(strings.Join(current, "\n"))
		s = strings.TrimSpace(strings.TrimSuffix(s, ";"))
		if s != "" {
			out = append(out, s)
		}
		current = nil
	}
	for _, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case marked && line == statementMark:
			flush()
		case strings.HasPrefix(strings.TrimSpace(line), "--"): // comments are neither run nor part of the checksum
		case !marked && strings.HasSuffix(line, ";"):
			current = append(current, line)
			flush()
		default:
			current = append(current, line)
		}
	}
	flush()
	return out
}

// checkRepeatable rejects statements that fail, or act differently, when they run a second time.
func checkRepeatable(statement string) error {
	s := strings.ToUpper(strings.Join(strings.Fields(statement), " "))
	for _, rule := range []struct{ what, guarded, problem string }{
		{
			`^CREATE `, `^CREATE (OR REPLACE |(TEMPORARY |MATERIALIZED |LIVE )?[A-Z]+ IF NOT EXISTS )`,
			"needs IF NOT EXISTS or OR REPLACE",
		},
		{`^DROP `, `^DROP [A-Z ]*IF EXISTS `, "needs IF EXISTS"},
		{`^(RENAME TABLE|RENAME DATABASE|EXCHANGE) `, `$^`, "cannot be repeated"},
	} {
		if regexp.MustCompile(rule.what).MatchString(s) && !regexp.MustCompile(rule.guarded).MatchString(s) {
			return fmt.Errorf("%.60q %s: an interrupted migration must be able to run again", statement, rule.problem)
		}
	}
	if !strings.HasPrefix(s, "ALTER ") {
		return nil
	}
	action := regexp.MustCompile(
		`(?:^|[ ,(])(ADD|DROP|RENAME|CLEAR) (COLUMN|INDEX|PROJECTION|CONSTRAINT|STATISTICS) (IF (?:NOT )?EXISTS )?`)
	for _, found := range action.FindAllStringSubmatch(s, -1) {
		if found[3] == "" {
			return fmt.Errorf(
				"%s %s needs IF EXISTS or IF NOT EXISTS: an interrupted migration must be able to run again",
				found[1], found[2])
		}
	}
	return nil
}
