package facade

import "strings"

// statement holds what the facade needs to know about a statement.
type statement struct {
	text   string
	first  string // first keyword in upper case; "" for an empty text
	format string // of the FORMAT clause, or ""
	// isInsert: an INSERT whose rows follow the text. head is the text before FORMAT or VALUES, dataFormat the format
	// of the rows, and data the rows in the text.
	isInsert   bool
	head       string
	dataFormat string
	data       string

	several     bool // another statement follows
	totals      bool // WITH TOTALS, which a streamed result would lose
	intoOutfile bool // INTO OUTFILE or FROM INFILE
	session     bool // changes the session, so the connection is not reused
	input       bool // INSERT ... SELECT ... FROM input(...)
	ddl         bool // may change the columns of queries
}

// parseStatement parses the text as far as the facade needs. It never fails: the engine rejects invalid statements.
func parseStatement(text string) statement {
	s := statement{text: text}
	lex := lexer{text: text}
	tok := lex.next()
	for tok.punct('(') || tok.punct(';') {
		tok = lex.next()
	}
	s.first = strings.ToUpper(tok.text)
	switch s.first {
	case "INSERT":
		if s.parseInsert(&lex) {
			return s
		}
		lex = lexer{text: text}
	case "SET", "USE":
		s.session = true
	case "SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "KILL", "OPTIMIZE":
	default:
		s.ddl = true
	}
	lex = lexer{text: text}
	var last token
	depth := 0
	end := -1
	for tok = lex.next(); tok.kind != tokenEnd; tok = lex.next() {
		if end >= 0 && !tok.punct(';') {
			s.several = true
			break
		}
		switch {
		case tok.punct('('), tok.punct('['), tok.punct('{'):
			depth++
			s.input = s.input || s.first == "INSERT" && last.is("input")
		case tok.punct(')'), tok.punct(']'), tok.punct('}'):
			depth--
		case tok.punct(';') && last.kind != tokenEnd:
			if end < 0 {
				end = tok.start
			}
		case depth == 0 && last.is("FORMAT") && (tok.kind == tokenWord || tok.kind == tokenIdentifier):
			s.format = tok.text
		case tok.is("TOTALS") && last.is("WITH"):
			s.totals = true
		case tok.is("OUTFILE") && last.is("INTO"), tok.is("INFILE") && last.is("FROM"):
			s.intoOutfile = true
		case tok.is("TEMPORARY") || tok.is("TEMP"):
			s.session = s.session || s.ddl
		}
		last = tok
	}
	if end >= 0 && !s.several {
		s.text = text[:end]
	}
	return s
}

// parseInsert parses an INSERT up to its rows. It returns false if the statement has no rows (INSERT ... SELECT).
func (s *statement) parseInsert(lex *lexer) bool {
	depth := 0
	var last token
	for tok := lex.next(); tok.kind != tokenEnd; tok = lex.next() {
		switch {
		case tok.punct('('):
			depth++
		case tok.punct(')'):
			depth--
		case depth > 0:
		case tok.is("VALUES") && !last.punct('.') && !last.is("INTO") && !last.is("TABLE") && !last.is("FUNCTION"):
			s.isInsert, s.head, s.dataFormat, s.data = true, s.text[:tok.start], "Values", s.text[tok.end:]
			return true
		case tok.is("FORMAT") && !last.punct('.') && !last.is("INTO") && !last.is("TABLE") && !last.is("FUNCTION"):
			name := lex.next()
			if name.name() == "" {
				return false
			}
			s.isInsert, s.head, s.dataFormat = true, s.text[:tok.start], name.text
			s.data = inlineData(s.text[name.end:])
			if s.dataFormat == "Values" || strings.EqualFold(s.dataFormat, "values") {
				s.dataFormat = "Values"
			}
			return true
		case tok.is("SELECT"), tok.is("WITH"), tok.is("EXPLAIN"), tok.is("INFILE"), tok.is("WATCH"):
			if !last.punct('.') && !last.is("INTO") && !last.is("TABLE") {
				return false
			}
		}
		last = tok
	}
	return false
}

// inlineData returns the rows after "FORMAT name", without leading spaces and one newline.
func inlineData(s string) string {
	trimmed := strings.TrimLeft(s, " \t\r\f\v")
	if strings.HasPrefix(trimmed, ";") && strings.TrimSpace(trimmed[1:]) == "" {
		return ""
	}
	return strings.TrimPrefix(trimmed, "\n")
}

// streams reports whether the engine can stream the result of the statement.
func (s *statement) streams() bool {
	return (s.first == "SELECT" || s.first == "WITH") && !s.totals
}
