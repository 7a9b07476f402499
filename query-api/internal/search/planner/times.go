package planner

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// maxTimed is the most words of a query whose repeats are asked for.
const maxTimed = 64

// TimesStatement reads from the indexes how often anybody repeats the words that scores need, but for the known
// ones. Its rows are the name of a field, a word, and how many bits its repeats take. It is empty when there is nothing
// to ask; the keys are those of the words in Stats.
func TimesStatement(n algebra.Node, stats *Stats, known func(key string) bool) (Statement, []string) {
	w := want(atRoot(n), nil, stats)
	fields := make(map[string][]string)
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(w.terms)) {
		if t := w.terms[key]; t.Field.Counted && t.Field.IsText() && !stats.Absent[key] && !known(key) {
			fields[t.Field.Name()] = append(fields[t.Field.Name()], t.Text)
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || len(keys) > maxTimed {
		return Statement{}, nil
	}
	c := newCompiler(&Stats{})
	var selects []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		selects = append(selects, "SELECT "+c.str(name)+", splitByChar('\\0', token)[1] AS word, max(toUInt32(splitByChar('\\0', token)[2])) + 1 FROM mergeTreeTextIndex(currentDatabase(), '"+
			table+"', '"+w.fields[name].TimesIndex()+"') WHERE word IN "+c.strs(fields[name])+" GROUP BY word")
	}
	return Statement{SQL: strings.Join(selects, " UNION ALL "), Parameters: c.params, OneThread: true}, keys
}

// atRoot is a query without its nested clauses.
func atRoot(n algebra.Node) algebra.Node {
	out, _ := algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) { // no error
		if _, ok := n.(algebra.Nested); ok {
			return algebra.All{}, nil
		}
		return n, nil
	})
	return out
}

// times is how often a person has a term that she has: once, and as often as she repeats it.
func (c *compiler) times(f algebra.Field, text string) string {
	bits, known := c.stats.Bits[termKey(f, text)]
	if !known || !c.direct {
		return "(1 + countEqual(" + f.Repeats() + ", " + c.str(text) + "))"
	}
	parts := []string{"1"}
	for bit := range int(bits) {
		parts = append(parts, strconv.Itoa(1<<bit)+" * "+c.flag("has("+f.Times()+", "+c.str(readmodel.Time(text, bit))+")"))
	}
	if len(parts) == 1 {
		return "1"
	}
	return "(" + strings.Join(parts, " + ") + ")"
}

// flag is the name of a condition that a score takes from an index (flagged).
func (c *compiler) flag(condition string) string {
	at := slices.Index(c.flags, condition)
	if at < 0 {
		at = len(c.flags)
		c.flags = append(c.flags, condition)
	}
	return "f" + strconv.Itoa(at)
}

// flagged is a condition with the flags, which say nothing where it holds. The server answers from an index only what
// a condition asks.
func (c *compiler) flagged(condition string) string {
	if len(c.flags) == 0 {
		return condition
	}
	parts := []string{condition}
	for i, f := range c.flags {
		parts = append(parts, "("+f+" AS f"+strconv.Itoa(i)+")")
	}
	return "(" + strings.Join(parts, " OR ") + ") AND " + condition
}
