package clause

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// querySpace separates tokens, as what ends words does.
const (
	querySpace = " \t\n\r\u3000"
	wordEnds   = `!()[]{}:^~"/`
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenTerm
	tokenBare // an operator before a space is a word
	tokenStar
	tokenWildcard
	tokenRegexp
	tokenQuoted
	tokenRange
	tokenSlop
	tokenBoost
	tokenAnd
	tokenOr
	tokenNot
	tokenPlus
	tokenMinus
	tokenOpen
	tokenClose
	tokenColon
)

// queryToken is a token of Lucene's query syntax. text is as written, including escapes, without quotes, slashes, ~
// and ^.
type queryToken struct {
	kind     tokenKind
	text     string
	ends     [2]string // bounds of a range
	included [2]bool
}

// queryTokens splits a query as Lucene's lexer does: the longest token wins, so that "AND+a" is a word. problem
// describes a syntax error.
func queryTokens(s string) (tokens []queryToken, problem string) {
	for {
		if s = strings.TrimLeft(s, querySpace); s == "" {
			return tokens, ""
		}
		t, n, problem := nextToken(s)
		if problem != "" {
			return nil, problem
		}
		tokens = append(tokens, t)
		s = s[n:]
	}
}

// nextToken returns the first token of a text and its length.
func nextToken(s string) (t queryToken, n int, problem string) {
	switch s[0] {
	case '(':
		return queryToken{kind: tokenOpen, text: "("}, 1, ""
	case ')':
		return queryToken{kind: tokenClose, text: ")"}, 1, ""
	case ':':
		return queryToken{kind: tokenColon, text: ":"}, 1, ""
	case '+', '-', '!':
		t := queryToken{kind: tokenNot, text: s[:1]}
		next, size := utf8.DecodeRuneInString(s[1:])
		switch {
		case size > 0 && strings.ContainsRune(querySpace, next):
			t.kind = tokenBare
		case s[0] == '+':
			t.kind = tokenPlus
		case s[0] == '-':
			t.kind = tokenMinus
		}
		return t, 1, ""
	case '"':
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				return queryToken{kind: tokenQuoted, text: s[1:i]}, i + 1, ""
			}
		}
		return t, 0, `a " is not closed`
	case '/':
		end := -1
		for i := 1; i < len(s); i++ {
			if s[i] != '/' {
				continue
			}
			end = i
			if s[i-1] != '\\' || i == 1 {
				break
			}
		}
		if end < 0 {
			return t, 0, "a / is not closed"
		}
		return queryToken{kind: tokenRegexp, text: s[1:end]}, end + 1, ""
	case '^':
		if n = decimal(s[1:]); n == 0 {
			return t, 0, "^ requires a number"
		}
		return queryToken{kind: tokenBoost, text: s[1 : 1+n]}, 1 + n, ""
	case '~':
		if n = strings.IndexAny(s[1:], querySpace+wordEnds+`*?\`); n < 0 {
			n = len(s) - 1
		}
		return queryToken{kind: tokenSlop, text: s[1 : 1+n]}, 1 + n, ""
	case '[', '{':
		return rangeToken(s)
	case ']', '}':
		return t, 0, "unexpected " + quote(s[:1])
	}
	return wordToken(s)
}

// decimal returns the length of a number such as 1 or 0.5, or 0.
func decimal(s string) int {
	count := func(i int) int {
		j := i
		for j < len(s) && s[j] >= '0' && s[j] <= '9' {
			j++
		}
		return j - i
	}
	n := count(0)
	if n == 0 || n == len(s) || s[n] != '.' {
		return n
	}
	if fraction := count(n + 1); fraction > 0 {
		n += 1 + fraction
	}
	return n
}

// rangeToken parses [a TO b], with { and } for exclusive bounds.
func rangeToken(s string) (t queryToken, n int, problem string) {
	t.kind = tokenRange
	var words []string
	for i := 1; ; {
		i += len(s[i:]) - len(strings.TrimLeft(s[i:], querySpace))
		if i == len(s) {
			return t, 0, "a " + s[:1] + " is not closed"
		}
		if s[i] == ']' || s[i] == '}' {
			if len(words) != 3 || words[1] != "TO" {
				return t, 0, "a range is written [a TO b]"
			}
			t.ends, t.included = [2]string{words[0], words[2]}, [2]bool{s[0] == '[', s[i] == ']'}
			return t, i + 1, ""
		}
		size := strings.IndexAny(s[i:], " ]}")
		if size < 0 {
			size = len(s) - i
		}
		if s[i] == '"' {
			if end := strings.IndexByte(s[i+1:], '"'); end >= 0 && end+2 >= size {
				words = append(words, s[i+1:i+1+end])
				i += end + 2
				continue
			}
		}
		words = append(words, s[i:i+size])
		i += size
	}
}

// wordToken parses a word, a word with wildcards, or an operator that is a word.
func wordToken(s string) (t queryToken, n int, problem string) {
	t.kind = tokenTerm
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == '\\' {
			_, next := utf8.DecodeRuneInString(s[n+1:])
			if next == 0 {
				return t, 0, "it ends after a \\"
			}
			n += 1 + next
			continue
		}
		if r == '*' || r == '?' {
			t.kind = tokenWildcard
		} else if strings.ContainsRune(querySpace+wordEnds, r) {
			break
		}
		n += size
	}
	t.text = s[:n]
	switch t.text {
	case "*":
		t.kind = tokenStar
	case "AND", "&&":
		t.kind = tokenAnd
	case "OR", "||":
		t.kind = tokenOr
	case "NOT":
		t.kind = tokenNot
	}
	return t, n, ""
}

// escaped escapes operators, except AND, OR and NOT.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\+-!():^[]"{}~*?|&/`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// prefixOf returns a word whose only wildcard is a final *, without it and with its escapes.
func prefixOf(s string) (beginning string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?':
			return s[:i], s[i:] == "*"
		}
	}
	return "", false
}

// unescaped resolves \x and \u0078.
func unescaped(s string) (text, problem string) {
	var units []uint16 // \u is a UTF-16 code unit
	for s != "" {
		escape := s[0] == '\\' && len(s) > 1
		if escape {
			s = s[1:]
		}
		if escape && s[0] == 'u' {
			if len(s) < 5 {
				return "", "\\u requires four digits"
			}
			x, err := strconv.ParseUint(s[1:5], 16, 16)
			if err != nil {
				return "", "\\u requires four digits"
			}
			units = append(units, uint16(x))
			s = s[5:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		units = utf16.AppendRune(units, r)
		s = s[size:]
	}
	return string(utf16.Decode(units)), ""
}
