package clause

import (
	"strings"

	"muster/query-api/internal/search/algebra"
)

// text is a word, or a row of bare words.
func (q *queryString) text(in searched, text string) (algebra.Node, error) {
	if in.exists {
		return q.existing(text)
	}
	if in.named && len(text) > 1 && (text[0] == '<' || text[0] == '>') {
		return q.comparison(in, text[0], text[1:])
	}
	if in.date && len(text) > 1 && q.zone != "" {
		return q.bounded(in, text, text, [2]bool{true, true}) // the day in that zone
	}
	return q.words(in.fields, text)
}

// existing is for who has a field.
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

// words lowers a row of words as the type says; nil where there are no tokens.
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
			m.expansions = defaultExpansions // fuzzy_max_expansions is for fuzzy words
			return q.l.phrase(f, q.at, text, m, true)
		case "bool_prefix":
			return q.l.boolPrefix(f, q.at, text, m)
		}
		m.slop = 0
		return q.l.match(f, q.at, text, m)
	})
}

// phrase is "words"~slop.
func (q *queryString) phrase(in searched, text, slop string) (algebra.Node, error) {
	if in.exists {
		return q.existing(text)
	}
	m := q.m
	m.analyzer = q.quoteAnalyzer
	if x, ok := javaFloat(slop, 32); ok { // Lucene ignores what is no number
		m.slop = int(min(max(x, 0), maxSlop))
	}
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		f = q.l.suffixed(f, q.quoteSuffix)
		if empty, err := q.l.wordless(f, q.at, text, m.analyzer); err != nil || empty {
			return nil, err
		}
		return q.l.phrase(f, q.at, text, m, false)
	})
}

// fuzzy is word~ or word~1.
func (q *queryString) fuzzy(in searched, text, edits string) (algebra.Node, error) {
	m := q.m
	m.fuzzy.given = true
	switch {
	case strings.EqualFold(edits, "auto"):
		m.fuzzy = fuzziness{given: true, auto: true, low: 3, high: 6}
	case edits != "":
		x, ok := javaFloat(edits, 32)
		if !ok {
			return nil, q.errorf("~ wants a number of edits, not %s", quote(edits))
		}
		m.fuzzy = fuzziness{given: true, edits: int(min(max(x, 0), 2))}
	}
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() {
			return nil, q.errorf("can only use fuzzy queries on texts: %s is none", f.Name())
		}
		if f.Identity {
			return algebra.None{}, nil
		}
		return q.l.leaf(f, fuzzyTerm(f, normalised(f, text, m.analyzer), m)), nil
	})
}

// star is for who has any of the fields.
func (q *queryString) star(in searched) algebra.Node {
	switch {
	case in.everything:
		return algebra.All{}
	case in.exists:
		return algebra.None{} // no field is named so
	case in.named:
		return q.anyOf(in.fields)
	}
	var nodes []algebra.Node
	for _, w := range in.fields {
		nodes = append(nodes, boosted(q.anyOf([]weighted{w}), w.boost))
	}
	return disMax(nodes, q.tie)
}

// wildcard is a word with * or ?; on analysed fields it is in lower case.
func (q *queryString) wildcard(in searched, text string) (algebra.Node, error) {
	if !q.leading && (text[0] == '*' || text[0] == '?') {
		return nil, q.errorf("'*' or '?' not allowed as first character in %s", quote(text))
	}
	beginning, isPrefix := unfinished(text)
	beginning, err := q.unescape(beginning)
	if err != nil {
		return nil, err
	}
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() || f.Identity && isPrefix {
			return nil, q.errorf("can only use wildcard queries on texts: %s is none", f.Name())
		}
		if isPrefix && f.IsText() && q.analyseWildcards {
			return q.l.analysedPrefix(f, q.at, beginning, q.m.analyzer, q.and, q.rewrite)
		}
		if isPrefix {
			body := beginning
			if f.IsText() {
				body = normalised(f, body, q.m.analyzer)
			}
			return q.l.leaf(f, q.rewrite.of(algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: body})), nil
		}
		analyzer := "" // a named one is for analysed fields, and for whole values only where patterns are analysed
		if f.IsText() || q.analyseWildcards {
			analyzer = q.m.analyzer
		}
		return q.l.leaf(f,
			q.rewrite.of(algebra.Pattern{Field: f, Kind: algebra.Wildcard, Text: normalised(f, text, analyzer)})), nil
	})
}

// analysedPrefix is an unfinished word that is analysed, as all of whose tokens but the last are finished; nil where there are none.
func (l *lowering) analysedPrefix(f algebra.Field, at value, text, analyzer string, and bool,
	rewrite rewriting) (algebra.Node, error) {
	tokens, err := l.analyse(at, text, analyzer)
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

// regexp is /expression/; on analysed fields all of it is in lower case, \W
// included.
func (q *queryString) regexp(in searched, text string) (algebra.Node, error) {
	return q.over(in, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() {
			return nil, q.errorf("can only use regexp queries on texts: %s is none", f.Name())
		}
		m, err := regexpNode(f, q.at, normalised(f, text, q.m.analyzer), "ALL", false, q.rewrite)
		if err != nil {
			return nil, err
		}
		return q.l.leaf(f, m), nil
	})
}

// span is [a TO b].
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

// comparison is >=10 and the like.
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
				text = normalised(f, text, q.m.analyzer)
			}
			return &value{place: q.at.place, kind: '"', text: text}
		}
		b.lower, b.upper = end(low), end(high)
		return q.l.rangeOf(f, q.at, b, "", q.zone)
	})
}
