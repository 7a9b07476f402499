package clause

import (
	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// Collapse parses the collapse of a request at path: the field that has another value in each result; nil: none.
func Collapse(text []byte, path string, options Options) (*algebra.Field, error) {
	if len(text) == 0 {
		return nil, nil
	}
	v, err := parse(text, path)
	if err != nil || v.kind == 'n' {
		return nil, err
	}
	for _, m := range v.members {
		if m.name == "inner_hits" || m.name == "max_concurrent_group_searches" {
			return nil, m.errorf("is not supported: each group is its first result")
		}
	}
	a := arguments(v, parameters("field"))
	at := a.must("field")
	if err := a.done(); err != nil {
		return nil, err
	}
	if at.kind != '"' {
		return nil, at.errorf("must be the name of a field, not %s", at.what())
	}
	l := newLowering(options)
	f, err := l.resolve(at, at.text)
	switch {
	case err != nil:
		return nil, err
	case f.Identity:
		return nil, at.errorf("_id is unique: omit collapse")
	case f.IsText():
		return nil, at.errorf("text fields cannot be collapsed by: use %s.keyword", f.Path)
	case f.Nested != "":
		return nil, at.errorf("%s may have several values of %s: collapse needs a field with one", l.collection.Name,
			f.Name())
	case f.Type != readmodel.SearchText && f.Type != readmodel.SearchLong:
		return nil, at.errorf("unknown type for collapse field `%s`, only keywords and numbers are accepted", f.Name())
	}
	return &f, nil
}
