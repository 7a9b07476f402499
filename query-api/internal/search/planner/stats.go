package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// Stats is what scores depend on beside the people who match: how many
// documents have a field, how many terms, how many have a term. As in
// Elasticsearch, the elements of a nested path are documents of their own, and
// count beside the people whose root shows the same fields.
//
// The first page of a walk counts; later pages use what it counted.
type Stats struct {
	Fields map[string]FieldStats `json:"f,omitempty"`
	Terms  map[string]int64      `json:"t,omitempty"` // by termKey
}

// FieldStats is what is known of a field: the documents that have it, and the
// number of their terms.
type FieldStats struct {
	Documents int64 `json:"n"`
	Terms     int64 `json:"s"`
}

func (f FieldStats) average() float64 {
	if f.Documents == 0 {
		return 1
	}
	return float64(float32(float64(f.Terms) / float64(f.Documents)))
}

func termKey(f algebra.Field, text string) string { return f.Name() + "\x00" + text }

// term is the weight of a term and the average length of its field; weight 0
// when nobody has the term.
func (s *Stats) term(n algebra.Term) (weight, average float64) {
	field := s.Fields[n.Field.Name()]
	df := s.Terms[termKey(n.Field, n.Text)]
	if df == 0 {
		return 0, 1
	}
	return idf(float64(df), float64(field.Documents)), field.average()
}

// wanted is what a query's scores need.
type wanted struct {
	fields map[string]algebra.Field
	terms  map[string]algebra.Term
}

// want collects the fields and terms whose statistics the scores of a node need.
func want(n algebra.Node) wanted {
	w := wanted{fields: make(map[string]algebra.Field), terms: make(map[string]algebra.Term)}
	w.add(n)
	return w
}

func (w *wanted) term(f algebra.Field, text string) {
	w.fields[f.Name()] = f
	w.terms[termKey(f, text)] = algebra.Term{Field: f, Text: text}
}

func (w *wanted) add(n algebra.Node) {
	switch n := n.(type) {
	case algebra.Term:
		w.term(n.Field, n.Text)
	case algebra.Phrase:
		for _, position := range n.Terms {
			for _, t := range position {
				w.term(n.Field, t)
			}
		}
	case algebra.Combined:
		for _, f := range n.Fields {
			w.term(f, n.Text)
		}
	case algebra.Bool:
		for _, m := range n.Must {
			w.add(m)
		}
		for _, m := range n.Should {
			w.add(m)
		}
	case algebra.DisMax:
		for _, m := range n.Nodes {
			w.add(m)
		}
	case algebra.Boost:
		w.add(n.Node)
	case algebra.Nested:
		if n.Mode != algebra.ScoreNone {
			w.add(n.Node)
		}
	case algebra.Function:
		w.add(n.Node)
	}
}

// fieldQuery is the statement that counts the fields that scores need, one row
// of two numbers a field, and the names of the fields in their order.
func (w *wanted) fieldQuery(names []string) string {
	parts := make([]string, 0, len(names))
	for _, name := range names {
		documents, terms := fieldCounts(w.fields[name])
		parts = append(parts, "toInt64("+documents+")", "toInt64("+terms+")")
	}
	return "SELECT [" + strings.Join(parts, ", ") + "] FROM " + table + " FINAL WHERE NOT deleted"
}

// fieldCounts are aggregates: the documents that have terms in a field, and the
// number of terms.
func fieldCounts(f algebra.Field) (documents, terms string) {
	switch {
	case f.IsText() && f.Nested == "":
		return "countIf(" + f.Length() + " > 0)", "sum(" + f.Length() + ")"
	case f.IsText():
		return "countIf(" + f.Length() + " > 0) + sum(" + f.Values() + ")", "2 * sum(" + f.Length() + ")"
	case f.Type == readmodel.SearchBoolean && f.Nested == "":
		return "count()", "count()"
	case f.Type == readmodel.SearchBoolean:
		return "countIf(notEmpty(" + f.Column + ")) + sum(length(" + f.Column + "))",
			"sum(has(" + f.Column + ", 0) + has(" + f.Column + ", 1)) + sum(length(" + f.Column + "))"
	case f.Nested == "":
		return "countIf(" + f.Column + " != '')", "countIf(" + f.Column + " != '')"
	}
	present := "arrayFilter(v -> v != '', " + f.Column + ")"
	return "countIf(notEmpty(" + present + ")) + sum(length(" + present + "))", "sum(length(arrayDistinct(" + present + "))) + sum(length(" + present + "))"
}

// termCounts are the condition under which a person has a term, and the number
// of documents that have it: the person, and her elements.
func (c *compiler) termCounts(t algebra.Term) (condition, count string) {
	root := &scope{}
	f := t.Field
	condition = c.term(f, t.Text, root)
	switch {
	case f.Nested == "":
		return condition, "countIf(" + condition + ")"
	case f.IsText():
		// The person, one element, and those beyond the first.
		return condition, "2 * countIf(" + condition + ") + sum(countEqual(" + f.Spread() + ", " + c.str(t.Text) + "))"
	case f.Type == readmodel.SearchBoolean:
		value := no
		if t.Text == "T" {
			value = yes
		}
		return condition, "countIf(" + condition + ") + sum(countEqual(" + f.Column + ", " + value + "))"
	}
	return condition, "countIf(" + condition + ") + sumIf(countEqual(" + f.Column + ", " + c.str(t.Text) + "), " + condition + ")"
}

// Statement is SQL with its parameters.
type Statement struct {
	SQL        string
	Parameters map[string]string
}

// CountStatement counts the people who match and, when scores are wanted, the
// documents with each term. Its only row has the total and the list of counts,
// in the order of the returned keys.
func CountStatement(n algebra.Node, scored bool) (Statement, []string) {
	c := newCompiler(&Stats{})
	root := &scope{}
	condition := c.match(n, root)
	counts := []string{}
	var keys []string
	where := condition
	if scored {
		w := want(n)
		keys = slices.Sorted(maps.Keys(w.terms))
		for _, key := range keys {
			has, count := c.termCounts(w.terms[key])
			where = or(where, has)
			counts = append(counts, "toInt64("+count+")")
		}
	}
	list := "[" + strings.Join(counts, ", ") + "]"
	if len(counts) == 0 {
		list = "emptyArrayInt64()"
	}
	sql := fmt.Sprintf("SELECT toInt64(countIf(%s)), %s FROM %s FINAL WHERE NOT deleted AND %s", condition, list, table, where)
	return Statement{SQL: sql, Parameters: c.params}, keys
}

// FieldStatement counts the fields that the scores of a node need; its only row
// is a list of pairs in the order of the returned names. known says which
// fields need not be counted.
func FieldStatement(n algebra.Node, known func(name string) bool) (Statement, []string) {
	w := want(n)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(w.fields)), known)
	if len(names) == 0 {
		return Statement{}, nil
	}
	return Statement{SQL: w.fieldQuery(names)}, names
}

// table is where search reads.
const table = "search_people"

// UnknownStats stands in for what was not counted: every term in one of two
// documents.
func UnknownStats(n algebra.Node) *Stats {
	s := &Stats{Fields: make(map[string]FieldStats), Terms: make(map[string]int64)}
	w := want(n)
	for name := range w.fields {
		s.Fields[name] = FieldStats{Documents: 2, Terms: 2}
	}
	for key := range w.terms {
		s.Terms[key] = 1
	}
	return s
}
