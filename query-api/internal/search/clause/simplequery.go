package clause

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
)

func lowerSimpleQueryString(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	at := a.must("query")
	fields, hasFields := a.get("fields")
	p := simpleQuery{l: l, at: at, and: a.choice("default_operator", "or", "or", "and") == "and"}
	p.m.analyzer = a.analyzer("analyzer")
	p.m.lenient = a.flag("lenient", !hasFields || allFields(fields))
	p.quoteSuffix = a.text("quote_field_suffix", "")
	p.analyzeWildcards = a.flag("analyze_wildcard", false)
	a.noSynonyms()
	p.m.prefixLength = a.integer("fuzzy_prefix_length", 0, 0, MaxAnalyzed)
	p.m.expansions = a.expansions("fuzzy_max_expansions")
	p.m.transpositions = a.flag("fuzzy_transpositions", true)
	flags, hasFlags := a.get("flags")
	spec, given := a.minimumText()
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	text, err := at.scalar()
	if err != nil {
		return nil, err
	}
	if len(text) > MaxAnalyzed {
		return nil, at.errorf("is longer than %d bytes", MaxAnalyzed)
	}
	if p.flags = allFlags; hasFlags {
		if p.flags, err = simpleFlags(flags); err != nil {
			return nil, err
		}
	}
	if hasFields && fields.kind != '[' {
		return nil, fields.errorf("must be a list of field names, not %s", fields.what())
	}
	if p.fields, err = l.fieldsOr(fields, hasFields, true, v); err != nil {
		return nil, err
	}
	p.rest = text
	var n algebra.Node = algebra.All{} // Lucene handles * before operators.
	if strings.TrimFunc(text, func(r rune) bool { return r <= ' ' }) != "*" {
		n, err = p.parse(0)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		n = algebra.None{}
	}
	if given {
		if b, ok := n.(algebra.Bool); ok {
			least, err := minimum(at, spec, len(b.Should))
			switch {
			case err != nil:
				return nil, err
			case len(b.Should) > 0:
				b.Minimum = least
				if n, err = boolean(b); err != nil {
					return nil, err
				}
			case least > 0: // no optional clauses
				n = algebra.None{}
			}
		}
	}
	return boosted(n, boost), nil
}

// simpleQuery parses the syntax of Lucene's simple query parser, which has no errors.
type simpleQuery struct {
	l      *lowering
	at     value
	m      matching
	and    bool
	flags  int
	fields []weighted
	rest   string
	// quoteSuffix is the suffix of the fields for phrases.
	quoteSuffix string
	// analyzeWildcards reports whether prefixes are analyzed as other words are.
	analyzeWildcards bool
}

// allFlags enables all operators.
const allFlags = -1

// simpleFlag returns the bit of an operator in numeric flags, or 0 if there is no such operator.
func simpleFlag(name string) int {
	switch name {
	case "AND":
		return 1
	case "NOT":
		return 2
	case "OR":
		return 4
	case "PREFIX":
		return 8
	case "PHRASE":
		return 16
	case "PRECEDENCE":
		return 32
	case "ESCAPE":
		return 64
	case "WHITESPACE":
		return 128
	case "FUZZY":
		return 256
	case "NEAR", "SLOP":
		return 512
	}
	return 0
}

// simpleFlags parses the enabled operators: names separated by |, of which ALL and NONE end the list, or the sum of
// their bits.
func simpleFlags(v value) (int, error) {
	if v.kind == '0' {
		n, err := strconv.ParseFloat(v.text, 64)
		if err != nil || n < 0 {
			return allFlags, nil
		}
		return int(n) & 1023, nil
	}
	if v.kind != '"' {
		return 0, v.errorf("must be names of operators, not %s", v.what())
	}
	if v.text == "" {
		return allFlags, nil
	}
	sum := 0
	for name := range strings.SplitSeq(strings.ToUpper(v.text), "|") {
		bit := simpleFlag(name)
		switch {
		case name == "ALL":
			return allFlags, nil
		case name == "NONE":
			return 0, nil
		case bit == 0 && name != "":
			return 0, v.errorf("unknown flag %s: known are ALL, NONE, AND, NOT, OR, PREFIX, PHRASE, PRECEDENCE, "+
				"ESCAPE, WHITESPACE, FUZZY, NEAR, SLOP", quote(name))
		}
		sum |= bit
	}
	return sum, nil
}

// has reports whether an operator is enabled.
func (p *simpleQuery) has(flag string) bool { return p.flags&simpleFlag(flag) != 0 }

// operation is how a clause is combined with the ones before it.
type operation int

const (
	noOperation operation = iota
	eitherOf
	bothOf
)

// simpleState is the state of parsing one group.
type simpleState struct {
	top               algebra.Node
	current, previous operation
	not               int
}

func (p *simpleQuery) parse(depth int) (algebra.Node, error) {
	if depth > MaxDepth {
		return nil, p.at.errorf("groups are nested deeper than %d levels", MaxDepth)
	}
	var s simpleState
	operator := func(o operation) {
		if s.current == noOperation && s.top != nil {
			s.current = o
		}
	}
	over := func(n int) {
		p.rest = p.rest[n:]
		s.not = 0 // - must be directly before what it excludes.
	}
	for p.rest != "" {
		var branch algebra.Node
		var err error
		switch c := p.rest[0]; {
		case c == '(' && p.has("PRECEDENCE"):
			end := p.closing()
			if end < 0 {
				// Each counts as a clause, though it is ignored: the rest of the text was scanned for its end.
				if err := p.l.count(p.at, 1); err != nil {
					return nil, err
				}
				over(1)
				continue
			}
			if end == 1 {
				s.current = noOperation
				over(2)
				continue
			}
			inner := *p
			inner.rest = p.rest[1:end]
			if branch, err = inner.parse(depth + 1); err != nil {
				return nil, err
			}
			p.rest = p.rest[end+1:]
		case c == ')' && p.has("PRECEDENCE"):
			over(1)
			continue
		case c == '"' && p.has("PHRASE"):
			if branch, err = p.phrase(); err != nil {
				return nil, err
			}
		case c == '+' && p.has("AND"):
			operator(bothOf)
			over(1)
			continue
		case c == '|' && p.has("OR"):
			operator(eitherOf)
			over(1)
			continue
		case c == '-' && p.has("NOT"):
			s.not++
			p.rest = p.rest[1:]
			continue
		case strings.IndexByte(" \t\n\r", c) >= 0 && p.has("WHITESPACE"):
			over(1)
			continue
		default:
			if branch, err = p.token(); err != nil {
				return nil, err
			}
		}
		if err := p.l.count(p.at, 1); err != nil {
			return nil, err
		}
		s.join(branch, p.and)
	}
	return s.top, nil
}

// closing returns the position of the ) of a group that starts here, or -1.
func (p *simpleQuery) closing() int {
	depth := 0
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '\\' && p.has("ESCAPE"):
			i++
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// ends reports whether a word ends before a character.
func (p *simpleQuery) ends(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '\r':
		return p.has("WHITESPACE")
	case '"':
		return p.has("PHRASE")
	case '|':
		return p.has("OR")
	case '+':
		return p.has("AND")
	case '(', ')':
		return p.has("PRECEDENCE")
	}
	return false
}

// tilde parses what follows ~, up to the end of the word: a number, 2 if nothing follows, 0 if it is not a number.
func (p *simpleQuery) tilde() int {
	p.rest = p.rest[1:]
	end := strings.IndexFunc(p.rest, p.ends)
	if end < 0 {
		end = len(p.rest)
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	if text == "" {
		return 2
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return min(max(0, int(n)), maxSlop)
}

// join adds a branch to the tree. A change of the operator starts a new level.
func (s *simpleState) join(branch algebra.Node, and bool) {
	negated := s.not%2 == 1
	s.not = 0
	if branch == nil {
		return
	}
	if negated {
		branch = algebra.Bool{MustNot: []algebra.Node{branch}, Should: []algebra.Node{algebra.All{}}, Minimum: 1}
	}
	if s.top == nil {
		s.top = branch
		s.current = noOperation
		return
	}
	if s.current == noOperation {
		if s.current = eitherOf; and {
			s.current = bothOf
		}
	}
	level := algebra.Bool{}
	if s.previous == s.current {
		level, _ = s.top.(algebra.Bool)
	} else {
		level = added(level, s.top, s.current)
	}
	level = added(level, branch, s.current)
	s.top, s.previous, s.current = level, s.current, noOperation
}

// phrase parses "words"~slop. Without a closing quote it is a word.
func (p *simpleQuery) phrase() (algebra.Node, error) {
	var b strings.Builder
	i := 1
	for ; i < len(p.rest) && p.rest[i] != '"'; i++ {
		if p.rest[i] == '\\' && p.has("ESCAPE") && i+1 < len(p.rest) {
			i++
		}
		b.WriteByte(p.rest[i])
	}
	if i >= len(p.rest) {
		p.rest = p.rest[1:]
		return nil, nil
	}
	p.rest = p.rest[i+1:]
	m := p.m
	if strings.HasPrefix(p.rest, "~") && p.has("NEAR") {
		if p.rest != "~" {
			m.slop = p.tilde()
		}
		p.rest = p.rest[min(1, len(p.rest)):] // Lucene skips the character after the number.
	}
	any := false
	fields := p.l.suffixed(p.fields, p.quoteSuffix)
	n, err := p.over(fields, 0, func(f algebra.Field) (algebra.Node, error) {
		empty, err := p.l.wordless(f, p.at, b.String(), m.analyzer)
		if err != nil {
			return nil, err
		}
		any = any || !empty
		return p.l.phrase(f, p.at, b.String(), m, false)
	})
	if err != nil || !any || b.Len() == 0 {
		return nil, err
	}
	return n, nil
}

// token parses a word, a prefix with a final *, or a fuzzy word with ~n.
func (p *simpleQuery) token() (algebra.Node, error) {
	var b strings.Builder
	star, escaped := false, false
	edits := -1
	for p.rest != "" {
		r, size := utf8.DecodeRuneInString(p.rest)
		if r == '\\' && p.has("ESCAPE") && !escaped {
			escaped = true
			p.rest = p.rest[size:]
			continue
		}
		if !escaped {
			if p.ends(r) {
				break
			}
			if r == '~' && b.Len() > 0 && p.has("FUZZY") {
				edits, star = min(p.tilde(), 2), false
				break
			}
		}
		star = r == '*' && !escaped
		escaped = false
		b.WriteString(p.rest[:size])
		p.rest = p.rest[size:]
	}
	text := b.String()
	switch {
	case text == "":
		return nil, nil
	case edits > 0:
		m := p.m
		m.fuzzy = fuzziness{given: true, edits: edits}
		return p.over(p.fields, 1, func(f algebra.Field) (algebra.Node, error) {
			if f.Identity && m.lenient {
				return algebra.None{}, nil
			}
			if f.Identity || !f.IsString() {
				return nil, p.at.errorf("can only use fuzzy queries on text fields, not on %s", f.Name())
			}
			return p.l.leaf(f, fuzzyTerm(f, normalized(f, text, m.analyzer), m)), nil
		})
	case star && len(text) > 1 && p.has("PREFIX"):
		prefix := strings.TrimSuffix(text, "*")
		return p.over(p.fields, 1, func(f algebra.Field) (algebra.Node, error) {
			if f.Identity && p.m.lenient {
				return algebra.None{}, nil
			}
			if p.analyzeWildcards && (f.Identity || !f.IsString()) {
				return algebra.None{}, nil // Elasticsearch searches its terms, none of which is a string.
			}
			if f.Identity || !f.IsString() {
				return nil, p.at.errorf("can only use prefix queries on text fields, not on %s", f.Name())
			}
			if p.analyzeWildcards && (f.IsText() || p.m.analyzer != "") {
				return p.l.analyzedPrefix(f, p.at, prefix, p.m.analyzer, p.and, rewriting{})
			}
			return p.l.leaf(f, algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: normalized(f, prefix, p.m.analyzer)}), nil
		})
	}
	m := p.m
	m.all = p.and
	any := false
	n, err := p.over(p.fields, 1, func(f algebra.Field) (algebra.Node, error) {
		empty, err := p.l.wordless(f, p.at, text, m.analyzer)
		if err != nil {
			return nil, err
		}
		any = any || !empty
		return p.l.match(f, p.at, text, m)
	})
	if err != nil || !any {
		return nil, err // A word without letters is ignored.
	}
	return n, nil
}

func (p *simpleQuery) over(
	fields []weighted, tie float64, lower func(f algebra.Field) (algebra.Node, error),
) (algebra.Node, error) {
	var nodes []algebra.Node
	for _, w := range fields {
		n, err := lower(w.field)
		if err != nil {
			if p.m.lenient && !w.field.IsString() {
				continue
			}
			return nil, err
		}
		if n != nil {
			nodes = append(nodes, boosted(n, w.boost))
		}
	}
	return disMax(nodes, tie), nil
}

// added adds a node to a level of the tree.
func added(b algebra.Bool, n algebra.Node, o operation) algebra.Bool {
	if o == bothOf {
		b.Must = append(b.Must[:len(b.Must):len(b.Must)], n)
		return b
	}
	b.Should = append(b.Should[:len(b.Should):len(b.Should)], n)
	if len(b.Must) == 0 {
		b.Minimum = 1
	}
	return b
}
