package clause

import (
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
)

func lowerRegexp(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "value", func(f algebra.Field, a *args) (algebra.Node, error) {
		at := a.must("value")
		flags := a.text("flags", "ALL")
		insensitive := a.flag("case_insensitive", false)
		a.integer("max_determinized_states", 10_000, 0, 1<<30) // nothing is determinized here
		a.constantRewrite()
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		text, err := at.scalar()
		if err != nil {
			return nil, err
		}
		if !f.IsString() {
			return nil, at.errorf("can only use regexp queries on texts: %s is none", f.Name())
		}
		n, err := regexpNode(f, at, text, flags, insensitive)
		if err != nil {
			return nil, err
		}
		return boosted(l.leaf(f, n), boost), nil
	})
}

// regexpNode translates a regular expression of Lucene's, which matches whole
// terms, to RE2.
func regexpNode(f algebra.Field, at value, text, flags string, insensitive bool) (algebra.Node, error) {
	if utf8.RuneCountInString(text) > MaxRegexp {
		return nil, at.errorf("the length of regex [%d] exceeds %d", utf8.RuneCountInString(text), MaxRegexp)
	}
	t := regexpReader{rest: text, insensitive: insensitive}
	for flag := range strings.SplitSeq(strings.ToUpper(flags), "|") {
		switch flag {
		case "ALL":
			t.anyString, t.empty, t.interval, t.intersection, t.complement = true, true, true, true, true
		case "ANYSTRING":
			t.anyString = true
		case "EMPTY":
			t.empty = true
		case "INTERVAL":
			t.interval = true
		case "INTERSECTION":
			t.intersection = true
		case "COMPLEMENT":
			t.complement = true
		case "NONE", "":
		default:
			return nil, at.errorf("unknown regexp flag [%s]: known are ALL, ANYSTRING, COMPLEMENT, EMPTY, INTERSECTION, INTERVAL, NONE", strings.ReplaceAll(quote(flag), `"`, ""))
		}
	}
	n := algebra.Pattern{Field: f, Kind: algebra.Regexp, Text: text, Insensitive: insensitive}
	if text == "" {
		return algebra.None{}, nil // only an empty term, and there is none
	}
	// At the outermost level & and ~ are conditions of their own.
	for {
		excluded := false
		if t.complement && t.rest != "" && t.rest[0] == '~' && topLevelIntersection(t.rest, t.intersection) {
			excluded, t.rest = true, t.rest[1:]
		}
		var b strings.Builder
		if err := t.union(&b, 0); err != "" {
			return nil, at.errorf("the regular expression cannot be read: %s", err)
		}
		expression := "(?s)^(?:" + b.String() + ")$"
		if excluded {
			n.Excluded = append(n.Excluded, expression)
		} else {
			n.Expressions = append(n.Expressions, expression)
		}
		if t.rest == "" {
			return n, nil
		}
		if t.rest[0] != '&' || !t.intersection {
			return nil, at.errorf("the regular expression cannot be read: %s is not expected", quote(t.rest[:1]))
		}
		t.rest = t.rest[1:]
	}
}

// topLevelIntersection says that the complement at the beginning holds for the
// whole operand: it is followed by a group, or a single character, and then &
// or the end.
func topLevelIntersection(text string, intersection bool) bool {
	rest := text[1:]
	if rest == "" {
		return false
	}
	end := 0
	switch rest[0] {
	case '(':
		depth := 0
		for i := 0; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth == 0 {
				end = i + 1
				break
			}
		}
	case '\\':
		return false
	default:
		_, end = utf8.DecodeRuneInString(rest)
	}
	return end > 0 && (end == len(rest) || intersection && rest[end] == '&')
}

// regexpReader reads Lucene's grammar (RegExp).
type regexpReader struct {
	rest                                                 string
	insensitive                                          bool
	anyString, empty, interval, intersection, complement bool
}

const maxRegexpDepth = 100

// union reads a|b up to ")" or "&" or the end; problem is empty when it went well.
func (t *regexpReader) union(b *strings.Builder, depth int) (problem string) {
	if depth > maxRegexpDepth {
		return "it is nested too deeply"
	}
	for {
		for t.rest != "" && t.rest[0] != '|' && t.rest[0] != ')' && (t.rest[0] != '&' || !t.intersection) {
			if problem := t.repeat(b, depth); problem != "" {
				return problem
			}
		}
		if t.rest == "" || t.rest[0] != '|' {
			if depth > 0 && t.rest != "" && t.rest[0] == '&' {
				return "& is supported between whole expressions only, not inside of a group"
			}
			return ""
		}
		t.rest = t.rest[1:]
		b.WriteByte('|')
	}
}

// repeat reads one character or group and what follows it: ?, *, +, {n,m}.
func (t *regexpReader) repeat(b *strings.Builder, depth int) string {
	var one strings.Builder
	if problem := t.single(&one, depth); problem != "" {
		return problem
	}
	expression := one.String()
	for t.rest != "" {
		switch t.rest[0] {
		case '?', '*', '+':
			expression = "(?:" + expression + ")" + t.rest[:1]
			t.rest = t.rest[1:]
		case '{':
			end := strings.IndexByte(t.rest, '}')
			if end < 0 {
				return "a { is not closed"
			}
			least, most, both := strings.Cut(t.rest[1:end], ",")
			low, after, ok := digits(least, 1, 4)
			if !ok || after != "" {
				return "{ wants numbers"
			}
			high := low
			if both && most != "" {
				if high, after, ok = digits(most, 1, 4); !ok || after != "" || high < low {
					return "{ wants two numbers, the greater second"
				}
			}
			if high > 1000 {
				return "a term of at most 1000 repetitions is supported"
			}
			expression = "(?:" + expression + ")" + t.rest[:end+1]
			t.rest = t.rest[end+1:]
		default:
			b.WriteString(expression)
			return ""
		}
	}
	b.WriteString(expression)
	return ""
}

func (t *regexpReader) single(b *strings.Builder, depth int) string {
	r, size := utf8.DecodeRuneInString(t.rest)
	switch {
	case r == '(':
		t.rest = t.rest[1:]
		if strings.HasPrefix(t.rest, ")") {
			t.rest = t.rest[1:]
			b.WriteString("(?:)")
			return ""
		}
		b.WriteString("(?:")
		if problem := t.union(b, depth+1); problem != "" {
			return problem
		}
		if !strings.HasPrefix(t.rest, ")") {
			return "a ( is not closed"
		}
		t.rest = t.rest[1:]
		b.WriteByte(')')
		return ""
	case r == ')':
		return "a ) has no ("
	case r == '~' && t.complement:
		return "~ is supported before a whole expression only, as in ~(abc)"
	case r == '[':
		return t.class(b)
	case r == '"':
		end := strings.IndexByte(t.rest[1:], '"')
		if end < 0 {
			return `a " is not closed`
		}
		b.WriteString("(?:" + t.literal(t.rest[1:1+end]) + ")")
		t.rest = t.rest[end+2:]
		return ""
	case r == '.':
		b.WriteByte('.')
	case r == '@' && t.anyString:
		b.WriteString(".*")
	case r == '#' && t.empty:
		b.WriteString(`[^\x00-\x{10FFFF}]`)
	case r == '<' && t.interval:
		return t.numbers(b)
	case r == '\\':
		if len(t.rest) == 1 {
			return `a \ has nothing after it`
		}
		r, size = utf8.DecodeRuneInString(t.rest[1:])
		t.rest = t.rest[1:]
		if classes := map[rune]string{'d': `[0-9]`, 'D': `[^0-9]`, 's': `[ \t\n\r]`, 'S': `[^ \t\n\r]`, 'w': `[0-9A-Za-z_]`, 'W': `[^0-9A-Za-z_]`}; classes[r] != "" {
			b.WriteString(classes[r])
		} else {
			b.WriteString(t.literal(string(r)))
		}
	case r == '*' || r == '+' || r == '?' || r == '{':
		return "a repetition has nothing to repeat"
	default:
		b.WriteString(t.literal(string(r)))
	}
	t.rest = t.rest[size:]
	return ""
}

// literal escapes a text; ASCII letters of either case are equal when asked for.
func (t *regexpReader) literal(text string) string {
	var b strings.Builder
	for _, r := range text {
		lower := r | 0x20
		switch {
		case t.insensitive && r < utf8.RuneSelf && lower >= 'a' && lower <= 'z':
			b.WriteString("[" + string(lower) + string(lower-0x20) + "]")
		case r < utf8.RuneSelf && !(lower >= 'a' && lower <= 'z') && !(r >= '0' && r <= '9') && r > ' ':
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// class reads [a-z] and [^a-z].
func (t *regexpReader) class(b *strings.Builder) string {
	t.rest = t.rest[1:]
	b.WriteByte('[')
	if strings.HasPrefix(t.rest, "^") {
		b.WriteByte('^')
		t.rest = t.rest[1:]
	}
	next := func() (rune, bool) {
		t.rest = strings.TrimPrefix(t.rest, `\`)
		r, size := utf8.DecodeRuneInString(t.rest)
		if size == 0 {
			return 0, false
		}
		t.rest = t.rest[size:]
		return r, true
	}
	escape := func(r rune) {
		if strings.ContainsRune(`\]^-[`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	for first := true; first || !strings.HasPrefix(t.rest, "]"); first = false {
		from, ok := next()
		if !ok {
			return "a [ is not closed"
		}
		if strings.HasPrefix(t.rest, "-") && !strings.HasPrefix(t.rest, "-]") {
			t.rest = t.rest[1:]
			to, ok := next()
			if !ok || to < from {
				return "a range of characters ends before it begins"
			}
			escape(from)
			b.WriteByte('-')
			escape(to)
			continue
		}
		escape(from)
		if lower := from | 0x20; t.insensitive && from < utf8.RuneSelf && lower >= 'a' && lower <= 'z' {
			b.WriteRune(from ^ 0x20) // of single characters only: ranges keep their case
		}
	}
	t.rest = t.rest[1:]
	b.WriteByte(']')
	return ""
}

// numbers reads <n-m>, any number in between, as alternatives.
func (t *regexpReader) numbers(b *strings.Builder) string {
	end := strings.IndexByte(t.rest, '>')
	if end < 0 {
		return "a < is not closed"
	}
	from, to, ok := strings.Cut(t.rest[1:end], "-")
	low, after, okLow := digits(from, 1, 9)
	high, beyond, okHigh := digits(to, 1, 9)
	if !ok || !okLow || !okHigh || after != "" || beyond != "" {
		return "<n-m> wants two numbers"
	}
	if low > high {
		low, high = high, low
	}
	if high-low > 1000 {
		return "<n-m> spans more than 1000 numbers"
	}
	width := 0
	if len(from) == len(to) {
		width = len(from)
	}
	b.WriteString("(?:")
	for n := low; n <= high; n++ {
		if n > low {
			b.WriteByte('|')
		}
		text := itoa(n)
		if width == 0 {
			b.WriteString("0*")
		} else {
			b.WriteString(strings.Repeat("0", max(0, width-len(text))))
		}
		b.WriteString(text)
	}
	b.WriteByte(')')
	t.rest = t.rest[end+1:]
	return ""
}
