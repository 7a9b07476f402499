package facade

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"muster/platform/engine/internal/chdb"
)

// harmlessFunctions are the ordinary functions that an analyst may call: they
// see their arguments and the engine's own tables, nothing else. In the engine
// as a library nothing but this list keeps file() from reading any file.
//
// Not among them are functions that reach files, hosts, programs or the
// server's configuration, and those that take code as a string, as arrayReduce
// does: it evaluates the parameters that stand in the aggregate's name.
//
//go:embed functions.txt
var harmlessFunctions string

// harmlessTableFunctions read nothing but the engine's own tables or their
// arguments. Not among them are those that take a table's structure as a
// string, such as values and format: its ALIAS and DEFAULT columns are
// expressions. What is called like a harmless function, as format is, is not
// harmless for that, and the function goes with it: where a call stands does not
// say surely which one it is.
var harmlessTableFunctions = []string{
	"numbers", "numbers_mt", "zeros", "zeros_mt", "generateSeries", "generate_series", "primes", "merge", "view",
	"SQLStandardValues", // FROM (VALUES (1), (2)), which takes rows only
}

// deniedNames are functions of the engine that an analyst may not use. What is
// new in another version of the engine is denied.
type deniedNames struct {
	// calls may not stand in front of a parenthesis. Table functions are among
	// them.
	calls map[string]bool
	// names may not stand anywhere without a table's name: functions take them
	// as an argument, as in arrayMap(file, ...).
	names map[string]bool
}

// newDeniedNames returns what analysts may not use of the engine's functions. Those who are kept to databases may not
// use functions either that read tables by a name in a string.
func newDeniedNames(tableFunctions, functions []string, kept bool) deniedNames {
	d := deniedNames{calls: make(map[string]bool), names: make(map[string]bool)}
	harmless := make(map[string]bool)
	for _, name := range strings.Fields(harmlessFunctions) {
		harmless[strings.ToLower(name)] = true
	}
	for _, name := range functions {
		if lower := strings.ToLower(name); !harmless[lower] || kept && readsByName(name) {
			d.calls[lower], d.names[lower] = true, true
		}
	}
	for _, name := range tableFunctions {
		if !slices.Contains(harmlessTableFunctions, name) || kept && readsByName(name) {
			d.calls[strings.ToLower(name)] = true
		}
	}
	return d
}

// confine returns the statement that is run in the place of an analyst's: the
// engine's own normal form of it, in which comments, quotes, escapes and white
// space have one form only. What was checked is what runs, so it does not
// matter how the text looks to anybody but the engine.
func (s *Server) confine(q *request, text string) (statement, error) {
	if len(text) > q.maxQuerySize {
		return statement{}, errSyntax.errorf("Syntax error: failed at position %d (end of query): Max query size exceeded (can be increased with the `max_query_size` setting)", q.maxQuerySize)
	}
	normal, err := s.normalForm(q, text)
	if err != nil {
		return statement{}, err
	}
	if err := s.deniedTo(q.user).check(q, normal); err != nil {
		return statement{}, err
	}
	if len(q.user.Databases) > 0 {
		hidden, err := s.hiddenDatabases(q.user)
		if err != nil {
			return statement{}, err
		}
		if normal, err = keepTo(q, strings.TrimSpace(normal), hidden); err != nil {
			return statement{}, err
		}
	}
	st := parseStatement(normal)
	switch st.first {
	case "SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN", "EXISTS", "CHECK":
	default:
		return statement{}, errReadonly.errorf("%s: Cannot execute query in readonly mode", q.user.Name)
	}
	return st, refuse(&st)
}

func (s *Server) deniedTo(user *User) deniedNames {
	if len(user.Databases) > 0 {
		return s.deniedKept
	}
	return s.denied
}

// normalForm has the engine parse the text and write it anew.
func (s *Server) normalForm(q *request, text string) (string, error) {
	// A connection of its own: the analyst's settings, such as limit, would
	// hold for this query too.
	settings := []chdb.Param{{Name: "max_query_size", Value: "0"}}
	if q.user.Analyst {
		for _, p := range q.setup.settings {
			if p.Name == "max_memory_usage" {
				settings = append(settings, p)
			}
		}
	}
	conn, err := s.pool.get(setup{settings: settings})
	if err != nil {
		return "", err
	}
	value := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`, "\x00", `\0`).Replace(text)
	result, err := conn.Query("SELECT formatQuerySingleLine({text:String})", "RawBLOB", []chdb.Param{{Name: "text", Value: value}})
	if err != nil {
		conn.Close()
		return "", withoutScope(err)
	}
	defer s.pool.put(conn)
	defer result.Close()
	return string(result.Bytes()), nil
}

// withoutScope takes the facade's own query out of an error.
func withoutScope(err error) error {
	e, ok := err.(*chdb.Error) //nolint:errorlint // as Query returns it
	if !ok {
		return err
	}
	if at := strings.LastIndex(e.Message, ": In scope SELECT formatQuerySingleLine("); at >= 0 {
		return code{e.Code, e.Name}.errorf("%s", e.Message[:at])
	}
	return err
}

var plainIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// check refuses a normal form that uses a denied function, or in which anything
// stands that a normal form has no need of.
func (d deniedNames) check(q *request, normal string) error {
	if !q.user.Analyst {
		return nil
	}
	deny := func(name string) error {
		return errAccessDenied.errorf("%s: Not enough privileges. The function %s is not for analysts. A column of this name is written with its table's name in front of it", q.user.Name, name)
	}
	normal += " " // an open string does not end with a quote then
	lex := lexer{text: normal}
	var before, last token
	parameter := ""
	for tok := lex.next(); ; tok = lex.next() {
		if !plain(normal, last, tok) {
			return errSyntax.errorf("Syntax error: failed at position %d: an analyst's query cannot have this", tok.start)
		}
		name := strings.ToLower(last.name())
		switch {
		case before.is("SETTINGS") && last.name() != "" && (tok.punct('=') || tok.punct('.')):
			// In a subquery the engine takes any setting from anybody: readonly = 0 too.
			return errReadonly.errorf("Cannot modify '%s' setting in readonly mode", last.name())
		case tok.punct('(') && d.calls[name]:
			return deny(last.name())
		case d.names[name] && !tok.punct('.') && !before.punct('.') && !before.is("AS"):
			return deny(last.name())
		case before.punct(':') && last.is("Identifier"):
			for _, p := range q.params {
				if p.Name != parameter {
					continue
				}
				if !plainIdentifier.MatchString(p.Value) || d.names[strings.ToLower(p.Value)] || d.calls[strings.ToLower(p.Value)] {
					return errAccessDenied.errorf("%s: Not enough privileges. The parameter %s does not hold an identifier for analysts", q.user.Name, p.Name)
				}
			}
		}
		if tok.kind == tokenEnd {
			return nil
		}
		if tok.punct(':') {
			parameter = last.name()
		}
		before, last = last, tok
	}
}

// plain says whether the engine reads a token and the gap in front of it as
// this package's lexer does: there are no comments, no quotes, letters or white
// space beyond ASCII, no $tag$ strings, and no prefixed strings such as x'41'.
func plain(text string, last, tok token) bool {
	gap := text[last.end:tok.start]
	if strings.Trim(gap, " ") != "" {
		return false
	}
	switch tok.kind {
	case tokenString, tokenIdentifier:
		quote := text[tok.start]
		return quote != '$' && tok.end-tok.start > 1 && text[tok.end-1] == quote && (gap != "" || last.kind != tokenWord)
	case tokenWord:
		return !strings.ContainsFunc(tok.text, func(r rune) bool { return r == '$' || r >= 0x80 })
	case tokenPunctuation:
		c := tok.text[0]
		return c > ' ' && c < 0x7f && c != '#' && c != '\\' && (gap != "" || (c != '-' || !last.punct('-')) && (c != '*' || !last.punct('/')))
	case tokenEnd:
	}
	return true
}
