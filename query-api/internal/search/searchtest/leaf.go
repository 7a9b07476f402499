package searchtest

import (
	"strings"
	"unicode"
	"unicode/utf16"

	analyser "muster/schemas/analysis"
)

func (g *Generator) matchAll(scope, int) any {
	args := object()
	g.boost("match_all", args)
	return args
}

func (g *Generator) matchNone(scope, int) any { return object() }

func (g *Generator) term(s scope, _ int) any {
	args := object()
	if g.r.IntN(12) == 0 {
		args["value"] = g.id(s)
		g.boost("term", args)
		return object("_id", args)
	}
	f, name, v := g.exact(s)
	if f.path == "" {
		return nil
	}
	if str, ok := v.(string); ok && f.kind == text && g.may("term", "case_insensitive", 4) {
		args["case_insensitive"] = g.r.IntN(4) > 0
		v = g.recase(str)
	}
	g.boost("term", args)
	if len(args) == 0 && g.r.IntN(2) == 0 {
		return object(name, v)
	}
	args["value"] = v
	return object(name, args)
}

// exact returns a random field and a term of it: a value of a .keyword, a token, a number, a date, a boolean.
func (g *Generator) exact(s scope) (field, string, any) {
	f, v := g.fieldOf(s, pick(g.r, text, text, text, number, date, boolean))
	if f.path == "" {
		return f, "", nil
	}
	str, isString := v.(string)
	if f.kind == text && isString {
		if g.r.IntN(2) == 0 && len(utf16.Encode([]rune(str))) <= 256 {
			return f, f.keyword(), str
		}
		if tokens := analyser.Analyze(nil, str); len(tokens) > 0 {
			return f, f.path, pick(g.r, tokens...).Text
		}
		return field{}, "", nil
	}
	return f, f.path, v
}

func (g *Generator) terms(s scope, _ int) any {
	if g.r.IntN(12) == 0 {
		args := object("_id", []any{g.id(s), pick(g.r, g.docs...).ID})
		g.boost("terms", args)
		return args
	}
	f, name, v := g.exact(s)
	if f.path == "" || f.kind == boolean {
		return nil // OpenSearch scores one boolean as a term, Elasticsearch does not.
	}
	values := []any{v}
	for range g.r.IntN(4) {
		if other, otherName, w := g.exact(scope{v: pick(g.r, g.docs...).root}); other.path == f.path && otherName == name {
			values = append(values, w)
		} else if f.kind == text {
			values = append(values, strings.ToLower(pick(g.r, g.words...)))
		}
	}
	args := object(name, values)
	g.boost("terms", args)
	return args
}

func (g *Generator) termsSet(s scope, _ int) any {
	if s.path != "" {
		return nil // The field of the minimum is at the root.
	}
	f, v := g.textField(s)
	tokens := analyser.Analyze(nil, v)
	if len(tokens) == 0 {
		return nil
	}
	var terms []any
	for range 1 + g.r.IntN(5) {
		terms = append(terms, pick(g.r, tokens...).Text)
	}
	args := object("terms", terms, "minimum_should_match_field", pick(g.r, g.schema.numbers...))
	g.use("terms_set.minimum_should_match_field")
	g.boost("terms_set", args)
	return object(f.path, args)
}

func (g *Generator) exists(s scope, _ int) any {
	f, v := g.fieldOf(s, text, number, date, boolean)
	if v == nil {
		return nil
	}
	name := f.path
	if f.kind == text && g.r.IntN(3) == 0 {
		name = f.keyword()
	}
	if g.r.IntN(6) == 0 {
		if i := strings.LastIndexByte(f.path, '.'); i > 0 && s.path == "" {
			name = f.path[:i] // An object exists if any of its fields does.
		}
	}
	args := object("field", name)
	g.use("exists.field")
	g.boost("exists", args)
	return args
}

// id returns, mostly, the _id of the person of a scope, which nested elements
// share.
func (g *Generator) id(s scope) string {
	root, _ := s.v.(map[string]any)
	if s.path != "" {
		root, _ = g.anchor.v.(map[string]any)
	}
	if id, ok := root[g.schema.id].(string); ok && g.r.IntN(4) > 0 {
		return id
	}
	return pick(g.r, g.docs...).ID
}

func (g *Generator) ids(s scope, _ int) any {
	values := []any{g.id(s)}
	for range g.r.IntN(5) {
		values = append(values, pick(g.r, g.docs...).ID)
	}
	args := object("values", values)
	g.use("ids.values")
	g.boost("ids", args)
	return args
}

// rawTerm returns a random string term, which prefix, wildcard, regexp and fuzzy match.
func (g *Generator) rawTerm(s scope) (name, term string) {
	for range 5 {
		f, n, v := g.exact(s)
		if str, ok := v.(string); ok && f.kind == text && str != "" {
			return n, str
		}
	}
	return "", ""
}

func (g *Generator) prefix(s scope, _ int) any {
	name, term := g.rawTerm(s)
	if term == "" {
		return nil
	}
	r := []rune(term)
	value := string(r[:min(len(r), 1+g.r.IntN(6)+g.r.IntN(3))])
	args := object()
	if g.may("prefix", "case_insensitive", 3) {
		args["case_insensitive"] = g.r.IntN(4) > 0
		value = g.recase(value)
	}
	g.rewrite("prefix", "rewrite", args)
	g.boost("prefix", args)
	if len(args) == 0 && g.r.IntN(2) == 0 {
		return object(name, value)
	}
	args["value"] = value
	return object(name, args)
}

func (g *Generator) wildcard(s scope, _ int) any {
	name, term := g.rawTerm(s)
	if term == "" {
		return nil
	}
	args := object()
	value := g.wild(term)
	if g.may("wildcard", "case_insensitive", 3) {
		args["case_insensitive"] = g.r.IntN(4) > 0
		value = g.recase(value)
	}
	g.rewrite("wildcard", "rewrite", args)
	g.boost("wildcard", args)
	if len(args) == 0 && g.r.IntN(2) == 0 {
		return object(name, value)
	}
	if g.may("wildcard", "wildcard", 4) {
		args["wildcard"] = value
	} else {
		args["value"] = value
	}
	return object(name, args)
}

// wild replaces parts of a term by wildcards.
func (g *Generator) wild(term string) string {
	r := []rune(term)
	var b strings.Builder
	for i := 0; i < len(r); i++ {
		switch n := g.r.IntN(8); {
		case n == 0:
			b.WriteByte('?')
		case n == 1 && i > 0:
			b.WriteByte('*')
			i += g.r.IntN(4)
		case r[i] == '*' || r[i] == '?' || r[i] == '\\':
			b.WriteByte('\\')
			b.WriteRune(r[i])
		default:
			b.WriteRune(r[i])
		}
	}
	if g.r.IntN(2) == 0 {
		b.WriteByte('*')
	}
	return b.String()
}

// rewrite may set the rewrite method of a pattern or a fuzzy word.
func (g *Generator) rewrite(clause, parameter string, args map[string]any) {
	if g.may(clause, parameter, 6) {
		args[parameter] = pick(g.r, "constant_score", "constant_score_boolean", "scoring_boolean", "top_terms_1",
			"top_terms_3", "top_terms_200",
			"top_terms_boost_2", "top_terms_boost_10", "top_terms_blended_freqs_2", "top_terms_blended_freqs_20")
	}
}

func (g *Generator) regexp(s scope, _ int) any {
	name, term := g.rawTerm(s)
	if term == "" || len(term) > 200 {
		return nil
	}
	args := object()
	if g.may("regexp", "case_insensitive", 4) {
		args["case_insensitive"] = g.r.IntN(4) > 0
		term = g.recase(term)
	}
	value := g.pattern([]rune(term))
	if g.r.IntN(2) == 0 { // not in query_string, which lower-cases them
		value = strings.NewReplacer(`[^\d]`, `[\D]`, `[^\s]`, `[\S]`, `[\w]`, `[^\W]`).Replace(value)
	}
	if g.may("regexp", "flags", 4) {
		args["flags"] = pick(g.r, "ALL", "NONE", "INTERSECTION|INTERVAL", "COMPLEMENT", "ANYSTRING")
		switch args["flags"] {
		case "ALL", "INTERSECTION|INTERVAL":
			value = "(" + value + ")&(.{1,200})"
			if args["flags"] == "ALL" && g.r.IntN(2) == 0 {
				value = "@&~(" + g.pattern([]rune(pick(g.r, g.words...))) + ")&" + value
			} else if args["flags"] == "ALL" {
				r := []rune(term)
				value = g.pattern(r[:1]) + "(~(" + g.pattern([]rune(pick(g.r, g.words...))) + ")&" + pick(g.r, "@", ".+|x") + ")"
			}
		case "ANYSTRING":
			value += "@"
		}
	}
	if g.may("regexp", "max_determinized_states", 8) {
		args["max_determinized_states"] = 20000
	}
	g.rewrite("regexp", "rewrite", args)
	g.boost("regexp", args)
	if len(args) == 0 && g.r.IntN(2) == 0 {
		return object(name, value)
	}
	args["value"] = value
	return object(name, args)
}

// pattern returns a regular expression that matches the term.
func (g *Generator) pattern(term []rune) string {
	var b strings.Builder
	for i, r := range term {
		switch n := g.r.IntN(14); {
		case n == 0:
			b.WriteByte('.')
		case n == 1:
			b.WriteString(".*")
		case n == 2 && unicode.IsLetter(r) && r < 0x80:
			b.WriteString("[" + string(r) + "x-z]")
		case n == 3 && unicode.IsDigit(r) && r < 0x80:
			b.WriteString(pick(g.r, "[0-9]+", `[\d]+`, `[\w-]`))
		case n == 3 && unicode.IsLetter(r) && r < 0x80:
			b.WriteString(pick(g.r, `[\w]+`, `[^\d]`, `[^\s]`))
		case n == 4:
			b.WriteString("(" + quoteRegexp(r) + "|qq)")
		case n == 5:
			b.WriteString(quoteRegexp(r) + "{1,2}")
		case n == 6:
			b.WriteString(quoteRegexp(r) + "x?")
		case n == 7 && i == len(term)-1:
			b.WriteString("[^ #]")
		case n == 8 && i > 0:
			b.WriteString(".+")
			return b.String()
		default:
			b.WriteString(quoteRegexp(r))
		}
	}
	return b.String()
}

func quoteRegexp(r rune) string {
	if r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ' ' && r != '_' {
		return "\\" + string(r)
	}
	return string(r)
}

func (g *Generator) fuzzy(s scope, _ int) any {
	name, term := g.rawTerm(s)
	if term == "" {
		return nil
	}
	args := object()
	value := g.misspell(term)
	if g.may("fuzzy", "fuzziness", 2) {
		args["fuzziness"] = g.fuzziness()
	}
	if g.may("fuzzy", "prefix_length", 4) {
		args["prefix_length"] = g.r.IntN(4)
	}
	if g.may("fuzzy", "max_expansions", 5) {
		args["max_expansions"] = pick(g.r, 1, 3, 10, 100)
	}
	if g.may("fuzzy", "transpositions", 5) {
		args["transpositions"] = g.r.IntN(2) == 0
	}
	g.rewrite("fuzzy", "rewrite", args)
	g.boost("fuzzy", args)
	if len(args) == 0 && g.r.IntN(2) == 0 {
		return object(name, value)
	}
	args["value"] = value
	return object(name, args)
}

func (g *Generator) fuzziness() any {
	return pick[any](g.r, "AUTO", "AUTO", "AUTO:2,5", 0, 1, 2, "1")
}

// misspell makes up to two single-character edits.
func (g *Generator) misspell(term string) string {
	r := []rune(term)
	for range g.r.IntN(3) {
		if len(r) < 2 {
			break
		}
		i := g.r.IntN(len(r) - 1)
		switch g.r.IntN(4) {
		case 0:
			r = append(r[:i:i], r[i+1:]...)
		case 1:
			r[i], r[i+1] = r[i+1], r[i]
		case 2:
			r[i] = pick(g.r, 'e', 'a', 'x')
		default:
			r = append(r[:i:i], append([]rune{pick(g.r, 'n', 'o')}, r[i:]...)...)
		}
	}
	return string(r)
}

// recase changes the case of some ASCII letters.
func (g *Generator) recase(s string) string {
	b := []byte(s)
	for i, c := range b {
		if g.r.IntN(3) > 0 {
			continue
		}
		switch {
		case c >= 'a' && c <= 'z' && (i == 0 || b[i-1] != '\\'):
			b[i] = c - 'a' + 'A'
		case c >= 'A' && c <= 'Z' && (i == 0 || b[i-1] != '\\'):
			b[i] = c - 'A' + 'a'
		}
	}
	return string(b)
}
