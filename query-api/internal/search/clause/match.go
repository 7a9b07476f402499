package clause

import (
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/analysis"
)

// matching has the parameters that the match clauses share.
type matching struct {
	all        bool // operator and
	minimum    string
	hasMinimum bool // minimum is given
	zeroAll    bool // zero_terms_query all
	zeroDrop   bool // a text without tokens is ignored instead of matching nothing
	analyzer   string
	lenient    bool // an invalid number or date matches nothing instead of being an error

	slop           int // of phrases
	fuzzy          fuzziness
	prefixLength   int
	expansions     int
	transpositions bool
	rewrite        rewriting
	gapless        bool // words dropped by an analyzer leave no gap in a phrase
}

func (a *args) matching() matching {
	m := matching{
		all:      a.choice("operator", "or", "or", "and") == "and",
		zeroAll:  a.choice("zero_terms_query", "none", "none", "all") == "all",
		analyzer: a.analyzer("analyzer"),
	}
	m.minimum, m.hasMinimum = a.minimumText()
	return m
}

func lowerMatch(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "query", func(f algebra.Field, a *args) (algebra.Node, error) {
		if at, ok := a.get("type"); ok {
			clause, known := map[string]string{"phrase": "match_phrase", "phrase_prefix": "match_phrase_prefix"}[at.text]
			if !known {
				return nil, at.errorf(
					"match has no type: omit it, or use match_phrase, match_phrase_prefix or multi_match",
				)
			}
			return nil, at.errorf("match has no type: use the clause %s", clause)
		}
		at := a.must("query")
		m := a.matching()
		if err := a.fuzziness(&m); err != nil {
			return nil, err
		}
		m.lenient = a.flag("lenient", false)
		a.noSynonyms()
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		query, err := at.scalar()
		if err != nil {
			return nil, err
		}
		n, err := l.match(f, at, query, m)
		if err != nil {
			if m.lenient && !f.IsString() {
				return algebra.None{}, nil
			}
			return nil, err
		}
		return boosted(n, boost), nil
	})
}

// match lowers a text for one field.
func (l *lowering) match(f algebra.Field, at value, query string, m matching) (algebra.Node, error) {
	if err := m.fits(f, at); err != nil {
		return nil, err
	}
	if !f.IsText() && m.analyzer == "" { // Whole values can be analyzed too.
		if m.fuzzy.given && query != "" {
			return l.leaf(f, fuzzyTerm(f, query, m)), nil
		}
		return l.exact(f, at, query)
	}
	tokens, err := l.analyze(at, query, analyzerOf(f, m.analyzer))
	if err != nil {
		return nil, err
	}
	switch len(tokens) {
	case 0:
		return m.zero(), nil
	case 1:
		return l.token(f, at, tokens[0].Text, m)
	}
	nodes := make([]algebra.Node, len(tokens))
	for i, t := range tokens {
		if nodes[i], err = l.token(f, at, t.Text, m); err != nil {
			return nil, err
		}
	}
	return m.join(at, nodes)
}

// token lowers one of the tokens of a text.
func (l *lowering) token(f algebra.Field, at value, token string, m matching) (algebra.Node, error) {
	if f.IsString() {
		return l.leaf(f, l.word(f, token, m)), nil
	}
	n, err := l.exact(f, at, token)
	if err != nil {
		if m.lenient {
			return algebra.None{}, nil // Other tokens may be numbers or dates.
		}
		return nil, err
	}
	return n, nil
}

// fits rejects fuzziness on fields that are not strings.
func (m matching) fits(f algebra.Field, at value) error {
	if m.fuzzy.given && (!f.IsString() || f.Identity) {
		return at.errorf("can only use fuzziness on text fields, not on %s", f.Name())
	}
	return nil
}

// zero returns the node of a text without tokens (zero_terms_query).
func (m matching) zero() algebra.Node {
	if m.zeroAll {
		return algebra.All{}
	}
	return algebra.None{}
}

// join combines the nodes of the tokens of a text.
func (m matching) join(at value, nodes []algebra.Node) (algebra.Node, error) {
	if m.all {
		if m.hasMinimum {
			// Elasticsearch counts optional clauses, and there are none.
			if n, err := minimum(at, m.minimum, 0); err != nil || n > 0 {
				return algebra.None{}, err
			}
		}
		return algebra.Bool{Must: nodes}, nil
	}
	b := algebra.Bool{Should: nodes}
	if m.hasMinimum {
		n, err := minimum(at, m.minimum, len(nodes))
		if err != nil {
			return nil, err
		}
		b.Minimum = n
	}
	return boolean(b)
}

// wordless reports whether a text has no tokens in a field, so that it is ignored there.
func (l *lowering) wordless(f algebra.Field, at value, text, analyzer string) (bool, error) {
	if !f.IsText() && analyzer == "" {
		return false, nil
	}
	tokens, err := l.tokens(at, text, analyzerOf(f, analyzer)) // They are counted where they are used.
	return len(tokens) == 0, err
}

// analyze returns the tokens of a text, each of which counts as a clause.
func (l *lowering) analyze(at value, query, analyzer string) ([]analysis.Token, error) {
	tokens, err := l.tokens(at, query, analyzer)
	if err != nil {
		return nil, err
	}
	if err := l.count(at, len(tokens)); err != nil {
		return nil, err
	}
	return tokens, l.addTerms(at, len(tokens))
}

// phraseTokens returns the tokens of a phrase, which counts as one clause, or with slop as one for each word.
func (l *lowering) phraseTokens(at value, query string, m matching) ([]analysis.Token, error) {
	if m.slop > 0 {
		return l.analyze(at, query, m.analyzer)
	}
	tokens, err := l.tokens(at, query, m.analyzer)
	if err != nil {
		return nil, err
	}
	if l.phraseWords += len(tokens); l.phraseWords > MaxPhraseWords {
		return nil, l.exceeds(at.errorf("the phrases of the query have more than %d words, each counted for each field",
			MaxPhraseWords))
	}
	if err := l.addTerms(at, len(tokens)); err != nil {
		return nil, err
	}
	return tokens, l.count(at, 1)
}

// tokens returns the tokens of a text.
func (l *lowering) tokens(at value, query, analyzer string) ([]analysis.Token, error) {
	if len(query) > MaxAnalyzed {
		return nil, at.errorf("is longer than %d bytes", MaxAnalyzed)
	}
	var tokens []analysis.Token
	switch analyzer {
	case "":
		tokens = analysis.Analyze(nil, query)
	case foldedAnalyzer:
		tokens = analysis.Folded(nil, query)
	case codeAnalyzer:
		tokens = analysis.Code(nil, query)
	default:
		named, err := analysis.Named(analyzer)
		if err != nil {
			return nil, at.errorf(
				"unknown analyzer %s: known are %s", quote(analyzer), strings.Join(analysis.Names(), ", "),
			)
		}
		tokens = named(nil, query)
	}
	return tokens, nil
}

// The analyzers of subfields, which cannot be named in a query.
const (
	foldedAnalyzer = "." + string(algebra.Folded)
	codeAnalyzer   = "." + string(algebra.Code)
)

// analyzerOf returns the named analyzer, or that of the field if none is named. That of texts is "".
func analyzerOf(f algebra.Field, named string) string {
	if named != "" || f.Subfield == "" {
		return named
	}
	return "." + string(f.Subfield)
}

// normalized returns a prefix or a misspelled word as the analyzer of the field normalizes it: in lower case on
// texts, unchanged on whole values, and as a named analyzer does on both.
func normalized(f algebra.Field, word, analyzer string) string {
	switch {
	case analyzer == "whitespace", analyzer == "keyword", analyzer == "" && !f.IsText():
		return word
	case analyzer == "" && f.Subfield == algebra.Folded:
		return analysis.Fold(strings.ToLower(word))
	}
	return strings.ToLower(word)
}
