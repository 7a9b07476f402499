package planner

import (
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// phrase returns the condition that a phrase without slop occurs: its terms do, which the index knows, and are
// adjacent.
func (c *compiler) phrase(n algebra.Phrase, s *scope) string {
	terms := c.candidates(n, s)
	switch {
	case terms == yes:
		return no
	case len(n.Terms) == 1:
		return terms
	}
	return and(terms, "("+c.frequency(n, s)+" > 0)")
}

// candidates returns the condition that the terms of a phrase occur, at any position.
func (c *compiler) candidates(n algebra.Phrase, s *scope) string {
	conditions := []string{c.words(n, s)}
	for _, position := range n.Terms {
		if len(position) > 1 {
			conditions = append(conditions, "hasAny("+c.tokens(n.Field, s)+", "+c.strs(position)+")")
		}
	}
	return and(conditions...)
}

// words returns the condition that the terms of a phrase occur. Of a long phrase it checks only the first ones.
func (c *compiler) words(n algebra.Phrase, s *scope) string {
	var parts []string
	seen := make(map[string]bool)
	for _, position := range n.Terms {
		if len(position) != 1 || seen[position[0]] || long(n) && len(parts) == longPhrase {
			continue
		}
		seen[position[0]] = true
		parts = append(parts, c.term(n.Field, position[0], s))
	}
	return and(parts...)
}

// frequency returns the frequency of a phrase without slop.
func (c *compiler) frequency(n algebra.Phrase, s *scope) string {
	if s.many(n.Field) {
		// Positions of different elements are far apart.
		return "arraySum(e -> " + c.occurrences(n, "e") + ", " + c.tokenLists(n.Field) + ")"
	}
	return c.occurrences(n, c.tokens(n.Field, s))
}

// occurrences counts the positions in a list of tokens at which the terms follow each other.
func (c *compiler) occurrences(n algebra.Phrase, tokens string) string {
	if long(n) {
		return c.longOccurrences(n, tokens)
	}
	var names, conditions, lists []string
	for i, position := range n.Terms {
		if len(position) == 0 {
			continue
		}
		name := "t" + strconv.Itoa(i)
		names = append(names, name)
		conditions = append(conditions, c.oneOf(name, position))
		if i == 0 {
			lists = append(lists, tokens)
		} else {
			lists = append(lists, "arrayShiftLeft("+tokens+", "+strconv.Itoa(i)+")")
		}
	}
	return "arrayCount((" + strings.Join(names, ", ") + ") -> " + and(conditions...) +
		", " + strings.Join(lists, ", ") + ")"
}

// longPhrase is the number of words from which a statement has the phrase as one value: planning time grows with the
// text of the statement.
const longPhrase = 16

// long reports whether a phrase is long and has one word at each position, except the last, which may be a prefix.
func long(n algebra.Phrase) bool {
	last := len(n.Terms) - 1
	return n.Slop == 0 && last > longPhrase && len(n.Terms[last]) > 0 &&
		!slices.ContainsFunc(n.Terms[:last], func(p []string) bool { return len(p) != 1 })
}

// longOccurrences counts the positions at which a long phrase begins.
func (c *compiler) longOccurrences(n algebra.Phrase, tokens string) string {
	last := len(n.Terms) - 1
	words := make([]string, last)
	for i, p := range n.Terms[:last] {
		words[i] = p[0]
	}
	begins := "arraySlice(" + tokens + ", i, " + strconv.Itoa(last) + ") = " + c.param("Array(String)", quoteList(words)) // a table has no order
	ends := c.oneOf("arrayElement("+tokens+", i + "+strconv.Itoa(last)+")", n.Terms[last])
	return "arrayCount(i -> (" + and(begins, ends) +
		"), arrayEnumerate(arraySlice(" + tokens + ", " + strconv.Itoa(last+1) + ")))"
}

func (c *compiler) oneOf(value string, terms []string) string {
	if len(terms) == 1 {
		return "(" + value + " = " + c.str(terms[0]) + ")"
	}
	return "has(" + c.strs(terms) + ", " + value + ")"
}
