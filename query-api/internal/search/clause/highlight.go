package clause

import (
	"slices"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/highlight"
)

// Limits and defaults of highlighting.
const (
	maxHighlightFields  = 64
	maxHighlightTests   = 128
	maxFragments        = 100
	maxFragmentSize     = 10_000
	maxTag              = 100
	defaultFragments    = 5
	defaultFragmentSize = 100
)

// HighlightParameters returns the parameters of highlight, and of each of its fields.
func HighlightParameters() []string {
	return []string{"pre_tags", "post_tags", "number_of_fragments", "fragment_size", "require_field_match"}
}

// Highlight parses the highlight of a request at path. n is the query whose words are marked.
func Highlight(text []byte, path string, n algebra.Node, options Options) ([]algebra.Highlight, error) {
	if len(text) == 0 {
		return nil, nil
	}
	v, err := parse(text, path)
	if err != nil || v.kind == 'n' {
		return nil, err
	}
	return newLowering(options).highlight(v, n)
}

// highlight lowers the fields to highlight, inside a nested path those of its elements.
func (l *lowering) highlight(v value, n algebra.Node) ([]algebra.Highlight, error) {
	a := arguments(v, parameters(append(HighlightParameters(), "fields")...))
	defaults := algebra.Highlight{
		Before: "<em>", After: "</em>", Fragments: defaultFragments, Length: defaultFragmentSize,
	}
	l.highlightParameters(a, &defaults)
	fields := a.must("fields")
	if err := a.done(); err != nil {
		return nil, err
	}
	items := []value{fields}
	if fields.kind == '[' {
		items = fields.items
	}
	var out []algebra.Highlight
	for _, item := range items {
		if item.kind != '{' {
			return nil, item.errorf("must be an object of fields, such as {\"profile.headline\": {}}, not %s",
				item.what())
		}
		for _, m := range item.members {
			list, err := l.highlightFields(m, defaults)
			if err != nil {
				return nil, err
			}
			for _, f := range list { // The first of several requests counts.
				isSame := func(o algebra.Highlight) bool { return o.Field.Name() == f.Field.Name() }
				if !slices.ContainsFunc(out, isSame) {
					out = append(out, f)
				}
			}
		}
	}
	if len(out) > maxHighlightFields {
		return nil, fields.errorf("has more than %d fields", maxHighlightFields)
	}
	if err := checkHighlighted(v, n); err != nil {
		return nil, err
	}
	return out, nil
}

// checkHighlighted limits the work of finding the words of a query.
func checkHighlighted(v value, n algebra.Node) error {
	if tests := highlight.CountTests(n); tests > maxHighlightTests {
		return v.errorf("the query has %d patterns and fuzzy words, each in a field: with highlight it has at most %d",
			tests, maxHighlightTests)
	}
	return nil
}

// highlightParameters reads the parameters of all fields, or of one.
func (l *lowering) highlightParameters(a *args, h *algebra.Highlight) {
	for name, into := range map[string]*string{"pre_tags": &h.Before, "post_tags": &h.After} {
		at, ok := a.get(name)
		if !ok {
			continue
		}
		tag := at
		if at.kind == '[' && len(at.items) > 0 { // All words have the first tag.
			tag = at.items[0]
		}
		if tag.kind != '"' || len(tag.text) > maxTag {
			a.fail(at.errorf("must be a list of strings of at most %d bytes", maxTag))
		}
		*into = tag.text
	}
	h.Fragments = a.integer("number_of_fragments", h.Fragments, 0, maxFragments)
	h.Length = a.integer("fragment_size", h.Length, 1, maxFragmentSize)
	h.AnyField = !a.flag("require_field_match", !h.AnyField)
}

// highlightFields returns the field that a member names, or the fields with words that its pattern matches. A pattern
// matches subfields only if it ends in their name.
func (l *lowering) highlightFields(m member, defaults algebra.Highlight) ([]algebra.Highlight, error) {
	a := arguments(m.value, parameters(HighlightParameters()...))
	l.highlightParameters(a, &defaults)
	if err := a.done(); err != nil {
		return nil, err
	}
	if strings.Contains(m.name, "*") {
		var out []algebra.Highlight
		for _, name := range l.matchingNames(m.name) {
			f, err := l.resolve(m.value, name)
			if err != nil {
				return nil, err
			}
			if f.IsString() && !l.hidden(f) && (!f.Keyword || strings.HasSuffix(m.name, keywordSuffix)) {
				defaults.Field = f
				out = append(out, defaults)
			}
		}
		return out, nil
	}
	f, err := l.resolve(m.value, m.name)
	switch {
	case err != nil:
		return nil, err
	case !f.IsString() || f.Identity:
		return nil, m.errorf("the field %s has no words: highlight texts", f.Name())
	case l.hidden(f):
		return nil, m.errorf("the field %s is not in the elements of %s", f.Name(), l.nested)
	}
	defaults.Field = f
	return []algebra.Highlight{defaults}, nil
}
