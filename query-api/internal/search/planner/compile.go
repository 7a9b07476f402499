package planner

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/analysis"
	"muster/schemas/readmodel"
)

// compiler turns leaves into SQL conditions. Equal values share a parameter, so that equal expressions have equal text.
type compiler struct {
	params map[string]string   // name to value as ClickHouse parses it
	names  map[string]string   // type and value to name
	tables map[string][]string // long lists, by table name
}

func newCompiler() *compiler {
	return &compiler{params: make(map[string]string), tables: make(map[string][]string), names: make(map[string]string)}
}

func (c *compiler) param(kind, value string) string {
	key := kind + "\x00" + value
	name, ok := c.names[key]
	if !ok {
		name = "p" + strconv.Itoa(len(c.params))
		c.names[key], c.params[name] = name, value
	}
	return "{" + name + ":" + kind + "}"
}

func (c *compiler) str(s string) string { return c.param("String", escapeParameter(s)) }

// strs returns a list of strings. A long one becomes an external table.
func (c *compiler) strs(list []string) string {
	if exceedsParameter(list) {
		return "(SELECT groupArray(v) FROM " + c.table(list) + ")"
	}
	return c.param("Array(String)", quoteList(list))
}

// maxListed is the maximum number of values in a parameter; longer lists are external tables.
const maxListed = 1000

// exceedsParameter reports whether a list is too long for a parameter. Servers accept 128 KiB.
func exceedsParameter(list []string) bool {
	size := 0
	for _, s := range list {
		size += len(s)
	}
	return len(list) > maxListed || size > 32<<10
}

func (c *compiler) table(list []string) string {
	key := strings.Join(list, "\x00")
	name, ok := c.names[key]
	if !ok {
		name = "list" + strconv.Itoa(len(c.tables))
		c.names[key] = name
		c.tables[name] = list
	}
	return name
}

func (c *compiler) int(n int64) string { return c.param("Int64", strconv.FormatInt(n, 10)) }

// escapeParameter encodes a string as the value of a String parameter, in the escaping of tab-separated formats.
func escapeParameter(s string) string {
	if !strings.ContainsAny(s, "\\\t\n\r\x00\b\f") {
		return s
	}
	return strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`, "\b", `\b`, "\f", `\f`).
		Replace(s)
}

// quoteList encodes strings as the value of an Array(String) parameter.
func quoteList(list []string) string {
	quoted := strings.NewReplacer(
		"\\",
		`\\`,
		"'",
		`\'`,
		"\t",
		`\t`,
		"\n",
		`\n`,
		"\r",
		`\r`,
		"\x00",
		`\0`,
		"\b",
		`\b`,
		"\f",
		`\f`,
	)
	var b strings.Builder
	b.WriteByte('[')
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\'')
		b.WriteString(quoted.Replace(s))
		b.WriteByte('\'')
	}
	b.WriteByte(']')
	return b.String()
}

// scope is where an expression is evaluated: on a row, or on one element of a nested path, in a lambda whose parameters
// are the element's values.
type scope struct {
	path string
	used []string // columns that are parameters of the lambda
}

func (s *scope) nested() bool { return s.path != "" }

// column returns the expression of a column in a scope.
func (s *scope) column(name string) string {
	if !s.nested() {
		return name
	}
	if !slices.Contains(s.used, name) {
		s.used = append(s.used, name)
	}
	return elementName(name)
}

// elementName returns the name of a lambda's parameter.
func elementName(name string) string { return "e_" + strings.ReplaceAll(name, " ", "_") }

// numbered returns a list of pairs, the number and a value of each element whose pair x satisfies a condition.
func (s *scope) numbered(value, condition string) string {
	if len(s.used) == 0 { // to iterate over the elements
		for _, f := range readmodel.SearchFields() {
			if f.Nested == s.path {
				s.used = append(s.used, f.Column)
				break
			}
		}
	}
	names, lists := []string{"i"}, []string{"arrayEnumerate(" + s.used[0] + ")"}
	for _, u := range s.used {
		names, lists = append(names, elementName(u)), append(lists, u)
	}
	return "arrayFilter(x -> " + condition + ", arrayMap((" + strings.Join(names, ", ") + ") -> (i, " + value + "), " +
		strings.Join(lists, ", ") + "))"
}

// many reports whether the field has a list of values in the scope.
func (s *scope) many(f algebra.Field) bool { return f.Nested != "" && !s.nested() }

// tokens returns the list of a text's tokens, of all elements at the root.
func (c *compiler) tokens(f algebra.Field, s *scope) string {
	switch {
	case s.many(f) && f.Subfield != algebra.Code:
		return c.folded(f, "arrayFlatten("+f.Tokens()+")")
	case s.many(f):
		return "arrayFlatten(" + c.tokenLists(f) + ")"
	case f.Subfield == algebra.Code:
		return codeTokens(s.column(f.Column))
	}
	return c.folded(f, s.column(f.Tokens()))
}

// tokenLists returns the lists of tokens of a nested text, one for each element.
func (c *compiler) tokenLists(f algebra.Field) string {
	switch f.Subfield {
	case algebra.Folded:
		return "arrayMap(e -> " + c.folded(f, "e") + ", " + f.Tokens() + ")"
	case algebra.Code:
		return "arrayMap(v -> " + codeTokens("v") + ", " + f.Column + ")"
	}
	return f.Tokens()
}

// sizes returns the number of tokens of a text, or the list of those of the elements of a nested text.
func sizes(f algebra.Field) string {
	switch {
	case f.Subfield == algebra.Code && f.Nested != "":
		return "arrayMap(v -> length(" + codeTokens("v") + "), " + f.Column + ")"
	case f.Subfield == algebra.Code:
		return "length(" + codeTokens(f.Column) + ")"
	}
	return tokenCount(f.SearchField)
}

// tokenCount returns the number of tokens of a text, or the list of those of its elements, without the tokens where
// the table is read itself.
func tokenCount(f readmodel.SearchField) string {
	switch {
	case f.Linked && f.Nested != "":
		return "arrayMap(t -> length(t), " + f.Tokens() + ")"
	case f.Linked:
		return "length(" + f.Tokens() + ")"
	case f.Nested != "":
		return f.Tokens() + ".size1"
	}
	return f.Tokens() + ".size0"
}

// folded returns a list of tokens as the field has them (analysis.Folded).
func (c *compiler) folded(f algebra.Field, tokens string) string {
	if f.Subfield != algebra.Folded {
		return tokens
	}
	return "arrayMap(t -> " + c.fold("t") + ", " + tokens + ")"
}

// fold returns the expression of analysis.Fold of a token.
func (c *compiler) fold(token string) string {
	from, to := analysis.Foldings()
	return "if(length(" + token + ") = lengthUTF8(" + token + "), " + token + ", arrayStringConcat(arrayMap(u -> " +
		"transform(u, " + c.param("Array(String)", quoteList(from)) + ", " + c.param("Array(String)", quoteList(to)) +
		", u), extractAll(" + token + ", '(?s).'))))"
}

// codeTokens returns the expression of analysis.Code of a text. Go and Lucene lower each character by itself;
// lowerUTF8 expands İ and lowers Σ by its position, so both are replaced first.
func codeTokens(text string) string {
	const space = `\\t-\\r\\x1c-\\x20\\x{1680}` +
		`\\x{2000}-\\x{2006}\\x{2008}-\\x{200a}\\x{2028}\\x{2029}\\x{205f}\\x{3000}`
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
	return "arrayFilter(w -> w != '', arrayMap(w -> trimRight(trimLeft(w, " + quoted(analysis.CodeOpening) + "), " +
		quoted(analysis.CodeClosing) + "), extractAll(lowerUTF8(replaceAll(replaceAll(" + text +
		", 'İ', 'i'), 'Σ', 'σ')), '[^" + space + "]{1," + strconv.Itoa(analysis.MaxToken) + "}')))"
}

const (
	yes = "1"
	no  = "0"
)

func and(list ...string) string {
	if slices.Contains(list, no) {
		return no
	}
	return fold(distinct(list, yes), "AND", yes)
}

func or(list ...string) string {
	if slices.Contains(list, yes) {
		return yes
	}
	return fold(distinct(list, no), "OR", no)
}

// distinct removes duplicate and neutral conditions from a list.
func distinct(list []string, neutral string) []string {
	parts := make([]string, 0, len(list))
	if len(list) <= 16 {
		for _, e := range list {
			if e != neutral && !slices.Contains(parts, e) {
				parts = append(parts, e)
			}
		}
		return parts
	}
	seen := map[string]bool{neutral: true}
	for _, e := range list {
		if !seen[e] {
			seen[e] = true
			parts = append(parts, e)
		}
	}
	return parts
}

func fold(parts []string, operator, none string) string {
	switch len(parts) {
	case 0:
		return none
	case 1:
		return parts[0]
	}
	return "(" + strings.Join(parts, " "+operator+" ") + ")"
}

// codeWords returns the condition that a text has the words in a token of .code, which the index of the text answers.
func (c *compiler) codeWords(f algebra.Field, token string, root *scope) string {
	text := f
	text.Subfield = ""
	conditions := []string{yes}
	if utf8.RuneCountInString(token) < analysis.MaxToken { // A longer word is split in different places.
		for _, t := range analysis.Analyze(nil, token) {
			conditions = append(conditions, c.term(text, t.Text, root))
		}
	}
	return and(conditions...)
}

// match returns the condition under which a leaf matches.
func (c *compiler) match(n algebra.Node, s *scope) string {
	switch n := n.(type) {
	case algebra.Term:
		return c.term(n.Field, n.Text, s)
	case algebra.Set:
		return c.set(n, s)
	case algebra.Phrase:
		return c.phrase(n, s)
	case algebra.Range:
		return c.inRange(n, s)
	case algebra.Pattern:
		return c.pattern(n, s)
	case algebra.Exists:
		return c.exists(n.Field, s)
	}
	return no
}

// necessary returns a condition on the row that holds wherever an element matches a leaf, and that an index answers, so
// that it finds the candidates. It returns yes if there is none.
func (c *compiler) necessary(n algebra.Node, root *scope) string {
	switch n := n.(type) {
	case algebra.Term:
		if n.Field.Subfield == algebra.Code {
			return c.codeWords(n.Field, n.Text, root)
		}
		if HasDictionary(n.Field) {
			return c.term(n.Field, n.Text, root)
		}
	case algebra.Phrase:
		if HasDictionary(n.Field) {
			return c.words(n, root)
		}
	case algebra.Set:
		if HasDictionary(n.Field) {
			return c.set(n, root)
		}
	}
	return yes
}

func (c *compiler) term(f algebra.Field, text string, s *scope) string {
	switch {
	case f.IsText() && text == "": // "" means a text without words
		return no
	case f.Subfield == algebra.Code && !s.nested():
		return and(c.codeWords(f, text, s), "has("+c.tokens(f, s)+", "+c.str(text)+")")
	case f.IsText():
		return "has(" + c.tokens(f, s) + ", " + c.str(text) + ")"
	case f.Keyword && !readmodel.IsKeyword(text):
		return no
	case f.Type == readmodel.SearchBoolean:
		value := no
		if text == "T" {
			value = yes
		}
		if s.many(f) {
			return "has(" + f.Column + ", " + value + ")"
		}
		return "(" + s.column(f.Column) + " = " + value + ")"
	case s.many(f):
		return "has(" + f.Column + ", " + c.str(text) + ")"
	}
	return "(" + s.column(f.Column) + " = " + c.str(text) + ")"
}

// MaxAlternatives is the maximum number of values of a keyword that are compared one by one. An index answers each
// comparison, but no list. The server turns comparisons into a list unless
// optimize_min_equality_disjunction_chain_length is greater.
const MaxAlternatives = 8

func (c *compiler) set(n algebra.Set, s *scope) string {
	f := n.Field
	if f.Keyword && !f.Identity {
		n.Values = slices.DeleteFunc(slices.Clone(n.Values), func(v string) bool { return !readmodel.IsKeyword(v) })
	}
	switch {
	case f.Identity:
		hashes := make([]string, len(n.Values))
		for i, id := range n.Values {
			hashes[i] = strconv.FormatUint(readmodel.KeyHash(f.Namespace, id), 10)
		}
		return "(" + hashColumn + " IN " + c.listed(hashes, "UInt64") + " AND " + idColumn + " IN " +
			c.listed(n.Values, "String") + ")"
	case f.Type == readmodel.SearchBoolean:
		list := make([]string, len(n.Values))
		for i, v := range n.Values {
			list[i] = c.term(f, v, s)
		}
		return or(list...)
	case len(n.Values) == 1 && f.IsString():
		return c.term(f, n.Values[0], s)
	case f.IsText():
		return "hasAny(" + c.tokens(f, s) + ", " + c.strs(n.Values) + ")"
	case f.IsString() && s.many(f):
		return "hasAny(" + f.Column + ", " + c.strs(n.Values) + ")"
	case f.IsString() && !s.nested():
		if HasDictionary(f) && len(n.Values) <= MaxAlternatives && !slices.Contains(n.Values, "") {
			list := make([]string, len(n.Values))
			for i, v := range n.Values {
				list[i] = c.term(f, v, s)
			}
			return or(list...)
		}
		return "(" + f.Column + " IN " + c.listed(n.Values, "String") + ")"
	}
	return "has(" + c.strs(n.Values) + ", " + s.column(f.Column) + ")"
}

// listed returns the operand of IN: a set, which is looked up rather than scanned.
func (c *compiler) listed(list []string, kind string) string {
	switch {
	case exceedsParameter(list):
		return "(SELECT CAST(v, '" + kind + "') FROM " + c.table(list) + ")"
	case kind != "String":
		return c.param("Array("+kind+")", "["+strings.Join(list, ",")+"]")
	}
	return c.strs(list)
}

// isKeyword is the condition that a whole value is short enough for .keyword (readmodel.IsKeyword): the columns of
// some fields have longer ones.
func isKeyword(v string) string {
	limit := strconv.Itoa(readmodel.MaxKeyword)
	return "(length(" + v + ") <= " + limit + " OR lengthUTF8(" + v + ") + countMatches(" + v +
		", '[\\\\x{10000}-\\\\x{10FFFF}]') <= " + limit + ")"
}

// any returns the condition that cond holds for a value of the field.
func (c *compiler) any(f algebra.Field, s *scope, cond func(v string) string) string {
	if of := cond; f.Keyword && f.Type == readmodel.SearchText {
		cond = func(v string) string { return and(of(v), isKeyword(v)) }
	}
	switch {
	case f.IsText():
		return "arrayExists(v -> " + cond("v") + ", " + c.tokens(f, s) + ")"
	case s.many(f):
		return "arrayExists(v -> " + cond("v") + ", " + f.Column + ")"
	}
	return cond(s.column(f.Column))
}

// inRange returns the condition that a string is in a range. Ranges of numbers are not leaves.
func (c *compiler) inRange(n algebra.Range, s *scope) string {
	f := n.Field
	return c.any(f, s, func(v string) string {
		conditions := []string{v + " != ''"}
		if b := n.Lower; b != nil {
			conditions = append(conditions, v+comparison(">", b.Inclusive)+c.str(b.Text))
		}
		if b := n.Upper; b != nil {
			conditions = append(conditions, v+comparison("<", b.Inclusive)+c.str(b.Text))
		}
		return and(conditions...)
	})
}

func comparison(operator string, inclusive bool) string {
	if inclusive {
		return " " + operator + "= "
	}
	return " " + operator + " "
}

func (c *compiler) pattern(n algebra.Pattern, s *scope) string {
	return c.any(n.Field, s, func(v string) string { return c.fits(n, v) })
}

// fits returns the condition that a term has the form of a pattern.
func (c *compiler) fits(n algebra.Pattern, v string) string {
	switch {
	case n.Kind == algebra.Prefix && !n.Insensitive:
		return "(" + v + " != '' AND startsWith(" + v + ", " + c.str(n.Text) + "))"
	case n.Kind == algebra.Whole && !n.Insensitive:
		return "(" + v + " = " + c.str(n.Text) + ")"
	case n.Kind == algebra.Wildcard && !n.Insensitive && !strings.ContainsAny(n.Text, `?\`):
		// Many times as fast as an expression if it searches for one text.
		like := strings.NewReplacer("%", `\%`, "_", `\_`, "*", "%").Replace(n.Text)
		return "(" + v + " != '' AND " + v + " LIKE " + c.str(like) + ")"
	}
	return "(" + v + " != '' AND match(" + v + ", " + c.str(Expression(n)) + "))"
}

func (c *compiler) exists(f algebra.Field, s *scope) string {
	// A text without tokens is not empty. Sizes are read without the tokens.
	switch {
	case f.IsText() && s.nested():
		return or("notEmpty("+s.column(f.Tokens())+")", "("+s.column(f.Column)+" != '')")
	case f.IsText() && s.many(f):
		return or("arrayExists(n -> n > 0, "+tokenCount(f.SearchField)+")", "arrayExists(v -> v != '', "+f.Column+")")
	case f.IsText():
		return or("("+tokenCount(f.SearchField)+" > 0)", "("+f.Column+" != '')")
	case f.Type == readmodel.SearchBoolean && s.many(f):
		return "notEmpty(" + f.Column + ")"
	case f.Type == readmodel.SearchBoolean:
		return "(" + s.column(f.Column) + " < 2)" // elements always have a value
	}
	return c.any(f, s, func(v string) string { return "(" + v + " != '')" })
}
