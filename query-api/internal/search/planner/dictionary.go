package planner

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
)

// Lookup selects terms of a field: from its index, which also has terms of replaced people, or from the texts.
type Lookup struct {
	Field algebra.Field
	// Key identifies the lookup.
	Key string
	// Limit is the maximum number of terms.
	Limit int
	where func(c *compiler, v string) string
	// Within returns those of a sorted list of terms that are selected; nil: only the statement selects them.
	Within func(sorted []string) []string
}

func newLookup(f algebra.Field, limit int, where func(*compiler, string) string, key ...string) Lookup {
	key = append(key, f.Name(), strconv.Itoa(limit))
	return Lookup{Field: f, Key: strings.Join(key, "\x00"), Limit: limit, where: where}
}

// HasDictionary reports whether a field has an index to read terms from.
func HasDictionary(f algebra.Field) bool {
	return f.IsText() && f.Indexed || f.Keyword && f.KeywordIndexed
}

// NearTerms selects the terms that a fuzzy word may expand to, and some more: a swap of neighbors counts twice here.
func NearTerms(n algebra.Fuzzy, limit int) Lookup {
	length := utf8.RuneCountInString(n.Text)
	where := func(c *compiler, v string) string {
		fits := "(lengthUTF8(" + v + ") BETWEEN " + c.int(int64(length-n.Edits)) + " AND " +
			c.int(int64(length+n.Edits)) + ")"
		conditions := []string{fits}
		if n.PrefixLength > 0 {
			conditions = append(conditions, "startsWith("+v+", "+c.str(n.Prefix())+")")
		}
		distance := int64(n.Edits)
		if n.Transpositions {
			distance *= 2
		}
		return and(append(conditions, "levenshteinDistanceUTF8(if("+fits+", "+v+", ''), "+c.str(n.Text)+") <= "+
			c.int(distance))...)
	}
	l := newLookup(n.Field, limit, where, "near", n.Text, strconv.Itoa(n.Edits), strconv.Itoa(n.PrefixLength),
		strconv.FormatBool(n.Transpositions))
	l.Within = func(sorted []string) []string { return algebra.Near(n, prefixed(sorted, n.Prefix())) }
	return l
}

// PrefixTerms selects the terms with a prefix.
func PrefixTerms(f algebra.Field, prefix string, limit int) Lookup {
	return PatternTerms(algebra.Pattern{Field: f, Kind: algebra.Prefix, Text: prefix}, limit)
}

// PatternTerms selects terms that match a pattern.
func PatternTerms(n algebra.Pattern, limit int) Lookup {
	where := func(c *compiler, v string) string { return c.fits(n, v) }
	l := newLookup(n.Field, limit, where, "pattern", strconv.Itoa(int(n.Kind)), n.Text, n.Expression,
		strconv.FormatBool(n.Insensitive))
	if n.Kind == algebra.Prefix && !n.Insensitive {
		l.Within = func(sorted []string) []string { return prefixed(sorted, n.Text) }
	}
	return l
}

// AllTerms selects all terms of a field.
func AllTerms(f algebra.Field, limit int) Lookup {
	return newLookup(f, limit, func(*compiler, string) string { return yes }, "all")
}

// LookupStatement reads the terms of several lookups. Its rows are the number of a lookup and a term. The lookups of a
// field with a dictionary are one select, as are those of all fields without one: planning a select takes longer than
// reading a small dictionary. indexes states that dictionaries can be read; otherwise terms are read from the texts.
func LookupStatement(lookups []Lookup, indexes bool) Statement {
	c := newCompiler()
	type source struct {
		from  string
		limit int
	}
	var sources []source
	numbers := make(map[source][]int)
	for i, l := range lookups {
		key := source{newestOf(l.Field.SearchField), l.Limit}
		switch {
		case indexes && HasDictionary(l.Field):
			key.from = "(SELECT " + c.dictionaryTerm(l.Field) + " AS v FROM " + dictionaryOf(l.Field) + ")"
		case !l.Field.Linked: // Replaced people do no harm here, either.
			key.from = " FROM " + table + " WHERE NOT deleted"
		}
		if numbers[key] == nil {
			sources = append(sources, key)
		}
		numbers[key] = append(numbers[key], i)
	}
	selects := make([]string, len(sources))
	for i, s := range sources {
		var found string
		if strings.HasPrefix(s.from, "(") {
			var list, conditions []string
			for _, n := range numbers[s] {
				list = append(list, lookupNumber(n))
				conditions = append(conditions, c.selected(lookups[n], "v"))
			}
			if found = "SELECT DISTINCT " + list[0] + " AS lookup, v FROM " + s.from + " WHERE v != '' AND " +
				conditions[0]; len(list) > 1 {
				found = "SELECT DISTINCT arrayJoin(arrayFilter((i, fits) -> fits, [" + strings.Join(list, ", ") +
					"], [" + strings.Join(conditions, ", ") + "])) AS lookup, v FROM " + s.from + " WHERE v != ''"
			}
		} else {
			lists := make([]string, len(numbers[s]))
			for k, n := range numbers[s] {
				l := lookups[n]
				lists[k] = "arrayMap(v -> (" + lookupNumber(n) + ", v), arrayFilter(v -> v != '' AND " +
					c.selected(l, "v") + ", " + c.values(l.Field) + "))"
			}
			found = "SELECT DISTINCT u.1 AS lookup, u.2 AS v FROM (SELECT arrayJoin(arrayConcat(" +
				strings.Join(lists, ", ") + ")) AS u" + s.from + ")"
		}
		selects[i] = found + " LIMIT " + strconv.Itoa(s.limit)
		if len(numbers[s]) > 1 {
			selects[i] += " BY lookup"
		}
	}
	return Statement{
		SQL:        "SELECT lookup, v FROM (" + strings.Join(selects, " UNION ALL ") + ")",
		Parameters: c.params, Tables: c.tables,
	}
}

func lookupNumber(n int) string { return "toUInt16(" + strconv.Itoa(n) + ")" }

// selected returns the condition that a term is one of a lookup.
func (c *compiler) selected(l Lookup, v string) string {
	if l.Field.Keyword {
		return and(l.where(c, v), isKeyword(v))
	}
	return l.where(c, v)
}

// values returns the list of a field's terms in a row.
func (c *compiler) values(f algebra.Field) string {
	s := &scope{}
	switch {
	case f.IsText():
		return c.tokens(f, s)
	case s.many(f):
		return f.Column
	}
	return "[" + f.Column + "]"
}

// dictionaryOf returns a table expression with the terms of a field's index in column token, once for each part.
func dictionaryOf(f algebra.Field) string {
	index := f.Column + "_index"
	if f.IsText() {
		index = f.Tokens() + "_index"
	}
	return "mergeTreeTextIndex(currentDatabase(), '" + table + "', '" + index + "')"
}

// dictionaryTerm returns the term of a field for the column token of dictionaryOf.
func (c *compiler) dictionaryTerm(f algebra.Field) string {
	if f.Subfield == algebra.Folded {
		return c.fold("token")
	}
	return "token"
}

// prefixed returns the terms of a sorted list that begin with a prefix.
func prefixed(all []string, prefix string) []string {
	from, _ := slices.BinarySearch(all, prefix)
	to := from
	for to < len(all) && strings.HasPrefix(all[to], prefix) {
		to++
	}
	return all[from:to]
}
