package planner

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// Presence are two statements that look for the same terms: by the dictionaries of the text indexes, and by the columns. Their
// rows are lists of the numbers of the groups of which somebody has a term; the people may be replaced ones. Index has no SQL
// where a column has no text index.
type Presence struct {
	Index, Columns Statement
	// First is the number of the first of Groups, which are the keys of terms in Stats.
	First  int
	Groups [][]string
}

const (
	// manyTerms in manyFields, or manyMore of them in any, are looked for before the query is asked: a text over
	// all fields names fields that have none of its words, and each of those costs what the others do.
	manyTerms  = 12
	manyFields = 4
	manyMore   = 100
	// presenceStep is the most terms that one statement looks for: what it costs to analyse their columns grows faster than they do.
	presenceStep = 100
	// maxSought is the most values of a set, or words at a place of a phrase, that are looked for.
	maxSought = 16
	// manySelects is the most terms of columns without a text index that are looked for one by one.
	manySelects = 48
)

// PresenceStatements look for the terms of a query, none when it has so few that they are not worth it. first
// is the first of the terms' expansions among the numbers of blends: those are somewhere, or they would not be there.
func PresenceStatements(n algebra.Node, filters []algebra.Node, first int) []Presence {
	terms := soughtTerms(n, filters, first)
	if len(terms) < 2 {
		return nil // an index that filters finds the one as fast
	}
	var indexed []string
	fields := make(map[string]bool)
	others := make(map[string][]string) // by field
	for _, key := range slices.Sorted(maps.Keys(terms)) {
		f := terms[key].Field
		if HasDictionary(f) {
			indexed = append(indexed, key)
			fields[f.Name()] = true
		} else {
			others[f.Name()] = append(others[f.Name()], key)
		}
	}
	var out []Presence
	if len(others) > 0 {
		out = append(out, presenceByField(terms, others))
	}
	if len(indexed) >= manyTerms && len(fields) >= manyFields || len(indexed) >= manyMore {
		for some := range slices.Chunk(indexed, presenceStep) {
			out = append(out, presenceByTerm(terms, some))
		}
	}
	groups := 0
	for i := range out {
		out[i].First = groups
		groups += len(out[i].Groups)
	}
	return out
}

// soughtTerms are the words of a query that may be nowhere, by their keys in Stats.
func soughtTerms(n algebra.Node, filters []algebra.Node, first int) map[string]algebra.Term {
	terms := make(map[string]algebra.Term)
	add := func(f algebra.Field, texts ...string) {
		if !f.IsString() || len(texts) > maxSought {
			return
		}
		for _, text := range texts {
			terms[termKey(f, text)] = algebra.Term{Field: f, Text: text}
		}
	}
	visit := func(n algebra.Node) {
		switch n := n.(type) {
		case algebra.Term:
			if !n.Absent && n.Blend < first {
				add(n.Field, n.Text)
			}
		case algebra.Set:
			add(n.Field, n.Values...)
		case algebra.Phrase:
			for _, position := range n.Terms {
				add(n.Field, position...)
			}
		case algebra.Combined:
			for _, f := range n.Fields {
				if !n.Absent(f) {
					add(f, n.Text)
				}
			}
		}
	}
	algebra.Walk(n, visit)
	for _, f := range filters {
		algebra.Walk(f, visit)
	}
	return terms
}

// presenceByTerm asks columns that have text indexes: their dictionaries, or, where those cannot be read, the rows, for which
// the indexes answer in place of the columns.
func presenceByTerm(terms map[string]algebra.Term, keys []string) Presence {
	p := Presence{Index: presenceInDictionaries(terms, keys)}
	c := newCompiler(&Stats{})
	numbers, counts, conditions := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		conditions[i] = c.term(terms[key].Field, terms[key].Text, &scope{})
		numbers[i], counts[i] = strconv.Itoa(i), "sum("+conditions[i]+")"
		p.Groups = append(p.Groups, []string{key})
	}
	p.Columns = Statement{
		SQL: "SELECT arrayFilter((i, n) -> n > 0, CAST([" + strings.Join(numbers, ", ") + "], 'Array(UInt16)'), [" + strings.Join(counts, ", ") +
			"]) FROM " + table + " WHERE " + or(conditions...),
		Parameters: c.params, Eager: true, OneThread: true,
	}
	return p
}

// presenceInDictionaries looks terms up in the dictionaries of their indexes. keys, whose places are the numbers of their groups, have
// those of a field side by side.
func presenceInDictionaries(terms map[string]algebra.Term, keys []string) Statement {
	c := newCompiler(&Stats{})
	var selects []string
	for first := 0; first < len(keys); {
		f := terms[keys[first]].Field
		var texts, numbers []string
		for _, key := range keys[first:] {
			if terms[key].Field.Name() != f.Name() {
				break
			}
			texts, numbers = append(texts, terms[key].Text), append(numbers, strconv.Itoa(first+len(numbers)))
		}
		first += len(numbers)
		selects = append(selects, "SELECT [CAST(["+strings.Join(numbers, ", ")+"], 'Array(UInt16)')[indexOf("+c.strs(texts)+", token)]] FROM "+
			dictionaryOf(f)+" WHERE token IN "+c.listed(texts, "String"))
	}
	return Statement{SQL: strings.Join(selects, " UNION ALL "), Parameters: c.params, Tables: c.tables, OneThread: true}
}

// presenceByField asks the columns that have no text index, each until somebody has the term, or one of the field's terms
// where there are many. Most granules are passed over by the filters of the columns.
func presenceByField(terms map[string]algebra.Term, fields map[string][]string) Presence {
	c := newCompiler(&Stats{})
	var p Presence
	all := 0
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all += len(fields[name])
		p.Groups = append(p.Groups, fields[name])
	}
	if all <= manySelects {
		p.Groups = slices.Collect(slices.Chunk(slices.Concat(p.Groups...), 1))
	}
	selects := make([]string, len(p.Groups))
	for i, keys := range p.Groups {
		conditions := make([]string, len(keys))
		for j, key := range keys {
			conditions[j] = c.term(terms[key].Field, terms[key].Text, &scope{})
		}
		selects[i] = "SELECT CAST([" + strconv.Itoa(i) + "], 'Array(UInt16)') FROM " + table + " WHERE " + or(conditions...) + " LIMIT 1"
	}
	p.Columns = Statement{SQL: strings.Join(selects, " UNION ALL "), Parameters: c.params, OneThread: true}
	return p
}
