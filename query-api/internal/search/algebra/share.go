package algebra

import (
	"strconv"
	"strings"
)

// ShareStatistics gives a term that occurs several times among optional clauses, always with the same boost, the
// statistics of its first occurrence. Lucene merges such clauses into one; the expansions of several fuzzy words often
// share terms. If the boosts differ, which statistics Lucene takes is undefined, and each occurrence keeps its own.
func ShareStatistics(n Node) Node {
	switch m := n.(type) {
	case Bool:
		m.Must, m.Filter, m.MustNot = shareEach(m.Must), shareEach(m.Filter), shareEach(m.MustNot)
		if m.Minimum <= 1 && m.MinimumField == nil {
			m.Should = newSharing().list(m.Should)
		} else {
			m.Should = shareEach(m.Should)
		}
		return m
	case DisMax:
		if m.Tie == 1 {
			m.Nodes = newSharing().list(m.Nodes)
		} else {
			m.Nodes = shareEach(m.Nodes)
		}
		return m
	case Boost:
		m.Node = ShareStatistics(m.Node)
		return m
	case Constant:
		m.Node = ShareStatistics(m.Node)
		return m
	case Nested:
		m.Node = ShareStatistics(m.Node)
		return m
	case Function:
		m.Node = ShareStatistics(m.Node)
		return m
	}
	return n
}

func shareEach(nodes []Node) []Node {
	out := make([]Node, len(nodes))
	for i, n := range nodes {
		out[i] = ShareStatistics(n)
	}
	return out
}

// occurrence is what must be equal for terms to be merged.
type occurrence struct {
	field, text string
	boost       float32
}

// sharing visits optional clauses in their order.
type sharing struct{ first map[occurrence]Term }

func newSharing() *sharing { return &sharing{first: make(map[occurrence]Term)} }

// list visits clauses whose scores are added. Equal expansions are merged as a whole, and their terms with no others.
func (s *sharing) list(nodes []Node) []Node {
	names := make([]string, len(nodes))
	times, firsts := make(map[string]int), make(map[string]Node)
	for i, n := range nodes {
		if names[i] = expansion(n); names[i] != "" {
			times[names[i]]++
			if firsts[names[i]] == nil {
				firsts[names[i]] = n
			}
		}
	}
	out := make([]Node, len(nodes))
	for i, n := range nodes {
		if out[i] = firsts[names[i]]; times[names[i]] < 2 {
			out[i] = s.node(n)
		}
	}
	return out
}

// node visits what Lucene flattens: groups without a boost.
func (s *sharing) node(n Node) Node {
	switch m := n.(type) {
	case Term:
		return s.term(m, 1)
	case Boost:
		if t, ok := m.Node.(Term); ok {
			m.Node = s.term(t, float32(m.Factor))
			return m
		}
		if m.Factor == 1 {
			m.Node = s.node(m.Node)
			return m
		}
	case Bool:
		switch others := len(m.Filter) + len(m.MustNot); {
		case m.Minimum > 1 || m.MinimumField != nil:
		case others+len(m.Must) == 0:
			m.Should = s.list(m.Should)
			return m
		case others+len(m.Should) == 0 && len(m.Must) == 1:
			m.Must = []Node{s.node(m.Must[0])}
			return m
		}
	case DisMax:
		if m.Tie == 1 || len(m.Nodes) == 1 {
			m.Nodes = s.list(m.Nodes)
			return m
		}
	}
	return ShareStatistics(n)
}

func (s *sharing) term(t Term, boost float32) Term {
	if t.Across || t.Absent {
		return t
	}
	key := occurrence{t.Field.Name(), t.Text, boost}
	first, seen := s.first[key]
	switch {
	case !seen:
		s.first[key] = t
	case first.Statistics() == t.Statistics():
	case first.Statistics() == 0:
		t.As = OwnStatistics
	default:
		t.As = first.Statistics()
	}
	return t
}

// expansion returns a key of an expansion, its terms with their boosts, or "" for other nodes.
func expansion(n Node) string {
	list, ok := n.(Bool)
	if !ok || len(list.Must)+len(list.Filter)+len(list.MustNot) > 0 || len(list.Should) < 2 {
		return ""
	}
	var b strings.Builder
	for _, n := range list.Should {
		boost, isBoost := n.(Boost)
		t, isTerm := boost.Node.(Term)
		if !isBoost || !isTerm || t.Across {
			return ""
		}
		b.WriteString(t.Field.Name() + "\x00" + t.Text + "\x00" + strconv.FormatFloat(boost.Factor, 'g', -1, 64) + "\x00")
	}
	return b.String()
}
