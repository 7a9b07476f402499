package highlight

import (
	"context"
	"regexp"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// words are the words of a query in one field, or in several.
type words struct {
	exact   map[string]bool
	tests   []func(word string) bool
	phrases []algebra.Phrase
	known   map[string]bool // results of tests
}

func newWords() *words {
	return &words{exact: make(map[string]bool), known: make(map[string]bool)}
}

// contains reports whether a word is one of the query, other than in a phrase.
func (w *words) contains(word string) bool {
	if w.exact[word] {
		return true
	}
	if len(w.tests) == 0 {
		return false
	}
	result, known := w.known[word]
	if known {
		return result
	}
	for _, test := range w.tests {
		if result = test(word); result {
			break
		}
	}
	const maxKnown = 10_000
	if len(w.known) < maxKnown {
		w.known[word] = result
	}
	return result
}

// collector collects the words of a query by field.
type collector struct{ byField map[string]*words }

func (c *collector) of(f algebra.Field) *words {
	w := c.byField[f.Name()]
	if w == nil {
		w = newWords()
		c.byField[f.Name()] = w
	}
	return w
}

func (c *collector) all(nodes []algebra.Node) {
	for _, n := range nodes {
		c.node(n)
	}
}

func (c *collector) node(n algebra.Node) {
	switch n := n.(type) {
	case algebra.Term:
		c.of(n.Field).exact[n.Text] = true
	case algebra.Set:
		for _, v := range n.Values {
			c.of(n.Field).exact[v] = true
		}
	case algebra.Combined:
		for _, f := range n.Fields {
			c.of(f).exact[n.Text] = true
		}
	case algebra.Phrase:
		c.phrase(n)
	case algebra.Pattern:
		if test := patternTest(n); test != nil {
			w := c.of(n.Field)
			w.tests = append(w.tests, test)
		}
	case algebra.Fuzzy:
		w := c.of(n.Field)
		w.tests = append(w.tests, fuzzyTest(n))
	case algebra.Bool:
		c.all(n.Must)
		c.all(n.Filter)
		c.all(n.Should)
	case algebra.DisMax:
		c.all(n.Nodes)
	case algebra.Boost:
		c.node(n.Node)
	case algebra.Constant:
		c.node(n.Node)
	case algebra.Nested:
		c.node(n.Node)
	case algebra.Function:
		c.node(n.Node)
	}
}

// phrase adds a phrase, or the word that it consists of.
func (c *collector) phrase(n algebra.Phrase) {
	w := c.of(n.Field)
	if len(n.Terms) != 1 {
		w.phrases = append(w.phrases, n)
		return
	}
	for _, word := range n.Terms[0] {
		if n.PrefixLast {
			w.tests = append(w.tests, func(text string) bool { return strings.HasPrefix(text, word) })
		} else {
			w.exact[word] = true
		}
	}
}

// patternTest returns a function that matches words, nil if the pattern cannot be compiled.
func patternTest(n algebra.Pattern) func(string) bool {
	if n.Regexp != nil {
		return func(word string) bool {
			ok, err := n.Regexp.Match(context.Background(), word)
			return ok && err == nil
		}
	}
	e, err := regexp.Compile(planner.Expression(n))
	if err != nil {
		return nil
	}
	return e.MatchString
}

func fuzzyTest(n algebra.Fuzzy) func(string) bool {
	prefix := n.Prefix()
	return func(word string) bool {
		return strings.HasPrefix(word, prefix) && algebra.Edits(n.Text, word, n.Transpositions) <= n.Edits
	}
}

// CountTests returns the number of patterns and fuzzy words of a query, which are matched with each word.
func CountTests(n algebra.Node) int {
	c := collector{byField: make(map[string]*words)}
	c.node(n)
	total := 0
	for _, w := range c.byField {
		total += len(w.tests)
	}
	return total
}
