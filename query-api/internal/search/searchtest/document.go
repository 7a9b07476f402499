package searchtest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// kind is the type of a searchable field.
type kind uint8

const (
	text kind = iota + 1
	number
	date
	boolean
)

// field is a field of the search document.
type field struct {
	path   string
	nested string // path of its array; empty at the root
	kind   kind
}

// keyword returns the field's .keyword subfield.
func (f field) keyword() string { return f.path + ".keyword" }

// Schema describes the documents that queries are about. The zero value stands for those of people.
type Schema struct {
	id     string // path of the ID
	fields []field
	// nested are the paths of nested arrays, some more often than others.
	nested []string
	// numbers are fields of numbers at the root.
	numbers []any
	// patterns match names of texts, combined those without .keyword.
	patterns, combined []string
}

// add adds fields to a schema.
func (s *Schema) add(nested string, k kind, paths ...string) {
	for _, p := range paths {
		if nested != "" {
			p = nested + "." + p
		}
		s.fields = append(s.fields, field{path: p, nested: nested, kind: k})
	}
}

// People returns the schema of people (schemas/MAPPING.md, 5.1).
func People() Schema {
	s := Schema{
		id: "profile_id",
		nested: []string{"experience", "experience", "experience", "education", "certifications", "languages",
			"skills"},
		numbers:  []any{"profile.connections", "profile.followers"},
		patterns: []string{"profile.*_name", "profile.location.*", "exp*.title", "*.name", "languages.*"},
		combined: []string{"profile.*_name", "exp*.title", "profile.*_address"},
	}
	s.add("", text, "network_url", "network_username", "profile_id", "profile.first_name", "profile.last_name",
		"profile.full_name",
		"profile.headline", "profile.summary", "profile.image_url", "profile.location.raw_address",
		"profile.location.country",
		"profile.location.country_code", "profile.personal_email", "profile.location.city", "profile.location.state",
		"profile.location.continent", "current_position.title", "current_position.company_name",
		"current_position.company_id", "codehost.username", "codehost.languages")
	s.add("", number, "profile.connections", "profile.followers", "experience_count", "education_count",
		"years_of_experience", "codehost.public_repos", "codehost.followers")
	s.add("", date, "updated_at", "current_position.start_date")
	s.add("experience", text, "title", "company_name", "company_id", "company_url", "location", "description")
	s.add("experience", date, "start_date", "end_date")
	s.add("experience", boolean, "is_current")
	s.add("education", text, "school_name", "school_id", "school_url", "degree", "field_of_study")
	s.add("education", date, "start_date", "end_date")
	s.add("certifications", text, "name", "issuer")
	s.add("certifications", date, "issue_date")
	s.add("languages", text, "language", "proficiency")
	s.add("skills", text, "skill")
	return s
}

// Companies returns the schema of companies (schemas/MAPPING.md, 4.1).
func Companies() Schema {
	s := Schema{
		id:       "company_id",
		numbers:  []any{"profile.employees", "profile.founded"},
		patterns: []string{"profile.*e", "headquarters.*", "*.city", "profile.spec*", "network_*"},
		combined: []string{"profile.*line", "headquarters.*1", "*.specialties"},
	}
	s.add("", text, "company_id", "network_slug", "network_id", "profile.name", "profile.tagline",
		"profile.description",
		"profile.industry", "profile.company_size", "profile.website", "profile.domain", "profile.phone",
		"profile.specialties", "headquarters.city", "headquarters.region", "headquarters.country",
		"headquarters.postal_code", "headquarters.line1", "headquarters.line2")
	s.add("", number, "profile.employees", "profile.founded")
	return s
}

// Document is a search document, as in a search result.
type Document struct {
	ID   string
	JSON []byte
	root map[string]any
}

// ParseDocument parses a search result.
func ParseDocument(raw []byte) (Document, error) {
	d := Document{JSON: raw}
	if err := json.Unmarshal(raw, &d.root); err != nil {
		return d, fmt.Errorf("searchtest: document: %w", err)
	}
	for _, s := range []Schema{People(), Companies()} {
		if id, ok := d.root[s.id].(string); ok {
			d.ID = id
			return d, nil
		}
	}
	return d, fmt.Errorf("searchtest: document without ID: %.200s", raw)
}

// lookup returns the values at a path of an object, through arrays.
func lookup(v any, path string) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		var out []any
		for _, e := range v {
			out = append(out, lookup(e, path)...)
		}
		return out
	case map[string]any:
		name, rest, _ := strings.Cut(path, ".")
		return lookup(v[name], rest)
	default:
		if path != "" {
			return nil
		}
		return []any{v}
	}
}

// scope is what a query searches: a document, or an element of a nested array.
type scope struct {
	path string // of the array; empty for the document
	v    any
}

// values returns the values of a field in the scope.
func (s scope) values(f field) []any {
	path := f.path
	if s.path != "" {
		if f.nested != s.path {
			return nil
		}
		path = strings.TrimPrefix(path, s.path+".")
	}
	return lookup(s.v, path)
}

// pick returns a random element.
func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// object returns a JSON object with the given names and values.
func object(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for len(pairs) >= 2 {
		m[pairs[0].(string)], pairs = pairs[1], pairs[2:]
	}
	return m
}

// clone returns a deep copy of a JSON value.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = clone(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = clone(e)
		}
		return l
	}
	return v
}

// sorted returns a map's keys in order, for repeatable queries.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// integer returns a JSON number as an integer.
func integer(v any) (int64, bool) {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}
