package searchtest

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// queryString returns a random expression in Lucene's query syntax.
func (g *Generator) queryString(s scope, _ int) any {
	const c = "query_string"
	f, v := g.textField(s)
	if v == "" {
		return nil
	}
	args := object()
	switch g.r.IntN(7) {
	case 0:
		if !g.may(c, "default_fields", 1) { // all fields
			return nil
		}
	case 1, 2:
		if !g.may(c, "default_field", 1) {
			return nil
		}
		args["default_field"] = f.path
	default:
		args["fields"] = g.fieldList(c, s, f, true)
		g.use(c + ".fields")
		if g.may(c, "type", 4) {
			args["type"] = pick(g.r, "best_fields", "most_fields", "cross_fields", "phrase", "phrase_prefix", "bool_prefix")
		}
		if g.may(c, "tie_breaker", 5) {
			args["tie_breaker"] = pick(g.r, 0.2, 1.0)
		}
	}
	var parts []string
	for range 1 + g.r.IntN(4) {
		if p := g.expression(s, f, v); p != "" {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	query := parts[0]
	for _, p := range parts[1:] {
		query += pick(g.r, " ", " ", " AND ", " OR ", " OR ", " && ", " || ") + p
	}
	if g.r.IntN(8) == 0 {
		query += pick(g.r, " NOT ", " -", " !", " - ", " + ", " ! ", " AND - ") + plain(pick(g.r, g.words...))
	}
	if g.r.IntN(10) == 0 {
		query = "(" + query + ")^2"
	}
	args["query"] = query
	if g.may(c, "default_operator", 4) {
		args["default_operator"] = pick(g.r, "AND", "OR", "and")
	}
	if g.may(c, "minimum_should_match", 6) {
		args["minimum_should_match"] = g.minimum()
	}
	if g.may(c, "analyze_wildcard", 8) {
		args["analyze_wildcard"] = true
		if p := g.joined(v); p != "" {
			args["query"] = query + " " + p
		}
	}
	if g.may(c, "escape", 16) {
		args["escape"] = true
	}
	if g.may(c, "enable_position_increments", 16) {
		args["enable_position_increments"], args["analyzer"] = false, "stop"
	}
	if g.may(c, "quote_analyzer", 12) {
		args["quote_analyzer"] = pick(g.r, "standard", "simple", "whitespace", "stop")
	}
	if g.may(c, "max_determinized_states", 16) {
		args["max_determinized_states"] = 20_000
	}
	if g.may(c, "allow_leading_wildcard", 10) {
		args["allow_leading_wildcard"] = true
	}
	if g.may(c, "phrase_slop", 6) {
		args["phrase_slop"] = g.r.IntN(4)
	}
	if g.may(c, "fuzziness", 8) {
		args["fuzziness"] = g.fuzziness()
	}
	if g.may(c, "fuzzy_prefix_length", 10) {
		args["fuzzy_prefix_length"] = 1
	}
	if g.may(c, "fuzzy_max_expansions", 10) {
		args["fuzzy_max_expansions"] = pick(g.r, 2, 20)
	}
	if g.may(c, "fuzzy_transpositions", 10) {
		args["fuzzy_transpositions"] = false
	}
	if g.may(c, "quote_field_suffix", 12) {
		args["quote_field_suffix"] = ".keyword"
	}
	if args["analyzer"] == nil && g.may(c, "analyzer", 12) {
		args["analyzer"] = pick(g.r, "standard", "simple", "whitespace")
	}
	if g.may(c, "lenient", 8) {
		args["lenient"] = true
	}
	if g.may(c, "time_zone", 12) {
		args["time_zone"] = "+02:00"
	}
	g.rewrite(c, "rewrite", args)
	g.synonyms(c, args)
	g.boost(c, args)
	return args
}

// joined returns two words of a text with a character between them, the second one cut.
func (g *Generator) joined(v string) string {
	words := g.some(v, 2, true)
	if len(words) == 0 {
		return ""
	}
	last := []rune(plain(words[len(words)-1]))
	first := plain(words[0])
	if len(last) == 0 || first == "" {
		return ""
	}
	return first + pick(g.r, "-", ",", ";", "") + string(last[:1+g.r.IntN(len(last))]) + "*"
}

// expression returns a random operand of a query string.
func (g *Generator) expression(s scope, f field, v string) string {
	words := g.some(v, 3, true)
	if len(words) == 0 {
		return ""
	}
	word := plain(words[0])
	if word == "" {
		return ""
	}
	name := f.path
	switch g.r.IntN(8) {
	case 0:
		name = strings.ReplaceAll(name, ".", `\.`)
	case 1:
		name = name[:len(name)-1] + `\*`
	case 2:
		name += " "
	}
	switch g.r.IntN(17) {
	case 0:
		return `"` + plainPhrase(words) + `"`
	case 1:
		return `"` + plainPhrase(g.disturb(words)) + `"~` + pick(g.r, "1", "2", "5")
	case 2:
		return name + ":" + word
	case 3:
		return name + `:"` + plainPhrase(words) + `"`
	case 4:
		return pick(g.r, "+", "+", "+ ") + word
	case 5:
		r := []rune(word)
		return string(r[:1+g.r.IntN(len(r))]) + "*"
	case 6:
		return g.misspell(word) + "~" + pick(g.r, "", "1", "2")
	case 7:
		return word + "^" + pick(g.r, "2", "0.5")
	case 8:
		other, w := g.textField(s)
		if p := plain(firstWord(w)); p != "" {
			return "(" + word + " OR " + other.path + ":" + p + ")" + pick(g.r, "", "", "^3")
		}
		return "(" + word + ")" + pick(g.r, "", "^3")
	case 9:
		if n, val := g.fieldOf(s, number); val != nil {
			x, ok := integer(val)
			if !ok {
				return ""
			}
			return n.path + pick(g.r, ":>=", ":>", ":<", ":<=") + itoa(x)
		}
		return word
	case 10:
		if d, val := g.fieldOf(s, date); val != nil {
			day, _ := val.(string)
			if len(day) >= 10 {
				if g.r.IntN(2) == 0 {
					return d.path + ":" + day[:10]
				}
				return d.path + ":" + pick(g.r, "[", "{") + day[:4] + " TO " + pick(g.r, "*", day[:10]) + pick(g.r, "]", "}")
			}
		}
		return word
	case 11:
		e, val := g.fieldOf(s, text, number, date)
		if val == nil {
			return ""
		}
		return "_exists_:" + e.path
	case 12:
		return "/" +
			strings.ReplaceAll(g.pattern([]rune(pick(g.r, strings.ToLower(word), strings.ToLower(word), word,
				strings.ToUpper(word)))), "/", `\/`) + "/"
	case 13:
		if g.r.IntN(3) == 0 {
			return pick(g.r, "*", name+":*")
		}
	case 14:
		if r := []rune(word); len(r) > 2 {
			at := 1 + g.r.IntN(len(r)-2)
			return string(r[:at]) + pick(g.r, "?", "*") + string(r[at+1:])
		}
	case 15:
		if g.r.IntN(4) == 0 && len(g.schema.nested) > 0 && (s.path == "" || s.path == "experience") {
			return pick(g.r, "", "experience.is_current:", `experience.is\*:`) + pick(g.r, "true", "false")
		}
	}
	return word
}

// plain removes what is syntax in a query string.
func plain(word string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, word)
}

func plainPhrase(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, plain(w))
	}
	return strings.TrimSpace(strings.Join(out, " "))
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

func (g *Generator) simpleQueryString(s scope, _ int) any {
	const c = "simple_query_string"
	f, v := g.textField(s)
	if v == "" {
		return nil
	}
	args := object()
	if g.r.IntN(6) > 0 || !g.may(c, "default_fields", 1) {
		args["fields"] = g.fieldList(c, s, f, true)
	}
	var parts []string
	for range 1 + g.r.IntN(4) {
		words := g.some(v, 3, true)
		if len(words) == 0 {
			continue
		}
		w := plain(words[0])
		if w == "" {
			continue
		}
		r := []rune(w)
		parts = append(parts, pick(g.r,
			w, w, "+"+w, `"`+plainPhrase(words)+`"`, `"`+plainPhrase(g.disturb(words))+`"~2`, string(r[:1+g.r.IntN(len(r))])+"*",
			g.misspell(w)+"~1", "("+w+" | "+plain(pick(g.r, g.words...))+")", "-"+plain(pick(g.r, g.words...))))
	}
	if len(parts) == 0 {
		return nil
	}
	query := parts[0]
	for _, p := range parts[1:] {
		query += pick(g.r, " ", " ", " + ", " | ") + p
	}
	if g.r.IntN(10) == 0 {
		query += pick(g.r, " (", ` "`, " +", " |", ")") // Malformed input is parsed leniently.
	}
	if g.r.IntN(20) == 0 {
		query = pick(g.r, "*", " * ")
	}
	args["query"] = query
	if g.may(c, "default_operator", 3) {
		args["default_operator"] = pick(g.r, "and", "or", "AND")
	}
	if g.may(c, "minimum_should_match", 5) {
		args["minimum_should_match"] = g.minimum()
	}
	if g.may(c, "flags", 5) {
		args["flags"] = pick[any](g.r, "ALL", "", 6, 899, "OR|", "NONE", "AND|OR|PREFIX", "PHRASE|SLOP|NOT",
			"OR|NOT|FUZZY|WHITESPACE", "PRECEDENCE|ESCAPE")
	}
	if g.may(c, "analyze_wildcard", 10) {
		args["analyze_wildcard"] = true
		if p := g.joined(v); p != "" {
			args["query"] = query + " " + p
		}
	}
	if g.may(c, "fuzzy_prefix_length", 10) {
		args["fuzzy_prefix_length"] = 1
	}
	if g.may(c, "fuzzy_max_expansions", 10) {
		args["fuzzy_max_expansions"] = pick(g.r, 2, 20)
	}
	if g.may(c, "fuzzy_transpositions", 10) {
		args["fuzzy_transpositions"] = false
	}
	if g.may(c, "quote_field_suffix", 12) {
		args["quote_field_suffix"] = ".keyword"
	}
	if g.may(c, "lenient", 10) {
		args["lenient"] = true
	}
	if g.may(c, "analyzer", 12) {
		args["analyzer"] = pick(g.r, "standard", "simple", "whitespace")
	}
	g.synonyms(c, args)
	g.boost(c, args)
	return args
}
