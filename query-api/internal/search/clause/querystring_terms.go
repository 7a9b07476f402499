package clause

import (
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// text is a row of bare words.
func (q *queryString) text(fields []weighted, text string, row bool) (algebra.Node, []algebra.Node, error) {
	n, err := q.words(fields, text)
	if err != nil {
		return nil, nil, err
	}
	// In a row, one field's words are clauses of their own.
	if b, ok := n.(algebra.Bool); ok && row && len(fields) == 1 && !strings.HasPrefix(q.rest, "^") {
		if list := append(append([]algebra.Node{}, b.Must...), b.Should...); len(b.Filter)+len(b.MustNot) == 0 {
			return nil, list, nil
		}
	}
	return q.boost(n)
}

// words lowers a row of words as the type says; nil where there are no tokens.
func (q *queryString) words(fields []weighted, text string) (algebra.Node, error) {
	m := q.m
	m.all = q.and
	if q.kind == "cross_fields" {
		m.zeroDrop = true
		return q.l.crossFields(q.at, fields, text, m, q.tie)
	}
	return q.over(fields, func(f algebra.Field) (algebra.Node, error) {
		if empty, err := q.l.wordless(f, q.at, text, m.analyzer); err != nil || empty {
			return nil, err
		}
		switch q.kind {
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

// phrase reads "words"~slop.
func (q *queryString) phrase(fields []weighted) (algebra.Node, []algebra.Node, error) {
	var b strings.Builder
	i := 1
	for ; i < len(q.rest) && q.rest[i] != '"'; i++ {
		if q.rest[i] == '\\' && i+1 < len(q.rest) {
			i++
		}
		b.WriteByte(q.rest[i])
	}
	if i >= len(q.rest) {
		return nil, nil, q.errorf("a \" is not closed")
	}
	q.rest = q.rest[i+1:]
	m := q.m
	if rest, ok := strings.CutPrefix(q.rest, "~"); ok {
		n, after, found := digits(rest, 1, 6)
		if found {
			m.slop = n
		}
		q.rest = after
	}
	n, err := q.over(fields, func(f algebra.Field) (algebra.Node, error) {
		f = q.l.suffixed(f, q.quoteSuffix)
		if empty, err := q.l.wordless(f, q.at, b.String(), m.analyzer); err != nil || empty {
			return nil, err
		}
		return q.l.phrase(f, q.at, b.String(), m, false)
	})
	if err != nil {
		return nil, nil, err
	}
	return q.boost(n)
}

// fuzzy reads word~ and word~1.
func (q *queryString) fuzzy(fields []weighted, text string) (algebra.Node, []algebra.Node, error) {
	q.rest = q.rest[1:]
	m := q.m
	m.fuzzy.given = true
	end := 0
	for end < len(q.rest) && (q.rest[end] >= '0' && q.rest[end] <= '9' || q.rest[end] == '.') {
		end++
	}
	if end > 0 {
		x, err := strconv.ParseFloat(q.rest[:end], 64)
		if err != nil || x > 2 || x != float64(int(x)) {
			return nil, nil, q.errorf("~ wants 0, 1 or 2 edits")
		}
		m.fuzzy = fuzziness{given: true, edits: int(x)}
		q.rest = q.rest[end:]
	}
	n, err := q.over(fields, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() {
			return nil, q.errorf("can only use fuzzy queries on texts: %s is none", f.Name())
		}
		return q.l.leaf(f, fuzzyTerm(f, normalised(f, text, m.analyzer), m)), nil
	})
	if err != nil {
		return nil, nil, err
	}
	return q.boost(n)
}

// wildcard is a word with * or ?; on analysed fields it is in lower case.
func (q *queryString) wildcard(fields []weighted, text string) (algebra.Node, []algebra.Node, error) {
	if text == "*" {
		if q.everything && len(fields) == len(q.fields) {
			return q.boost(algebra.All{})
		}
		var nodes []algebra.Node
		for _, w := range fields {
			nodes = append(nodes, q.l.leaf(w.field, algebra.Exists{Field: w.field}))
		}
		if len(nodes) == 0 {
			return q.boost(algebra.All{})
		}
		return q.boost(algebra.Constant{Node: algebra.Bool{Should: nodes, Minimum: 1}, Score: 1})
	}
	if !q.leading && (text[0] == '*' || text[0] == '?') {
		return nil, nil, q.errorf("'*' or '?' not allowed as first character in %s", quote(text))
	}
	n, err := q.over(fields, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() {
			return nil, q.errorf("can only use wildcard queries on texts: %s is none", f.Name())
		}
		if body, ok := strings.CutSuffix(text, "*"); ok && !strings.ContainsAny(body, `*?\`) {
			if f.IsText() {
				body = normalised(f, body, q.m.analyzer)
			}
			return q.l.leaf(f, algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: body}), nil
		}
		return q.l.leaf(f, algebra.Pattern{Field: f, Kind: algebra.Wildcard, Text: normalised(f, text, "")}), nil
	})
	if err != nil {
		return nil, nil, err
	}
	return q.boost(n)
}

// regexp reads /expression/.
func (q *queryString) regexp(fields []weighted) (algebra.Node, []algebra.Node, error) {
	end := 1
	for end < len(q.rest) && q.rest[end] != '/' {
		if q.rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(q.rest) {
		return nil, nil, q.errorf("a / is not closed")
	}
	text := strings.ReplaceAll(q.rest[1:end], `\/`, "/")
	q.rest = q.rest[end+1:]
	n, err := q.over(fields, func(f algebra.Field) (algebra.Node, error) {
		if !f.IsString() {
			return nil, q.errorf("can only use regexp queries on texts: %s is none", f.Name())
		}
		m, err := regexpNode(f, q.at, text, "ALL", false)
		if err != nil {
			return nil, err
		}
		return q.l.leaf(f, m), nil
	})
	if err != nil {
		return nil, nil, err
	}
	return q.boost(n)
}

// span reads [a TO b], with { and } for ends that do not count.
func (q *queryString) span(fields []weighted) (algebra.Node, []algebra.Node, error) {
	end := strings.IndexAny(q.rest, "]}")
	if end < 0 {
		return nil, nil, q.errorf("a %s is not closed", q.rest[:1])
	}
	inside := strings.TrimSpace(q.rest[1:end])
	low, high, ok := strings.Cut(inside, " TO ")
	if !ok {
		return nil, nil, q.errorf("a range is written [a TO b]")
	}
	included := [2]bool{q.rest[0] == '[', q.rest[end] == ']'}
	q.rest = q.rest[end+1:]
	return q.bounded(fields, strings.Trim(strings.TrimSpace(low), `"`), strings.Trim(strings.TrimSpace(high), `"`), included)
}

// comparison reads >=10 and the like.
func (q *queryString) comparison(fields []weighted) (algebra.Node, []algebra.Node, error) {
	operator := q.rest[:1]
	q.rest = q.rest[1:]
	rest, inclusive := strings.CutPrefix(q.rest, "=")
	q.rest = rest
	q.skip()
	text, _ := q.term()
	if text == "" {
		return nil, nil, q.errorf("%s wants a value", operator)
	}
	if operator == ">" {
		return q.bounded(fields, text, "*", [2]bool{inclusive, true})
	}
	return q.bounded(fields, "*", text, [2]bool{true, inclusive})
}

func (q *queryString) bounded(fields []weighted, low, high string, included [2]bool) (algebra.Node, []algebra.Node, error) {
	n, err := q.over(fields, func(f algebra.Field) (algebra.Node, error) {
		b := bounds{lowerIncluded: included[0], upperIncluded: included[1]}
		end := func(text string) *value {
			if text == "*" {
				return nil
			}
			if f.IsString() {
				text = normalised(f, text, q.m.analyzer)
			}
			return &value{path: q.at.path, kind: '"', text: text}
		}
		b.lower, b.upper = end(low), end(high)
		return q.l.rangeOf(f, q.at, b, "", q.zone)
	})
	if err != nil {
		return nil, nil, err
	}
	return q.boost(n)
}
