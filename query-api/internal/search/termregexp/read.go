package termregexp

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Options enable parts of the syntax, as the flags of Elasticsearch's regexp clause.
type Options struct {
	AnyString, Empty, Interval, Intersection, Complement bool
	// Insensitive ignores the case of ASCII letters, except in ranges of characters.
	Insensitive bool
}

const (
	maxDepth   = 100
	maxRepeats = 1000
)

// Parse parses an expression. problem describes a syntax error; empty: none.
func Parse(text string, options Options) (x *Expression, problem string) {
	r := reader{rest: text, Options: options}
	n, problem := r.union(0)
	switch {
	case problem != "":
		return nil, problem
	case strings.HasPrefix(r.rest, ")"):
		return nil, "a ) has no ("
	case r.rest != "":
		return nil, "unexpected " + strconv.Quote(r.rest[:1])
	}
	return &Expression{n, r.parts}, ""
}

type reader struct {
	rest  string
	parts int
	Options
}

// part wraps a node to cache its matches.
func (r *reader) part(n node) part {
	r.parts++
	return part{n, r.parts - 1}
}

// union parses a|b, up to ")" or the end.
func (r *reader) union(depth int) (node, string) {
	if depth > maxDepth {
		return nil, "it is nested too deeply"
	}
	var list either
	for {
		n, problem := r.intersection(depth)
		if problem != "" {
			return nil, problem
		}
		list = append(list, n)
		if !r.next('|') {
			break
		}
	}
	if len(list) == 1 {
		return list[0], ""
	}
	return list, ""
}

// intersection parses a&b.
func (r *reader) intersection(depth int) (node, string) {
	var list both
	for {
		n, problem := r.sequence(depth)
		if problem != "" {
			return nil, problem
		}
		list = append(list, n)
		if !r.Intersection || !r.next('&') {
			break
		}
	}
	if len(list) == 1 {
		return list[0], ""
	}
	return list, ""
}

func (r *reader) next(c byte) bool {
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *reader) sequence(depth int) (node, string) {
	var list sequence
	// Where an expression is required, any other character is literal.
	for len(list) == 0 || r.rest != "" && r.rest[0] != '|' && r.rest[0] != ')' && (r.rest[0] != '&' || !r.Intersection) {
		n, problem := r.repeated(depth)
		if problem != "" {
			return nil, problem
		}
		list = append(list, r.part(n))
	}
	if len(list) == 1 {
		return list[0].node, ""
	}
	return list, ""
}

// repeated parses one character or group with its quantifiers: ?, *, +, {n,m}.
func (r *reader) repeated(depth int) (node, string) {
	n, problem := r.complement(depth)
	for problem == "" && r.rest != "" {
		switch r.rest[0] {
		case '?':
			n = repeat{r.part(n), 0, 1}
		case '*':
			n = repeat{r.part(n), 0, -1}
		case '+':
			n = repeat{r.part(n), 1, -1}
		case '{':
			var end int
			if n, end, problem = r.times(n); problem != "" {
				return nil, problem
			}
			r.rest = r.rest[end:]
		default:
			return n, ""
		}
		r.rest = r.rest[1:]
	}
	return n, problem
}

// times parses {n,m}; end is the position of its }.
func (r *reader) times(of node) (n node, end int, problem string) {
	if end = strings.IndexByte(r.rest, '}'); end < 0 {
		return nil, 0, "a { is not closed"
	}
	least, most, both := strings.Cut(r.rest[1:end], ",")
	low, ok := number(least, 4)
	if !ok {
		return nil, 0, "{ wants numbers"
	}
	high := low
	switch {
	case both && most == "":
		high = -1
	case both:
		if high, ok = number(most, 4); !ok || high < low {
			return nil, 0, "{ wants two numbers, the greater second"
		}
	}
	if max(low, high) > maxRepeats {
		return nil, 0, "a term of at most 1000 repetitions is supported"
	}
	return repeat{r.part(of), low, high}, end, ""
}

func number(text string, most int) (int, bool) {
	if text == "" || len(text) > most {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

func (r *reader) complement(depth int) (node, string) {
	if !r.Complement || !r.next('~') {
		return r.single(depth)
	}
	if depth > maxDepth {
		return nil, "it is nested too deeply"
	}
	n, problem := r.complement(depth + 1)
	return not{n}, problem
}

func (r *reader) single(depth int) (node, string) {
	if r.rest == "" {
		return nil, "a character or group is missing"
	}
	c, size := utf8.DecodeRuneInString(r.rest)
	switch {
	case c == '(':
		r.rest = r.rest[1:]
		if r.next(')') {
			return sequence{}, ""
		}
		n, problem := r.union(depth + 1)
		if problem == "" && !r.next(')') {
			problem = "a ( is not closed"
		}
		return n, problem
	case c == '[':
		return r.class()
	case c == '"':
		end := strings.IndexByte(r.rest[1:], '"')
		if end < 0 {
			return nil, `a " is not closed`
		}
		var list sequence
		for _, c := range r.rest[1 : 1+end] {
			list = append(list, r.part(r.literal(c)))
		}
		r.rest = r.rest[end+2:]
		return list, ""
	case c == '<' && r.Interval:
		return r.interval()
	case c == '\\':
		list, problem := r.escaped()
		return chars{spans: list}, problem
	}
	r.rest = r.rest[size:]
	switch {
	case c == '.':
		return chars{negated: true}, ""
	case c == '@' && r.AnyString:
		return repeat{r.part(chars{negated: true}), 0, -1}, ""
	case c == '#' && r.Empty:
		return chars{}, ""
	}
	return r.literal(c), ""
}

// escaped parses an escape sequence: the classes \d, \s, \w and their complements, or a character that is not a letter.
func (r *reader) escaped() ([]span, string) {
	if len(r.rest) == 1 {
		return nil, `a \ has nothing after it`
	}
	c, size := utf8.DecodeRuneInString(r.rest[1:])
	r.rest = r.rest[1+size:]
	if c >= utf8.RuneSelf || !isLetter(byte(c)) { //nolint:gosec // ASCII
		return r.cases(nil, c), ""
	}
	lower := c | 0x20
	list, ok := map[rune][]span{
		'd': {{'0', '9'}}, 's': {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}},
		'w': {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
	}[lower]
	switch {
	case !ok:
		return nil, `\` + string(c) + ` is no class of characters: known are \d, \s, \w, \D, \S, \W`
	case c == lower:
		return list, ""
	}
	return others(list), ""
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// others returns the characters outside spans, which are in order.
func others(list []span) []span {
	var out []span
	next := rune(0)
	for _, s := range list {
		if s.from > next {
			out = append(out, span{next, s.from - 1})
		}
		next = s.to + 1
	}
	return append(out, span{next, utf8.MaxRune})
}

func (r *reader) literal(c rune) node { return chars{spans: r.cases(nil, c)} }

// cases appends a character, in both cases if Insensitive.
func (r *reader) cases(list []span, c rune) []span {
	list = append(list, span{c, c})
	if lower := c | 0x20; r.Insensitive && c < utf8.RuneSelf && lower >= 'a' && lower <= 'z' {
		list = append(list, span{c ^ 0x20, c ^ 0x20})
	}
	return list
}

// class parses [a-z] and [^a-z].
func (r *reader) class() (node, string) {
	r.rest = r.rest[1:]
	n := chars{negated: r.next('^')}
	char := func() (rune, bool) {
		r.rest = strings.TrimPrefix(r.rest, `\`)
		c, size := utf8.DecodeRuneInString(r.rest)
		r.rest = r.rest[size:]
		return c, size > 0
	}
	for first := true; first || !strings.HasPrefix(r.rest, "]"); first = false {
		if len(r.rest) > 1 && r.rest[0] == '\\' && isLetter(r.rest[1]) {
			list, problem := r.escaped()
			if problem != "" {
				return nil, problem
			}
			n.spans = append(n.spans, list...)
			continue
		}
		from, ok := char()
		if !ok {
			return nil, "a [ is not closed"
		}
		if !r.next('-') {
			n.spans = r.cases(n.spans, from)
			continue
		}
		to, ok := char()
		if !ok || to < from {
			return nil, "a range of characters ends before it begins"
		}
		n.spans = append(n.spans, span{from, to})
	}
	r.rest = r.rest[1:]
	return n, ""
}

// interval parses <n-m>.
func (r *reader) interval() (node, string) {
	end := strings.IndexByte(r.rest, '>')
	if end < 0 {
		return nil, "a < is not closed"
	}
	from, to, ok := strings.Cut(r.rest[1:end], "-")
	low, okLow := number(from, 10)
	high, okHigh := number(to, 10)
	if !ok || !okLow || !okHigh {
		return nil, "<n-m> wants two numbers"
	}
	n := numbers{low: min(low, high), high: max(low, high)}
	if len(from) == len(to) {
		n.width = len(from)
	}
	r.rest = r.rest[end+1:]
	return n, ""
}
