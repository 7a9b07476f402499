package planner

import (
	"regexp"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// Expression returns the RE2 expression that matches a term of a pattern.
func Expression(n algebra.Pattern) string {
	switch n.Kind {
	case algebra.Prefix:
		return `^` + literal(n.Text, n.Insensitive)
	case algebra.Whole:
		return `^` + literal(n.Text, n.Insensitive) + `$`
	case algebra.Wildcard:
		return wildcard(n.Text, n.Insensitive)
	}
	return n.Expression
}

// literal returns an expression that matches a text. If insensitive, it ignores the case of ASCII letters.
func literal(text string, insensitive bool) string {
	if !insensitive {
		return regexp.QuoteMeta(text)
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z':
			b.WriteString("[" + string(r) + string(r-'a'+'A') + "]")
		case r >= 'A' && r <= 'Z':
			b.WriteString("[" + string(r) + string(r-'A'+'a') + "]")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return b.String()
}

// wildcard returns the expression of a wildcard pattern.
func wildcard(text string, insensitive bool) string {
	var b strings.Builder
	b.WriteString("(?s)^")
	escaped, star := false, false
	for _, r := range text {
		isStar := false
		switch {
		case escaped:
			b.WriteString(literal(string(r), insensitive))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			if isStar = true; !star {
				b.WriteString(".*")
			}
		case r == '?':
			b.WriteString(".")
		default:
			b.WriteString(literal(string(r), insensitive))
		}
		star = isStar
	}
	if escaped {
		b.WriteString(`\\`)
	}
	b.WriteString("$")
	return b.String()
}
