package facade

import "strings"

type tokenKind uint8

const (
	tokenEnd        tokenKind = iota
	tokenWord                 // keyword, unquoted identifier or number
	tokenIdentifier           // quoted identifier; text is the unquoted name
	tokenString               // string literal; text includes the quotes
	tokenPunctuation
)

type token struct {
	kind       tokenKind
	text       string
	start, end int // byte offsets in the query
}

// is reports whether the token is the given keyword.
func (t token) is(keyword string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text, keyword)
}

func (t token) punct(c byte) bool {
	return t.kind == tokenPunctuation && t.text[0] == c
}

// name returns the token's identifier, or "".
func (t token) name() string {
	if t.kind == tokenWord || t.kind == tokenIdentifier {
		return t.text
	}
	return ""
}

// lexer splits a ClickHouse query into tokens. It agrees with the engine's lexer on the boundaries of strings,
// identifiers and comments.
type lexer struct {
	text string
	pos  int
}

func (l *lexer) next() token {
	l.skipSpace()
	if l.pos >= len(l.text) {
		return token{kind: tokenEnd, start: len(l.text), end: len(l.text)}
	}
	start := l.pos
	c := l.text[start]
	switch {
	case c == '\'':
		l.quoted('\'')
		return token{tokenString, l.text[start:l.pos], start, l.pos}
	case c == '`' || c == '"':
		l.quoted(c)
		name := l.text[start+1 : l.pos]
		name = strings.TrimSuffix(name, string(c))
		if strings.ContainsAny(name, "\\`\"") {
			name = unescapeIdentifier(name, c)
		}
		return token{tokenIdentifier, name, start, l.pos}
	case c == '$':
		if end := heredocEnd(l.text[start:]); end > 0 {
			l.pos += end
			return token{tokenString, l.text[start:l.pos], start, l.pos}
		}
		fallthrough
	case isWordByte(c):
		l.pos++
		for l.pos < len(l.text) && isWordByte(l.text[l.pos]) {
			l.pos++
		}
		return token{tokenWord, l.text[start:l.pos], start, l.pos}
	}
	l.pos++
	return token{tokenPunctuation, l.text[start:l.pos], start, l.pos}
}

func (l *lexer) skipSpace() {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch {
		case rest[0] <= ' ' || rest[0] == 0x7f:
			l.pos++
		case strings.HasPrefix(rest, "\u00a0"), strings.HasPrefix(rest, "\ufeff"),
			strings.HasPrefix(rest, "\u3000"):
			l.pos += len(firstRune(rest))
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "#!"), strings.HasPrefix(rest, "# "):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest) - 1
			}
			l.pos += end + 1
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				l.pos = len(l.text)
				return
			}
			l.pos += end + 4
		default:
			return
		}
	}
}

func firstRune(s string) string {
	for i := range s {
		if i > 0 {
			return s[:i]
		}
	}
	return s
}

// quoted advances past a quoted token, in which a backslash escapes and a doubled quote is a literal quote.
func (l *lexer) quoted(quote byte) {
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch l.text[l.pos] {
		case '\\':
			l.pos++
		case quote:
			if l.pos+1 < len(l.text) && l.text[l.pos+1] == quote {
				l.pos++
				continue
			}
			l.pos++
			return
		}
	}
	l.pos = len(l.text)
}

func unescapeIdentifier(s string, quote byte) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if (s[i] == '\\' || s[i] == quote) && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func heredocEnd(s string) int {
	tag := strings.IndexByte(s[1:], '$')
	if tag < 0 {
		return 0
	}
	for i := 1; i <= tag; i++ {
		if !isWordByte(s[i]) {
			return 0
		}
	}
	mark := s[:tag+2]
	end := strings.Index(s[len(mark):], mark)
	if end < 0 {
		return 0
	}
	return len(mark) + end + len(mark)
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
