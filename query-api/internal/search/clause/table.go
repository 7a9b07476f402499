package clause

import (
	"slices"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// Clause is a row of the table of clauses.
type Clause struct {
	Name       string
	Parameters []Parameter
	// Notes are the known differences from Elasticsearch.
	Notes string
	// Without are unsupported parameters of the clause in Elasticsearch.
	Without []string
	// Refused is why the clause is unsupported; empty: it is supported.
	Refused string
	// onField reports whether the parameters are those of a field.
	onField bool

	lower func(l *lowering, c *Clause, v value) (algebra.Node, error)
}

// Parameter is a parameter of a clause.
type Parameter struct{ Name string }

// rewrites is the note on rewrite methods.
const rewrites = "With a `rewrite` other than `constant_score`, rejected if more than 500,000 terms match or, with " +
	"`scoring_boolean`, more than 1,024."

// fuzzyRewrites is the note on rewrite methods of fuzzy words.
const fuzzyRewrites = "Rejected if a word expands to more than 1,024 terms with `scoring_boolean`, or more " +
	"than 65,536 with `constant_score`."

func parameters(names ...string) []Parameter {
	out := make([]Parameter, len(names))
	for i, n := range names {
		out[i].Name = n
	}
	return out
}

// Clauses returns the table of clauses: all clauses of the query DSL of Elasticsearch 8, supported or not.
func Clauses() []Clause { return clauses() }

func clauses() []Clause {
	list := []Clause{
		{Name: "match_all", Parameters: parameters("boost"), lower: lowerMatchAll},
		{Name: "match_none", Parameters: parameters("boost"), lower: lowerMatchNone},
		{
			Name: "match",
			Parameters: parameters("query", "operator", "minimum_should_match", "zero_terms_query", "analyzer",
				"fuzziness", "prefix_length", "max_expansions", "fuzzy_transpositions", "fuzzy_rewrite", "lenient",
				"auto_generate_synonyms_phrase_query", "boost"),
			lower: lowerMatch,
			Notes: fuzzyRewrites,
		},
		{Name: "match_phrase", Parameters: parameters("query", "slop", "zero_terms_query", "analyzer", "boost"),
			lower: lowerMatchPhrase},
		{Name: "match_phrase_prefix", Parameters: parameters("query", "slop", "max_expansions", "zero_terms_query",
			"analyzer", "boost"), lower: lowerMatchPhrasePrefix},
		{Name: "match_bool_prefix", Parameters: parameters("query", "operator", "minimum_should_match", "analyzer",
			"fuzziness", "prefix_length", "max_expansions", "fuzzy_transpositions", "fuzzy_rewrite", "boost"),
			lower: lowerMatchBoolPrefix, Notes: fuzzyRewrites},
		{Name: "multi_match", Parameters: parameters("query", "fields", "type", "operator", "minimum_should_match",
			"zero_terms_query", "analyzer",
			"fuzziness", "prefix_length", "max_expansions", "fuzzy_transpositions", "fuzzy_rewrite", "slop",
			"tie_breaker", "lenient", "auto_generate_synonyms_phrase_query", "boost"), lower: lowerMultiMatch,
			Notes: fuzzyRewrites},
		{Name: "combined_fields", Parameters: parameters("query", "fields", "operator", "minimum_should_match",
			"zero_terms_query", "auto_generate_synonyms_phrase_query", "boost"), lower: lowerCombinedFields},
		{Name: "fuzzy", Parameters: parameters("value", "fuzziness", "prefix_length", "max_expansions",
			"transpositions", "rewrite", "boost"), lower: lowerFuzzy, Notes: fuzzyRewrites},
		{Name: "regexp", Parameters: parameters("value", "flags", "case_insensitive", "max_determinized_states",
			"rewrite", "boost"), lower: lowerRegexp,
			Notes: "With `~` or `&`, rejected if more than 500,000 terms have to be scanned or more than " +
				"65,536 match. " + rewrites},
		{Name: "query_string", Parameters: parameters("query", "default_field", "fields", "default_operator",
			"minimum_should_match", "analyzer", "type", "tie_breaker",
			"allow_leading_wildcard", "phrase_slop", "fuzziness", "fuzzy_prefix_length", "fuzzy_max_expansions",
			"fuzzy_transpositions", "lenient",
			"quote_field_suffix", "quote_analyzer", "analyze_wildcard", "escape", "enable_position_increments",
			"max_determinized_states",
			"time_zone", "rewrite", "auto_generate_synonyms_phrase_query", "boost"), lower: lowerQueryString,
			Notes:   "A name in `default_field` has no boost. " + rewrites,
			Without: []string{"fuzzy_rewrite"}},
		{Name: "simple_query_string", Parameters: parameters("query", "fields", "default_operator",
			"minimum_should_match", "analyzer", "flags",
			"fuzzy_prefix_length", "fuzzy_max_expansions", "fuzzy_transpositions", "lenient", "quote_field_suffix",
			"analyze_wildcard", "auto_generate_synonyms_phrase_query", "boost"), lower: lowerSimpleQueryString},
		{Name: "terms_set", Parameters: parameters("terms", "minimum_should_match_field", "minimum_should_match",
			"boost"), lower: lowerTermsSet,
			Without: []string{"minimum_should_match_script"}},
		{Name: "function_score", Parameters: parameters("query", "functions", "weight", "field_value_factor",
			"random_score", "gauss", "exp", "linear",
			"score_mode", "boost_mode", "max_boost", "min_score", "boost"), lower: lowerFunctionScore,
			Notes:   "A score that is negative or not a number is rejected if it is on the page; they rank first.",
			Without: []string{"script_score"}},
		{Name: "term", Parameters: parameters("value", "case_insensitive", "boost"), lower: lowerTerm},
		{Name: "terms", Parameters: parameters("boost"), lower: lowerTerms,
			Notes: "The terms are in the query: those of another document (`index`, `id`, `path`) are not looked up."},
		{Name: "range", Parameters: parameters("gt", "gte", "lt", "lte", "from", "to", "include_lower", "include_upper",
			"relation", "format", "time_zone", "boost"), lower: lowerRange,
			Notes: "Of several bounds on one side the last one counts. `relation` is `intersects`, `within` or " +
				"`contains`, which are the same for single values."},
		{Name: "exists", Parameters: parameters("field", "boost"), lower: lowerExists},
		{Name: "ids", Parameters: parameters("values", "boost"), lower: lowerIDs},
		{Name: "prefix", Parameters: parameters("value", "case_insensitive", "rewrite", "boost"), lower: lowerPrefix,
			Notes: rewrites},
		{Name: "wildcard", Parameters: parameters("value", "wildcard", "case_insensitive", "rewrite", "boost"),
			lower: lowerWildcard, Notes: rewrites},
		{Name: "bool", Parameters: parameters("must", "filter", "should", "must_not", "minimum_should_match",
			"adjust_pure_negative", "boost"), lower: lowerBool},
		{Name: "constant_score", Parameters: parameters("filter", "boost"), lower: lowerConstantScore},
		{
			Name:       "boosting",
			Parameters: parameters("positive", "negative", "negative_boost", "boost"),
			lower:      lowerBoosting,
		},
		{Name: "dis_max", Parameters: parameters("queries", "tie_breaker", "boost"), lower: lowerDisMax},
		{Name: "nested", Parameters: parameters("path", "query", "score_mode", "inner_hits", "ignore_unmapped",
			"boost"), lower: lowerNested,
			Notes: "`inner_hits` supports `" + strings.Join(InnerHits(), "`, `") + "`; its sort keys have no `nested`. " +
				"Its `highlight` is that of a request. " +
				"Unsupported: `explain`, `version`, `seq_no_primary_term`, `stored_fields`, " +
				"`docvalue_fields`, `fields`, `script_fields`, `track_scores`, `collapse`."},
	}
	for i := range list {
		list[i].onField = slices.Contains([]string{
			"match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "fuzzy", "regexp", "terms_set", "term",
			"range", "prefix", "wildcard",
		}, list[i].Name)
	}
	for _, r := range [][2]string{
		{"script", "scripts are not run"}, {"script_score", "scripts are not run"}, {"percolate", "queries are not stored"},
		{"geo_bounding_box", "records have no coordinates"}, {"geo_distance", "records have no coordinates"},
		{"geo_grid", "records have no coordinates"}, {"geo_polygon", "records have no coordinates"},
		{"geo_shape", "records have no coordinates"}, {"shape", "records have no coordinates"},
		{"has_child", "records have no join field"}, {"has_parent", "records have no join field"},
		{"parent_id", "records have no join field"},
		{"knn", "records have no vectors"}, {"sparse_vector", "records have no vectors"},
		{"text_expansion", "records have no vectors"},
		{"semantic", "records have no vectors"}, {"weighted_tokens", "records have no vectors"},
		{"rank_feature", "records have no rank features"}, {"distance_feature", "use function_score with a decay function"},
		{"more_like_this", "search for the words with match"}, {"intervals", "use match_phrase"},
		{"span_containing", "use match_phrase"}, {"span_field_masking", "use match_phrase"},
		{"field_masking_span", "use match_phrase"},
		{"span_first", "use match_phrase"}, {"span_multi", "use match_phrase"}, {"span_near", "use match_phrase with slop"},
		{"span_not", "use match_phrase"}, {"span_or", "use match_phrase"}, {"span_term", "use term"},
		{"span_within", "use match_phrase"},
		{"pinned", "use bool with should and ids"}, {"rule", "there are no query rules"},
		{"rule_query", "there are no query rules"},
		{"wrapper", "write the query as JSON"}, {"type", "there is one type of document"}, {"common", "use match"},
	} {
		list = append(list, Clause{Name: r[0], Refused: r[1]})
	}
	return list
}

// clauseNames returns the names of the supported clauses.
func clauseNames() []string {
	var out []string
	for _, c := range clauses() {
		if c.Refused == "" {
			out = append(out, c.Name)
		}
	}
	return out
}
