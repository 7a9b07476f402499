package facade

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"muster/platform/engine/internal/chdb"
)

// allowedFunctions are the ordinary functions that analysts may call: they access only their arguments and the engine's
// own tables. In the engine as a library, only this list prevents file() from reading any file.
//
// The list excludes functions that access files, hosts, programs or the server's configuration, and functions that take
// code as a string, such as arrayReduce, which evaluates parameters in the name of the aggregate function.
//
//go:embed functions.txt
var allowedFunctions string

// allowedTableFunctions access only the engine's own tables or their arguments. The list excludes those that take a
// table structure as a string, such as values and format: its ALIAS and DEFAULT columns are expressions. An ordinary
// function with the name of an excluded table function is excluded as well, as format is: the position of a call does
// not always tell which of them it is.
var allowedTableFunctions = []string{
	"numbers", "numbers_mt", "zeros", "zeros_mt", "generateSeries", "generate_series", "primes", "merge", "view",
	"SQLStandardValues", // FROM (VALUES (1), (2)), which accepts only rows
}

// deniedNames are the engine's functions that analysts may not use. Functions that a later engine version adds are
// denied.
type deniedNames struct {
	// calls may not precede a parenthesis. It includes table functions.
	calls map[string]bool
	// names may not be used anywhere without a table qualifier: functions take them as arguments, as in
	// arrayMap(file, ...).
	names map[string]bool
}

// newDeniedNames returns the functions that are not allowed. With restricted, it adds those that read tables named by a
// string, for users who are restricted to databases.
func newDeniedNames(tableFunctions, functions []string, restricted bool) deniedNames {
	d := deniedNames{calls: make(map[string]bool), names: make(map[string]bool)}
	allowed := make(map[string]bool)
	for _, name := range strings.Fields(allowedFunctions) {
		allowed[strings.ToLower(name)] = true
	}
	for _, name := range functions {
		if lower := strings.ToLower(name); !allowed[lower] || restricted && readsByName(name) {
			d.calls[lower], d.names[lower] = true, true
		}
	}
	for _, name := range tableFunctions {
		if !slices.Contains(allowedTableFunctions, name) || restricted && readsByName(name) {
			d.calls[strings.ToLower(name)] = true
		}
	}
	return d
}

// restrictStatement returns the statement to run for an analyst's statement: the engine's normal form of it, in which
// comments, quotes, escapes and white space have only one form. The text that is checked is the text that runs, so the
// check does not depend on how this package reads the original.
func (s *Server) restrictStatement(q *request, text string) (statement, error) {
	if len(text) > q.maxQuerySize {
		return statement{}, errQueryTooLarge(q.maxQuerySize)
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
		if normal, err = restrictToDatabases(q, strings.TrimSpace(normal), hidden); err != nil {
			return statement{}, err
		}
	}
	st := parseStatement(normal)
	switch st.first {
	case "SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN", "EXISTS", "CHECK":
	default:
		return statement{}, errReadonly.errorf("%s: Cannot execute query in readonly mode", q.user.Name)
	}
	return st, st.validate()
}

func errQueryTooLarge(limit int) error {
	return errSyntax.errorf("Syntax error: failed at position %d (end of query): Max query size exceeded "+
		"(can be increased with the `max_query_size` setting)", limit)
}

func (s *Server) deniedTo(user *User) deniedNames {
	if len(user.Databases) > 0 {
		return s.deniedRestricted
	}
	return s.denied
}

// normalForm returns the engine's normal form of the text, on one line.
func (s *Server) normalForm(q *request, text string) (string, error) {
	// The analyst's settings, such as limit, must not apply to this query.
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
	params := []chdb.Param{{Name: "text", Value: value}}
	result, err := conn.Query("SELECT formatQuerySingleLine({text:String})", "RawBLOB", params)
	if err != nil {
		conn.Close()
		return "", withoutScope(err)
	}
	defer s.pool.put(conn)
	defer result.Close()
	return string(result.Bytes()), nil
}

// withoutScope removes the facade's own query from the message of an error.
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

// check returns an error if the normal form uses a denied function or a construct that a normal form does not need.
func (d deniedNames) check(q *request, normal string) error {
	if !q.user.Analyst {
		return nil
	}
	deny := func(name string) error {
		return errAccessDenied.errorf("%s: Not enough privileges. The function %s is not for analysts. "+
			"A column of this name is written with its table's name in front of it", q.user.Name, name)
	}
	normal += " " // so that an unterminated string does not end with a quote
	lex := lexer{text: normal}
	var previous, last token
	parameter := ""
	for tok := lex.next(); ; tok = lex.next() {
		if !isCanonical(normal, last, tok) {
			return errSyntax.errorf("Syntax error: failed at position %d: not allowed in an analyst's query", tok.start)
		}
		name := strings.ToLower(last.name())
		switch {
		case previous.is("SETTINGS") && last.name() != "" && (tok.punct('=') || tok.punct('.')):
			// The engine accepts any setting in a subquery, including readonly = 0.
			return errReadonly.errorf("Cannot modify '%s' setting in readonly mode", last.name())
		case tok.punct('(') && d.calls[name]:
			return deny(last.name())
		case d.names[name] && !tok.punct('.') && !previous.punct('.') && !previous.is("AS"):
			return deny(last.name())
		case previous.punct(':') && last.is("Identifier"):
			for _, p := range q.params {
				if p.Name != parameter {
					continue
				}
				value := strings.ToLower(p.Value)
				if !plainIdentifier.MatchString(p.Value) || d.names[value] || d.calls[value] {
					return errAccessDenied.errorf("%s: Not enough privileges. "+
						"The parameter %s does not hold an identifier for analysts", q.user.Name, p.Name)
				}
			}
		}
		if tok.kind == tokenEnd {
			return nil
		}
		if tok.punct(':') {
			parameter = last.name()
		}
		previous, last = last, tok
	}
}

// isCanonical reports whether this package's lexer and the engine read a token and the gap before it alike: no
// comments, no quotes, letters or white space beyond ASCII, no $tag$ strings, and no prefixed strings such as x'41'.
func isCanonical(text string, last, tok token) bool {
	gap := text[last.end:tok.start]
	if strings.Trim(gap, " ") != "" {
		return false
	}
	switch tok.kind {
	case tokenString, tokenIdentifier:
		quote := text[tok.start]
		return quote != '$' && tok.end-tok.start > 1 && text[tok.end-1] == quote &&
			(gap != "" || last.kind != tokenWord)
	case tokenWord:
		return !strings.ContainsFunc(tok.text, func(r rune) bool { return r == '$' || r >= 0x80 })
	case tokenPunctuation:
		c := tok.text[0]
		startsComment := gap == "" && (c == '-' && last.punct('-') || c == '*' && last.punct('/'))
		return c > ' ' && c < 0x7f && c != '#' && c != '\\' && !startsComment
	case tokenEnd:
	}
	return true
}
