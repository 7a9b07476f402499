package searchtest

import (
	"strings"
)

// some returns random words of a text, consecutive or not, sometimes with a word of another document.
func (g *Generator) some(value string, most int, inOrder bool) []string {
	all := strings.Fields(value)
	if len(all) == 0 {
		return nil
	}
	n := 1 + g.r.IntN(min(most, len(all)))
	var out []string
	if inOrder || g.r.IntN(2) == 0 {
		at := g.r.IntN(len(all) - n + 1)
		out = append(out, all[at:at+n]...)
	} else {
		for range n {
			out = append(out, pick(g.r, all...))
		}
	}
	if !inOrder && g.r.IntN(3) == 0 {
		out = append(out, pick(g.r, g.words...))
	}
	return out
}

func (g *Generator) match(s scope, _ int) any {
	f, v := g.fieldOf(s, pick(g.r, text, text, text, text, number, date, boolean))
	if v == nil {
		return nil
	}
	str, isString := v.(string)
	if f.kind != text {
		args := object("query", v)
		g.boost("match", args)
		return object(f.path, args)
	}
	if !isString {
		return nil
	}
	name := f.path
	words := g.some(str, 4, false)
	if len(words) == 0 {
		return nil
	}
	args := object()
	query := strings.Join(words, " ")
	if g.r.IntN(6) == 0 {
		name, query = f.keyword(), str
	}
	if g.may("match", "fuzziness", 4) {
		args["fuzziness"] = g.fuzziness()
		if words := strings.Fields(query); len(words) > 0 && name == f.path {
			words[0] = g.misspell(words[0])
			query = strings.Join(words, " ")
		}
		if g.may("match", "prefix_length", 3) {
			args["prefix_length"] = g.r.IntN(3)
		}
		if g.may("match", "max_expansions", 3) {
			args["max_expansions"] = pick(g.r, 1, 2, 10)
		}
		if g.may("match", "fuzzy_transpositions", 3) {
			args["fuzzy_transpositions"] = g.r.IntN(2) == 0
		}
		g.rewrite("match", "fuzzy_rewrite", args)
	}
	if g.may("match", "zero_terms_query", 8) {
		args["zero_terms_query"] = pick(g.r, "none", "all")
		if g.r.IntN(2) == 0 && name == f.path {
			query = pick(g.r, "!?", "", "--- ,")
		}
	}
	g.matchCommon("match", args)
	if len(args) == 0 && g.r.IntN(2) == 0 {
		return object(name, query)
	}
	args["query"] = query
	return object(name, args)
}

// matchCommon sets the parameters that match shares with similar clauses.
func (g *Generator) matchCommon(clause string, args map[string]any) {
	if g.may(clause, "operator", 3) {
		args["operator"] = pick(g.r, "and", "or", "AND", "OR")
	}
	if g.may(clause, "minimum_should_match", 4) {
		args["minimum_should_match"] = g.minimum()
	}
	if g.may(clause, "analyzer", 8) {
		args["analyzer"] = pick(g.r, "standard", "simple", "whitespace", "keyword", "stop")
	}
	if g.may(clause, "lenient", 12) {
		args["lenient"] = true
	}
	g.synonyms(clause, args)
	g.boost(clause, args)
}

// synonyms sets a parameter without effect, since there are no synonyms.
func (g *Generator) synonyms(clause string, args map[string]any) {
	if g.may(clause, "auto_generate_synonyms_phrase_query", 14) {
		args["auto_generate_synonyms_phrase_query"] = false
	}
}

func (g *Generator) minimum() any {
	return pick[any](g.r, 1, 2, -1, "2", "-1", "50%", "75%", "-25%", "-50%", "0", "2<75%", "1<-1 3<50%", "3<90%", 100,
		"100%")
}

// phrase returns consecutive words of a random text of the scope.
func (g *Generator) phrase(s scope, most int) (field, []string) {
	for range 4 {
		if f, v := g.textField(s); v != "" {
			if words := g.some(v, most, true); len(words) > 0 {
				return f, words
			}
		}
	}
	return field{}, nil
}

func (g *Generator) matchPhrase(s scope, _ int) any {
	f, words := g.phrase(s, pick(g.r, 4, 4, 4, 4, 4, 60))
	if words == nil {
		return nil
	}
	args := object()
	if g.may("match_phrase", "slop", 3) {
		args["slop"] = g.r.IntN(5)
		words = g.disturb(words)
		if g.r.IntN(4) == 0 { // a word twice
			words = append(words[:len(words):len(words)], pick(g.r, words...))
		}
		if f.nested != "" && s.path == "" && g.r.IntN(3) == 0 { // across elements, which are 100 positions apart
			if other, ok := pick(g.r, s.values(f)...).(string); ok && other != "" {
				words = append(g.some(other, 1, true), words[0])
				args["slop"] = pick(g.r, 97, 99, 100, 199, 200, 250)
			}
		}
	}
	if g.may("match_phrase", "zero_terms_query", 10) {
		args["zero_terms_query"] = pick(g.r, "none", "all")
		if g.r.IntN(2) == 0 {
			words = []string{"!"}
		}
	}
	if g.may("match_phrase", "analyzer", 8) {
		args["analyzer"] = pick(g.r, "standard", "simple", "whitespace", "stop", "keyword")
	}
	g.boost("match_phrase", args)
	return g.shortOrLong(f.path, strings.Join(words, " "), args)
}

// disturb drops or swaps words of a phrase, so that it matches only with slop.
func (g *Generator) disturb(words []string) []string {
	if len(words) < 2 {
		return words
	}
	out := append([]string{}, words...)
	i := g.r.IntN(len(out) - 1)
	switch g.r.IntN(4) {
	case 0:
		out[i], out[i+1] = out[i+1], out[i]
	case 1, 2:
		if len(out) > 2 {
			out = append(out[:1:1], out[2:]...)
		}
	}
	return out
}

// shorten cuts the last word to a prefix.
func (g *Generator) shorten(words []string) string {
	out := append([]string{}, words...)
	last := []rune(out[len(out)-1])
	out[len(out)-1] = string(last[:1+g.r.IntN(len(last))])
	return strings.Join(out, " ")
}

func (g *Generator) shortOrLong(name, query string, args map[string]any) any {
	if len(args) == 0 && g.r.IntN(2) == 0 {
		return object(name, query)
	}
	args["query"] = query
	return object(name, args)
}

func (g *Generator) matchPhrasePrefix(s scope, _ int) any {
	f, words := g.phrase(s, pick(g.r, 4, 4, 4, 4, 4, 60))
	if words == nil {
		return nil
	}
	args := object()
	if g.may("match_phrase_prefix", "slop", 4) {
		args["slop"] = g.r.IntN(4)
	}
	if g.may("match_phrase_prefix", "max_expansions", 3) {
		args["max_expansions"] = pick(g.r, 1, 3, 20, 100)
	}
	if g.may("match_phrase_prefix", "zero_terms_query", 10) {
		args["zero_terms_query"] = pick(g.r, "none", "all")
		if g.r.IntN(2) == 0 {
			words = []string{"?"}
		}
	}
	if g.may("match_phrase_prefix", "analyzer", 10) {
		args["analyzer"] = pick(g.r, "standard", "simple", "whitespace")
	}
	g.boost("match_phrase_prefix", args)
	return g.shortOrLong(f.path, g.shorten(words), args)
}

func (g *Generator) matchBoolPrefix(s scope, _ int) any {
	f, words := g.phrase(s, 4)
	if words == nil {
		return nil
	}
	args := object()
	g.matchBoolPrefixArgs("match_bool_prefix", args)
	return g.shortOrLong(f.path, g.shorten(words), args)
}

func (g *Generator) matchBoolPrefixArgs(clause string, args map[string]any) {
	if g.may(clause, "fuzziness", 5) {
		args["fuzziness"] = g.fuzziness()
		if g.may(clause, "prefix_length", 3) {
			args["prefix_length"] = g.r.IntN(3)
		}
		if g.may(clause, "max_expansions", 3) {
			args["max_expansions"] = pick(g.r, 1, 2, 10)
		}
		if g.may(clause, "fuzzy_transpositions", 3) {
			args["fuzzy_transpositions"] = g.r.IntN(2) == 0
		}
		g.rewrite(clause, "fuzzy_rewrite", args)
	}
	if g.may(clause, "operator", 3) {
		args["operator"] = pick(g.r, "and", "or")
	}
	if g.may(clause, "minimum_should_match", 4) {
		args["minimum_should_match"] = g.minimum()
	}
	if g.may(clause, "analyzer", 10) {
		args["analyzer"] = pick(g.r, "standard", "simple", "whitespace")
	}
	g.boost(clause, args)
}

// fieldList returns random names of fields of the scope, the given one among them, with boosts and patterns.
func (g *Generator) fieldList(clause string, s scope, f field, patterns bool) []any {
	names := []string{f.path}
	for range g.r.IntN(4) {
		if other, v := g.textField(s); v != "" {
			names = append(names, other.path)
		}
	}
	if patterns && g.may(clause, "fields_pattern", 5) {
		switch {
		case s.path != "" && clause == "combined_fields":
			// Without .keyword, which is rejected.
			names = append(names, map[string]string{"experience": "experience.*_name", "education": "education.*_name",
				"certifications": "certifications.*me", "languages": "lang*.language", "skills": "skills.*"}[s.path])
		case s.path != "":
			names = append(names, map[string]string{"experience": "experience.company_*", "education": "education.school_*",
				"certifications": "certifications.n*", "languages": "lang*.language", "skills": "skills.*"}[s.path])
		case clause == "combined_fields":
			names = append(names, pick(g.r, g.schema.combined...))
		default:
			names = append(names, pick(g.r, g.schema.patterns...))
		}
	}
	var out []any
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] && g.r.IntN(10) > 0 {
			continue
		}
		seen[n] = true
		if g.may(clause, "fields_boost", 4) {
			n += pick(g.r, "^2", "^0.5", "^3.5")
			if clause == "combined_fields" {
				n = strings.Replace(n, "^0.5", "^1.5", 1)
			}
		}
		out = append(out, n)
	}
	return out
}

func (g *Generator) multiMatch(s scope, _ int) any {
	const c = "multi_match"
	f, words := g.phrase(s, 4)
	if words == nil {
		return nil
	}
	args := object()
	if g.r.IntN(8) > 0 || !g.may(c, "default_fields", 1) {
		args["fields"] = g.fieldList(c, s, f, true)
	}
	kind := "best_fields"
	if g.r.IntN(6) > 0 {
		kind = pick(g.r, "best_fields", "most_fields", "cross_fields", "phrase", "phrase_prefix", "bool_prefix")
		if !g.may(c, "type."+kind, 1) {
			kind = "best_fields"
		} else {
			args["type"] = kind
		}
	}
	query := strings.Join(words, " ")
	if list, ok := args["fields"].([]any); ok && len(g.schema.nested) > 0 &&
		(s.path == "" || s.path == "experience") && g.r.IntN(40) == 0 &&
		g.may(c, "lenient", 1) {
		query, args["fields"], args["lenient"] = pick(g.r, "true", "false"), append(list, "*current"), true
	}
	switch kind {
	case "phrase":
		if g.may(c, "slop", 3) {
			args["slop"] = g.r.IntN(4)
			query = strings.Join(g.disturb(words), " ")
		}
	case "phrase_prefix":
		query = g.shorten(words)
		if g.may(c, "slop", 4) {
			args["slop"] = g.r.IntN(3)
		}
		if g.may(c, "max_expansions", 3) {
			args["max_expansions"] = pick(g.r, 1, 5, 50)
		}
	case "bool_prefix":
		query = g.shorten(words)
	default:
		if g.r.IntN(3) == 0 {
			query += " " + pick(g.r, g.words...)
		}
		if kind != "cross_fields" && g.may(c, "fuzziness", 5) {
			args["fuzziness"] = g.fuzziness()
			query = g.misspell(query)
			if g.may(c, "prefix_length", 3) {
				args["prefix_length"] = g.r.IntN(3)
			}
			if g.may(c, "max_expansions", 3) {
				args["max_expansions"] = pick(g.r, 1, 5, 50)
			}
			if g.may(c, "fuzzy_transpositions", 3) {
				args["fuzzy_transpositions"] = false
			}
			g.rewrite(c, "fuzzy_rewrite", args)
		}
	}
	if kind != "phrase" && kind != "phrase_prefix" {
		if g.may(c, "operator", 3) {
			args["operator"] = pick(g.r, "and", "or")
		}
		if g.may(c, "minimum_should_match", 4) {
			args["minimum_should_match"] = g.minimum()
		}
	}
	if kind != "most_fields" && kind != "bool_prefix" && g.may(c, "tie_breaker", 3) {
		args["tie_breaker"] = pick(g.r, 0.0, 0.3, 1.0)
	}
	if g.may(c, "zero_terms_query", 12) {
		args["zero_terms_query"] = pick(g.r, "none", "all")
		if g.r.IntN(2) == 0 && kind != "bool_prefix" {
			query = "!"
		}
	}
	if g.may(c, "analyzer", 10) {
		args["analyzer"] = pick(g.r, "standard", "simple", "whitespace", "stop")
	}
	if g.may(c, "lenient", 12) {
		args["lenient"] = true
	}
	g.synonyms(c, args)
	g.boost(c, args)
	args["query"] = query
	return args
}

func (g *Generator) combinedFields(s scope, _ int) any {
	const c = "combined_fields"
	f, words := g.phrase(s, 4)
	if words == nil {
		return nil
	}
	if g.r.IntN(3) == 0 {
		words = append(words, pick(g.r, g.words...))
	}
	args := object("fields", g.fieldList(c, s, f, true), "query", strings.Join(words, " "))
	if g.may(c, "operator", 3) {
		args["operator"] = pick(g.r, "and", "or")
	}
	if g.may(c, "minimum_should_match", 4) {
		args["minimum_should_match"] = g.minimum()
	}
	if g.may(c, "zero_terms_query", 10) {
		args["zero_terms_query"] = pick(g.r, "none", "all")
		if g.r.IntN(2) == 0 {
			args["query"] = "!"
		}
	}
	g.boost(c, args)
	return args
}
