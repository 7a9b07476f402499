package facade

import "strings"

// statement is what the facade must know of a query's text before it runs it.
type statement struct {
	text   string
	first  string // first keyword, upper case; "" for an empty text
	format string // of a FORMAT clause; "" without
	// isInsert: an INSERT whose rows follow the text; head is the text before
	// FORMAT or VALUES, dataFormat the rows' format, and data what of the rows
	// was in the text.
	isInsert   bool
	head       string
	dataFormat string
	data       string

	several     bool // another statement follows
	totals      bool // WITH TOTALS: the streamed form would lose them
	intoOutfile bool // INTO OUTFILE or FROM INFILE, which are a client's business
	session     bool // changes the session: its connection is not shared afterwards
	input       bool // INSERT ... SELECT ... FROM input(...)
	ddl         bool // may change what a query's columns are
}

// parseStatement reads the text as far as the facade needs. It never fails:
// what it does not understand is the engine's to refuse.
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

// parseInsert reads an INSERT up to its rows. It reports false when the
// statement carries no rows (INSERT ... SELECT).
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

// inlineData is what follows "FORMAT name": spaces and at most one line end do
// not belong to the rows.
func inlineData(s string) string {
	trimmed := strings.TrimLeft(s, " \t\r\f\v")
	if strings.HasPrefix(trimmed, ";") && strings.TrimSpace(trimmed[1:]) == "" {
		return ""
	}
	return strings.TrimPrefix(trimmed, "\n")
}

// streams reports whether the statement is a query whose result the engine can
// deliver in parts.
func (s *statement) streams() bool {
	return (s.first == "SELECT" || s.first == "WITH") && !s.totals
}
