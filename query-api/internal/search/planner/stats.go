package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// Stats are the statistics that scores depend on: how many documents have a field, its number of terms, and document
// frequencies. As in Elasticsearch, elements of nested paths are separate documents and count in addition to the people
// whose root has the same fields.
//
// The first page of a walk counts; later pages use its counts.
type Stats struct {
	Fields map[string]FieldStats `json:"f,omitempty"`
	Terms  map[string]int64      `json:"t,omitempty"` // by termKey
	// Absent are the terms without documents at the time of the first page. Queries omit them, so that all pages find
	// the same people.
	Absent map[string]bool `json:"a,omitempty"`
}

// NewStats returns empty statistics.
func NewStats() *Stats {
	return &Stats{Fields: make(map[string]FieldStats), Terms: make(map[string]int64), Absent: make(map[string]bool)}
}

// Clone returns a copy that may be modified.
func (s *Stats) Clone() *Stats {
	c := NewStats()
	maps.Copy(c.Fields, s.Fields)
	maps.Copy(c.Terms, s.Terms)
	maps.Copy(c.Absent, s.Absent)
	return c
}

// absent reports whether a term had no documents.
func (s *Stats) absent(f algebra.Field, text string) bool {
	return s != nil && len(s.Absent) > 0 && s.Absent[termKey(f, text)]
}

// Count sets the document frequency of the term with a key.
func (s *Stats) Count(key string, documents int64) {
	s.Terms[key] = documents
	if documents == 0 {
		s.Absent[key] = true
	}
}

// Lacks reports whether a word of a phrase had no documents.
func (s *Stats) Lacks(n algebra.Phrase) bool {
	return slices.ContainsFunc(n.Terms, func(position []string) bool {
		return len(position) > 0 && !slices.ContainsFunc(position, func(t string) bool { return !s.absent(n.Field, t) })
	})
}

// FieldStats are the number of documents that have a field, and the number of their terms.
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

// TermKey is the key of a term in Stats.
func TermKey(field, text string) string { return field + "\x00" + text }

func termKey(f algebra.Field, text string) string { return TermKey(f.Name(), text) }

// term returns the weight of a term and the average length of its field; weight 0 if it was not counted. A document
// with a term that was counted as absent is the first one. blend are the terms of the blend whose statistics it has.
func (s *Stats) term(n algebra.Term, blend []algebra.Term) (weight, average float64) {
	field := s.Fields[n.Field.Name()]
	df, counted := s.Terms[termKey(n.Field, n.Text)]
	if !counted {
		return 0, 1
	}
	if n.Statistics() != 0 && len(blend) > 1 {
		df = s.blended(n, blend)
		if n.Across {
			df = min(df, field.Documents)
		}
	}
	return idf(float64(max(df, 1)), float64(field.Documents)), field.average()
}

// blended returns the document frequency of a term within its blend.
func (s *Stats) blended(n algebra.Term, blend []algebra.Term) int64 {
	df, words := make([]int64, len(blend)), make([]int64, len(blend))
	own, most := 0, int64(0)
	for i, t := range blend {
		df[i], words[i] = s.Terms[termKey(t.Field, t.Text)], s.Fields[t.Field.Name()].Terms
		if t.Field == n.Field && t.Text == n.Text {
			own = i
		}
		most = max(most, df[i])
	}
	if !n.Across {
		return most
	}
	return blendAcross(df, words)[own]
}

// stableByFrequency returns the indexes of terms, the most frequent first.
func stableByFrequency(order []int, df []int64) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(df[b], df[a]) })
}

// wanted is the set of statistics that a query's scores need.
type wanted struct {
	fields map[string]algebra.Field
	terms  map[string]algebra.Term
	stats  *Stats
}

// want collects the fields and terms whose statistics the scores of a node need, and the filters of sort keys. Fields
// of terms that are absent are not needed.
func want(n algebra.Node, filters []algebra.Node, stats *Stats) wanted {
	w := wanted{fields: make(map[string]algebra.Field), terms: make(map[string]algebra.Term), stats: stats}
	w.add(n)
	// A minimum score decides matches, and inner hits have their own order, at any depth.
	visit := func(n algebra.Node) {
		switch n := n.(type) {
		case algebra.Function:
			if n.MinScore != nil {
				w.add(n.Node)
			}
		case algebra.Nested:
			if n.InnerHits.Scored() {
				w.add(n.Node)
			}
		}
	}
	algebra.Walk(n, visit)
	for _, f := range filters {
		algebra.Walk(f, visit)
	}
	return w
}

func (w *wanted) term(f algebra.Field, text string) {
	w.terms[termKey(f, text)] = algebra.Term{Field: f, Text: text}
	if !w.stats.absent(f, text) {
		w.fields[f.Name()] = f
	}
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
			w.fields[f.Name()] = f // the length counts in either case
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

// fieldQuery returns the statement that counts fields, one row with two numbers for each, and the names of the fields
// in order. The fields are of one table.
func (w *wanted) fieldQuery(names []string) string {
	parts := make([]string, 0, len(names))
	for _, name := range names {
		documents, terms := fieldCounts(w.fields[name])
		parts = append(parts, "toInt64("+documents+")", "toInt64("+terms+")")
	}
	return "SELECT [" + strings.Join(parts, ", ") + "]" + newestOf(w.fields[names[0]].SearchField)
}

// fieldCounts returns aggregates: the documents with terms in a field, and the number of terms.
func fieldCounts(f algebra.Field) (documents, terms string) {
	switch {
	case f.IsText() && f.Nested == "":
		size := sizes(f)
		return "countIf(" + size + " > 0)", "sum(" + size + ")"
	case f.IsText():
		sizes := sizes(f)
		elements := "arrayCount(n -> n > 0, " + sizes + ")"
		if f.Flat {
			return "countIf(" + elements + " > 0)", "sum(arraySum(" + sizes + "))"
		}
		return "countIf(" + elements + " > 0) + sum(" + elements + ")", "2 * sum(arraySum(" + sizes + "))"
	case f.Type == readmodel.SearchBoolean && f.Nested == "":
		return "count()", "count()"
	case f.Type == readmodel.SearchBoolean:
		return "countIf(notEmpty(" + f.Column + ")) + sum(length(" + f.Column + "))",
			"sum(has(" + f.Column + ", 0) + has(" + f.Column + ", 1)) + sum(length(" + f.Column + "))"
	case f.Nested == "":
		documents = "countIf(" + and("("+f.Column+" != '')", isKeyword(f.Column)) + ")"
		return documents, documents
	}
	values := "arrayFilter(v -> " + and("(v != '')", isKeyword("v")) + ", " + f.Column + ")"
	distinct := "sum(arrayUniq(" + values + "))"
	if f.Flat {
		return "countIf(notEmpty(" + values + "))", distinct
	}
	elements := "sum(length(" + values + "))"
	return "countIf(notEmpty(" + values + ")) + " + elements, distinct + " + " + elements
}

// Statement is SQL with its parameters.
type Statement struct {
	SQL        string
	Parameters map[string]string
	// Tables are lists too long for parameters: external tables with one String column v.
	Tables map[string][]string
	// TokensRead restricts the server to finding candidates by the indexes. It must not answer from them in place of
	// the tokens: it confuses the two if a score is part of a condition (its error 10), and if the tokens of a phrase
	// are read anyway, it takes twice as long.
	TokensRead bool
	// OneThread states that further threads would only slow down other statements or a read of a few rows.
	OneThread bool
	// SkipUnavailable leaves out replicas that do not respond.
	SkipUnavailable bool
	// OneReplica states that the statement reads one replica of a cluster ([Replica.Read]).
	OneReplica bool
}

// FieldCount is a statement that counts fields. Its only row is a list of pairs in the order of Names.
type FieldCount struct {
	Statement Statement
	Names     []string
}

// FieldStatements returns statements that count the fields that the scores of a node need, except known ones. Slow
// fields are counted one by one, so that a search that times out makes progress.
func FieldStatements(n algebra.Node, filters []algebra.Node, stats *Stats, known func(name string) bool) []FieldCount {
	w := want(n, filters, stats)
	var out []FieldCount
	var short []string
	for _, name := range slices.DeleteFunc(slices.Sorted(maps.Keys(w.fields)), known) {
		if f := w.fields[name]; f.Nested != "" && f.Keyword || f.Subfield == algebra.Code || f.Linked {
			out = append(out, FieldCount{Statement{SQL: w.fieldQuery([]string{name})}, []string{name}})
		} else {
			short = append(short, name)
		}
	}
	if len(short) > 0 {
		out = append(out, FieldCount{Statement{SQL: w.fieldQuery(short)}, short})
	}
	return out
}

// Marks in statements are replaced by the names of a collection's tables and columns ([Statement.Of]). No other text
// of a statement can contain them: values are parameters.
const (
	table          = "{table}"
	documentsTable = "{documents}"
	linkedTable    = "{linked}"
	hashColumn     = "{hash}"
	idColumn       = "{id}"
	recordKind     = "{kind}"
)

// Of returns the statement about the documents of a collection.
func (s Statement) Of(c *readmodel.SearchCollection) Statement {
	s.SQL = strings.NewReplacer(table, c.Table, documentsTable, c.Documents, hashColumn, c.Hash, idColumn, c.ID,
		recordKind, string(c.Kind), linkedTable, c.LinkedTable).Replace(s.SQL)
	return s
}
