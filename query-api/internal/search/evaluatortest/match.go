package evaluatortest

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// place is the document that a node is matched with: a person, or one of its nested documents.
type place struct {
	document *document
	unit     unit
}

// content returns a field at a place, empty if it is missing.
func (p place) content(f algebra.Field) *content {
	of := p.unit
	if f.Identity {
		of = p.document.root
	}
	if c := of[f.Path]; c != nil {
		if f.Subfield != "" {
			return &content{texts: c.texts, tokens: c.subfields[f.Subfield]}
		}
		return c
	}
	return &content{}
}

// terms returns the terms of a field at a place, with repetitions.
func (p place) terms(f algebra.Field) []string {
	c := p.content(f)
	if !f.IsText() {
		return c.terms
	}
	out := make([]string, len(c.tokens))
	for i, t := range c.tokens {
		out[i] = t.Text
	}
	return out
}

// evaluation is the state of evaluating one query.
type evaluation struct {
	*Collection
	// blends are the terms of each blend of the query.
	blends map[int][]algebra.Term
	next   int // number of the next blend of an expansion
}

// matches reports whether a node matches, and its score.
func (e *evaluation) matches(n algebra.Node, p place) (score float64, ok bool) {
	switch n := n.(type) {
	case algebra.All:
		return 1, true
	case algebra.Term:
		return e.term(n, p)
	case algebra.Set:
		return 1, e.inSet(n, p)
	case algebra.Phrase:
		return e.phrase(n, p)
	case algebra.Combined:
		return e.combined(n, p)
	case algebra.Range:
		return 1, inRange(n, p)
	case algebra.Pattern:
		return 1, slices.ContainsFunc(p.terms(n.Field), func(t string) bool { return fits(n, t) })
	case algebra.Exists:
		c := p.content(n.Field)
		if n.Field.IsText() {
			return 1, len(c.texts) > 0
		}
		return 1, len(c.terms)+len(c.numbers) > 0
	case algebra.Bool:
		return e.boolean(n, p)
	case algebra.DisMax:
		best, sum := 0.0, 0.0
		for _, m := range n.Nodes {
			if s, matches := e.matches(m, p); matches {
				best, sum, ok = max(best, s), sum+s, true
			}
		}
		return best + n.Tie*(sum-best), ok
	case algebra.Boost:
		score, ok = e.matches(n.Node, p)
		return score * n.Factor, ok
	case algebra.Constant:
		_, ok = e.matches(n.Node, p)
		return n.Score, ok
	case algebra.Nested:
		return e.nested(n, p)
	case algebra.Function:
		return e.function(n, p)
	}
	return 0, false // None
}

func (e *evaluation) boolean(n algebra.Bool, p place) (score float64, ok bool) {
	for _, m := range n.Must {
		s, ok := e.matches(m, p)
		if !ok {
			return 0, false
		}
		score += s
	}
	for _, m := range n.Filter {
		if _, ok := e.matches(m, p); !ok {
			return 0, false
		}
	}
	for _, m := range n.MustNot {
		if _, ok := e.matches(m, p); ok {
			return 0, false
		}
	}
	found := 0
	for _, m := range n.Should {
		if s, ok := e.matches(m, p); ok {
			found++
			score += s
		}
	}
	if n.MinimumField == nil {
		return score, found >= n.Minimum
	}
	wanted := p.content(*n.MinimumField).numbers
	if len(wanted) != 1 {
		return 0, false // Without the field of the minimum, nothing matches.
	}
	return score, int64(found) >= max(wanted[0], 1)
}

func (e *evaluation) nested(n algebra.Nested, p place) (float64, bool) {
	var scores []float64
	for _, u := range p.document.elements[n.Path] {
		if s, ok := e.matches(n.Node, place{p.document, u}); ok {
			scores = append(scores, s)
		}
	}
	if len(scores) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, s := range scores {
		sum += s
	}
	switch n.Mode {
	case algebra.ScoreNone:
		return 0, true
	case algebra.ScoreSum:
		return sum, true
	case algebra.ScoreMin:
		return slices.Min(scores), true
	case algebra.ScoreMax:
		return slices.Max(scores), true
	}
	return sum / float64(len(scores)), true
}

func (e *evaluation) inSet(n algebra.Set, p place) bool {
	if n.Field.IsString() || n.Field.Type == readmodel.SearchBoolean {
		return slices.ContainsFunc(p.terms(n.Field), func(t string) bool { return slices.Contains(n.Values, t) })
	}
	return slices.ContainsFunc(p.content(n.Field).numbers, func(v int64) bool {
		return slices.Contains(n.Values, strconv.FormatInt(v, 10))
	})
}

func inRange(n algebra.Range, p place) bool {
	if !n.Field.IsString() {
		return slices.ContainsFunc(p.content(n.Field).numbers, func(v int64) bool { return v >= n.Min && v <= n.Max })
	}
	return slices.ContainsFunc(p.terms(n.Field), func(t string) bool {
		if b := n.Lower; b != nil && (t < b.Text || t == b.Text && !b.Inclusive) {
			return false
		}
		if b := n.Upper; b != nil && (t > b.Text || t == b.Text && !b.Inclusive) {
			return false
		}
		return true
	})
}

// fits reports whether a term matches a pattern.
func fits(n algebra.Pattern, term string) bool {
	text := n.Text
	if n.Kind != algebra.Regexp && n.Insensitive {
		term, text = lowerASCII(term), lowerASCII(text)
	}
	switch n.Kind {
	case algebra.Prefix:
		return strings.HasPrefix(term, text)
	case algebra.Whole:
		return term == text
	case algebra.Wildcard:
		return wild([]rune(text), []rune(term))
	}
	found := regexp.MustCompile(n.Expression).MatchString(term)
	if found && n.Regexp != nil {
		found, _ = n.Regexp.Match(context.Background(), term) // It fails only with the context.
	}
	return found
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// wild matches * and ?. It backtracks to the last * only: those before it have matched as little as possible.
func wild(pattern, term []rune) bool {
	starred := false
	var behind, from []rune // the pattern after the last *, and where it was tried last
	for len(pattern) > 0 || len(term) > 0 {
		switch n := one(pattern, term); {
		case n > 0:
			pattern, term = pattern[n:], term[1:]
		case len(pattern) > 0 && pattern[0] == '*':
			pattern = pattern[1:]
			starred, behind, from = true, pattern, term
		case starred && len(from) > 0:
			from = from[1:]
			pattern, term = behind, from
		default:
			return false
		}
	}
	return true
}

// one returns the length of the prefix of a pattern that matches the first character of a term, or 0.
func one(pattern, term []rune) int {
	switch {
	case len(pattern) == 0, len(term) == 0, pattern[0] == '*':
		return 0
	case pattern[0] == '\\' && len(pattern) > 1 && pattern[1] == term[0]:
		return 2
	case pattern[0] == '?', pattern[0] == term[0] && (pattern[0] != '\\' || len(pattern) == 1):
		return 1
	}
	return 0
}

// expand replaces prefixes, patterns and fuzzy words by the terms that exist.
func (e *evaluation) expand(n algebra.Node) (algebra.Node, error) {
	return algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) {
		switch n := n.(type) {
		case algebra.Fuzzy:
			return e.fuzzy(n)
		case algebra.Pattern:
			if n.Rewrite == algebra.RewriteDefault {
				return n, nil
			}
			var list []candidateTerm
			for _, t := range e.dictionary(n.Field, func(t string) bool { return fits(n, t) }) {
				list = append(list, candidateTerm{t, 1})
			}
			return e.anyTerm(n.Field, n.Rewrite, list[:min(len(list), n.Expansions)])
		case algebra.Phrase:
			if !n.PrefixLast {
				return n, nil
			}
			last := len(n.Terms) - 1
			list := e.dictionary(n.Field, func(t string) bool { return strings.HasPrefix(t, n.Terms[last][0]) })
			list = list[:min(len(list), n.Expansions)]
			if len(list) == 0 {
				return algebra.None{}, nil
			}
			if last == 0 { // Each word has its own score.
				any := algebra.Bool{Minimum: 1}
				for _, t := range list {
					any.Should = append(any.Should, algebra.Term{Field: n.Field, Text: t})
				}
				return any, nil
			}
			n.Terms = append(slices.Clone(n.Terms[:last]), list)
			n.PrefixLast = false
			return n, nil
		}
		return n, nil
	})
}

// candidateTerm is a term of an expansion with its boost.
type candidateTerm struct {
	term  string
	count float64
}

func (e *evaluation) fuzzy(n algebra.Fuzzy) (algebra.Node, error) {
	var list []candidateTerm
	length := utf8.RuneCountInString(n.Text)
	prefix := string([]rune(n.Text)[:min(n.PrefixLength, length)])
	e.dictionary(n.Field, func(t string) bool {
		if d := distance([]rune(n.Text), []rune(t), n.Transpositions); strings.HasPrefix(t, prefix) && d <= n.Edits {
			count := 1.0
			if d > 0 {
				count = 1 - float64(d)/float64(min(length, utf8.RuneCountInString(t)))
			}
			list = append(list, candidateTerm{t, count})
		}
		return false
	})
	// The most similar terms, ties in alphabetical order, in their original order.
	slices.SortStableFunc(list, func(a, b candidateTerm) int {
		switch {
		case math.Abs(a.count-b.count) < 1e-6:
			return 0
		case a.count > b.count:
			return -1
		}
		return 1
	})
	if n.Rewrite == algebra.RewriteConstant {
		set := algebra.Set{Field: n.Field}
		for _, t := range list {
			set.Values = append(set.Values, t.term)
		}
		return set, nil
	}
	return e.anyTerm(n.Field, n.Rewrite, list[:min(len(list), n.Expansions)])
}

// anyTerm returns the disjunction of the terms of an expansion.
func (e *evaluation) anyTerm(f algebra.Field, how algebra.RewriteMethod, list []candidateTerm) (algebra.Node, error) {
	if len(list) == 0 {
		return algebra.None{}, nil
	}
	if len(list) > 1024 {
		return nil, errors.New("too many terms")
	}
	e.next--
	any := algebra.Bool{Minimum: 1}
	for _, t := range list {
		var n algebra.Node = algebra.Term{Field: f, Text: t.term}
		switch how {
		case algebra.RewriteTopTermsBoost:
			n = algebra.Set{Field: f, Values: []string{t.term}}
		case algebra.RewriteScored:
		default:
			n = algebra.Term{Field: f, Text: t.term, Blend: e.next}
		}
		any.Should = append(any.Should, algebra.Boost{Node: n, Factor: max(0, t.count)})
	}
	return any, nil
}

// distance returns the edit distance of two words; swapping adjacent characters may be one edit.
func distance(a, b []rune, swaps bool) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	known := make([][]int, len(a)+1)
	for i := range known {
		known[i] = make([]int, len(b)+1)
		known[i][0] = i
	}
	for j := range known[0] {
		known[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := known[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			known[i][j] = min(known[i-1][j]+1, known[i][j-1]+1, replace)
			if swaps && i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				known[i][j] = min(known[i][j], known[i-2][j-2]+1)
			}
		}
	}
	return known[len(a)][len(b)]
}
