package facade

import (
	"slices"
	"strings"

	"muster/platform/engine/internal/chdb"
)

// databaseFunctions name tables and dictionaries of any database in a string, in which no check of names sees them. A
// user who is kept to databases may not call them.
var databaseFunctions = []string{"merge", "joinGet", "joinGetOrNull"}

func readsByName(function string) bool {
	return slices.Contains(databaseFunctions, function) || strings.HasPrefix(function, "dict")
}

// openSystemTables are tables of the database system that tell of the engine, not of what it holds or runs.
var openSystemTables = []string{
	"aggregate_function_combinators", "build_options", "collations", "contributors", "data_type_families", "formats",
	"functions", "keywords", "licenses", "numbers", "numbers_mt", "one", "settings", "table_engines", "table_functions",
	"time_zones", "zeros", "zeros_mt",
}

// filteredSystemTables are tables of the database system of which a user sees the rows of their databases, by the
// column that names the database.
var filteredSystemTables = map[string]string{"columns": "database", "databases": "name", "tables": "database"}

// openShows are the statements of SHOW, behind EXTENDED and FULL, that tell of the engine, or of the tables that are
// named.
var openShows = []string{
	"TABLES", "COLUMNS", "FIELDS", "CREATE TABLE", "CREATE VIEW", "CREATE DATABASE", "FUNCTIONS", "SETTINGS", "SETTING",
	"INDEX", "INDEXES", "INDICES", "KEYS",
}

// isOpenShow reports whether the tokens of a SHOW begin one of openShows.
func isOpenShow(tokens []token) bool {
	words := tokens[1:]
	for words[0].is("EXTENDED") || words[0].is("FULL") {
		words = words[1:]
	}
	return slices.ContainsFunc(openShows, func(show string) bool {
		first, second, both := strings.Cut(show, " ")
		return words[0].is(first) && (!both || words[1].is(second))
	})
}

// homeDatabase returns the database in which a user's statement runs. Clients that are not told one name "default".
func homeDatabase(user *User, asked string) (string, *chdb.Error) {
	switch {
	case len(user.Databases) == 0:
		return asked, nil
	case asked == "" || asked == "default":
		return user.Databases[0], nil
	case slices.Contains(user.Databases, asked):
		return asked, nil
	}
	return "", notVisible(user, asked)
}

func notVisible(user *User, what string) *chdb.Error {
	return errAccessDenied.errorf("%s: Not enough privileges. %s cannot be read without a password: "+
		"the user %s reads the database %s and the engine's own description",
		user.Name, what, user.Name, strings.Join(user.Databases, ", "))
}

// hiddenDatabases returns those that a user may not name.
func (s *Server) hiddenDatabases(user *User) (map[string]bool, error) {
	names, err := s.pool.query("SELECT name FROM system.databases")
	if err != nil {
		return nil, err
	}
	hidden := map[string]bool{"system": true, "default": true, "_temporary_and_external_tables": true}
	for name := range strings.Lines(names) {
		hidden[strings.TrimSuffix(name, "\n")] = true
	}
	for _, name := range user.Databases {
		delete(hidden, name)
	}
	return hidden, nil
}

// keepTo returns the normal form of a statement that reads nothing beyond the user's databases: tables of other
// databases are refused, and those of system that list what there is are replaced by the rows that the user may see.
//
// In a normal form every table of another database is named with the database in front of it, as names that the lexer
// sees, but for the functions that take names as strings (readsByName) and for statements that are refused here.
func keepTo(q *request, normal string, hidden map[string]bool) (string, error) {
	tokens := tokensOf(normal)
	first := tokens[0]
	if first.punct('(') {
		first = token{}
	}
	switch {
	case first.is("CHECK"):
		return "", notVisible(q.user, "This")
	case first.is("SHOW") && len(tokens) > 1 && tokens[1].is("DATABASES"):
		if normal != "SHOW DATABASES" {
			return "", notVisible(q.user, "The list of databases")
		}
		return "SELECT name FROM system.databases WHERE name IN " + tuple(q.user.Databases), nil
	case first.is("SHOW") && !isOpenShow(tokens):
		return "", notVisible(q.user, "This")
	}
	for _, p := range q.params {
		for part := range strings.SplitSeq(p.Value, ".") {
			if hidden[part] && isIdentifierParameter(tokens, p.Name) {
				return "", notVisible(q.user, part)
			}
		}
	}
	var out strings.Builder
	copied := 0
	for i := 0; i < len(tokens)-1; i++ {
		name := tokens[i].name()
		if database, _, dotted := strings.Cut(name, "."); dotted && hidden[database] {
			return "", notVisible(q.user, database)
		}
		if !hidden[name] {
			continue
		}
		if !tokens[i+1].punct('.') {
			if first.is("SHOW") || first.is("EXISTS") {
				return "", notVisible(q.user, name)
			}
			continue
		}
		table := tokens[i+2].name()
		column := filteredSystemTables[table]
		if name != "system" || column == "" && !slices.Contains(openSystemTables, table) || first.is("EXISTS") {
			return "", notVisible(q.user, name+"."+table)
		}
		if column == "" {
			continue
		}
		out.WriteString(normal[copied:tokens[i].start])
		copied = tokens[i+2].end
		next := tokens[i+3]
		if next.punct('.') { // one of its columns
			out.WriteString(table)
			continue
		}
		out.WriteString("(SELECT * FROM system." + table + " WHERE " + column + " IN " + tuple(q.user.Databases) + ")")
		if !next.is("AS") && !first.is("DESCRIBE") {
			out.WriteString(" AS " + table)
		}
	}
	out.WriteString(normal[copied:])
	return out.String(), nil
}

// tokensOf returns the tokens with the end, and two more so that what follows a token can be looked at.
func tokensOf(text string) (tokens []token) {
	for lex := (lexer{text: text}); ; {
		tok := lex.next()
		tokens = append(tokens, tok)
		if tok.kind == tokenEnd {
			return append(tokens, tok, tok)
		}
	}
}

// isIdentifierParameter reports whether the parameter stands for a name, as in {name:Identifier}.
func isIdentifierParameter(tokens []token, name string) bool {
	for i := 2; i < len(tokens); i++ {
		if tokens[i].is("Identifier") && tokens[i-1].punct(':') && tokens[i-2].name() == name {
			return true
		}
	}
	return false
}

func tuple(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quoteString(name)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}
