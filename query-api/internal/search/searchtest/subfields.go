package searchtest

import (
	"slices"
	"strings"

	analyser "muster/schemas/analysis"
)

// hasSubfields reports whether a field has the subfields .folded and .code (rulings.md, Search).
func hasSubfields(path string) bool {
	return slices.Contains([]string{
		"profile.first_name", "profile.last_name", "profile.full_name", "profile.headline", "profile.summary",
		"profile.location.raw_address", "profile.location.city", "profile.location.state", "profile.location.country",
		"profile.location.continent", "current_position.title", "current_position.company_name", "experience.title",
		"experience.company_name", "experience.location", "skills.skill",
	}, path)
}

// NamesSubfields reports whether a query, as JSON, names a subfield.
func NamesSubfields(query []byte) bool {
	s := string(query)
	return strings.Contains(s, ".folded") || strings.Contains(s, ".code")
}

// withSubfields returns a query with subfields in place of some fields, unless it names fields by a pattern, which
// means all fields but the subfields.
func (g *Generator) withSubfields(query any) any {
	if namesAllFields(query) {
		return query
	}
	out := clone(query)
	g.putSubfields(out)
	return out
}

func namesAllFields(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, namesAllFields)
	case map[string]any:
		for name, e := range v {
			args, _ := e.(map[string]any)
			switch name {
			case "query_string": // its text may name fields by a pattern
				return true
			case "multi_match", "simple_query_string":
				fields, _ := args["fields"].([]any)
				if len(fields) == 0 || slices.ContainsFunc(fields, func(f any) bool {
					name, _ := f.(string)
					return strings.Contains(name, "*")
				}) {
					return true
				}
			}
			if namesAllFields(e) {
				return true
			}
		}
	}
	return false
}

func (g *Generator) putSubfields(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			g.putSubfields(e)
		}
	case map[string]any:
		for _, name := range sorted(v) {
			args, _ := v[name].(map[string]any)
			switch name {
			case "match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "term", "terms", "prefix",
				"wildcard", "regexp", "fuzzy", "range":
				for _, path := range sorted(args) {
					if hasSubfields(path) && g.r.IntN(3) > 0 {
						g.use("subfields")
						subfield := pick(g.r, ".folded", ".folded", ".code")
						value := args[path]
						if subfield == ".folded" {
							value = folded(value)
						}
						delete(args, path)
						args[path+subfield] = value
					}
				}
			case "exists":
				if path, _ := args["field"].(string); hasSubfields(path) {
					args["field"] = path + pick(g.r, ".folded", ".code")
				}
			case "multi_match", "simple_query_string":
				fields, _ := args["fields"].([]any)
				for i, f := range fields {
					s, _ := f.(string)
					path, boost, boosted := strings.Cut(s, "^")
					if hasSubfields(path) && g.r.IntN(2) == 0 {
						path += pick(g.r, ".folded", ".code")
						if boosted {
							path += "^" + boost
						}
						fields[i] = path
					}
				}
			default:
				g.putSubfields(v[name])
			}
		}
	}
}

// folded returns a value of a clause with all texts folded.
func folded(v any) any {
	switch v := v.(type) {
	case string:
		return analyser.Fold(v)
	case []any:
		for i := range v {
			v[i] = folded(v[i])
		}
	case map[string]any:
		for _, name := range []string{"value", "query", "gt", "gte", "lt", "lte"} {
			if s, ok := v[name].(string); ok {
				v[name] = analyser.Fold(s)
			}
		}
	}
	return v
}
