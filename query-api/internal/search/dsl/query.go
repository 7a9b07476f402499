package dsl

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/analysis"
	"muster/schemas/readmodel"
	"muster/schemas/searchindex"
)

// UnsupportedError is the error of a query that OpenSearch 2 cannot execute.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return e.Reason }

// Object is a JSON object.
type Object = map[string]any

// Renderer renders queries for an index.
type Renderer struct {
	// DocumentID returns the _id of a person's document, which nested documents have too.
	DocumentID func(profileID string) string
}

// Query renders a node.
func (r Renderer) Query(n algebra.Node) (Object, error) { return r.render(n, 1) }

// field returns the name of a field in the index.
func field(f algebra.Field) string {
	if f.Identity {
		return "_id"
	}
	if f.Subfield != "" {
		return f.Name()
	}
	return searchindex.Field(f.SearchField, f.Keyword)
}

// valueField returns the field whose values are sorted and drawn by.
func valueField(f algebra.Field) string {
	if f.Identity {
		return searchindex.FieldID
	}
	return field(f)
}

// clause returns {"<name>": {"<field>": parameters}} with a boost.
func clause(name string, f algebra.Field, parameters Object, boost float64) Object {
	return Object{name: Object{field(f): withBoost(parameters, boost)}}
}

func withBoost(parameters Object, boost float64) Object {
	if boost != 1 {
		parameters["boost"] = boost
	}
	return parameters
}

// render renders a node whose score is multiplied by boost.
func (r Renderer) render(n algebra.Node, boost float64) (Object, error) {
	switch n := n.(type) {
	case algebra.All:
		return Object{"match_all": withBoost(Object{}, boost)}, nil
	case algebra.None:
		return Object{"match_none": Object{}}, nil
	case algebra.Term:
		return term(n, boost), nil
	case algebra.Set:
		return Object{"terms": withBoost(Object{field(n.Field): r.values(n)}, boost)}, nil
	case algebra.Phrase:
		return phrase(n, boost)
	case algebra.Combined:
		return nil, &UnsupportedError{"combined_fields is not supported by OpenSearch 2: use multi_match with the type " +
			"cross_fields"}
	case algebra.Range:
		return clause("range", n.Field, bounds(n), boost), nil
	case algebra.Pattern:
		return pattern(n, boost), nil
	case algebra.Fuzzy:
		return fuzzy(n, boost), nil
	case algebra.Exists:
		return Object{"exists": withBoost(Object{"field": field(n.Field)}, boost)}, nil
	case algebra.Bool:
		return r.boolean(n, boost)
	case algebra.DisMax:
		return r.disMax(n, boost)
	case algebra.Boost:
		return r.render(n.Node, boost*n.Factor)
	case algebra.Constant:
		filter, err := r.render(n.Node, 1)
		if err != nil {
			return nil, err
		}
		return Object{"constant_score": Object{"filter": filter, "boost": n.Score * boost}}, nil
	case algebra.Nested:
		return r.nested(n, boost)
	case algebra.Function:
		return r.function(n, boost)
	}
	return nil, fmt.Errorf("dsl: no clause for %T", n)
}

func (r Renderer) renderAll(nodes []algebra.Node) ([]Object, error) {
	out := make([]Object, len(nodes))
	for i, n := range nodes {
		var err error
		if out[i], err = r.render(n, 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// value returns a term as JSON has it. Terms of booleans are T and F.
func value(f algebra.Field, term string) any {
	switch f.Type {
	case readmodel.SearchBoolean:
		return term == "T"
	case readmodel.SearchLong, readmodel.SearchDate:
		if n, err := strconv.ParseInt(term, 10, 64); err == nil {
			return n
		}
	}
	return term
}

func (r Renderer) values(n algebra.Set) []any {
	out := make([]any, len(n.Values))
	for i, v := range n.Values {
		if n.Field.Identity {
			v = r.DocumentID(v)
		}
		out[i] = value(n.Field, v)
	}
	return out
}

func term(n algebra.Term, boost float64) Object {
	if n.Absent { // alone, its statistics have no effect
		return Object{"match_none": Object{}}
	}
	return clause("term", n.Field, Object{"value": value(n.Field, n.Text)}, boost)
}

// maxToken is the maximum length of a token in UTF-16 units.
const maxToken = 255

// isToken reports whether a text can be a token: analyzed texts have no others.
func isToken(text string) bool {
	return !strings.ContainsFunc(text, unicode.IsSpace) && text != "" && len(utf16.Encode([]rune(text))) <= maxToken
}

// phrase renders a phrase, whose words are split at white space.
func phrase(n algebra.Phrase, boost float64) (Object, error) {
	words, analyzer := make([]string, len(n.Terms)), "whitespace"
	for i, alternatives := range n.Terms {
		switch len(alternatives) {
		case 0:
			words[i], analyzer = searchindex.GapWord, searchindex.GapAnalyzer
		case 1:
			words[i] = alternatives[0]
		default:
			return nil, &UnsupportedError{"a phrase with alternative words is not supported on OpenSearch"}
		}
	}
	if len(words) == 1 {
		analyzer = "keyword"
	}
	for i, word := range words {
		if len(n.Terms[i]) > 0 && analyzer != "keyword" && !canFollow(word, analyzer) {
			return Object{"match_none": Object{}}, nil
		}
	}
	parameters := Object{"query": strings.Join(words, " "), "analyzer": analyzer, "slop": n.Slop}
	if n.PrefixLast {
		parameters["max_expansions"] = n.Expansions
		return clause("match_phrase_prefix", n.Field, parameters, boost), nil
	}
	return clause("match_phrase", n.Field, parameters, boost), nil
}

// canFollow reports whether a word of a phrase can be a token, and is one for the analyzer.
func canFollow(word, analyzer string) bool {
	if analyzer == "whitespace" {
		return isToken(word)
	}
	tokens := analysis.Analyze(nil, word)
	return len(tokens) == 1 && tokens[0].Text == word && word != searchindex.GapWord
}

func bounds(n algebra.Range) Object {
	out := Object{}
	if n.Field.IsString() {
		for _, end := range []struct {
			bound            *algebra.Bound
			included, beyond string
		}{{n.Lower, "gte", "gt"}, {n.Upper, "lte", "lt"}} {
			switch {
			case end.bound == nil:
			case end.bound.Inclusive:
				out[end.included] = end.bound.Text
			default:
				out[end.beyond] = end.bound.Text
			}
		}
		return out
	}
	// SearchMissing is no number of a document.
	if n.Min > readmodel.SearchMissing+1 || n.Max == math.MaxInt64 {
		out["gte"] = n.Min
	}
	if n.Max < math.MaxInt64 {
		out["lte"] = n.Max
	}
	return out
}

// rewriteName returns the rewrite method of up to n terms.
func rewriteName(method algebra.RewriteMethod, n int) string {
	const maxExpansions = 1024
	switch method {
	case algebra.RewriteConstant:
		return "constant_score"
	case algebra.RewriteScored:
		if n > maxExpansions { // More terms than the cluster allows are an error.
			return "scoring_boolean"
		}
		return "top_terms_" + strconv.Itoa(n)
	case algebra.RewriteTopTermsBoost:
		return "top_terms_boost_" + strconv.Itoa(n)
	case algebra.RewriteBlended:
		return "top_terms_blended_freqs_" + strconv.Itoa(n)
	}
	return ""
}

func pattern(n algebra.Pattern, boost float64) Object {
	parameters := Object{"value": n.Text}
	if n.Insensitive {
		parameters["case_insensitive"] = true
	}
	if n.Rewrite != algebra.RewriteDefault {
		parameters["rewrite"] = rewriteName(n.Rewrite, n.Expansions)
	}
	name := "prefix"
	switch n.Kind {
	case algebra.Wildcard:
		name = "wildcard"
	case algebra.Whole:
		name = "term"
	case algebra.Regexp:
		name = "regexp"
		parameters["flags"] = n.Flags
		if n.Flags == "" {
			parameters["flags"] = "NONE"
		}
	}
	return clause(name, n.Field, parameters, boost)
}

func fuzzy(n algebra.Fuzzy, boost float64) Object {
	parameters := Object{
		"value": n.Text, "fuzziness": n.Edits, "prefix_length": n.PrefixLength, "max_expansions": min(n.Expansions, 1024),
		"transpositions": n.Transpositions,
	}
	if n.Rewrite != algebra.RewriteDefault {
		parameters["rewrite"] = rewriteName(n.Rewrite, n.Expansions)
	}
	return clause("fuzzy", n.Field, parameters, boost)
}

func (r Renderer) boolean(n algebra.Bool, boost float64) (Object, error) {
	if n.MinimumField != nil {
		return r.termsSet(n, boost)
	}
	out := Object{}
	for _, part := range []struct {
		name  string
		nodes []algebra.Node
	}{{"must", n.Must}, {"filter", n.Filter}, {"should", n.Should}, {"must_not", n.MustNot}} {
		if len(part.nodes) == 0 {
			continue
		}
		list, err := r.renderAll(part.nodes)
		if err != nil {
			return nil, err
		}
		out[part.name] = list
	}
	if len(n.Should) > 0 {
		out["minimum_should_match"] = n.Minimum
	}
	return Object{"bool": withBoost(out, boost)}, nil
}

// termsSet renders terms of which as many match as a field says.
func (r Renderer) termsSet(n algebra.Bool, boost float64) (Object, error) {
	var of *algebra.Field
	terms := []any{}
	factor := 1.0 // clause.Lower gives the boost of the clause to each of its terms
	for _, m := range n.Should {
		if b, boosted := m.(algebra.Boost); boosted {
			factor, m = b.Factor, b.Node
		}
		switch m := m.(type) {
		case algebra.None: // A term that no document has.
			continue
		case algebra.Term:
			of, terms = &m.Field, append(terms, value(m.Field, m.Text))
		case algebra.Set:
			of, terms = &m.Field, append(terms, r.values(m)...)
		case algebra.Range:
			if m.Min != m.Max {
				return nil, &UnsupportedError{"terms_set with dates of a whole day, month or year is not supported on " +
					"OpenSearch: give milliseconds"}
			}
			of, terms = &m.Field, append(terms, m.Min)
		default:
			return nil, fmt.Errorf("dsl: no terms_set of %T", m)
		}
	}
	if of == nil {
		return Object{"match_none": Object{}}, nil
	}
	return clause("terms_set", *of, Object{
		"terms": terms, "minimum_should_match_field": field(*n.MinimumField),
	}, boost*factor), nil
}

func (r Renderer) disMax(n algebra.DisMax, boost float64) (Object, error) {
	if word, fields, ok := across(n.Nodes); ok {
		return Object{"multi_match": withBoost(Object{
			"query": word, "fields": fields, "type": "cross_fields", "analyzer": "keyword", "tie_breaker": n.Tie,
			"lenient": true,
		}, boost)}, nil
	}
	queries, err := r.renderAll(n.Nodes)
	if err != nil {
		return nil, err
	}
	return Object{"dis_max": withBoost(Object{"queries": queries, "tie_breaker": n.Tie}, boost)}, nil
}

// across returns the word and the boosted fields of terms that are one blend over fields.
func across(nodes []algebra.Node) (word string, fields []string, ok bool) {
	blend := 0
	for i, n := range nodes {
		boost := 1.0
		if b, boosted := n.(algebra.Boost); boosted {
			boost, n = b.Factor, b.Node
		}
		t, isTerm := n.(algebra.Term)
		if !isTerm || !t.Across || i > 0 && t.Blend != blend {
			return "", nil, false
		}
		blend = t.Blend
		if t.Field.Type == readmodel.SearchBoolean {
			word = strconv.FormatBool(t.Text == "T")
		} else {
			word = t.Text
		}
		fields = append(fields, field(t.Field)+"^"+strconv.FormatFloat(boost, 'g', -1, 32))
	}
	return word, fields, len(nodes) > 0
}

func (r Renderer) nested(n algebra.Nested, boost float64) (Object, error) {
	query, err := r.render(n.Node, 1)
	if err != nil {
		return nil, err
	}
	out := Object{"path": n.Path, "query": query, "score_mode": string(n.Mode)}
	if n.InnerHits != nil {
		out["inner_hits"] = innerHits(n.InnerHits)
	}
	return Object{"nested": withBoost(out, boost)}, nil
}
