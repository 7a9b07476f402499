package nativetest

import (
	"regexp"
	"strings"
)

var (
	innerColumn = regexp.MustCompile(`^(__table\d+)\.([\w.]+)`)
	innerWord   = regexp.MustCompile(`^\w+`)
	innerNumber = regexp.MustCompile(`^-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan)`)
)

// innerSQL converts the planner's name of an expression to an expression: `plus(__table1.k, 1_UInt8)` becomes
// plus(`__table1`.`k`, _CAST(1, 'UInt8')). It returns false for unsupported names, such as sets and lambdas.
func innerSQL(name string) (string, bool) {
	var b strings.Builder
	for rest := name; rest != ""; {
		if m := innerColumn.FindStringSubmatch(rest); m != nil {
			b.WriteString(quote(m[1]) + "." + quote(m[2]))
			rest = rest[len(m[0]):]
			continue
		}
		n := literalLength(rest)
		switch {
		case n > 0:
			typeName := typeLength(rest[n:])
			if typeName == 0 {
				return "", false
			}
			b.WriteString("_CAST(" + rest[:n] + ", '" + strings.ReplaceAll(rest[n+1:n+typeName], "'", "\\'") + "')")
			rest = rest[n+typeName:]
		case strings.IndexByte("(), ", rest[0]) >= 0:
			b.WriteByte(rest[0])
			rest = rest[1:]
		default:
			word := innerWord.FindString(rest)
			if word == "" || !strings.HasPrefix(rest[len(word):], "(") || word == "lambda" {
				return "", false
			}
			b.WriteString(word + "(")
			rest = rest[len(word)+1:]
		}
	}
	return b.String(), true
}

// literalLength returns the length of the literal at the beginning of s, or 0.
func literalLength(s string) int {
	switch {
	case strings.HasPrefix(s, "NULL_"):
		return len("NULL")
	case s[0] == '\'', s[0] == '[':
		return balanced(s)
	case s[0] == '(':
		if n := balanced(s); n > 0 && strings.HasPrefix(s[n:], "_Tuple(") {
			return n
		}
		return 0
	}
	return len(innerNumber.FindString(s))
}

// typeLength returns the length of "_Type" or "_Type(...)" at the beginning of s.
func typeLength(s string) int {
	if !strings.HasPrefix(s, "_") {
		return 0
	}
	n := 1 + len(innerWord.FindString(s[1:]))
	if strings.HasPrefix(s[n:], "(") {
		n += balanced(s[n:])
	}
	return n
}

// balanced returns the length of the quoted or bracketed text at the beginning of s; 0 if it is not terminated.
func balanced(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\'':
			for i++; i < len(s) && s[i] != '\''; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			if i >= len(s) {
				return 0
			}
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}
