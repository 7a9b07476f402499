package facade

import (
	"slices"
	"strings"

	"muster/platform/engine/internal/chdb"
)

// databaseFunctions read tables and dictionaries of any database by a name in a string, which the check of names cannot
// see. Users who are restricted to databases may not call them.
var databaseFunctions = []string{"merge", "joinGet", "joinGetOrNull"}

func readsByName(function string) bool {
	return slices.Contains(databaseFunctions, function) || strings.HasPrefix(function, "dict")
}

// openSystemTables are tables of the system database that describe the engine, not its data or queries.
var openSystemTables = []string{
	"aggregate_function_combinators", "build_options", "collations", "contributors", "data_type_families", "formats",
	"functions", "keywords", "licenses", "numbers", "numbers_mt", "one", "settings", "table_engines", "table_functions",
	"time_zones", "zeros", "zeros_mt",
}

// filteredSystemTables are system tables that show a user only the rows of the databases they may see. The values
// are the columns with the database.
var filteredSystemTables = map[string]string{"columns": "database", "databases": "name", "tables": "database"}

// openShows are the allowed SHOW statements, without EXTENDED and FULL: they describe the engine, or tables that they
// name.
var openShows = []string{
	"TABLES", "COLUMNS", "FIELDS", "CREATE TABLE", "CREATE VIEW", "CREATE DATABASE", "FUNCTIONS", "SETTINGS", "SETTING",
	"INDEX", "INDEXES", "INDICES", "KEYS",
}

// isOpenShow reports whether a SHOW statement is one of openShows.
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

// databaseFor returns the current database of a user's statement. Clients without a configured database request
// "default".
func databaseFor(user *User, requested string) (string, *chdb.Error) {
	switch {
	case len(user.Databases) == 0:
		return requested, nil
	case requested == "" || requested == "default":
		return user.Databases[0], nil
	case slices.Contains(user.Databases, requested):
		return requested, nil
	}
	return "", errNotVisible(user, requested)
}

func errNotVisible(user *User, what string) *chdb.Error {
	return errAccessDenied.errorf("%s: Not enough privileges. %s cannot be read without a password: "+
		"the user %s reads the database %s and the engine's own description",
		user.Name, what, user.Name, strings.Join(user.Databases, ", "))
}

// hiddenDatabases returns the databases that a user may not name.
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

// restrictToDatabases returns a normal form of the statement that reads only the user's databases. It rejects tables of
// other databases, and replaces system tables that list objects by the rows that the user may see.
//
// In a normal form every table of another database is qualified with the database, as names that the lexer sees, except
// in functions that take names as strings (readsByName) and in statements that are rejected here.
func restrictToDatabases(q *request, normal string, hidden map[string]bool) (string, error) {
	tokens := tokensOf(normal)
	first := tokens[0]
	if first.punct('(') {
		first = token{}
	}
	switch {
	case first.is("CHECK"):
		return "", errNotVisible(q.user, "This")
	case first.is("SHOW") && len(tokens) > 1 && tokens[1].is("DATABASES"):
		if normal != "SHOW DATABASES" {
			return "", errNotVisible(q.user, "The list of databases")
		}
		return "SELECT name FROM system.databases WHERE name IN " + tuple(q.user.Databases), nil
	case first.is("SHOW") && !isOpenShow(tokens):
		return "", errNotVisible(q.user, "This")
	}
	for _, p := range q.params {
		for part := range strings.SplitSeq(p.Value, ".") {
			if hidden[part] && isIdentifierParameter(tokens, p.Name) {
				return "", errNotVisible(q.user, part)
			}
		}
	}
	var out strings.Builder
	copied := 0
	for i := 0; i < len(tokens)-1; i++ {
		name := tokens[i].name()
		if database, _, qualified := strings.Cut(name, "."); qualified && hidden[database] {
			return "", errNotVisible(q.user, database)
		}
		if !hidden[name] {
			continue
		}
		if !tokens[i+1].punct('.') {
			if first.is("SHOW") || first.is("EXISTS") {
				return "", errNotVisible(q.user, name)
			}
			continue
		}
		table := tokens[i+2].name()
		column := filteredSystemTables[table]
		if name != "system" || column == "" && !slices.Contains(openSystemTables, table) || first.is("EXISTS") {
			return "", errNotVisible(q.user, name+"."+table)
		}
		if column == "" {
			continue
		}
		out.WriteString(normal[copied:tokens[i].start])
		copied = tokens[i+2].end
		next := tokens[i+3]
		if next.punct('.') { // a qualified column
			alias := aliasOf(tokens, table)
			if hidden[alias] { // IN could read a table of the database with this name
				return "", errNotVisible(q.user, alias)
			}
			out.WriteString(quoteIdentifier(alias))
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

// aliasOf returns the alias of a table of the system database in a normal form, or its name if it has none. The
// engine finds system.tables.name also in system.tables AS t, as the JDBC driver writes it.
func aliasOf(tokens []token, table string) string {
	for i := 0; i+4 < len(tokens); i++ {
		if tokens[i].name() == "system" && tokens[i+1].punct('.') && tokens[i+2].name() == table &&
			tokens[i+3].is("AS") {
			return tokens[i+4].name()
		}
	}
	return table
}

// tokensOf returns the tokens including the end, and two more so that the tokens after a token can be indexed.
func tokensOf(text string) (tokens []token) {
	for lex := (lexer{text: text}); ; {
		tok := lex.next()
		tokens = append(tokens, tok)
		if tok.kind == tokenEnd {
			return append(tokens, tok, tok)
		}
	}
}

// isIdentifierParameter reports whether the parameter is used as {name:Identifier}.
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
