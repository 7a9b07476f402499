package sloppyphrase

import (
	"cmp"
	"slices"
)

// Term is one position of a phrase.
type Term struct {
	// Offset is its position in the phrase.
	Offset int
	// Words are the alternatives at the position.
	Words []string
	// Positions are the positions of any of them in the text, in order.
	Positions []int
}

// mover is a term at one of its positions.
type mover struct {
	*Term
	next     int // in Positions
	position int // in the text, less the offset
	order    int
	group    int // of terms that share words; -1: none
	index    int // in the group
}

// advance moves to the next position. It returns false if there is none.
func (m *mover) advance() bool {
	if m.next >= len(m.Positions) {
		return false
	}
	m.position = m.Positions[m.next] - m.Offset
	m.next++
	return true
}

func (m *mover) place() int { return m.position + m.Offset }

// before compares terms by the order in which they advance.
func before(a, b *mover) int {
	return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.order, b.order))
}

// matcher is the state of matching one text.
type matcher struct {
	all    []*mover
	queue  []*mover // in order
	groups [][]*mover
	multi  bool // a term of a group may be one of several words
	end    int  // greatest position
}

// Frequency returns the frequency of the phrase, 0 without a match.
func Frequency(terms []Term, slop int) float64 {
	m := matcher{}
	for i := range terms {
		m.all = append(m.all, &mover{Term: &terms[i], order: i, group: -1})
	}
	if len(m.all) == 0 || !m.begin() {
		return 0
	}
	frequency := 0.0
	for {
		length, more := m.match(slop)
		if length <= slop {
			frequency += 1 / (1 + float64(length))
		}
		if !more {
			return frequency
		}
	}
}

// begin moves each term to its first position, and terms that share words to different ones. It returns false if there
// is no match.
func (m *matcher) begin() bool {
	for _, p := range m.all {
		if !p.advance() {
			return false
		}
	}
	m.group()
	if !m.spread() {
		return false
	}
	m.end = m.all[0].position
	for _, p := range m.all {
		m.end = max(m.end, p.position)
		m.queue = append(m.queue, p)
	}
	slices.SortFunc(m.queue, before)
	return true
}

// group groups the terms that share a word, directly or transitively.
func (m *matcher) group() {
	for i, p := range m.all {
		for _, q := range m.all[:i] {
			if q.Offset == p.Offset ||
				!slices.ContainsFunc(p.Words, func(w string) bool { return slices.Contains(q.Words, w) }) {
				continue
			}
			m.multi = m.multi || len(p.Words) > 1 || len(q.Words) > 1
			switch {
			case p.group < 0 && q.group < 0:
				p.group, q.group = len(m.groups), len(m.groups)
				m.groups = append(m.groups, []*mover{q, p})
			case p.group < 0:
				p.group = q.group
				m.groups[q.group] = append(m.groups[q.group], p)
			case q.group < 0:
				q.group = p.group
				m.groups[p.group] = append(m.groups[p.group], q)
			case p.group != q.group:
				from := q.group
				for _, r := range m.groups[from] {
					r.group = p.group
				}
				m.groups[p.group] = append(m.groups[p.group], m.groups[from]...)
				m.groups[from] = nil
			}
		}
	}
	for _, g := range m.groups {
		slices.SortFunc(g, func(a, b *mover) int { return cmp.Compare(a.Offset, b.Offset) })
		for i, p := range g {
			p.index = i
		}
	}
}

// spread moves the terms of each group to different positions.
func (m *matcher) spread() bool {
	for _, g := range m.groups {
		if !m.multi {
			for i, p := range g {
				for range i {
					if !p.advance() {
						return false
					}
				}
			}
			continue
		}
		for i := 0; i < len(g); {
			step := 1
			for other := m.collision(g[i]); other != nil; other = m.collision(g[i]) {
				p := lesser(g[i], other)
				if !p.advance() {
					return false
				}
				if p.index < i {
					i, step = p.index, 0
					break
				}
			}
			i += step
		}
	}
	return true
}

// collision returns another term of the group at the same position, or nil.
func (m *matcher) collision(p *mover) *mover {
	for _, q := range m.groups[p.group] {
		if q != p && q.place() == p.place() {
			return q
		}
	}
	return nil
}

func lesser(a, b *mover) *mover {
	if a.position < b.position || a.position == b.position && a.Offset < b.Offset {
		return a
	}
	return b
}

func (m *matcher) move(p *mover) bool {
	if !p.advance() {
		return false
	}
	m.end = max(m.end, p.position)
	return true
}

// pop removes the term that advances next.
func (m *matcher) pop() *mover {
	p := m.queue[0]
	m.queue = m.queue[1:]
	return p
}

func (m *matcher) push(p *mover) {
	at, _ := slices.BinarySearchFunc(m.queue, p, before)
	m.queue = slices.Insert(slices.Clone(m.queue), at, p)
}

// match advances to the next match and returns its length. If more is false there is none after it, and the length may
// exceed the slop.
func (m *matcher) match(slop int) (length int, more bool) {
	p := m.pop()
	length = m.end - p.position
	next := m.front(p)
	for m.move(p) {
		if p.group >= 0 && !m.part(p) {
			break
		}
		if p.position > next {
			m.push(p)
			if length <= slop {
				return length, true
			}
			p = m.pop()
			next = m.front(p)
			length = m.end - p.position
		} else {
			length = min(length, m.end-p.position)
		}
	}
	return length, false
}

// front returns the position of the term that advances after p.
func (m *matcher) front(p *mover) int {
	if len(m.queue) == 0 {
		return p.position
	}
	return m.queue[0].position
}

// part advances terms of p's group until no two are at one position.
func (m *matcher) part(p *mover) bool {
	own := p
	moved := false
	for other := m.collision(p); other != nil; other = m.collision(p) {
		p = lesser(p, other)
		if !m.move(p) {
			return false
		}
		moved = moved || p != own
	}
	if moved {
		slices.SortFunc(m.queue, before)
	}
	return true
}
