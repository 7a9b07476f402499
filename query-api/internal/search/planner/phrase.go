package planner

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// phrase is the condition that a phrase occurs: its terms do, which the index
// knows, and somewhere together.
func (c *compiler) phrase(n algebra.Phrase, s *scope) string {
	words := c.words(n, s)
	for _, position := range n.Terms {
		if len(position) > 1 {
			words = and(words, "hasAny("+s.tokens(n.Field)+", "+c.strs(position)+")")
		}
	}
	switch {
	case words == yes:
		return no
	case len(n.Terms) == 1:
		return words
	}
	return and(words, "("+c.frequency(n, s)+" > 0)")
}

// words is the condition that the terms of a phrase occur, of a long one the first ones: the others are looked for where
// these are.
func (c *compiler) words(n algebra.Phrase, s *scope) string {
	var parts []string
	seen := make(map[string]bool)
	for _, position := range n.Terms {
		if len(position) != 1 || seen[position[0]] || long(n) && len(parts) == longPhrase {
			continue
		}
		seen[position[0]] = true
		parts = append(parts, c.term(n.Field, position[0], s))
	}
	return and(parts...)
}

// frequency is how often a phrase occurs, places with gaps counted in part.
func (c *compiler) frequency(n algebra.Phrase, s *scope) string {
	if n.Found != nil {
		return c.found(n, s)
	}
	if n.Slop > 0 {
		return c.sloppy(n, s)
	}
	if s.many(n.Field) {
		// Positions of different elements are far apart.
		return "arraySum(e -> " + c.occurrences(n, "e") + ", " + n.Field.Tokens() + ")"
	}
	return c.occurrences(n, s.column(n.Field.Tokens()))
}

// found looks up how often a phrase occurs.
func (c *compiler) found(n algebra.Phrase, s *scope) string {
	if len(n.Found.Keys) == 0 {
		return "0."
	}
	keys, values := make([]string, len(n.Found.Keys)), make([]string, len(n.Found.Keys))
	for i := range keys {
		keys[i] = strconv.FormatUint(n.Found.Keys[i], 10)
		values[i] = strconv.FormatFloat(n.Found.Values[i], 'g', -1, 64)
	}
	place := "profile_hash"
	if s.nested() {
		place = s.column(placesOf(n.Field))
	}
	return "transform(" + place + ", " + c.numbers("UInt64", keys) + ", " + c.numbers("Float64", values) + ", toFloat64(0))"
}

// placesOf names the list of the places of a person's elements (PhraseStatement).
func placesOf(f algebra.Field) string { return placesPrefix + f.Column }

const placesPrefix = "places of "

// numbers is a list of numbers; a long one travels as a table beside the query.
func (c *compiler) numbers(kind string, list []string) string {
	if len(list) > maxListed {
		return "(SELECT groupArray(to" + kind + "(v)) FROM " + c.table(list) + ")"
	}
	return c.param("Array("+kind+")", "["+strings.Join(list, ",")+"]")
}

// PhraseStatement reads the people who have the words of a phrase, each as often
// as the phrase repeats it. Its rows are profile_hash and the tokens: a list, or
// a list an element where the field is nested. limit bounds them.
func PhraseStatement(n algebra.Phrase, limit int) Statement {
	c := newCompiler(&Stats{})
	s := &scope{}
	var conditions []string
	times := make(map[string]int)
	for _, position := range n.Terms {
		switch len(position) {
		case 0:
		case 1:
			times[position[0]]++
			conditions = append(conditions, c.term(n.Field, position[0], s))
		default:
			conditions = append(conditions, "hasAny("+s.tokens(n.Field)+", "+c.strs(position)+")")
		}
	}
	for _, t := range slices.Sorted(maps.Keys(times)) {
		if times[t] > 1 {
			conditions = append(conditions, "(countEqual("+n.Field.Repeats()+", "+c.str(t)+") >= "+c.int(int64(times[t]-1))+")")
		}
	}
	return Statement{
		SQL: "SELECT profile_hash, " + n.Field.Tokens() + " FROM " + table + " FINAL WHERE NOT deleted AND " + and(conditions...) +
			" LIMIT " + strconv.Itoa(limit),
		Parameters: c.params, Tables: c.tables,
	}
}

// occurrences counts the places of a list of tokens where the terms follow one
// another.
func (c *compiler) occurrences(n algebra.Phrase, tokens string) string {
	if long(n) {
		return c.longOccurrences(n, tokens)
	}
	var names, conditions, lists []string
	for i, position := range n.Terms {
		if len(position) == 0 {
			continue
		}
		name := "t" + strconv.Itoa(i)
		names = append(names, name)
		conditions = append(conditions, c.oneOf(name, position))
		if i == 0 {
			lists = append(lists, tokens)
		} else {
			lists = append(lists, "arrayShiftLeft("+tokens+", "+strconv.Itoa(i)+")")
		}
	}
	return "arrayCount((" + strings.Join(names, ", ") + ") -> " + and(conditions...) + ", " + strings.Join(lists, ", ") + ")"
}

// longPhrase is from how many words on the statement names a phrase as a whole: what it costs before it reads grows with its text.
const longPhrase = 16

// long says that a phrase is so long, and of one word each but for the last, which may be unfinished.
func long(n algebra.Phrase) bool {
	last := len(n.Terms) - 1
	return n.Slop == 0 && last > longPhrase && len(n.Terms[last]) > 0 && !slices.ContainsFunc(n.Terms[:last], func(p []string) bool { return len(p) != 1 })
}

// longOccurrences counts the places where a long phrase begins.
func (c *compiler) longOccurrences(n algebra.Phrase, tokens string) string {
	last := len(n.Terms) - 1
	words := make([]string, last)
	for i, p := range n.Terms[:last] {
		words[i] = p[0]
	}
	begins := "arraySlice(" + tokens + ", i, " + strconv.Itoa(last) + ") = " + c.param("Array(String)", quoteList(words)) // a table has no order
	ends := c.oneOf("arrayElement("+tokens+", i + "+strconv.Itoa(last)+")", n.Terms[last])
	return "arrayCount(i -> (" + and(begins, ends) + "), arrayEnumerate(arraySlice(" + tokens + ", " + strconv.Itoa(last+1) + ")))"
}

func (c *compiler) oneOf(value string, terms []string) string {
	if len(terms) == 1 {
		return "(" + value + " = " + c.str(terms[0]) + ")"
	}
	return "has(" + c.strs(terms) + ", " + value + ")"
}

// nowhere stands for the position of a term that does not come again.
const nowhere = "4611686018427387904"

// sloppy is the frequency of a phrase with gaps, as Lucene counts it: every
// term moves through its places, each shifted by the term's place in the
// phrase; whenever the term that is last moves on past another, the distance of
// the first and the last term at its last place is a match if it is at most the
// slop, and counts 1/(1+distance). Terms are different from each other.
func (c *compiler) sloppy(n algebra.Phrase, s *scope) string {
	f := n.Field
	var positions string
	tokens := s.column(f.Tokens())
	if s.many(f) {
		// Elements are 100 positions apart.
		lengths := "arrayMap(e -> if(empty(e), 0, 100 + arrayCount(t -> t != '', e)), " + f.Tokens() + ")"
		before := "arrayMap((c, l) -> c - l, arrayCumSum(" + lengths + "), " + lengths + ")"
		tokens = "arrayFlatten(" + f.Tokens() + ")"
		positions = "arrayFlatten(arrayMap((e, o) -> arrayMap(j -> j + o, arrayEnumerate(e)), " + f.Tokens() + ", " + before + "))"
	} else {
		positions = "arrayEnumerate(" + tokens + ")"
	}
	var lists, numbers []string
	for i, position := range n.Terms {
		if len(position) == 0 {
			continue
		}
		number := strconv.Itoa(i)
		numbers = append(numbers, number)
		lists = append(lists, "arrayMap(p -> (toInt64(p) - "+number+", toInt64("+number+")), arrayFilter((p, t) -> "+c.oneOf("t", position)+
			", "+positions+", "+tokens+"))")
	}
	places := "arraySort(arrayConcat(" + strings.Join(lists, ", ") + "))"
	// Of terms at one place the one that moved last goes on moving first.
	earlier := "arrayFilter(y -> y.1 < x.1, acc)"
	ordered := "arrayFold((acc, x) -> if(notEmpty(" + earlier + ") AND arrayElement(" + earlier + ", -1).2 = x.2, arrayConcat(" + earlier +
		", [x], arrayFilter(y -> y.1 = x.1, acc)), arrayPushBack(acc, x)), " + places + ", CAST([], 'Array(Tuple(Int64, Int64))'))"
	// From the last place to the first: where each term is next.
	terms := "CAST([" + strings.Join(numbers, ", ") + "], 'Array(Int64)')"
	farthest := "arrayMax(arrayMap((v, u) -> if(u = x.2, -" + nowhere + ", v), acc.1, " + terms + "))"
	distance := "(" + farthest + " - x.1)"
	start := "(arrayMap(u -> toInt64(" + nowhere + "), " + terms + "), toInt64(-1), toFloat64(0))"
	return "arrayFold((acc, x) -> (arrayMap((v, u) -> if(u = x.2, x.1, v), acc.1, " + terms + "), x.2, acc.3 + if(acc.2 != x.2 AND " +
		farthest + " < " + nowhere + " AND " + distance + " <= " + c.int(int64(n.Slop)) + ", 1 / (1 + " + distance + "), 0.)), arrayReverse(" +
		ordered + "), " + start + ").3"
}

// phraseScore is BM25 with the frequency of the phrase and the sum of its
// terms' weights.
func (c *compiler) phraseScore(n algebra.Phrase, s *scope) string {
	total, average := 0.0, 1.0
	count := 0
	for _, position := range n.Terms {
		for _, t := range position {
			count++
			if c.stats.Terms[termKey(n.Field, t)] == 0 {
				continue // the sum is over terms that somebody has
			}
			weight, a := c.stats.term(algebra.Term{Field: n.Field, Text: t}, nil)
			total, average = total+weight, a
		}
	}
	if total == 0 {
		return "0."
	}
	if len(n.Terms) == 1 && count == 1 {
		return c.termScore(algebra.Term{Field: n.Field, Text: n.Terms[0][0]}, s)
	}
	length := n.Field.Length()
	if s.nested() {
		length = "length(" + s.column(n.Field.Tokens()) + ")"
	}
	return bm25(c.float(total*(k1+1)), c.frequency(n, s), c.quantised(length), c.float(k1*(1-b)), c.float(k1*b/average))
}

// combined is the condition that any of several texts has a term.
func (c *compiler) combined(n algebra.Combined, s *scope) string {
	var list []string
	for _, f := range n.Fields {
		if !n.Absent(f) {
			list = append(list, c.term(f, n.Text, s))
		}
	}
	return or(list...)
}

// combinedScore is BM25F: frequencies and lengths of the fields are added,
// each times its weight.
func (c *compiler) combinedScore(n algebra.Combined, s *scope) string {
	var df, documents int64
	terms := 0.0
	var frequencies, lengths []string
	for i, f := range n.Fields {
		field := c.stats.Fields[f.Name()]
		df = max(df, c.stats.Terms[termKey(f, n.Text)], 1)
		documents = max(documents, field.Documents)
		terms += n.Weights[i] * float64(field.Terms)
		if n.Absent(f) {
			continue
		}
		weight := c.float(n.Weights[i])
		has := c.term(f, n.Text, s)
		length := f.Length()
		frequency := "(toFloat64(" + has + ") + countEqual(" + f.Repeats() + ", " + c.str(n.Text) + "))"
		if s.nested() {
			tokens := s.column(f.Tokens())
			frequency, length = "toFloat64(countEqual("+tokens+", "+c.str(n.Text)+"))", "length("+tokens+")"
		}
		if has != no {
			frequencies = append(frequencies, weight+" * "+frequency)
		}
		lengths = append(lengths, weight+" * "+c.quantised(length))
	}
	if documents == 0 || len(frequencies) == 0 {
		return "0."
	}
	average := float64(float32(terms / float64(documents)))
	weight := idf(float64(df), float64(documents))
	frequency := "(" + strings.Join(frequencies, " + ") + ")"
	length := c.quantised("floor(" + strings.Join(lengths, " + ") + " + 0.5)")
	return bm25(c.float(weight*(k1+1)), frequency, length, c.float(k1*(1-b)), c.float(k1*b/average))
}

// blendAcross are the document frequencies of one word over several fields, as
// cross_fields counts them: all as frequent as the most frequent, with a little
// for the order of the fields by frequency, and no more than the smallest field
// that has the word has words.
func blendAcross(df []int64, words []int64) []int64 {
	out := make([]int64, len(df))
	most, fewest := int64(0), int64(math.MaxInt64)
	for i := range df {
		most = max(most, df[i])
		if df[i] > 0 {
			fewest = min(fewest, words[i])
		}
	}
	if most == 0 {
		return out
	}
	order := make([]int, len(df))
	for i := range order {
		order[i] = i
	}
	stableByFrequency(order, df)
	actual, previous := min(fewest, most), df[order[0]]
	for _, i := range order {
		if df[i] == 0 {
			break
		}
		if previous > df[i] {
			actual++
		}
		out[i] = min(fewest, actual)
		previous = df[i]
	}
	return out
}
