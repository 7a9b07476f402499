package clause

import (
	"slices"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// maxInner is the maximum of from + size of inner hits.
const maxInner = 100

// InnerHits returns the supported parameters of inner_hits.
func InnerHits() []string {
	return []string{"name", "from", "size", "sort", "_source", "highlight", "ignore_unmapped"}
}

// unreported returns why a parameter of inner_hits in Elasticsearch is unsupported.
func unreported(name string) string {
	switch name {
	case "explain":
		return "scores are not explained"
	case "version", "seq_no_primary_term":
		return "elements have no versions"
	case "stored_fields", "docvalue_fields", "fields":
		return "use _source to select fields"
	case "script_fields":
		return "scripts are not run"
	case "track_scores":
		return "they are returned if the order depends on them"
	case "collapse":
		return "elements are not grouped"
	}
	return ""
}

// innerHitsOf lowers inner_hits.
func (l *lowering) innerHitsOf(a *args, path string) (*algebra.InnerHits, error) {
	at, ok := a.get("inner_hits")
	if !ok || at.kind == 'n' {
		return nil, nil // not requested
	}
	b := arguments(at, parameters(InnerHits()...))
	for _, m := range at.members {
		if why := unreported(m.name); why != "" {
			return nil, m.errorf("is not supported: %s", why)
		}
		if m.kind == 'n' {
			return nil, m.errorf("must not be null: omit it")
		}
	}
	hits := &algebra.InnerHits{Name: path, From: b.integer("from", 0, 0, maxInner),
		Size: b.integer("size", 3, 0, maxInner)}
	if name, ok := b.get("name"); ok {
		if hits.Name = name.text; name.kind != '"' {
			return nil, name.errorf("must be a string, not %s", name.what())
		}
	}
	b.flag("ignore_unmapped", false) // has no effect here
	var err error
	if sort, ok := b.get("sort"); ok {
		hits.Sort, err = l.innerSort(sort, path)
	} else {
		hits.Sort = bestFirst()
	}
	if err != nil {
		return nil, err
	}
	if shown, ok := b.get("_source"); ok {
		if hits.Source, err = sourceOf(shown); err != nil {
			return nil, err
		}
	}
	if at, ok := b.get("highlight"); ok {
		outer := l.nested
		l.nested = path
		hits.Highlights, err = l.highlight(at, algebra.None{}) // lowerNested checks the query
		if l.nested = outer; err != nil {
			return nil, err
		}
	}
	if err := b.done(); err != nil {
		return nil, err
	}
	if l.unshown {
		return nil, nil // as in Elasticsearch
	}
	if hits.From+hits.Size > maxInner {
		return nil, at.errorf("Inner result window is too large, from + size must be less than or equal to: [%d] "+
			"but was [%d]", maxInner, hits.From+hits.Size)
	}
	if l.innerHits[hits.Name] {
		return nil, at.errorf("[inner_hits] already contains an entry for key [%s]: give each a name", hits.Name)
	}
	l.innerHits[hits.Name] = true
	return hits, nil
}

func bestFirst() []algebra.InnerSort {
	return []algebra.InnerSort{{By: algebra.InnerScore, Descending: true}}
}

// innerSort lowers the sort of inner hits. Fields that nested documents lack are equal in all of them; fields that
// they have are single-valued, so that all sort modes are the same.
func (l *lowering) innerSort(v value, path string) ([]algebra.InnerSort, error) {
	if v.kind != '[' && v.kind != '{' {
		return nil, v.errorf("must be a list of sort keys or an object of them, not %s", v.what())
	}
	inner := *l
	inner.elements = true
	list, given, err := inner.sorts(v)
	if err != nil {
		return nil, err
	}
	if !given {
		return bestFirst(), nil
	}
	out := make([]algebra.InnerSort, 0, len(list))
	for _, s := range list {
		key := algebra.InnerSort{
			By: algebra.InnerPosition, Field: s.Field, Double: s.Double, Descending: s.Descending,
			MissingFirst: s.MissingFirst, Missing: s.Missing,
		}
		switch s.Kind {
		case planner.SortScore:
			key.By = algebra.InnerScore
		case planner.SortField:
			if key.By = algebra.InnerField; s.Field.Nested != path {
				continue
			}
		}
		out = append(out, key)
	}
	return out, nil
}

// rewritesToMatchAll reports whether Elasticsearch rewrites a clause, as written, to match_all.
func rewritesToMatchAll(v value) bool {
	if v.kind != '{' || len(v.members) != 1 {
		return false
	}
	m := v.members[0]
	return m.name == "match_all" || m.name == "bool" && !slices.ContainsFunc(m.members, func(part member) bool {
		return slices.Contains([]string{"must", "must_not", "should", "filter"}, part.name) &&
			len(clauseList(part.value)) > 0
	})
}

// isMatchNone reports whether Elasticsearch rewrites a clause, as written, to match_none. Its inner hits are then
// empty, even if another clause matches the person.
func isMatchNone(v value) bool {
	if v.kind != '{' || len(v.members) != 1 {
		return false
	}
	body := v.members[0].value
	part := func(name string) value {
		for _, m := range body.members {
			if m.name == name {
				return m.value
			}
		}
		return value{}
	}
	switch v.members[0].name {
	case "match_none":
		return true
	case "ids":
		values := part("values")
		return values.kind == '[' && len(values.items) == 0
	case "terms":
		for _, m := range body.members {
			if m.kind == '[' && len(m.items) == 0 {
				return true
			}
		}
	case "constant_score":
		return isMatchNone(part("filter"))
	case "function_score":
		return isMatchNone(part("query"))
	case "boosting":
		return isMatchNone(part("positive"))
	case "bool":
		must, filter, should := clauseList(part("must")), clauseList(part("filter")), clauseList(part("should"))
		optional := 0
		for _, c := range should {
			if isMatchNone(c) {
				optional++
			}
		}
		for _, c := range append(must, filter...) {
			if isMatchNone(c) {
				return true
			}
		}
		return len(must)+len(filter) == 0 && len(should) > 0 && optional == len(should)
	}
	return false
}

// clauseList returns the clauses of a part of a bool, which may be a single one without an array.
func clauseList(v value) []value {
	switch v.kind {
	case '[':
		return v.items[:len(v.items):len(v.items)]
	case '{':
		return []value{v}
	}
	return nil
}

// Source parses _source at path: true, false, a name, an array of names, or an object with includes and excludes.
// Names may contain *.
func Source(text []byte, path string) (algebra.Source, error) {
	if len(text) == 0 {
		return algebra.Source{}, nil
	}
	v, err := parse(text, path)
	if err != nil || v.kind == 'n' {
		return algebra.Source{}, err
	}
	return sourceOf(v)
}

// maxSource is the maximum number of names of a _source filter.
const maxSource = 256

func sourceOf(v value) (algebra.Source, error) {
	var s algebra.Source
	var err error
	switch v.kind {
	case 't':
	case 'f':
		s.None = true
	case '{':
		for _, m := range v.members {
			into := &s.Includes
			switch m.name {
			case "includes", "include":
			case "excludes", "exclude":
				into = &s.Excludes
			default:
				return s, v.errorf("unknown field %s: known are includes, excludes", quote(m.name))
			}
			list, err := sourceNames(m.value)
			if err != nil {
				return s, err
			}
			*into = append(*into, list...)
		}
	default:
		s.Includes, err = sourceNames(v)
	}
	return s, err
}

func sourceNames(v value) ([]string, error) {
	if v.kind == '"' {
		return []string{v.text}, nil
	}
	if v.kind != '[' {
		return nil, v.errorf("must be true, false, a list of field names, or an object with includes and excludes")
	}
	if len(v.items) > maxSource {
		return nil, v.errorf("names more than %d fields", maxSource)
	}
	var out []string
	for _, item := range v.items {
		if item.kind != '"' {
			return nil, v.errorf("must be a list of field names")
		}
		out = append(out, item.text)
	}
	return out, nil
}
