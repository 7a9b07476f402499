package planner

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
)

// Dictionary reads the terms of a field: from its index, which also has terms of replaced people, or from the texts.
// Without an index, Index has no SQL.
type Dictionary struct{ Index, Texts Statement }

// HasDictionary reports whether a field has an index to read terms from.
func HasDictionary(f algebra.Field) bool {
	return f.IsText() && f.Indexed || f.Keyword && f.KeywordIndexed
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

func (c *compiler) dictionary(f algebra.Field, condition string, limit int) Dictionary {
	if f.Keyword {
		condition = and(condition, isKeyword("v"))
	}
	cut := ""
	if limit > 0 {
		cut = " LIMIT " + strconv.Itoa(limit)
	}
	var d Dictionary
	if HasDictionary(f) {
		d.Index = Statement{
			SQL: "SELECT DISTINCT v FROM (SELECT " + c.dictionaryTerm(f) + " AS v FROM " + dictionaryOf(f) +
				") WHERE v != '' AND " +
				condition + cut,
			Parameters: c.params, Tables: c.tables,
		}
	}
	s := &scope{}
	values := "[" + f.Column + "]"
	switch {
	case f.IsText():
		values = c.tokens(f, s)
	case s.many(f):
		values = f.Column
	}
	d.Texts = Statement{
		SQL: "SELECT DISTINCT v FROM (SELECT arrayJoin(arrayFilter(v -> v != '' AND " + condition + ", " + values +
			")) AS v" + newestOf(f.SearchField) + ")" + cut,
		Parameters: c.params, Tables: c.tables,
	}
	return d
}

// NearTerms selects the terms that a fuzzy word may expand to, and some more: a swap of neighbors counts twice here.
func NearTerms(n algebra.Fuzzy) Dictionary {
	c := newCompiler()
	length := utf8.RuneCountInString(n.Text)
	conditions := []string{
		"(lengthUTF8(v) BETWEEN " + c.int(int64(length-n.Edits)) + " AND " + c.int(int64(length+n.Edits)) + ")",
	}
	if n.PrefixLength > 0 {
		prefix := string([]rune(n.Text)[:min(n.PrefixLength, length)])
		conditions = append(conditions, "startsWith(v, "+c.str(prefix)+")")
	}
	distance := int64(n.Edits)
	if n.Transpositions {
		distance *= 2
	}
	conditions = append(
		conditions, "levenshteinDistanceUTF8(if("+conditions[0]+", v, ''), "+c.str(n.Text)+") <= "+c.int(distance),
	)
	return c.dictionary(n.Field, strings.Join(conditions, " AND "), 0)
}

// PrefixTerms selects the terms with a prefix.
func PrefixTerms(f algebra.Field, prefix string) Dictionary {
	c := newCompiler()
	return c.dictionary(f, "startsWith(v, "+c.str(prefix)+")", 0)
}

// PatternTerms selects at most limit terms that match a pattern.
func PatternTerms(n algebra.Pattern, limit int) Dictionary {
	c := newCompiler()
	return c.dictionary(n.Field, c.fits(n, "v"), limit)
}

// PatternsStatement reads the terms that match patterns over fields with dictionaries, at most limit for each pattern.
// Its rows are the index of a pattern and a term. It reads the dictionary of each field once: in small tables,
// statements cost more than terms.
func PatternsStatement(patterns []algebra.Pattern, limit int) Statement {
	c := newCompiler()
	byField := make(map[string][]int)
	for i, p := range patterns {
		byField[p.Field.Name()] = append(byField[p.Field.Name()], i)
	}
	selects := make([]string, 0, len(byField))
	for _, name := range slices.Sorted(maps.Keys(byField)) {
		var numbers, conditions []string
		for _, i := range byField[name] {
			numbers = append(numbers, "toUInt16("+strconv.Itoa(i)+")")
			conditions = append(conditions, c.fits(patterns[i], "v"))
		}
		f := patterns[byField[name][0]].Field
		selects = append(selects, "SELECT DISTINCT arrayJoin(arrayFilter((i, fits) -> fits, ["+
			strings.Join(numbers, ", ")+"], ["+strings.Join(conditions, ", ")+"])) AS pattern, v FROM (SELECT "+
			c.dictionaryTerm(f)+" AS v FROM "+dictionaryOf(f)+") WHERE v != ''")
	}
	return Statement{
		SQL: "SELECT pattern, v FROM (" + strings.Join(selects, " UNION ALL ") + ") LIMIT " +
			strconv.Itoa(limit) + " BY pattern",
		Parameters: c.params, Tables: c.tables,
	}
}

// Key identifies a dictionary.
func (d Dictionary) Key() []string {
	key := []string{"dictionary", d.Texts.SQL, d.Index.SQL}
	for _, name := range slices.Sorted(maps.Keys(d.Texts.Parameters)) {
		key = append(key, d.Texts.Parameters[name])
	}
	return key
}

// LivingStatement counts the people with each of some terms, except hidden people. Its only row is the list of counts.
func LivingStatement(f algebra.Field, terms []string, hidden []uint64) Statement {
	c := newCompiler()
	s := &scope{}
	conditions := make([]string, len(terms))
	counts := make([]string, len(terms))
	for i, t := range terms {
		conditions[i] = c.term(f, t, s)
		counts[i] = "toInt64(countIf(" + conditions[i] + "))"
	}
	return Statement{
		SQL: "SELECT [" + strings.Join(counts, ", ") + "]" + newestOf(f.SearchField) + " AND " + or(conditions...) +
			" AND " + notHidden(hidden),
		Parameters: c.params, Tables: c.tables,
	}
}
