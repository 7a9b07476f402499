package clause

import (
	"strings"

	"muster/query-api/internal/search/algebra"
)

// text lowers a word, or a row of bare words.
func (q *queryString) text(in searched, text string) (algebra.Node, error) {
	if in.exists {
		return q.existing(text)
	}
	if in.named && len(text) > 1 && (text[0] == '<' || text[0] == '>') {
		return q.comparison(in, text[0], text[1:])
	}
	if in.date && len(text) > 1 && q.zone != "" {
		return q.bounded(in, text, text, [2]bool{true, true}) // the day in the zone
	}
	return q.words(in.fields, text)
}

// existing lowers _exists_:name.
func (q *queryString) existing(name string) (algebra.Node, error) {
	list, err := q.l.existing(q.at, name)
	if err != nil {
		return nil, err
	}
	var fields []weighted
	for _, f := range list {
		fields = append(fields, weighted{field: f})
	}
	return q.anyOf(fields), nil
}

func (q *queryString) anyOf(fields []weighted) algebra.Node {
	var nodes []algebra.Node
	for _, w := range fields {
		nodes = append(nodes, q.l.leaf(w.field, algebra.Exists{Field: w.field}))
	}
	return algebra.Constant{Node: algebra.Bool{Should: nodes, Minimum: 1}, Score: 1}
}

// words lowers a row of words by the type of the query. It returns nil if there are no tokens.
func (q *queryString) words(fields []weighted, text string) (algebra.Node, error) {
	m := q.m
	m.all = q.and
	if q.typed == "cross_fields" {
		m.zeroDrop = true
		return q.l.crossFields(q.at, fields, text, m, q.tie)
	}
	return q.over(searched{fields: fields}, func(f algebra.Field) (algebra.Node, error) {
		if empty, err := q.l.wordless(f, q.at, text, m.analyzer); err != nil || empty {
			return nil, err
		}
		switch q.typed {
		case "phrase":
			return q.l.phrase(f, q.at, text, m, false)
		case "phrase_prefix":
			m.expansions = defaultExpansions // fuzzy_max_expansions applies to fuzzy words only.
			return q.l.phrase(f, q.at, text, m, true)
		case "bool_prefix":
			return q.l.boolPrefix(f, q.at, text, m)
		}
		m.slop = 0
		return q.l.match(f, q.at, text, m)
	})
}

// phrase lowers "words"~slop.
func (q *queryString) phrase(in searched, text, slop string) (algebra.Node, error) {
	if in.exists {
		return q.existing(text)
	}
	m := q.m
	m.analyzer = q.quoteAnalyzer
	if x, ok := javaFloat(slop, 32); ok { // Lucene ignores an invalid number.
		m.slop = int(min(max(x, 0), maxSlop))
	}
	in.fields = q.l.suffixed(in.fields, q.quoteSuffix)
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		if empty, err := q.l.wordless(f, q.at, text, m.analyzer); err != nil || empty {
			return nil, err
		}
		return q.l.phrase(f, q.at, text, m, false)
	})
}

// fuzzy lowers word~ or word~1.
func (q *queryString) fuzzy(in searched, text, edits string) (algebra.Node, error) {
	m := q.m
	m.fuzzy.given = true
	switch {
	case strings.EqualFold(edits, "auto"):
		m.fuzzy = fuzziness{given: true, auto: true, low: 3, high: 6}
	case edits != "":
		x, ok := javaFloat(edits, 32)
		if !ok {
			return nil, q.errorf("~ requires a number of edits, not %s", quote(edits))
		}
		m.fuzzy = fuzziness{given: true, edits: int(min(max(x, 0), 2))}
	}
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() {
			return nil, q.errorf("can only use fuzzy queries on text fields, not on %s", f.Name())
		}
		if f.Identity {
			return algebra.None{}, nil
		}
		return q.l.leaf(f, fuzzyTerm(f, normalized(f, text, m.analyzer), m)), nil
	})
}

// star lowers a single *: any of the fields exists.
func (q *queryString) star(in searched) algebra.Node {
	switch {
	case in.everything:
		return algebra.All{}
	case in.exists:
		return algebra.None{} // unknown field
	case in.named:
		return q.anyOf(in.fields)
	}
	var nodes []algebra.Node
	for _, w := range in.fields {
		nodes = append(nodes, boosted(q.anyOf([]weighted{w}), w.boost))
	}
	return disMax(nodes, q.tie)
}

// wildcard lowers a word with * or ?, in lower case on analyzed fields.
func (q *queryString) wildcard(in searched, text string) (algebra.Node, error) {
	if !q.leading && (text[0] == '*' || text[0] == '?') {
		return nil, q.errorf("'*' or '?' not allowed as first character in %s", quote(text))
	}
	beginning, isPrefix := prefixOf(text)
	beginning, err := q.unescape(beginning)
	if err != nil {
		return nil, err
	}
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() || f.Identity && isPrefix {
			return nil, q.errorf("can only use wildcard queries on text fields, not on %s", f.Name())
		}
		if isPrefix && f.IsText() && q.analyzeWildcards {
			return q.l.analyzedPrefix(f, q.at, beginning, q.m.analyzer, q.and, q.rewrite)
		}
		if isPrefix {
			body := beginning
			if f.IsText() {
				body = normalized(f, body, q.m.analyzer)
			}
			return q.l.leaf(f, q.rewrite.of(algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: body})), nil
		}
		// A named analyzer applies to analyzed fields, and to whole values only if patterns are analyzed.
		analyzer := ""
		if f.IsText() || q.analyzeWildcards {
			analyzer = q.m.analyzer
		}
		return q.l.leaf(f,
			q.rewrite.of(algebra.Pattern{Field: f, Kind: algebra.Wildcard, Text: normalized(f, text, analyzer)})), nil
	})
}

// analyzedPrefix lowers a prefix that is analyzed: all tokens but the last are complete. It returns nil if there are
// none.
func (l *lowering) analyzedPrefix(f algebra.Field, at value, text, analyzer string, and bool,
	rewrite rewriting) (algebra.Node, error) {
	tokens, err := l.analyze(at, text, analyzerOf(f, analyzer))
	if err != nil || len(tokens) == 0 {
		return nil, err
	}
	nodes := make([]algebra.Node, len(tokens))
	for i, t := range tokens {
		nodes[i] = l.leaf(f, algebra.Term{Field: f, Text: t.Text})
	}
	last := len(nodes) - 1
	nodes[last] = l.leaf(f, rewrite.of(algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: tokens[last].Text}))
	switch {
	case last == 0:
		return nodes[0], nil
	case and:
		return algebra.Bool{Must: nodes}, nil
	}
	return algebra.Bool{Should: nodes, Minimum: 1}, nil
}

// regexp lowers /expression/. On analyzed fields all of it is in lower case, including \W.
func (q *queryString) regexp(in searched, text string) (algebra.Node, error) {
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() {
			return nil, q.errorf("can only use regexp queries on text fields, not on %s", f.Name())
		}
		m, err := regexpNode(f, q.at, normalized(f, text, q.m.analyzer), "ALL", false, q.rewrite)
		if err != nil {
			return nil, err
		}
		return q.l.leaf(f, m), nil
	})
}

// span lowers [a TO b].
func (q *queryString) span(in searched, t queryToken) (algebra.Node, error) {
	var ends [2]string
	for i, end := range t.ends {
		var err error
		if ends[i], err = q.unescape(end); err != nil {
			return nil, err
		}
	}
	return q.bounded(in, ends[0], ends[1], t.included)
}

// comparison lowers >=10 and the like.
func (q *queryString) comparison(in searched, operator byte, text string) (algebra.Node, error) {
	inclusive := len(text) > 1 && text[0] == '='
	if inclusive {
		text = text[1:]
	}
	if operator == '>' {
		return q.bounded(in, text, "*", [2]bool{inclusive, true})
	}
	return q.bounded(in, "*", text, [2]bool{true, inclusive})
}

func (q *queryString) bounded(in searched, low, high string, included [2]bool) (algebra.Node, error) {
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		b := bounds{lowerIncluded: included[0], upperIncluded: included[1]}
		end := func(text string) *value {
			if text == "*" {
				return nil
			}
			if f.IsString() {
				text = normalized(f, text, q.m.analyzer)
			}
			return &value{place: q.at.place, kind: '"', text: text}
		}
		b.lower, b.upper = end(low), end(high)
		return q.l.rangeOf(f, q.at, b, "", q.zone)
	})
}
