package planner

import "muster/query-api/internal/search/algebra"

func (c *compiler) boolean(n algebra.Bool, s *scope) string {
	var parts []string
	for _, list := range [][]algebra.Node{n.Must, n.Filter} {
		for _, m := range list {
			parts = append(parts, c.match(m, s))
		}
	}
	for _, m := range n.MustNot {
		parts = append(parts, not(c.match(m, s)))
	}
	parts = append(parts, c.least(n, s))
	return and(parts...)
}

// least is the condition that enough of should match.
func (c *compiler) least(n algebra.Bool, s *scope) string {
	list := make([]string, len(n.Should))
	for i, m := range n.Should {
		list[i] = c.match(m, s)
	}
	switch {
	case n.MinimumField != nil:
		field := *n.MinimumField
		if s.many(field) || s.nested() != (field.Nested != "") {
			return no
		}
		value := s.column(field.Column)
		// A person without the number is never found.
		return "(" + value + " > -9223372036854775808 AND " + sum(list) + " >= greatest(" + value + ", 1))"
	case n.Minimum <= 0:
		return yes
	case n.Minimum == 1:
		return or(list...)
	case n.Minimum == len(list):
		return and(list...)
	}
	// The disjunction lets the index find the candidates.
	return and(or(list...), "("+sum(list)+" >= "+c.int(int64(n.Minimum))+")")
}

func sum(list []string) string {
	if len(list) == 0 {
		return no
	}
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = "toInt64(" + e + ")"
	}
	return plus(parts)
}

// necessary is a condition on the row, answered by an index, that holds
// wherever an element matches a node: what finds the candidates of a nested
// clause. It is yes when there is none.
func (c *compiler) necessary(n algebra.Node, root *scope) string {
	switch n := n.(type) {
	case algebra.None:
		return no
	case algebra.Term:
		if n.Absent {
			return no
		}
		if n.Field.IsText() && n.Field.Indexed || n.Field.Keyword && n.Field.KeywordIndexed {
			return c.term(n.Field, n.Text, root)
		}
	case algebra.Phrase:
		if n.Field.Indexed {
			return c.words(n, root)
		}
	case algebra.Set:
		if n.Field.IsText() && n.Field.Indexed || n.Field.Keyword && n.Field.KeywordIndexed || n.Field.Identity {
			return c.set(n, root)
		}
	case algebra.Boost:
		return c.necessary(n.Node, root)
	case algebra.Constant:
		return c.necessary(n.Node, root)
	case algebra.Function:
		return c.necessary(n.Node, root)
	case algebra.Nested:
		return c.necessary(n.Node, root)
	case algebra.DisMax:
		list := make([]string, len(n.Nodes))
		for i, m := range n.Nodes {
			list[i] = c.necessary(m, root)
		}
		return or(list...)
	case algebra.Bool:
		var parts []string
		for _, list := range [][]algebra.Node{n.Must, n.Filter} {
			for _, m := range list {
				parts = append(parts, c.necessary(m, root))
			}
		}
		if n.Minimum > 0 && n.MinimumField == nil {
			list := make([]string, len(n.Should))
			for i, m := range n.Should {
				list[i] = c.necessary(m, root)
			}
			if n.Minimum == len(list) {
				parts = append(parts, list...)
			} else {
				parts = append(parts, or(list...))
			}
		}
		return and(parts...)
	}
	return yes
}
