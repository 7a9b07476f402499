package clause

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
)

// fuzziness is the maximum edit distance: a number, or by the length of the term.
type fuzziness struct {
	given     bool
	auto      bool
	edits     int
	low, high int // AUTO: below low none, below high one, else two
}

// parseFuzziness parses AUTO, AUTO:low,high or a number, which is truncated and limited to two.
func parseFuzziness(v value) (fuzziness, error) {
	f := fuzziness{given: true, low: 3, high: 6}
	fail := v.errorf("fuzziness must be a number of 0 or more, AUTO or AUTO:low,high")
	if v.kind != '"' && v.kind != '0' {
		return f, fail
	}
	text := strings.ToUpper(v.text)
	if rest, ok := strings.CutPrefix(text, "AUTO"); ok {
		f.auto = true
		if rest == "" {
			return f, nil
		}
		bounds, named := strings.CutPrefix(rest, ":")
		low, high, ok := strings.Cut(bounds, ",")
		var errLow, errHigh error
		f.low, errLow = strconv.Atoi(low)
		f.high, errHigh = strconv.Atoi(high)
		if !named || !ok || errLow != nil || errHigh != nil || f.low < 0 || f.low > f.high {
			return f, fail
		}
		return f, nil
	}
	x, ok := javaFloat(text, 64)
	if !ok || x < 0 {
		return f, fail
	}
	f.edits = int(min(x, 2))
	return f, nil
}

// of returns the maximum edit distance of a term.
func (f fuzziness) of(term string) int {
	if !f.auto {
		return f.edits
	}
	switch n := utf8.RuneCountInString(term); {
	case n < f.low:
		return 0
	case n < f.high:
		return 1
	}
	return 2
}

// fuzziness reads the parameters that match clauses share with fuzzy.
func (a *args) fuzziness(m *matching) error {
	m.prefixLength = a.integer("prefix_length", 0, 0, MaxAnalyzed)
	m.expansions = a.expansions("max_expansions")
	m.transpositions = a.flag("fuzzy_transpositions", true)
	m.rewrite = a.rewrite("fuzzy_rewrite")
	if at, ok := a.get("fuzziness"); ok && at.kind != 'n' {
		f, err := parseFuzziness(at)
		if err != nil {
			return err
		}
		m.fuzzy = f
	}
	return nil
}

// word returns the node of one word of a text, fuzzy if the clause is.
func (l *lowering) word(f algebra.Field, term string, m matching) algebra.Node {
	if !m.fuzzy.given {
		return algebra.Term{Field: f, Text: term}
	}
	return fuzzyTerm(f, term, m)
}

func fuzzyTerm(f algebra.Field, term string, m matching) algebra.Node {
	edits := m.fuzzy.of(term)
	if edits == 0 {
		if m.rewrite.how == algebra.RewriteConstant || m.rewrite.how == algebra.RewriteTopTermsBoost {
			return algebra.Set{Field: f, Values: []string{term}}
		}
		return algebra.Term{Field: f, Text: term}
	}
	n := algebra.Fuzzy{
		Field: f, Text: term, Edits: edits, PrefixLength: m.prefixLength, Expansions: m.expansions,
		Transpositions: m.transpositions, Rewrite: m.rewrite.how,
	}
	if m.rewrite.terms > 0 {
		n.Expansions = m.rewrite.terms
	}
	return n
}

func lowerFuzzy(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "value", func(f algebra.Field, a *args) (algebra.Node, error) {
		at := a.must("value")
		m := matching{fuzzy: fuzziness{given: true, auto: true, low: 3, high: 6}}
		m.prefixLength = a.integer("prefix_length", 0, 0, MaxAnalyzed)
		m.expansions = a.expansions("max_expansions")
		m.transpositions = a.flag("transpositions", true)
		m.rewrite = a.rewrite("rewrite")
		if fuzz, ok := a.get("fuzziness"); ok && fuzz.kind != 'n' {
			var err error
			if m.fuzzy, err = parseFuzziness(fuzz); err != nil {
				return nil, err
			}
		}
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		text, err := at.scalar()
		if err != nil {
			return nil, err
		}
		switch {
		case !f.IsString():
			return nil, at.errorf("can only use fuzzy queries on text fields, not on %s", f.Name())
		case text == "":
			return algebra.None{}, nil
		case len(text) > MaxAnalyzed:
			return nil, at.errorf("is longer than %d bytes", MaxAnalyzed)
		}
		return boosted(l.leaf(f, fuzzyTerm(f, text, m)), boost), nil
	})
}
