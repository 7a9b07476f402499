package termregexp

import (
	"context"
	"math/bits"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Expression is a regular expression.
type Expression struct {
	root  node
	parts int
}

// RE2 returns an RE2 expression that matches the same terms or, if it is not exact, a superset.
func (x *Expression) RE2() (expression string, exact bool) {
	w := writer{exact: true}
	w.b.WriteString("(?s)^(?:")
	x.root.write(&w)
	w.b.WriteString(")$")
	return w.b.String(), w.exact
}

type writer struct {
	b     strings.Builder
	exact bool
}

// Match reports whether the expression matches the whole term. Its time grows with the length of the expression and
// the cube of the length of the term, regardless of repetitions. It returns the error of ctx if that ends.
func (x *Expression) Match(ctx context.Context, term string) (bool, error) {
	m := matcher{ctx: ctx, term: []rune(term)}
	m.known = make([][]set, x.parts)
	ends := x.root.match(&m, 0)
	return m.err == nil && ends.has(len(m.term)), m.err
}

// node is a part of an expression.
type node interface {
	// write appends the RE2 equivalent.
	write(w *writer)
	// match returns the positions where a match that begins at a position may end.
	match(m *matcher, from int) set
}

type (
	// chars is one character in one of the spans, or in none of them.
	chars struct {
		negated bool
		spans   []span
	}
	span     struct{ from, to rune }
	sequence []part
	either   []node
	both     []node
	not      struct{ node }
	// repeat is a repeated node; most is -1 without a maximum.
	repeat struct {
		part
		least, most int
	}
	// part is a node whose matches are cached by its number, since it is matched at the same positions many times.
	part struct {
		node
		number int
	}
	// numbers are the integers from low to high, with width digits unless that is 0.
	numbers struct{ low, high, width int }
)

// set is a set of positions in a term.
type set []uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }

func (s set) join(t set) {
	for i := range s {
		s[i] |= t[i]
	}
}

// matcher is the state of matching one term.
type matcher struct {
	ctx   context.Context
	term  []rune
	known [][]set // matches of parts by number and position; nil: not computed
	steps int
	err   error // of ctx; results are invalid from then on
}

// places returns the number of positions in the term.
func (m *matcher) places() int { return len(m.term) + 1 }

func (m *matcher) none() set { return make(set, len(m.term)/64+1) }

// checkInterval is the number of steps between checks of ctx.
const checkInterval = 1 << 10

// over counts a step and reports whether ctx has ended.
func (m *matcher) over() bool {
	if m.steps++; m.steps%checkInterval == 0 && m.err == nil {
		m.err = m.ctx.Err()
		runtime.Gosched() // Cheaper searches need the processor.
	}
	return m.err != nil
}

// from returns the positions where a part that begins at a position may end.
func (m *matcher) from(p part, at int) set {
	if m.known[p.number] == nil {
		m.known[p.number] = make([]set, m.places())
	}
	known := &m.known[p.number][at]
	if *known == nil {
		*known = p.match(m, at)
	}
	return *known
}

// after returns the positions where a part that begins at any of some positions may end.
func (m *matcher) after(p part, from set) set {
	out := m.none()
	for i, places := range from {
		for ; places != 0; places &= places - 1 {
			if m.over() {
				return out
			}
			out.join(m.from(p, 64*i+bits.TrailingZeros64(places)))
		}
	}
	return out
}

func (n chars) match(m *matcher, from int) set {
	out := m.none()
	if from < len(m.term) {
		c := m.term[from]
		if slices.ContainsFunc(n.spans, func(s span) bool { return c >= s.from && c <= s.to }) != n.negated {
			out.add(from + 1)
		}
	}
	return out
}

func (n sequence) match(m *matcher, from int) set {
	at := m.none()
	at.add(from)
	for _, p := range n {
		at = m.after(p, at)
	}
	return at
}

func (n either) match(m *matcher, from int) set {
	out := m.none()
	for _, part := range n {
		out.join(part.match(m, from))
	}
	return out
}

func (n both) match(m *matcher, from int) set {
	out := slices.Clone(n[0].match(m, from))
	for _, part := range n[1:] {
		for i, places := range part.match(m, from) {
			out[i] &= places
		}
	}
	return out
}

func (n not) match(m *matcher, from int) set {
	found, out := n.node.match(m, from), m.none()
	for i := from; i <= len(m.term); i++ {
		if !found.has(i) {
			out.add(i)
		}
	}
	return out
}

func (n repeat) match(m *matcher, from int) set {
	at, out := m.none(), m.none()
	at.add(from)
	part := n.part
	// A part that matches nothing does not advance: after as many rounds as there are characters, no more is found.
	rounds := n.most
	if rounds < 0 || rounds > n.least+m.places() {
		rounds = n.least + m.places()
	}
	for i := 0; ; i++ {
		if i >= n.least {
			out.join(at)
		}
		if i == rounds || !slices.ContainsFunc(at, func(places uint64) bool { return places != 0 }) {
			return out
		}
		next := m.after(part, at)
		if m.err != nil {
			return out
		}
		if slices.Equal(next, at) { // All further rounds are equal.
			out.join(at)
			return out
		}
		at = next
	}
}

func (n numbers) match(m *matcher, from int) set {
	out := m.none()
	value := 0
	for i := from; i < len(m.term) && m.term[i] >= '0' && m.term[i] <= '9'; i++ {
		if value = 10*value + int(m.term[i]-'0'); value > n.high {
			break
		}
		if value >= n.low && (n.width == 0 || i+1-from == n.width) {
			out.add(i + 1)
		}
	}
	return out
}

func (n chars) write(w *writer) {
	switch {
	case len(n.spans) == 0 && n.negated:
		w.b.WriteByte('.')
		return
	case len(n.spans) == 0:
		w.b.WriteString(`[^\x00-\x{10FFFF}]`)
		return
	case len(n.spans) == 1 && !n.negated && n.spans[0].from == n.spans[0].to:
		w.b.WriteString(regexp.QuoteMeta(string(n.spans[0].from)))
		return
	}
	w.b.WriteByte('[')
	if n.negated {
		w.b.WriteByte('^')
	}
	escape := func(c rune) {
		if c < ' ' {
			w.b.WriteString(`\x{` + strconv.FormatInt(int64(c), 16) + "}")
			return
		}
		if strings.ContainsRune(`\]^-[`, c) {
			w.b.WriteByte('\\')
		}
		w.b.WriteRune(c)
	}
	for _, s := range n.spans {
		escape(s.from)
		if s.to != s.from {
			w.b.WriteByte('-')
			escape(s.to)
		}
	}
	w.b.WriteByte(']')
}

func (n sequence) write(w *writer) {
	for _, part := range n {
		if _, ok := part.node.(either); ok {
			w.b.WriteString("(?:")
			part.write(w)
			w.b.WriteByte(')')
			continue
		}
		part.write(w)
	}
}

func (n either) write(w *writer) {
	for i, part := range n {
		if i > 0 {
			w.b.WriteByte('|')
		}
		part.write(w)
	}
}

// write appends the first part that is not a complement: it matches a superset of the intersection.
func (n both) write(w *writer) {
	w.exact = false
	for _, part := range n {
		if _, ok := part.(not); !ok {
			w.b.WriteString("(?:")
			part.write(w)
			w.b.WriteByte(')')
			return
		}
	}
	w.b.WriteString(".*")
}

func (n not) write(w *writer) {
	w.exact = false
	w.b.WriteString(".*")
}

func (n repeat) write(w *writer) {
	w.b.WriteString("(?:")
	n.node.write(w)
	w.b.WriteByte(')')
	switch {
	case n.most == 1 && n.least == 0:
		w.b.WriteByte('?')
	case n.most < 0 && n.least == 0:
		w.b.WriteByte('*')
	case n.most < 0 && n.least == 1:
		w.b.WriteByte('+')
	case n.most < 0:
		w.b.WriteString("{" + strconv.Itoa(n.least) + ",}")
	default:
		w.b.WriteString("{" + strconv.Itoa(n.least) + "," + strconv.Itoa(n.most) + "}")
	}
}

// write appends the numbers by their lengths, each of which has few alternatives.
func (n numbers) write(w *writer) {
	low, high := strconv.Itoa(n.low), strconv.Itoa(n.high)
	w.b.WriteString("(?:")
	if n.width > 0 {
		w.digits(strings.Repeat("0", n.width-len(low))+low, strings.Repeat("0", n.width-len(high))+high)
		w.b.WriteByte(')')
		return
	}
	w.b.WriteString("0*(?:")
	for size := len(low); size <= len(high); size++ {
		from, to := "1"+strings.Repeat("0", size-1), strings.Repeat("9", size)
		if size == len(low) {
			from = low
		} else {
			w.b.WriteByte('|')
		}
		if size == len(high) {
			to = high
		}
		w.digits(from, to)
	}
	w.b.WriteString("))")
}

// digits appends the numbers between two of the same length, as alternatives.
func (w *writer) digits(from, to string) {
	rest := len(from) - 1
	switch {
	case rest < 0:
		return
	case from[0] == to[0]:
		w.b.WriteString(from[:1] + "(?:")
		w.digits(from[1:], to[1:])
		w.b.WriteByte(')')
		return
	}
	w.b.WriteString(from[:1] + "(?:")
	w.digits(from[1:], strings.Repeat("9", rest))
	w.b.WriteString(")|")
	if from[0]+1 < to[0] {
		w.b.WriteString("[" + string(from[0]+1) + "-" + string(to[0]-1) + "]" + strings.Repeat("[0-9]", rest) + "|")
	}
	w.b.WriteString(to[:1] + "(?:")
	w.digits(strings.Repeat("0", rest), to[1:])
	w.b.WriteByte(')')
}
