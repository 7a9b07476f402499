package clause

import (
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/analysis"
)

// maxSlop is the maximum slop.
const maxSlop = 1_000_000

func lowerMatchPhrase(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "query", func(f algebra.Field, a *args) (algebra.Node, error) {
		return l.phraseClause(f, a, false)
	})
}

func lowerMatchPhrasePrefix(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "query", func(f algebra.Field, a *args) (algebra.Node, error) {
		return l.phraseClause(f, a, true)
	})
}

func (l *lowering) phraseClause(f algebra.Field, a *args, prefix bool) (algebra.Node, error) {
	at := a.must("query")
	m := matching{
		zeroAll: a.choice("zero_terms_query", "none", "none", "all") == "all", analyzer: a.analyzer("analyzer"),
		slop: a.integer("slop", 0, 0, maxSlop),
	}
	m.expansions = defaultExpansions
	if prefix {
		m.expansions = a.expansions("max_expansions")
	}
	boost := a.boost()
	if a.err != nil {
		return nil, a.err
	}
	query, err := at.scalar()
	if err != nil {
		return nil, err
	}
	n, err := l.phrase(f, at, query, m, prefix)
	if err != nil {
		return nil, err
	}
	return boosted(n, boost), nil
}

// phrase lowers a text as a phrase.
func (l *lowering) phrase(f algebra.Field, at value, query string, m matching, prefix bool) (algebra.Node, error) {
	if !f.IsText() {
		if prefix && f.IsString() && m.analyzer != "" { // A text without words is ignored.
			tokens, err := l.tokens(at, query, m.analyzer)
			if err != nil {
				return nil, err
			}
			if len(tokens) == 0 {
				return m.zero(), nil
			}
		}
		if prefix && m.lenient {
			return algebra.None{}, nil
		}
		if prefix {
			return nil, at.errorf("Can only use phrase prefix queries on text fields - not on [%s]: use prefix", f.Name())
		}
		if !f.IsString() || m.analyzer == "" {
			return l.exact(f, at, query)
		}
	}
	m.analyzer = analyzerOf(f, m.analyzer)
	tokens, err := l.phraseTokens(at, query, m)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return m.zero(), nil
	}
	if len(tokens) == 1 && !prefix {
		return l.leaf(f, algebra.Term{Field: f, Text: tokens[0].Text}), nil
	}
	if !f.IsText() {
		if m.lenient {
			return algebra.None{}, nil
		}
		return nil, at.errorf("field:[%s] was indexed without position data; cannot run PhraseQuery: search %s",
			f.Name(), f.Path)
	}
	if m.gapless && !prefix { // Elasticsearch keeps the gaps of phrase prefixes.
		for i := range tokens {
			tokens[i].Position = i
		}
	}
	n := algebra.Phrase{Field: f, Terms: positions(tokens), Slop: m.slop, PrefixLast: prefix, Expansions: m.expansions}
	return l.leaf(f, n), nil
}

// positions returns the terms by position. A position without a token accepts any term.
func positions(tokens []analysis.Token) [][]string {
	first := tokens[0].Position
	out := make([][]string, tokens[len(tokens)-1].Position-first+1)
	for _, t := range tokens {
		out[t.Position-first] = append(out[t.Position-first], t.Text)
	}
	return out
}

func lowerMatchBoolPrefix(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "query", func(f algebra.Field, a *args) (algebra.Node, error) {
		at := a.must("query")
		m := matching{all: a.choice("operator", "or", "or", "and") == "and", analyzer: a.analyzer("analyzer")}
		m.minimum, m.hasMinimum = a.minimumText()
		if err := a.fuzziness(&m); err != nil {
			return nil, err
		}
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		query, err := at.scalar()
		if err != nil {
			return nil, err
		}
		n, err := l.boolPrefix(f, at, query, m)
		if err != nil {
			return nil, err
		}
		return boosted(n, boost), nil
	})
}

// boolPrefix lowers a text whose last word may be a prefix.
func (l *lowering) boolPrefix(f algebra.Field, at value, query string, m matching) (algebra.Node, error) {
	if err := m.fits(f, at); err != nil {
		return nil, err
	}
	if !f.IsText() && (m.analyzer == "" || !f.IsString()) {
		if f.IsString() && !f.Identity {
			return l.leaf(f, algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: query}), nil
		}
		return l.exact(f, at, query)
	}
	tokens, err := l.analyze(at, query, analyzerOf(f, m.analyzer))
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return m.zero(), nil
	}
	nodes := make([]algebra.Node, len(tokens))
	for i, t := range tokens {
		// A word that is followed by anything, such as a full stop, is complete.
		if i == len(tokens)-1 && !f.Identity && strings.HasSuffix(strings.ToLower(query), strings.ToLower(t.Text)) {
			nodes[i] = l.leaf(f, algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: t.Text})
		} else {
			nodes[i] = l.leaf(f, l.word(f, t.Text, m))
		}
	}
	if len(nodes) == 1 {
		return nodes[0], nil
	}
	return m.join(at, nodes)
}
